#include "backends/shm/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "libzero/base/error.h"

namespace zero::shm {
namespace {

/// The 22nd field of /proc/<pid>/stat; nullopt if there is no such process.
std::optional<std::uint64_t> start_time_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field is the program's name, in parentheses, and may hold anything.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t start_time = 0;
  if (!(fields >> start_time)) return std::nullopt;
  return start_time;
}

[[noreturn]] void no_proc(const std::string& what) {
  throw Unavailable("shared memory between ranks needs /proc; mount it, or use gloo: cannot read " +
                    what);
}

}  // namespace

std::optional<Process> find_process(pid_t pid) {
  const auto start_time = start_time_of(pid);
  if (!start_time) return std::nullopt;
  return Process{pid, *start_time};
}

Process this_process() {
  const auto process = find_process(::getpid());
  if (!process) no_proc("/proc/" + std::to_string(::getpid()) + "/stat");
  return *process;
}

std::optional<Descriptor> watch_process(const Process& process) {
  Descriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!descriptor.is_open()) {
    const int error = errno;
    if (error == ESRCH) return std::nullopt;
    const std::string text = "pidfd_open of process " + std::to_string(process.pid) + ": " +
                             std::string(std::strerror(error));
    if (error == ENOSYS || error == EPERM) {
      throw Unavailable(
          "shared memory between ranks needs Linux 5.3 or newer, to hear of a rank's death; use "
          "gloo: " +
          text);
    }
    throw IoError("cannot watch over another rank; raise the limit of open files (ulimit -n): " +
                  text);
  }
  // Only now: the descriptor stands for one process, the number may since have gone to another.
  if (start_time_of(process.pid) != process.start_time) return std::nullopt;
  return descriptor;
}

std::string host_identity() {
  std::string boot;
  if (!(std::ifstream("/proc/sys/kernel/random/boot_id") >> boot)) {
    no_proc("/proc/sys/kernel/random/boot_id");
  }
  std::error_code error;
  const std::string processes = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  if (error) no_proc("/proc/self/ns/pid");
  return boot + "/" + processes;
}

}  // namespace zero::shm
