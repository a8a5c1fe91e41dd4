#pragma once

/// Where `zero run` writes: its stdout or its stderr, without ever blocking the launcher.

#include <string>
#include <string_view>

namespace zero::cli {

/// Queues whole lines and writes when the other side takes them. Not thread-safe.
class Outlet {
 public:
  explicit Outlet(int fd);

  int fd() const noexcept { return fd_; }
  bool is_terminal() const noexcept { return is_terminal_; }
  /// Nobody takes the output any more; what comes is dropped.
  bool is_broken() const noexcept { return error_ != 0; }
  int error() const noexcept { return error_; }  ///< The errno that broke it, or 0.
  bool has_room() const noexcept { return queue_.size() < kFullBytes; }
  bool is_empty() const noexcept { return queue_.empty(); }
  std::size_t bytes_queued() const noexcept { return queue_.size(); }

  void line(std::string_view prefix, std::string_view text);
  /// A line that the next one overwrites: drawn on a terminal, dropped elsewhere.
  void progress(std::string_view prefix, std::string_view text);

  /// Leaves the last progress line where it stands.
  void end_progress();

  /// Writes what can be written without blocking.
  void write_some();

 private:
  static constexpr std::size_t kFullBytes = 1 << 20;

  void clear_progress();
  std::size_t next_chunk() const;
  bool is_ready() const;

  int fd_;
  bool is_terminal_;
  bool is_file_;
  int error_ = 0;
  bool progress_on_screen_ = false;
  std::string queue_;
};

}  // namespace zero::cli
