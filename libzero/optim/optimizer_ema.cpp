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
  std::optional<EmaScope> scope;  // puts the weights back if what follows throws
  guarded(kNothingChanged, [&] {
    all_or_none(*comm_, "ema_scope: a copy of the weights",
                [&] { scope.emplace(std::move(parameters), holds_average_); });
    put_average();
  });
  return std::move(*scope);
}

void Optimizer::Impl::put_average() {
  all_or_none(*comm_, "ema_scope: reading the average", [this] {
    if (image_) image_->begin_update();  // what is still on its way up reads the images
    parameter_update_->put_average();
  });
  gather_parameters();
}

}  // namespace zero
