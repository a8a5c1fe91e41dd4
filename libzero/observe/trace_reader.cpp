#include "libzero/observe/trace_reader.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "libzero/base/error.h"
#include "libzero/observe/trace_format.h"

namespace zero::observe {
namespace {

using Json = nlohmann::ordered_json;

// Far beyond every clock and run, and small enough for sums and differences of them.
constexpr std::int64_t kLargestOrigin = std::int64_t{1} << 60;
constexpr double kLongestMicroseconds = 1e14;
constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;

/// Why a line is none of a timeline.
struct Fault {
  std::string what;
};

void require(bool condition, const char* what) {
  if (!condition) throw Fault{what};
}

Json parse(std::string_view text) {
  constexpr int kDeepest = 3;  // or a line could exhaust the stack of whoever prints it
  const auto check = [](int depth, Json::parse_event_t, const Json&) {
    require(depth <= kDeepest, "it nests deeper than a timeline");
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception&) {
    throw Fault{"it is no JSON"};
  }
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw Fault{std::string("it lacks the key ") + key};
  return *found;
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw Fault{std::string("no text stands at the key ") + key};
  return value.get<std::string>();
}

std::int64_t integer_of(const Json& object, const char* key, std::int64_t least,
                        std::int64_t most) {
  const Json& value = member(object, key);
  const bool is_small = value.is_number_integer() && !(value.is_number_unsigned() &&
                                                       value.get<std::uint64_t>() > kLargestOrigin);
  if (!is_small || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    throw Fault{std::string("no whole number of the right size stands at the key ") + key};
  return value.get<std::int64_t>();
}

Nanoseconds time_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kLongestMicroseconds))
    throw Fault{std::string("no time stands at the key ") + key};
  return std::llround(value.get<double>() * 1e3);
}

TraceHead head_of(std::string_view text) {
  const Json about = parse(text);
  require(about.is_object() && about.value("format", Json()) == kTraceFormat,
          "it is no timeline of one rank (a merged one, or another program's?)");
  require(about.value("version", Json()) == kTraceVersion,
          "its format has another version; use the zero command of the library that wrote it");
  TraceHead head;
  head.world_size = static_cast<int>(integer_of(about, "world_size", 1, 1 << 30));
  head.rank = static_cast<int>(integer_of(about, "rank", 0, head.world_size - 1));
  head.clock = text_of(about, "clock");
  head.origin = integer_of(about, "origin_ns", -kLargestOrigin, kLargestOrigin);
  head.dropped = integer_of(about, "dropped", 0, kLargestOrigin);
  return head;
}

/// False for an event that only gives names, which every rank's file has alike.
bool read_event(std::string_view text, Nanoseconds origin, TraceEvent& event) {
  const Json json = parse(text);
  require(json.is_object(), "it is no event");
  const std::string phase = text_of(json, "ph");
  if (phase == "M") return false;
  require(phase == "X", "its event is of a phase that timelines have not");
  event.name = text_of(json, "name");
  event.kind = text_of(json, "cat");
  event.begin = origin + time_of(json, "ts");
  event.duration = time_of(json, "dur");
  require(event.duration >= 0, "its event ends before it begins");
  event.thread = static_cast<int>(integer_of(json, "tid", 0, 1));
  const Json& arguments = member(json, "args");
  require(arguments.is_object(), "no object stands at the key args");
  event.step = integer_of(arguments, "step", 0, kLargestCount);
  event.sequence =
      arguments.contains("sequence") ? integer_of(arguments, "sequence", 0, kLargestCount) : -1;
  event.arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  return true;
}

}  // namespace

TraceReader::TraceReader(const std::string& path) : path_(path), buffer_(kLongestLine) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  errno = 0;
  if (is_file) file_.open(path, std::ios::binary);
  if (!is_file || !file_)
    throw IoError("a timeline cannot be read, check its name and its rights: " + path);
  read_head();
}

void TraceReader::fail(const std::string& what) const {
  throw FormatError("the file is no timeline that libzero wrote, or damaged: " + what + ": line " +
                    std::to_string(line_) + " of " + path_);
}

std::string_view TraceReader::line() {
  ++line_;
  file_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  const auto count = static_cast<std::size_t>(file_.gcount());
  bytes_ += count;
  if (file_.bad()) throw IoError("reading a timeline failed, check its disk: " + path_);
  if (file_.eof()) fail("it ends early");
  if (file_.fail()) fail("the line is too long");
  return {buffer_.data(), count - 1};  // the end of the line is counted, but not stored
}

void TraceReader::read_head() {
  const std::string_view text = line();
  const std::size_t around = kTraceHeadBegin.size() + kTraceHeadEnd.size();
  if (text.size() < around || !text.starts_with(kTraceHeadBegin) || !text.ends_with(kTraceHeadEnd))
    fail("its first line is another");
  try {
    head_ = head_of(text.substr(kTraceHeadBegin.size(), text.size() - around));
  } catch (const Fault& fault) {
    fail(fault.what);
  }
}

bool TraceReader::next(TraceEvent& event) {
  while (!is_last_) {
    std::string_view text = line();
    is_last_ = !text.ends_with(',');
    if (!is_last_) text.remove_suffix(1);
    try {
      if (read_event(text, head_.origin, event)) return true;
    } catch (const Fault& fault) {
      fail(fault.what);
    }
  }
  if (line() != kTraceTail.substr(1, kTraceTail.size() - 2)) fail("something follows the events");
  return false;
}

}  // namespace zero::observe
