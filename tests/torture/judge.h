#pragma once

/// Whether what lies in a root is exactly what was saved. Everything in these checkpoints follows
/// from step, world size and the size of one blob, so each byte is known.

#include <cstdint>
#include <string>

#include "checkpoint/file_system.h"
#include "checkpoint/store.h"
#include "sample.h"

namespace zero::checkpoint::torture {

/// The sample of tests/checkpoint with a blob "large" of so many bytes; none for 0.
Sample sample_with_blob(std::int64_t step, int world_size, std::size_t blob_bytes);

/// Empty if the reader gives back exactly such a sample, whatever its run and the size of its blob.
std::string difference_with_blob(const Reader& reader, std::int64_t step);

/// The step that LATEST names; "missing", or "malformed" if it names none.
std::string latest(FileSystem& files, const std::string& root);

/// Prints "torn: ..." for whatever has a final name and is not whole, then one line: when, the
/// newest step, LATEST, all steps. False if something is torn, or if there is nothing.
bool judge(FileSystem& files, Store& store, const std::string& root, const char* when);

}  // namespace zero::checkpoint::torture
