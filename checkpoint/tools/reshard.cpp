#include "checkpoint/tools/reshard.h"

#include <algorithm>

#include "checkpoint/names.h"
#include "checkpoint/tools/digest_builder.h"
#include "checkpoint/tools/reshard_plan.h"

namespace zero::checkpoint {
namespace {

constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestPart = std::uint64_t{8} << 20;

void require_missing(Store& destination, std::int64_t step) {
  const Listing listing = destination.list();
  const bool taken = std::any_of(listing.steps.begin(), listing.steps.end(),
                                 [&](const StepInfo& info) { return info.step == step; }) ||
                     std::any_of(listing.damaged.begin(), listing.damaged.end(),
                                 [&](const Damaged& d) { return d.name == step_name(step); });
  ZERO_REQUIRE(!taken,
               "the destination has a checkpoint of this step already, remove it or choose another "
               "destination: step " +
                   std::to_string(step));
}

/// What is handed to the writer is hashed here, in the order of the ranks; the writer hashes the
/// same bytes again for its own tables. So the two digests come from two passes over the source, by
/// two orders and two kinds of reads, and meet only if each element went to its place.
Digests copy(const Reader& source, const ReshardPlan& plan, Writer& writer, int world_size,
             Meter& meter) {
  DigestBuilder builder(source.common().parameters);
  for (int rank = 0; rank < world_size; ++rank) {
    meter.advance(0);  // A rank without a share can be told to stop, too.
    RankState state{plan.views(rank), plan.blobs(rank)};
    for (StateView& view : state.states) {
      view.fill = [&, name = view.name](const Extent& part, std::span<std::byte> dst) {
        source.read(part.parameter, name, part.begin, part.end, dst);
        builder.add(name, part, dst);
        meter.advance(dst.size());
      };
    }
    writer.put(rank, state);
  }
  return builder.finish();
}

void require_equal(const Digests& read, const Digests& written) {
  for (const auto& [state, digest] : read) {
    const auto found = written.find(state);
    if (found != written.end() && found->second == digest) continue;
    throw FormatError(
        "what was written is not what the source holds, nothing was committed; did something "
        "write to the source meanwhile? verify it: state '" +
        state + "'");
  }
}

}  // namespace

ReshardResult reshard(const Reader& source, Store& destination, const ReshardOptions& options) {
  ZERO_REQUIRE(options.world_size >= 1 && options.world_size <= kMaxWorldSize,
               "the world size must be 1 to 65536: " + std::to_string(options.world_size));
  ZERO_REQUIRE(options.memory >= kLeastMemory,
               "memory must be at least 1 MiB: " + std::to_string(options.memory) + " bytes");
  require_missing(destination, source.common().step);
  const ReshardPlan plan(source, options.world_size);
  Meter meter(options.progress, 2 * state_bytes(source), "reshard");
  const auto part = static_cast<std::size_t>(std::min(options.memory / 8, kLargestPart));
  ReshardResult result;
  result.digests = digests_of(source, part, meter);
  const std::unique_ptr<Writer> writer = destination.begin(plan.common(), options.world_size);
  require_equal(result.digests, copy(source, plan, *writer, options.world_size, meter));
  result.commit = writer->commit();
  return result;
}

}  // namespace zero::checkpoint
