#pragma once

/// One stream (stdout or stderr) of one rank on its way to an Outlet.

#include <string>

#include "cli/line_splitter.h"
#include "cli/outlet.h"
#include "cli/unique_fd.h"

namespace zero::cli {

/// "[3] ", coloured where the outlet is a terminal and NO_COLOR is not set.
std::string rank_prefix(int rank, const Outlet& outlet);

/// Reads what is there, puts the rank before each line and hands it on. Not thread-safe. Neither
/// copied nor moved: the splitter calls back into it.
class RankOutput {
 public:
  RankOutput(UniqueFd source, std::string prefix, Outlet& outlet);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// -1 after the end of the stream.
  int fd() const noexcept { return source_.get(); }
  Outlet& outlet() noexcept { return outlet_; }

  void read_some();
  void drain();  ///< All that is there now, however full the outlet is.
  void close();  ///< Gives out an unfinished last line.

 private:
  bool read_once();  // false: nothing more there

  UniqueFd source_;
  std::string prefix_;
  Outlet& outlet_;
  LineSplitter splitter_;
};

}  // namespace zero::cli
