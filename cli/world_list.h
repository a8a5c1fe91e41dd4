#pragma once

/// Numbers as people write them on a command line, which stand for several or for large ones.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace zero::cli {

/// "8"; "2,4,6"; "8..512", which doubles from 8 and ends with 512 in any case. Nothing for any
/// other text, and for numbers outside 1 to 65536.
std::optional<std::vector<int>> parse_worlds(std::string_view text);

/// "7B", "124M", "1.5b", "350000": at most three decimals, K, M, B and T count 1000. Nothing for
/// any other text, for 0, for parts of one and beyond 2^50.
std::optional<std::int64_t> parse_count(std::string_view text);

}  // namespace zero::cli
