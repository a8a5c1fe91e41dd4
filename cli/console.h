#pragma once

/// Where a run writes, over all its tries: the ranks' lines and the launcher's own.

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/outlet.h"
#include "cli/signals.h"

namespace zero::cli {

/// This process's stdout and stderr as outlets; one where both go to the same place, or lines would
/// tear. Not thread-safe.
class Console {
 public:
  Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  Outlet& out() noexcept { return out_; }
  Outlet& err() noexcept { return separate_err_ ? *separate_err_ : out_; }

  /// A line of the launcher's own on stderr.
  void say(const std::string& text) { err().line("zero run: ", text); }

  bool is_empty() const noexcept;
  /// Part of the output goes nowhere any more.
  bool is_broken() const noexcept;

  /// Adds what to poll for to write on.
  void add_to(std::vector<pollfd>& fds) const;
  void write_some();
  void end_progress();

  /// Writes until nothing is queued, or until the other side takes no more and `signals` ask to
  /// end: a reader that has stopped reading must not keep us then.
  void flush(Signals& signals);

  /// What made output go lost, or 0. Somebody who stops reading has seen enough; a full disk has
  /// not.
  int loss() const noexcept;

 private:
  std::size_t bytes_queued() const noexcept;

  Outlet out_;
  std::optional<Outlet> separate_err_;
};

}  // namespace zero::cli
