#pragma once

/// The JSON inside safetensors files and their indices: parsed with suspicion, written in one way.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tools/safetensors.h"

namespace zero::checkpoint {

/// The format's own limit for a header; indices get the same.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

using StringMap = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< Sorted by name.
  StringMap metadata;
};

/// `where` is the file's name, for messages. Throws FormatError unless the entries fill
/// `data_bytes` bytes exactly once.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& where);

/// Name of a tensor -> name of the file that holds it, which is a plain one that ends in
/// ".safetensors". Throws FormatError.
StringMap parse_safetensors_index(std::string_view text, const std::string& where);

/// The entries in their order, after the metadata; padded with spaces so that 8 bytes of length and
/// the header end at a multiple of 8. Throws ContractError beyond 100 MB.
std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                    const StringMap& metadata);

/// As Hugging Face's tools write it: {"metadata": {"total_size": n}, "weight_map": {...}}.
std::string safetensors_index_text(const StringMap& weight_map, std::uint64_t total_bytes);

/// Bits of one element; 0 for a name that the format does not have.
unsigned safetensors_bits(std::string_view dtype) noexcept;

/// A name out of a foreign file, cut to a length that fits a message.
std::string shown(std::string_view name);

}  // namespace zero::checkpoint
