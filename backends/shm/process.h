#pragma once

/// Which process, on which host: read from /proc. Any thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "backends/shm/descriptor.h"

namespace zero::shm {

struct Process {
  pid_t pid = 0;
  std::uint64_t start_time =
      0;  ///< Ticks since boot: tells a process from a later one of that pid.

  bool operator==(const Process&) const = default;
};

/// nullopt if no process has this number.
std::optional<Process> find_process(pid_t pid);

/// Throws Unavailable if /proc cannot be read.
Process this_process();

/// A descriptor that becomes readable when the process ends; nullopt if it has ended. Throws
/// Unavailable if the kernel has no such thing (before Linux 5.3), IoError if it refuses.
std::optional<Descriptor> watch_process(const Process& process);

/// Equal for two processes if they run under one kernel and mean the same by a process number.
/// Throws Unavailable if /proc cannot be read.
std::string host_identity();

}  // namespace zero::shm
