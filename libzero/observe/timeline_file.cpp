#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "libzero/observe/json_text.h"
#include "libzero/observe/new_file.h"
#include "libzero/observe/timeline.h"
#include "libzero/observe/trace_format.h"

namespace zero::observe {
namespace {

std::string event_name(const Span& span) {
  std::string name(trace_name(span.activity));
  if (span.bucket >= 0) name += " bucket " + std::to_string(span.bucket);
  return name;
}

JsonObject arguments_of(const TimelineSpan& entry, const OptimizerFacts& facts) {
  const Span& span = entry.span;
  JsonObject arguments;
  arguments.add("step", entry.step);
  if (span.bucket >= 0) {
    const BucketFacts& bucket = facts.buckets[static_cast<std::size_t>(span.bucket)];
    const bool is_on_wire = span.activity == Activity::kPack || span.activity == Activity::kReduce;
    const bool is_sum = span.activity == Activity::kGather && facts.stage == 0;
    arguments.add("bucket", span.bucket).add("name", bucket.name);
    arguments.add("dtype", name_of(is_on_wire ? bucket.wire
                                   : is_sum   ? DType::kFloat32
                                              : bucket.dtype));
  }
  if (is_collective(span.activity))
    arguments.add("bytes", span.bytes).add("sequence", entry.sequence);
  return arguments;
}

std::string line_of(const TimelineSpan& entry, const OptimizerFacts& facts, Nanoseconds origin) {
  const Span& span = entry.span;
  return JsonObject()
      .add("name", event_name(span))
      .add("cat", trace_name(span.activity))
      .add("ph", "X")
      .add_json("ts", microseconds_text(span.begin - origin))
      .add_json("dur", microseconds_text(std::max<Nanoseconds>(span.end - span.begin, 0)))
      .add("pid", facts.rank)
      .add("tid", static_cast<int>(span.lane))
      .add("args", arguments_of(entry, facts))
      .text();
}

/// What tells one machine's clock from another's. Empty where nothing does.
std::string clock_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

void Timeline::write(const std::string& path) const {
  const std::vector<TimelineSpan> lanes[] = {spans(Lane::kTraining), spans(Lane::kCommunication)};
  Nanoseconds origin = std::numeric_limits<Nanoseconds>::max();
  for (const auto& lane : lanes) {
    for (const TimelineSpan& entry : lane) origin = std::min(origin, entry.span.begin);
  }
  if (lanes[0].empty() && lanes[1].empty()) origin = 0;
  NewFile file(path);
  file.write(trace_head(JsonObject()
                            .add("format", kTraceFormat)
                            .add("version", kTraceVersion)
                            .add("rank", facts().rank)
                            .add("world_size", facts().world_size)
                            .add("stage", facts().stage)
                            .add("backend", facts().backend)
                            .add("clock", clock_name())
                            .add("origin_ns", std::int64_t{origin})
                            .add("dropped", dropped())));
  file.write(trace_names_of_rank(facts().rank));
  for (const auto& lane : lanes) {
    for (const TimelineSpan& entry : lane) {
      file.write(",\n");
      file.write(line_of(entry, facts_[entry.facts], origin));
    }
  }
  file.write(kTraceTail);
  file.commit(NewFile::Existing::kReplace);
}

}  // namespace zero::observe
