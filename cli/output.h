#pragma once

/// The only way to stdout and stderr of all commands but `zero run`, which carries its ranks'
/// output itself.

#include <string_view>

namespace zero::cli {

/// Or the next file opened would take the place of a stream that is closed, and its output.
void open_standard_streams();

/// Writes everything to stdout. A reader that has gone has seen enough: no error. Throws IoError
/// for any other failure (a full disk). REQUIRES that SIGPIPE is ignored.
void print(std::string_view text);

/// One line to stderr, "zero: " in front, safe to look at. What cannot be written is dropped.
void complain(std::string_view text) noexcept;

/// Columns of the terminal that stdout is, otherwise 120.
int width_of_output();

}  // namespace zero::cli
