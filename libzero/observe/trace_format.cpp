#include "libzero/observe/trace_format.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace zero::observe {
namespace {

constexpr std::array<std::string_view, kActivities> kNames = {
    "forward", "backward", "room wait", "pack",        "reduce", "reduce wait",
    "vote",    "update",   "gather",    "gather wait", "step"};

std::string name_event(const char* kind, int rank, int thread, const std::string& name) {
  return JsonObject()
      .add("name", kind)
      .add("ph", "M")
      .add("pid", rank)
      .add("tid", thread)
      .add("args", JsonObject().add("name", name))
      .text();
}

}  // namespace

std::string_view trace_name(Activity activity) noexcept {
  return kNames[static_cast<std::size_t>(activity)];
}

std::string trace_head(const JsonObject& about) {
  return std::string(kTraceHeadBegin) + about.text() + std::string(kTraceHeadEnd) + "\n";
}

std::string trace_names_of_rank(int rank) {
  const std::string sorted = JsonObject()
                                 .add("name", "process_sort_index")
                                 .add("ph", "M")
                                 .add("pid", rank)
                                 .add("args", JsonObject().add("sort_index", rank))
                                 .text();
  return name_event("process_name", rank, 0, "rank " + std::to_string(rank)) + ",\n" + sorted +
         ",\n" + name_event("thread_name", rank, 0, "training") + ",\n" +
         name_event("thread_name", rank, 1, "communication");
}

std::string microseconds_text(std::int64_t nanoseconds) {
  const bool is_negative = nanoseconds < 0;
  const std::uint64_t size = is_negative
                                 ? std::uint64_t{0} - static_cast<std::uint64_t>(nanoseconds)
                                 : static_cast<std::uint64_t>(nanoseconds);
  char text[32];
  std::snprintf(text, sizeof text, "%s%llu.%03u", is_negative ? "-" : "",
                static_cast<unsigned long long>(size / 1000), static_cast<unsigned>(size % 1000));
  return text;
}

}  // namespace zero::observe
