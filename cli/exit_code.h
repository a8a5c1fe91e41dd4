#pragma once

namespace zero::cli {

/// Exit codes of every command. `zero run` also passes on the code of the first rank that failed.
enum ExitCode : int {
  kOk = 0,
  kNo = 1,  ///< The answer is no: damaged, differs, incompatible.
  kUsage = 2,
  kInputOutput = 3,  ///< Files, network or peers.
  kCannotExecute = 126,
  kNotFound = 127,
};

}  // namespace zero::cli
