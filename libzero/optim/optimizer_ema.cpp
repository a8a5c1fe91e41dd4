#include "libzero/collective/all_or_none.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {

EmaScope Optimizer::Impl::ema_scope() {
  require_alive();
  ZERO_REQUIRE(options_.ema() > 0,
               "ema_scope: no average is kept; construct the optimizer with Options().ema(decay)");
  require_same_shapes();
  guarded(kNothingChanged, [this] { matched([this] { queue_.drain(); }); });
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    if (table_.specs[i].trainable && table_.specs[i].alias_of < 0)
      parameters.push_back(model().tensors[i]);
  }
  EmaScope scope(std::move(parameters), holds_average_);  // puts the weights back if this throws
  guarded(kNothingChanged, [this] { put_average(); });
  return scope;
}

void Optimizer::Impl::put_average() {
  const auto put = [this] { parameter_update_.put_average(); };
  if (offload_) {
    all_or_none(*comm_, "ema_scope: reading the average", put);  // a disk can fail on one rank
  } else {
    put();
  }
  gather_parameters();
}

}  // namespace zero
