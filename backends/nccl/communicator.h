#pragma once

/// The Collective over NCCL. Private to this folder: nccl.h makes one.

#include <memory>
#include <string>
#include <utility>

#include "backends/nccl/link.h"
#include "backends/nccl/nccl.h"
#include "backends/nccl/payload.h"
#include "backends/nccl/silence.h"
#include "backends/nccl/talk.h"
#include "backends/nccl/vigil.h"

namespace zero::nccl {

class Communicator final : public Collective {
 public:
  /// Collective. `join_timeout`: for meeting the others only. Throws CommError, ContractError.
  /// `allocations`: what NCCL's allocator gave to this one's parents and children; null: none yet.
  Communicator(Options options, std::chrono::milliseconds join_timeout,
               std::shared_ptr<Allocations> allocations = nullptr);
  ~Communicator() override;

  int rank() const noexcept override { return talk_.rank(); }
  int size() const noexcept override { return talk_.size(); }
  std::string_view backend() const noexcept override { return "nccl"; }
  bool takes_device_memory() const noexcept override { return true; }
  void follow_stream(void* stream) noexcept override { caller_stream_ = stream; }
  std::shared_ptr<void> device_memory(std::int64_t bytes) override;
  std::shared_ptr<void> register_memory(void* memory, std::int64_t bytes) override;

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override;
  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override;
  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override;
  WorkPtr broadcast(Buffer data, int root, std::string_view label) override;
  WorkPtr barrier(std::string_view label) override;
  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override;
  void abort(std::string_view why) noexcept override;
  void shutdown() override;

 private:
  class DeviceWork;
  using HostPart = std::function<void(Collective& control)>;
  using DevicePart = std::function<void(const Payload::Deadline& deadline)>;

  void meet(std::chrono::milliseconds join_timeout);
  void agree_on_options();
  void connect(std::chrono::milliseconds join_timeout);
  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0);
  Memory memory_of(const ConstBuffer& buffer, std::string_view what) const;
  std::pair<Memory, Memory> one_kind(Memory input, Memory output, std::string_view label) const;
  std::shared_ptr<void> tell_nccl(const Range& allocation);
  WorkPtr run(const CallHeader& call, Memory memory, const HostPart& host,
              const DevicePart& device);
  WorkPtr on_device(const CallHeader& call, const DevicePart& device);
  void follow_caller();
  /// Turns what is being handled into the fate and a CommError; for use in a catch block.
  [[noreturn]] void fail(const CallHeader& call);
  void leave() noexcept;
  std::string rank_text() const { return "rank " + std::to_string(rank()); }

  Options options_;
  const std::shared_ptr<Allocations> allocations_;
  const std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  Talk talk_;
  std::unique_ptr<Vigil> vigil_;
  std::shared_ptr<Link> link_;
  std::unique_ptr<Payload> payload_;
  std::shared_ptr<Silence> silence_;
  CudaStream caller_stream_ = nullptr;
  std::uint64_t sequence_ = 0;
  bool shut_down_ = false;
};

}  // namespace zero::nccl
