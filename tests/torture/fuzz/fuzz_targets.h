#pragma once

/// What is fuzzed: each function takes any bytes, hands them to one reader of checkpoints, and ends
/// the process if a promise is broken. A FormatError is an answer, every other exception is not.

#include <cstdint>
#include <span>
#include <string_view>

namespace zero::checkpoint::torture {

using Input = std::span<const std::uint8_t>;

void fuzz_names(Input input);        ///< Names of directories, files, types; hashes.
void fuzz_manifest(Input input);     ///< Text of a manifest: raw, or canonical under a right hash.
void fuzz_receipt(Input input);      ///< What a rank hands in: raw, or under a right hash.
void fuzz_safetensors(Input input);  ///< A file, or an index with its parts.
void fuzz_common(Input input);       ///< Tables of common.h5 that lie under right hashes.
void fuzz_shard(Input input);        ///< Tables of a shard that lie under right hashes.
void fuzz_directory(Input input);    ///< A whole checkpoint, rebuilt from what was changed.

/// Prints the text and aborts: the fuzzer keeps the input.
[[noreturn]] void broken(std::string_view promise);

}  // namespace zero::checkpoint::torture
