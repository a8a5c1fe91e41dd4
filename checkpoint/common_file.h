#pragma once

/// common.h5: what all ranks share, and the ranks' blobs.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/file_writer.h"
#include "checkpoint/training_state.h"

namespace zero::checkpoint {

using Blobs = std::map<std::string, Blob>;

/// Keeps the memory that its content points to; the blobs themselves stay the caller's.
struct CommonContent {
  FileContent content;
  std::deque<std::vector<std::byte>> storage;
};

CommonContent encode_common(const CommonState& state, const std::vector<Blobs>& rank_blobs);

struct DecodedCommon {
  CommonState state;
  std::vector<Blobs> rank_blobs;
};

/// `name` is the file's, for messages. REQUIRES that the file has the size that the manifest gives.
/// Throws FormatError for whatever breaks the format's rules.
DecodedCommon decode_common(File& file, const std::string& name, const Manifest& manifest);

/// The root's attributes of a file of this checkpoint.
std::vector<hdf5::AttributeSpec> root_attributes(std::int64_t step, const std::string& run_id,
                                                 int world_size, int rank);

}  // namespace zero::checkpoint
