#pragma once

/// Work on files of any size: shows how far it is, and stops when a signal says so.

#include <functional>
#include <string>

#include "checkpoint/progress.h"

namespace zero::cli {

/// Runs `work` with a progress bar of this label. Throws Interrupted if a signal made it throw
/// Cancelled.
void run_long_work(const std::string& label,
                   const std::function<void(const checkpoint::Progress&)>& work);

}  // namespace zero::cli
