#include "checkpoint/place.h"

#include <algorithm>

#include "checkpoint/names.h"

namespace zero::checkpoint {

Place look_at_place(FileSystem& files, const std::string& path) {
  const std::string own_name = base_name(path);
  Place place;
  place.is_checkpoint = parse_step_name(own_name).has_value() || is_leftover_name(own_name);
  for (const std::string& name : files.list(path)) {
    place.is_checkpoint |= is_checkpoint_file_name(name);
    if (parse_step_name(name)) place.steps.push_back(name);
  }
  if (place.is_checkpoint) place.steps.clear();
  // Names have a fixed number of digits: their order is the steps'.
  std::reverse(place.steps.begin(), place.steps.end());
  return place;
}

std::string problem_of_name(const std::string& directory, std::int64_t step) {
  const auto named = parse_step_name(base_name(directory));
  if (!named || *named == step) return {};
  return "a checkpoint lies under the name of another step, rename it back: step " +
         std::to_string(step) + " in " + directory;
}

}  // namespace zero::checkpoint
