#include "libzero/optim/update_classes.h"

#include <map>
#include <utility>

namespace zero {
namespace {

bool has_class(const ParameterSpec& row) {
  return row.trainable && row.alias_of < 0;
}

}  // namespace

UpdateClasses make_update_classes(std::span<const ParameterSpec> rows,
                                  std::span<const std::int64_t> begun, std::size_t groups) {
  UpdateClasses classes;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> index;  // looked up only
  const auto class_of = [&](std::int32_t group, std::int64_t first) {
    const auto [found, is_new] =
        index.emplace(std::pair(group, first), static_cast<std::int32_t>(classes.all.size()));
    if (is_new) classes.all.push_back({group, first});
    return found->second;
  };
  for (std::size_t i = 0; i < groups; ++i) class_of(static_cast<std::int32_t>(i), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ParameterSpec& row = rows[i];
    if (!has_class(row)) {
      classes.of_row.push_back(
          row.alias_of >= 0 ? classes.of_row[static_cast<std::size_t>(row.alias_of)] : row.group);
      continue;
    }
    classes.of_row.push_back(class_of(row.group, begun[i]));
  }
  return classes;
}

}  // namespace zero
