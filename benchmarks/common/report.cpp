#include "benchmarks/common/report.h"

#include <fstream>
#include <iostream>

#include "libzero/base/error.h"

namespace zero::benchmark {

nlohmann::ordered_json to_json(const Result& result) {
  nlohmann::ordered_json json = {
      {"id", result.id},
      {"what", result.what},
      {"value", result.value()},
      {"limit",
       result.limit == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(result.limit)},
      {"pass", result.pass()},
      {"rounds", result.ours.size()},
      {"ratio_of_minima", result.ratio_of_minima()},
      {"ratio_of_callers_cpu_time", result.cpu_ratio()},
      {"median_seconds", median_wall(result.ours)},
      {"median_seconds_plain", median_wall(result.plain)}};
  return json;
}

void write_report(const std::string& path, const nlohmann::ordered_json& report) {
  if (path.empty()) {
    std::cout << report.dump(2) << std::endl;
    return;
  }
  std::ofstream file(path);
  file << report.dump(2) << std::endl;
  if (!file) throw IoError("the report cannot be written: " + path);
}

}  // namespace zero::benchmark
