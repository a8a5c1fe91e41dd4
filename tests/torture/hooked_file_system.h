#pragma once

/// A file system that tells before each change what it is about to do.

#include <functional>
#include <memory>

#include "checkpoint/file_system.h"

namespace zero::checkpoint::torture {

/// Called before a change with the function's name ("pwrite", "rename_new", ...) and the path. It
/// may end the process.
using BeforeChange = std::function<void(const char* operation, const std::string& path)>;

/// Around `inner`. Calls that change nothing (open, pread, list, status, ...) and lock() pass in
/// silence.
std::shared_ptr<FileSystem> with_hook(std::shared_ptr<FileSystem> inner, BeforeChange before);

}  // namespace zero::checkpoint::torture
