#pragma once

/// The bytes of a timeline's file: Chrome's trace format (JSON), one event a line, so that a
/// program can read it line by line. docs/observability.md describes it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libzero/observe/json_text.h"
#include "libzero/optim/observer.h"

namespace zero::observe {

inline constexpr const char* kTraceFormat = "libzero-trace";
inline constexpr int kTraceVersion = 1;
/// Of one line; longer ones are no timeline's.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 16;

inline constexpr std::string_view kTraceHeadBegin = R"({"displayTimeUnit":"ms","otherData":)";
inline constexpr std::string_view kTraceHeadEnd = R"(,"traceEvents":[)";
inline constexpr std::string_view kTraceTail = "\n]}\n";

/// "reduce"
std::string_view trace_name(Activity activity) noexcept;

/// The first line. `about`: what the file is.
std::string trace_head(const JsonObject& about);

/// Events that name a rank's process and threads; the first of a file's.
std::string trace_names_of_rank(int rank);

/// "-1.005": nanoseconds as Chrome counts time.
std::string microseconds_text(std::int64_t nanoseconds);

}  // namespace zero::observe
