#pragma once

/// Numbers as people read them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zero::cli {

/// "0 B", "999 B", "1.0 KiB", "33.1 KiB", "2.5 GiB".
std::string bytes_text(std::uint64_t bytes);

/// "64M", "5GiB", "1048576": digits, then nothing or one of K, M, G, T, in either case, which may
/// be followed by "iB". They count 1024. Nothing for any other text, and beyond 2^64 - 1.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "0:04", "12:34", "1:02:03".
std::string duration_text(double seconds);

/// "1 file", "2 files".
std::string count_text(std::uint64_t count, const std::string& noun);

}  // namespace zero::cli
