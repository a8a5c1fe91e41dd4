#pragma once

/// What a rank's put() returns: its file's record and its blobs, as bytes that travel to the
/// process that commits.

#include <string>
#include <string_view>

#include "checkpoint/common_file.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

struct Receipt {
  std::string attempt;
  FileRecord file;
  Blobs blobs;
};

std::string to_bytes(const Receipt& receipt);
/// Throws FormatError for what to_bytes did not make.
Receipt parse_receipt(std::string_view bytes);

}  // namespace zero::checkpoint
