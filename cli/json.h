#pragma once

/// What --json prints: the only place where the commands meet the JSON library.

#include <string>

#include <nlohmann/json.hpp>

namespace zero::cli {

/// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

/// Indented by two, a newline at the end, nothing but ASCII: harmless on a terminal. Bytes that are
/// no UTF-8 (in paths) are replaced.
std::string to_text(const Json& value);

/// JSON has no infinities and no NaN: they become the texts "Infinity", "-Infinity", "NaN".
Json json_number(double value);

}  // namespace zero::cli
