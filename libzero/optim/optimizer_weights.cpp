#include "libzero/collective/all_or_none.h"
#include "libzero/collective/messages.h"
#include "libzero/optim/optimizer_impl.h"
#include "libzero/optim/parameter_loader.h"

namespace zero {

ParametersReport Optimizer::Impl::load_parameters(const std::string& file,
                                                  const LoadParametersOptions& options) {
  require_alive();
  guarded(kNothingChanged, [this] { matched([this] { queue_.drain(); }); });
  ParameterLoader loader(layout_, table_, buffers_, states_, *comm_,
                         ParameterLoader::kPieceElements, distant());
  ParametersReport report;
  try {
    report = together(*comm_, "loading parameters", [&] {
      all_or_none(*comm_, "load_parameters: the model", [this] { require_same_shapes(); });
      return loader.stage([&] { return open_weights(file); }, options);
    });
  } catch (const CommError& error) {
    die(kNothingChanged, error.what());
  }
  std::optional<Failure> failure;
  try {
    if (image_) {
      image_->download_changed();  // what the file does not name stays
      image_->begin_update();
    }
    failure = loader.apply();
    const auto restart = [this] { parameter_update_->restart_average(); };
    if (!failure && offload_) failure = attempt(restart);
    if (!offload_) restart();
    if (image_) image_->upload_all();
  } catch (const std::exception& error) {  // of whatever type: some parameters are new
    die(kParametersMixed, error.what());
  }
  settle_offload(kParametersMixed, failure);
  discard_window();
  mark_parameters_changed();
  report.file = file;
  return report;
}

}  // namespace zero
