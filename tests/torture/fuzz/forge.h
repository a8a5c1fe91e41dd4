#pragma once

/// A checkpoint taken apart, to be changed and put together again under right hashes: what somebody
/// could make who knows the format.

#include <string>
#include <vector>

#include "bytes.h"
#include "checkpoint/manifest.h"
#include "checkpoint/testing/memory_file_system.h"

namespace zero::checkpoint::torture {

struct ForgedDataset {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> content;
};

struct ForgedFile {
  std::string name;
  int rank = -1;
  std::vector<ForgedDataset> datasets;
};

struct Forgery {
  Manifest head;  ///< Without its files.
  std::vector<ForgedFile> files;
};

/// A small checkpoint that is whole: two ranks, step 5, blocks of 64 bytes.
Forgery genuine();

/// Changes up to a dozen things, as the input says. Only file `only`, unless it is negative; then
/// also the list of files and the head.
void change(Forgery& forgery, Bytes& choices, int only);

/// The manifest and the files, without HDF5 structure, which readers do not need.
struct Forged {
  Manifest manifest;
  std::vector<std::vector<std::byte>> files;
};
Forged put_together(const Forgery& forgery);

/// Writes all of it, with a manifest that has its own right hash.
void write(testing::MemoryFileSystem& files, const std::string& folder, const Forged& forged);

}  // namespace zero::checkpoint::torture
