#include "libzero/collective/testing/faults.h"

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

namespace zero::testing {
namespace {

/// The faults of a world and its subgroups.
struct Plan {
  explicit Plan(std::vector<Fault> faults_) : faults(std::move(faults_)), fitting(faults.size()) {}

  const std::vector<Fault> faults;
  std::vector<std::atomic<std::int64_t>> fitting;  // by fault: calls that fitted so far
};

/// A call that has not been made yet.
class HeldCall final : public Work {
 public:
  explicit HeldCall(std::function<WorkPtr()> action) : action_(std::move(action)) {}

  void make() noexcept {
    if (work_) return;
    try {
      work_ = action_();
    } catch (...) {
      work_ = failed_work(std::current_exception());
    }
  }

  bool test() noexcept override { return work_ && work_->test(); }
  void wait() override {
    make();
    work_->wait();
  }
  bool lead_stream(void* stream) noexcept override { return work_ && work_->lead_stream(stream); }

 private:
  std::function<WorkPtr()> action_;
  WorkPtr work_;
};

void corrupt(const Buffer& result) {
  if (result.count == 0) return;
  // Of a float this is the highest bit of the exponent (0 becomes 2, 1 becomes infinity): no
  // tolerance hides it.
  static_cast<std::byte*>(result.data)[size_of(result.dtype) - 1] ^= std::byte{0x40};
}

class Faulty final : public Collective {
 public:
  Faulty(std::shared_ptr<Collective> inner, std::shared_ptr<Plan> plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  std::string_view backend() const noexcept override { return inner_->backend(); }
  bool takes_device_memory() const noexcept override { return inner_->takes_device_memory(); }
  void follow_stream(void* stream) noexcept override { inner_->follow_stream(stream); }
  std::shared_ptr<void> device_memory(std::int64_t bytes) override {
    return inner_->device_memory(bytes);
  }
  std::shared_ptr<void> register_memory(void* memory, std::int64_t bytes) override {
    return inner_->register_memory(memory, bytes);
  }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    return call(Operation::kReduceScatter, options.label, out,
                [inner = inner_, in, out, options, text = std::string(options.label)]() mutable {
                  options.label = text;
                  return inner->reduce_scatter(in, out, options);
                });
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override {
    return call(Operation::kAllGather, label, out,
                [inner = inner_, in, out, text = std::string(label)] {
                  return inner->all_gather(in, out, text);
                });
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override {
    return call(Operation::kAllReduce, label, data,
                [inner = inner_, data, op, text = std::string(label)] {
                  return inner->all_reduce(data, op, text);
                });
  }

  WorkPtr broadcast(Buffer data, int root, std::string_view label) override {
    return call(Operation::kBroadcast, label, data,
                [inner = inner_, data, root, text = std::string(label)] {
                  return inner->broadcast(data, root, text);
                });
  }

  WorkPtr barrier(std::string_view label) override {
    return call(Operation::kBarrier, label, {},
                [inner = inner_, text = std::string(label)] { return inner->barrier(text); });
  }

  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override {
    make_held();
    auto child = inner_->split(color, key, patience);
    if (!child) return nullptr;
    return std::make_shared<Faulty>(std::move(child), plan_);
  }

  void abort(std::string_view why) noexcept override { inner_->abort(why); }
  void shutdown() override {
    make_held();
    inner_->shutdown();
  }

 private:
  bool strikes(std::size_t index, Operation operation, std::string_view label) {
    const Fault& fault = plan_->faults[index];
    if (fault.operation.value_or(operation) != operation) return false;
    if (label.find(fault.label) == label.npos) return false;
    const std::int64_t number = ++plan_->fitting[index];
    return fault.call == 0 || fault.call == number;
  }

  /// `action` owns all that it needs but the buffers: it may be run later.
  WorkPtr call(Operation operation, std::string_view label, const Buffer& result,
               std::function<WorkPtr()> action) {
    bool corrupts = false;
    bool reorders = false;
    for (std::size_t i = 0; i < plan_->faults.size(); ++i) {
      if (!strikes(i, operation, label)) continue;
      const Fault& fault = plan_->faults[i];
      if (fault.kind == Fault::Kind::kDelay) std::this_thread::sleep_for(fault.delay);
      if (fault.kind == Fault::Kind::kFail) inner_->abort(fault.reason);
      if (fault.kind == Fault::Kind::kCorrupt) corrupts = true;
      if (fault.kind == Fault::Kind::kReorder) reorders = true;
    }
    if (corrupts)
      action = [inner_action = std::move(action), result] {
        inner_action()->wait();
        corrupt(result);
        return finished_work();
      };
    const auto earlier = std::exchange(held_, nullptr);
    WorkPtr work;
    if (reorders) {
      work = held_ = std::make_shared<HeldCall>(std::move(action));
    } else {
      work = action();
    }
    if (earlier) earlier->make();
    return work;
  }

  void make_held() noexcept {
    if (const auto held = std::exchange(held_, nullptr)) held->make();
  }

  const std::shared_ptr<Collective> inner_;
  const std::shared_ptr<Plan> plan_;
  std::shared_ptr<HeldCall> held_;
};

}  // namespace

std::shared_ptr<Collective> with_faults(std::shared_ptr<Collective> inner,
                                        std::vector<Fault> faults) {
  return std::make_shared<Faulty>(std::move(inner), std::make_shared<Plan>(std::move(faults)));
}

}  // namespace zero::testing
