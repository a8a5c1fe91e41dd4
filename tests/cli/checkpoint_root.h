#pragma once

/// Roots with checkpoints for the commands that look after them, and those commands.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/store.h"
#include "tests/cli/launched.h"
#include "tests/temporary_folder.h"

namespace zero::cli::testing {

using Folder = zero::testing::TemporaryFolder;

/// Runs `zero` with these arguments to its end.
Result zero(std::vector<std::string> arguments);

/// The JSON that `zero ARGUMENTS --json` prints; the exit code must be `code`.
nlohmann::json zero_json(std::vector<std::string> arguments, int code = 0);

/// Saves the sample of each step, by `world_size` ranks, in blocks of 64 bytes. Returns the root.
std::string save_steps(const std::string& root, const std::vector<std::int64_t>& steps,
                       int world_size = 2);

/// One parameter of so many MiB, saved by one rank, with master alone.
std::string save_large(const std::string& root, std::int64_t mebibytes);

/// tests/checkpoint/golden/v1.0
std::string golden_root();

/// ROOT/step_...
std::string step_directory(const std::string& root, std::int64_t step);

/// Changes one byte.
void flip(const std::string& file, std::uintmax_t offset);

/// Makes the manifest's hashes of whole files those that the files have.
void set_hashes(const std::string& directory);

/// A directory that an interrupted save might have left, with one file of 100 bytes.
std::string make_leftover(const std::string& root, std::int64_t step);

/// Names in a directory, sorted.
std::vector<std::string> names_in(const std::string& directory);

/// One line on stderr, "zero: " in front, that holds `about`; nothing on stdout.
void expect_one_complaint(const Result& result, int code, const std::string& about);

}  // namespace zero::cli::testing
