#pragma once

/// What paths on the command line name.

#include <memory>
#include <string>

#include "checkpoint/file_system.h"
#include "checkpoint/store.h"

namespace zero::cli {

/// The directory of the checkpoint that `path` names: itself, or the newest step of the root that
/// it is. The newest counts, be it damaged: nothing falls back to an older one. Throws IoError if
/// there is none.
std::string find_checkpoint(checkpoint::FileSystem& files, const std::string& path);

/// Opens what find_checkpoint() finds. Throws FormatError, IoError.
std::unique_ptr<checkpoint::Reader> open_place(const std::shared_ptr<checkpoint::FileSystem>& files,
                                               const std::string& path);

/// Throws FormatError if the directory bears the name of another step than its manifest's.
void require_name_of_step(const std::string& directory, std::int64_t step);

/// Throws IoError unless `path` is a directory, ContractError if that is a checkpoint's own.
void require_root(checkpoint::FileSystem& files, const std::string& path);

/// Throws ContractError if `path`, which may be missing, is a checkpoint's own directory, IoError
/// if it is no directory.
void require_no_checkpoint(checkpoint::FileSystem& files, const std::string& path);

}  // namespace zero::cli
