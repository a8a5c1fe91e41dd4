#include "libzero/collective/self.h"

#include <cstring>
#include <mutex>
#include <optional>

#include "libzero/base/error.h"
#include "libzero/collective/call_header.h"
#include "libzero/collective/check_calls.h"
#include "libzero/collective/ordered_sum.h"

namespace zero {
namespace {

class SelfCollective final : public Collective {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::string_view backend() const noexcept override { return "self"; }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    check_not_shut_down(shut_down_, "reduce_scatter", options.label);
    check_reduce_scatter(in, out, options.label, 1);
    count_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
    ordered_sum(Parts(&in.data, 1), in.dtype, static_cast<float*>(out.data), out.count,
                options.accumulate, options.epilogue, 0, options.block_squares);
    return finished_work();
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override {
    check_not_shut_down(shut_down_, "all_gather", label);
    check_all_gather(in, out, label, 0, 1);
    count_call(Operation::kAllGather, label, in.dtype, in.count);
    if (in.data != out.data && in.count > 0) {
      std::memcpy(out.data, in.data, static_cast<std::size_t>(in.count * size_of(in.dtype)));
    }
    return finished_work();
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override {
    check_not_shut_down(shut_down_, "all_reduce", label);
    check_all_reduce(data, op, label);
    count_call(Operation::kAllReduce, label, data.dtype, data.count);
    const void* part = data.data;
    ordered_reduce(Parts(&part, 1), data.dtype, op, std::span<void* const>(&data.data, 1),
                   data.count);
    return finished_work();
  }

  WorkPtr broadcast(Buffer data, int root, std::string_view label) override {
    check_not_shut_down(shut_down_, "broadcast", label);
    check_broadcast(data, root, label, 1);
    count_call(Operation::kBroadcast, label, data.dtype, data.count);
    return finished_work();
  }

  WorkPtr barrier(std::string_view label) override {
    check_not_shut_down(shut_down_, "barrier", label);
    count_call(Operation::kBarrier, label);
    return finished_work();
  }

  std::shared_ptr<Collective> split(int color, int /*key*/,
                                    std::chrono::milliseconds /*patience*/) override {
    check_not_shut_down(shut_down_, "split", "");
    count_call(Operation::kSplit, "");
    return color < 0 ? nullptr : std::make_shared<SelfCollective>();
  }

  void abort(std::string_view why) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = std::string(why);
  }

  void shutdown() override { shut_down_ = true; }

 private:
  /// Numbers the call. Throws CommError if abort() came before.
  void count_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                  std::int64_t count = 0) {
    const std::lock_guard lock(mutex_);
    ++sequence_;
    if (!reason_) return;
    const CallHeader call = make_call_header(operation, sequence_, label, dtype, count);
    throw CommError(describe_failure(call, 0, *reason_));
  }

  std::mutex mutex_;  // abort() comes from any thread
  std::optional<std::string> reason_;
  std::uint64_t sequence_ = 0;
  bool shut_down_ = false;
};

}  // namespace

std::shared_ptr<Collective> make_self() {
  return std::make_shared<SelfCollective>();
}

}  // namespace zero
