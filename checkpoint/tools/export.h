#pragma once

/// Whole named parameters in files that other tools read.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/progress.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

enum class ExportFormat { kSafetensors, kHdf5 };

/// Of trainable parameters; frozen ones and buffers have one value.
enum class ExportWeights {
  kMaster,
  kAverage,  ///< State `ema`. The file's metadata say so: "libzero.weights" (HDF5: "weights").
};

struct ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  ExportWeights weights = ExportWeights::kMaster;
  /// Of floating parameters and buffers; each is rounded to nearest even from its master or
  /// average, or from its value where it has none. Default: each one's own. Others keep theirs.
  std::optional<DType> dtype;
  /// Largest bytes of data in one file (safetensors only); a single tensor may exceed it. 0: one
  /// file. Several files get an index beside them: model-00001-of-00003.safetensors and
  /// model.safetensors.index.json for the path model.safetensors.
  std::uint64_t max_shard = std::uint64_t{5} << 30;
  Progress progress;
};

struct ExportResult {
  std::vector<std::string> files;  ///< Paths, in order.
  std::uint64_t bytes = 0;
  std::vector<std::string> aliases;  ///< Names that were written as aliases.
  /// The files are there; something less important failed (removing what dead exports have left).
  std::vector<std::string> warnings;
};

/// Writes parameters and buffers whole, each name once; aliases are listed in the file's metadata
/// ("libzero.alias.NAME" -> owner) in safetensors, and are hard links in HDF5. Files appear whole
/// or not at all; nothing is overwritten (ContractError). Temporary files that dead exports have
/// left in the folder are removed, unless another export is at work there. In safetensors tensors
/// are cut into files in the model's order; inside a file wider elements come first, so that all
/// are aligned. In HDF5 a name with slashes becomes groups. Bounded memory. Throws ContractError
/// (also: a name that the format has no place for, an integer dtype, several safetensors files
/// under a name without that ending), FormatError (damage, a parameter without weights, kAverage
/// where the checkpoint has none), IoError, Cancelled.
ExportResult export_parameters(const Reader& reader, FileSystem& files, const std::string& path,
                               const ExportOptions& options);

}  // namespace zero::checkpoint
