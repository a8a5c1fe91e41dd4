#pragma once

/// Cuts a byte stream into lines.

#include <functional>
#include <string>
#include <string_view>

namespace zero::cli {

enum class LineEnd {
  kNewline,   ///< "\n" or "\r\n", the end of the stream, or a line longer than kMaxLineBytes cut
              ///< there
  kProgress,  ///< "\r": the next line is meant to overwrite this one
};

/// Not thread-safe.
class LineSplitter {
 public:
  static constexpr std::size_t kMaxLineBytes = 1 << 20;
  using Emit = std::function<void(std::string_view line, LineEnd end)>;

  /// `eager`: a "\r" at the end of the bytes that are there is taken for progress at once; if "\n"
  /// follows after all, the line comes once more with kNewline. Otherwise it is held back until the
  /// next byte decides.
  LineSplitter(bool eager, Emit emit) : eager_(eager), emit_(std::move(emit)) {}

  void feed(std::string_view bytes);
  void finish();  ///< The stream has ended: gives out what is left.

 private:
  void take(char byte);
  void end_line(LineEnd end);

  bool eager_;
  Emit emit_;
  std::string line_;
  bool after_return_ = false;  // line_ is complete and was followed by "\r"
  bool shown_ = false;         // and was given out as progress already
};

}  // namespace zero::cli
