#include <string>

#include "libzero/collective/all_or_none.h"
#include "libzero/optim/offload_spans.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {

std::unique_ptr<OffloadedState> Optimizer::Impl::make_offload(
    const Options& options, const Layout& layout, const std::vector<BucketState>& states,
    Collective& comm, Content content) {
  if (!options.offload().on_disk()) return nullptr;
  const std::vector<OffloadSpan> spans =
      offload_spans(layout, states, options.stage(), comm.size());
  if (spans.empty()) return nullptr;  // on every rank: nothing is kept beside the parameters
  std::unique_ptr<OffloadedState> offload;
  const auto make = [&] {
    offload = std::make_unique<OffloadedState>(options.offload(), spans,
                                               "rank-" + std::to_string(comm.rank()));
  };
  if (content == Content::kOfAnother) {
    make();
    return offload;
  }
  make_on_all(comm, "offload: making the file", make);
  return offload;
}

void Optimizer::Impl::read_ahead() noexcept {
  if (!offload_) return;
  try {
    offload_->begin();
  } catch (...) {  // step() begins once more, where the other ranks can hear of it
  }
}

void Optimizer::Impl::require_first_blocks() {
  if (!offload_) return;
  const auto failure = attempt([this] {
    offload_->begin();
    offload_->wait_for_first();
  });
  try {
    require_no_failure(failure, *comm_, "step: reading offloaded state");
  } catch (const CommError& error) {
    die(kNothingChanged, error.what());
  } catch (...) {
    discard_window();
    throw;
  }
}

void Optimizer::Impl::settle_offload(std::string_view consequence,
                                     const std::optional<Failure>& failure) {
  if (!offload_) return;
  try {
    require_no_failure(failure, *comm_, "offloaded state");
  } catch (const CommError& error) {
    die(consequence, error.what());
  } catch (const std::exception& error) {
    const std::string text(consequence);
    dead_of_ = failure_of(error).kind;
    dead_because_ =
        "optimizer: refuses to go on after offloaded state failed; " + text + ": " + error.what();
    throw_failure(*dead_of_, std::string(error.what()) + "; " + text);
  }
}

}  // namespace zero
