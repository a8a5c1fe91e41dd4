#include <algorithm>
#include <string>

#include "libzero/base/shell_quoted.h"
#include "libzero/optim/load_plan.h"
#include "libzero/optim/resume.h"

namespace zero {
namespace {

constexpr std::size_t kMostDifferences = 50;

/// Without the slashes at its end.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// The root that holds a checkpoint's directory.
std::string root_of(const std::string& directory) {
  const std::string path = trimmed(directory);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : trimmed(path.substr(0, slash));
}

std::string reshard_command(const std::string& directory, int world_size) {
  const std::string world = std::to_string(world_size);
  const std::string root = root_of(directory);
  const std::string destination = (root == "." ? "" : root + "-") + "world" + world;
  return "zero reshard " + shell_quoted(trimmed(directory)) + " " + shell_quoted(destination) +
         " --world " + world;
}

}  // namespace

const char* name_of(Restored how) {
  switch (how) {
    case Restored::kRestored:
      return "restored";
    case Restored::kResharded:
      return "resharded";
    case Restored::kConverted:
      return "converted";
    case Restored::kDefaulted:
      return "defaulted";
    case Restored::kDerived:
      return "derived";
    case Restored::kKept:
      return "kept";
    case Restored::kDropped:
      return "dropped";
  }
  return "unknown";
}

std::string refusal_of(const LoadPlan& plan, const checkpoint::StepInfo& info, int world_size,
                       const std::string& directory) {
  const std::size_t count = plan.differences.size();
  std::string text =
      "load: the checkpoint does not fit, nothing was changed; build the model and the world as "
      "they were when it was saved, or allow a difference with the option of LoadOptions that is "
      "named behind it: " +
      (directory.empty() ? "step " + std::to_string(info.step) : directory) + ", " +
      std::to_string(count) + (count == 1 ? " difference" : " differences");
  for (std::size_t i = 0; i < std::min(count, kMostDifferences); ++i)
    text += "\n  " + plan.differences[i];
  if (count > kMostDifferences)
    text += "\n  and " + std::to_string(count - kMostDifferences) + " more";
  if (plan.wrong_world && !directory.empty())
    text += "\nTo reshard it once for all:\n  " + reshard_command(directory, world_size);
  return text;
}

std::string to_text(const LoadReport& report) {
  if (!report.found) {
    std::string text = "no checkpoint was found, nothing was loaded\n";
    for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
    return text;
  }
  std::string text = "loaded step " + std::to_string(report.step) + " of run " +
                     report.trainer.run_id + ", saved by " +
                     std::to_string(report.saved_world_size) +
                     (report.saved_world_size == 1 ? " rank" : " ranks") +
                     (report.directory.empty() ? "" : ", from " + report.directory) + "\n";
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  std::size_t width = 0;
  for (const LoadItem& item : report.items) width = std::max(width, item.item.size());
  for (const LoadItem& item : report.items) {
    text +=
        "  " + item.item + std::string(width - item.item.size(), ' ') + "  " + name_of(item.how);
    if (!item.detail.empty())
      text += std::string(10 - std::string(name_of(item.how)).size(), ' ') + item.detail;
    text += "\n";
  }
  return text;
}

}  // namespace zero
