#include "checkpoint/inspect.h"
#include "cli/model_file.h"
#include "cli/place.h"

namespace zero::cli {

std::vector<ParameterSpec> parameters_of_checkpoint(const std::string& path) {
  const auto files = checkpoint::on_disk();
  const std::string directory = find_checkpoint(*files, path);
  checkpoint::Inspection what = checkpoint::inspect(*files, directory);
  require_name_of_step(directory, what.manifest.step);
  return std::move(what.common.parameters);
}

}  // namespace zero::cli
