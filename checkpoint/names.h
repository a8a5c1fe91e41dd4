#pragma once

/// Names of directories, files and datasets: made and matched strictly, never globbed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zero::checkpoint {

inline constexpr std::string_view kManifestName = "MANIFEST.json";
inline constexpr std::string_view kCommonName = "common.h5";
inline constexpr std::string_view kViewName = "view.h5";
inline constexpr std::string_view kLatestName = "LATEST";
inline constexpr std::string_view kLatestTemporaryName = "LATEST.tmp";
inline constexpr std::string_view kLockName = ".lock";
inline constexpr std::string_view kJobLockName = ".job.lock";

/// "step_000000000400".
std::string step_name(std::int64_t step);
std::optional<std::int64_t> parse_step_name(std::string_view name);

/// ".tmp-step_000000000400-0123456789abcdef" and ".del-..."
std::string temporary_name(std::int64_t step, std::string_view attempt);
std::string doomed_name(std::int64_t step, std::string_view attempt);
/// Either of the two.
bool is_leftover_name(std::string_view name);

/// ".zero-export-0123456789abcdef": a file of an export that has not got its name yet.
std::string export_temporary_name(std::string_view attempt);
bool is_export_temporary_name(std::string_view name);

/// 16 lowercase hexadecimal digits.
bool is_attempt(std::string_view text) noexcept;
/// A fresh one, from the system's source of randomness.
std::string random_attempt();

/// "shard-00000-of-00004.h5".
std::string shard_name(int rank, int world_size);

/// True for the names that a checkpoint's directory may hold: the manifest, common.h5, view.h5,
/// shards.
bool is_checkpoint_file_name(std::string_view name);

/// "%05d".
std::string five_digits(int value);

}  // namespace zero::checkpoint
