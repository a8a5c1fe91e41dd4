#include "libzero/observe/trace_merge.h"

#include <algorithm>
#include <filesystem>

#include "libzero/base/error.h"
#include "libzero/observe/json_text.h"
#include "libzero/observe/new_file.h"
#include "libzero/observe/trace_format.h"

namespace zero::observe {
namespace {

namespace fs = std::filesystem;

struct Input {
  TraceHead head;
  MergedRank result;
};

/// Counts over two readings of every file.
class Meter {
 public:
  Meter(const std::vector<Input>& inputs, const MergeProgress& progress) : progress_(progress) {
    std::error_code ignored;
    for (const Input& input : inputs) total_ += 2 * fs::file_size(input.result.file, ignored);
  }
  void show(const TraceReader& reader) const {
    if (progress_) progress_(std::min(before_ + reader.bytes(), total_), total_);
  }
  void finish(const TraceReader& reader) { before_ += reader.bytes(); }

 private:
  const MergeProgress& progress_;
  std::uint64_t total_ = 0;
  std::uint64_t before_ = 0;
};

template <typename Action>
void for_each_event(const std::string& file, Meter& meter, Action action) {
  TraceReader reader(file);
  TraceEvent event;
  for (std::int64_t count = 0; reader.next(event); ++count) {
    if (count % 1024 == 0) meter.show(reader);
    action(event);
  }
  meter.finish(reader);
}

std::vector<Input> read_heads(const std::vector<std::string>& files) {
  ZERO_REQUIRE(!files.empty(), "merge: there is no file to merge; name the ranks' timelines");
  std::vector<Input> inputs;
  for (const std::string& file : files) {
    Input input;
    input.head = TraceReader(file).head();
    input.result.rank = input.head.rank;
    input.result.file = file;
    input.result.dropped = input.head.dropped;
    inputs.push_back(std::move(input));
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const Input& a, const Input& b) { return a.head.rank < b.head.rank; });
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Input &a = inputs[i - 1], &b = inputs[i];
    const std::string both = a.result.file + " and " + b.result.file;
    ZERO_REQUIRE(a.head.rank != b.head.rank,
                 "merge: two files are of one rank; name one of them: rank " +
                     std::to_string(a.head.rank) + ": " + both);
    if (a.head.world_size != b.head.world_size)
      throw FormatError("the files are of runs with different numbers of ranks: " + both);
  }
  return inputs;
}

void align(std::vector<Input>& inputs, Meter& meter) {
  ClockReference reference;
  for_each_event(inputs.front().result.file, meter,
                 [&](const TraceEvent& event) { reference.add(event); });
  const TraceHead& first = inputs.front().head;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    Input& input = inputs[i];
    ClockComparison comparison(reference);
    for_each_event(input.result.file, meter,
                   [&](const TraceEvent& event) { comparison.add(event); });
    const bool may_be_one = !first.clock.empty() && first.clock == input.head.clock;
    try {
      input.result.clock = comparison.result(may_be_one);
    } catch (const FormatError& error) {
      throw FormatError(std::string(error.what()) + ": " + inputs.front().result.file + " and " +
                        input.result.file);
    }
  }
}

std::string head_of(const std::vector<Input>& inputs) {
  std::string ranks;
  for (const auto& [head, result] : inputs) {
    ranks += ranks.empty() ? "[" : ",";
    ranks += JsonObject()
                 .add("rank", head.rank)
                 .add("offset_ns", std::int64_t{result.clock.offset})
                 .add("error_ns", std::int64_t{result.clock.error})
                 .add("collectives", result.clock.collectives)
                 .add("dropped", head.dropped)
                 .text();
  }
  return trace_head(JsonObject()
                        .add("format", "libzero-trace-merged")
                        .add("version", kTraceVersion)
                        .add("world_size", inputs.front().head.world_size)
                        .add_json("ranks", ranks + "]"));
}

std::string line_of(const TraceEvent& event, int rank, Nanoseconds shift) {
  return JsonObject()
      .add("name", event.name)
      .add("cat", event.kind)
      .add("ph", "X")
      .add_json("ts", microseconds_text(event.begin - shift))
      .add_json("dur", microseconds_text(event.duration))
      .add("pid", rank)
      .add("tid", event.thread)
      .add_json("args", event.arguments)
      .text();
}

void write_events(std::vector<Input>& inputs, NewFile& file, Meter& meter) {
  Nanoseconds origin = inputs.front().head.origin;
  for (const Input& input : inputs)
    origin = std::min(origin, input.head.origin - input.result.clock.offset);
  bool is_first = true;
  for (Input& input : inputs) {
    if (!is_first) file.write(",\n");
    is_first = false;
    file.write(trace_names_of_rank(input.head.rank));
    for_each_event(input.result.file, meter, [&](const TraceEvent& event) {
      file.write(",\n");
      file.write(line_of(event, input.head.rank, origin + input.result.clock.offset));
      ++input.result.events;
    });
  }
}

std::vector<std::string> warnings_of(const std::vector<Input>& inputs) {
  std::vector<std::string> warnings;
  const int world_size = inputs.front().head.world_size;
  if (inputs.size() < static_cast<std::size_t>(world_size)) {
    warnings.push_back("not all ranks are here: " + std::to_string(inputs.size()) + " of " +
                       std::to_string(world_size));
  }
  for (const Input& input : inputs) {
    if (input.head.dropped > 0)
      warnings.push_back("rank " + std::to_string(input.head.rank) + " had no room for " +
                         std::to_string(input.head.dropped) + " events; record fewer steps");
  }
  return warnings;
}

}  // namespace

std::vector<std::string> timelines_in(const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("trace-rank-") && name.ends_with(".json"))
      files.push_back(at->path().string());
  }
  if (error) throw IoError("a folder cannot be read: " + error.message() + ": " + place);
  if (files.empty())
    throw IoError(
        "the folder holds no timeline, no trace-rank-*.json; was it the run's "
        "--profile-dir?: " +
        place);
  std::sort(files.begin(), files.end());
  return files;
}

MergeResult merge_timelines(const std::vector<std::string>& files, const std::string& out,
                            const MergeProgress& progress) {
  std::vector<Input> inputs = read_heads(files);
  std::error_code ignored;
  ZERO_REQUIRE(!fs::exists(fs::symlink_status(out, ignored)),
               "merge: the file exists, choose another name or remove it: " + out);
  NewFile file(out);
  Meter meter(inputs, progress);
  align(inputs, meter);
  file.write(head_of(inputs));
  write_events(inputs, file, meter);
  file.write(kTraceTail);
  file.commit(NewFile::Existing::kRefuse);
  MergeResult result{{}, warnings_of(inputs)};
  for (Input& input : inputs) result.ranks.push_back(std::move(input.result));
  return result;
}

}  // namespace zero::observe
