#include "libzero/collective/testing/faults.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>

namespace zero::testing {
namespace {

/// The faults of a world and its subgroups.
struct Plan {
  std::vector<Fault> faults;
  std::atomic<std::int64_t> calls = 0;
};

bool strikes(const Fault& fault, std::int64_t call, std::string_view label) {
  return (fault.call == 0 || fault.call == call) && label.find(fault.label) != label.npos;
}

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

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    const std::string label = options.label;
    return call(label, out, [&] { return inner_->reduce_scatter(in, out, std::move(options)); });
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override {
    return call(label, out, [&] { return inner_->all_gather(in, out, label); });
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override {
    return call(label, data, [&] { return inner_->all_reduce(data, op, label); });
  }

  WorkPtr broadcast(Buffer data, int root, std::string_view label) override {
    return call(label, data, [&] { return inner_->broadcast(data, root, label); });
  }

  WorkPtr barrier(std::string_view label) override {
    return call(label, {}, [&] { return inner_->barrier(label); });
  }

  std::shared_ptr<Collective> split(int color, int key) override {
    auto child = inner_->split(color, key);
    if (!child) return nullptr;
    return std::make_shared<Faulty>(std::move(child), plan_);
  }

  void abort(std::string_view why) noexcept override { inner_->abort(why); }
  void shutdown() override { inner_->shutdown(); }

 private:
  template <typename Action>
  WorkPtr call(std::string_view label, const Buffer& result, Action action) {
    const std::int64_t number = ++plan_->calls;
    bool corrupts = false;
    for (const Fault& fault : plan_->faults) {
      if (!strikes(fault, number, label)) continue;
      if (fault.kind == Fault::Kind::kDelay) std::this_thread::sleep_for(fault.delay);
      if (fault.kind == Fault::Kind::kFail) inner_->abort(fault.reason);
      if (fault.kind == Fault::Kind::kCorrupt) corrupts = true;
    }
    WorkPtr work = action();
    if (!corrupts) return work;
    work->wait();
    corrupt(result);
    return finished_work();
  }

  const std::shared_ptr<Collective> inner_;
  const std::shared_ptr<Plan> plan_;
};

}  // namespace

std::shared_ptr<Collective> with_faults(std::shared_ptr<Collective> inner,
                                        std::vector<Fault> faults) {
  auto plan = std::make_shared<Plan>();
  plan->faults = std::move(faults);
  return std::make_shared<Faulty>(std::move(inner), std::move(plan));
}

}  // namespace zero::testing
