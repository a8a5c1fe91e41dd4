#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/shm/circle.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/ordered_sum.h"

namespace zero::shm {

/// zero::Collective over a circle. A call does its work before it returns.
class Communicator final : public Collective {
 public:
  explicit Communicator(std::unique_ptr<Circle> circle)
      : circle_(std::move(circle)), terms_(static_cast<std::size_t>(circle_->size())) {}

  int rank() const noexcept override { return circle_->rank(); }
  int size() const noexcept override { return circle_->size(); }
  std::string_view backend() const noexcept override { return "shm"; }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override;
  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override;
  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override;
  WorkPtr broadcast(Buffer data, int root, std::string_view label) override;
  WorkPtr barrier(std::string_view label) override;
  using Collective::split;
  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override;
  void abort(std::string_view why) noexcept override;
  void shutdown() override;

 private:
  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0) const;
  WorkPtr run(const CallHeader& call, std::span<const std::byte> inline_payload, Circle::Body body);
  Parts inline_terms(const RollCall& roll_call, std::size_t offset);
  void reduce_in_slices(Rows& rows, const Buffer& data, ReduceOp op) const;

  const std::unique_ptr<Circle> circle_;
  std::vector<const void*> terms_;  // by rank: what inline_terms() has found
};

}  // namespace zero::shm
