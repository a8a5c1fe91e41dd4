#include "cli/json.h"

#include <cmath>

namespace zero::cli {

std::string to_text(const Json& value) {
  return value.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace zero::cli
