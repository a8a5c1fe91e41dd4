#pragma once

/// What the library would tell a person. It never prints: the program says where messages go.

#include <functional>
#include <string_view>

namespace zero {

enum class LogLevel {
  kInfo,     ///< How things were set up: once a run.
  kWarning,  ///< Something went on that a person should look at: a skipped step, a leaving without
             ///< shutdown().
};

/// Receives one line without its end. Called on the thread that called the library, by one thread
/// at a time for each object that was given it; what it throws from a destructor is dropped. Empty:
/// nothing is said.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

}  // namespace zero
