#include <algorithm>
#include <string_view>

#include "checkpoint/inspect.h"
#include "checkpoint/rule_name.h"
#include "cli/model_file.h"
#include "cli/place.h"

namespace zero::cli {
namespace {

bool has_state(const checkpoint::Inspection& what, StateKind kind) {
  return std::ranges::any_of(what.pieces, [name = std::string_view(name_of(kind))](
                                              const auto& piece) { return piece.state == name; });
}

}  // namespace

Model model_of_checkpoint(const std::string& path) {
  const auto files = checkpoint::on_disk();
  const std::string directory = find_checkpoint(*files, path);
  checkpoint::Inspection what = checkpoint::inspect(*files, directory);
  require_name_of_step(directory, what.manifest.step);
  Model model;
  const std::string rule = checkpoint::rule_of(what.common);
  model.kept = KeptState{.rule = rule,
                         .momentum = rule == "SGD" && has_state(what, StateKind::kMomentumBuffer),
                         .ema = has_state(what, StateKind::kEma)};
  model.parameters = std::move(what.common.parameters);
  return model;
}

}  // namespace zero::cli
