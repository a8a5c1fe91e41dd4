#pragma once

/// Figures as JSON: a list of {id, what, value, limit, pass, ...}.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/common/rounds.h"

namespace zero::benchmark {

/// `value` is the median of the rounds' ratios ours / plain; `limit` null where nothing is
/// promised.
nlohmann::ordered_json to_json(const Result& result);

/// To the file, or to standard output where `path` is empty. Throws IoError.
void write_report(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace zero::benchmark
