#pragma once

/// Rank 0 of two, whose peer does as it does: everything that two ranks make is made, but nobody
/// waits, so that no timeout reads a clock.

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "libzero/collective/collective.h"
#include "libzero/collective/ordered_sum.h"

namespace zero::testing {

class MirrorCollective final : public Collective {
 public:
  using Calls = std::shared_ptr<std::atomic<std::int64_t>>;

  /// `calls` counts those of this and of what is split off it.
  explicit MirrorCollective(Calls calls) : calls_(std::move(calls)) {}

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  std::string_view backend() const noexcept override { return "mirror"; }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    const std::array<const void*, 2> both = {in.data, in.data};
    ordered_sum(both, in.dtype, static_cast<float*>(out.data), out.count, options.accumulate,
                options.epilogue, 0, options.block_squares);
    return done();
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view) override {
    const auto bytes = static_cast<std::size_t>(in.count * size_of(in.dtype));
    auto* const to = static_cast<std::byte*>(out.data);
    if (to != in.data) std::memcpy(to, in.data, bytes);
    std::memcpy(to + bytes, in.data, bytes);
    return done();
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view) override {
    const std::array<const void*, 2> both = {data.data, data.data};
    void* const out = data.data;
    ordered_reduce(both, data.dtype, op, std::span<void* const>(&out, 1), data.count);
    return done();
  }

  WorkPtr broadcast(Buffer, int, std::string_view) override { return done(); }
  WorkPtr barrier(std::string_view) override { return done(); }
  std::shared_ptr<Collective> split(int, int, std::chrono::milliseconds) override {
    return std::make_shared<MirrorCollective>(calls_);
  }
  void abort(std::string_view) noexcept override {}
  void shutdown() override {}

 private:
  WorkPtr done() {
    ++*calls_;
    return finished_work();
  }

  Calls calls_;
};

}  // namespace zero::testing
