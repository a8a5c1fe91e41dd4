#pragma once

/// How payload in the GPU's memory moves and is added up. Puts work on the link's stream and
/// returns; nothing here waits for it, but for epilogues.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/nccl/link.h"
#include "backends/nccl/pinned.h"
#include "libzero/collective/collective.h"

namespace zero::nccl {

/// Not thread-safe. All functions throw what Link throws, and Broken. What is in flight uses this
/// object's memory in the order of the stream.
class Payload {
 public:
  /// `scratch_bytes`: what is received and not added up yet; at least a block of the norm's pieces
  /// for each rank is taken.
  Payload(Link& link, std::int64_t scratch_bytes);

  /// A deadline for each wait inside a call.
  using Deadline = std::function<Clock::time_point()>;

  void reduce_scatter(const ConstBuffer& in, const Buffer& out, const ReduceScatterOptions& options,
                      const Deadline& deadline);
  void all_gather(const ConstBuffer& in, const Buffer& out, const Deadline& deadline);
  void all_reduce(const Buffer& data, ReduceOp op, const Deadline& deadline);
  void broadcast(const Buffer& data, int root, const Deadline& deadline);

  /// Takes scratch that NCCL is told of, for calls with registered buffers, unless it has. Throws
  /// what Link throws, and Broken.
  void register_scratch();

  /// Groups of calls that NCCL has taken so far.
  std::int64_t launches() const noexcept { return launches_; }

  /// What of the calls since the last time still has to be copied on the host when the stream has
  /// come this far.
  std::vector<Landing> take_landings() { return std::exchange(landings_, {}); }

  /// Leaves the memory to the device that hangs.
  void abandon() noexcept;

 private:
  /// Elements of a piece, a multiple of kEpilogueBlock, when `parts` of them lie in the scratch.
  std::int64_t piece_of(std::int64_t parts, std::int64_t element) const;
  void exchange(const ConstBuffer& in, std::int64_t slice, std::int64_t begin, std::int64_t count,
                std::int64_t stride, void* landing, const Deadline& deadline);
  void native_sum(const ConstBuffer& in, const Buffer& out, const ReduceScatterOptions& options,
                  const Deadline& deadline);
  const DeviceMemory& scratch_for(const void* data, std::int64_t bytes) const;
  void sum(zero::cuda::OrderedSum args, double* block_squares);
  void copy(void* to, const void* from, std::int64_t bytes);
  void group(const Deadline& deadline,
             const std::function<void(const NcclApi& nccl, NcclComm comm)>& calls);
  void check_launch(int error, const char* kernel) const;

  Link& link_;
  DeviceMemory scratch_;
  DeviceMemory squares_;  // on their way to the host
  const std::shared_ptr<PinnedPool> pinned_;
  std::vector<Landing> landings_;
  std::optional<DeviceMemory> registered_;
  std::shared_ptr<void> told_;  // goes before the memory
  std::int64_t launches_ = 0;
};

}  // namespace zero::nccl
