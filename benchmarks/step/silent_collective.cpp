#include "silent_collective.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "libzero/collective/ordered_sum.h"

namespace zero::benchmark {
namespace {

// Votes and other small messages decide what ranks do: they must arrive.
constexpr std::int64_t kBulkBytes = 16 << 10;

class SilentCollective final : public Collective {
 public:
  explicit SilentCollective(std::shared_ptr<Collective> inner) : inner_(std::move(inner)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  std::string_view backend() const noexcept override { return inner_->backend(); }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    const auto* own =
        static_cast<const std::byte*>(in.data) + rank() * out.count * size_of(in.dtype);
    const void* const part = own;
    ordered_sum({&part, 1}, in.dtype, static_cast<float*>(out.data), out.count, options.accumulate,
                options.epilogue, 0, options.block_squares);
    return finished_work();
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override {
    const std::int64_t bytes = in.count * size_of(in.dtype);
    if (bytes <= kBulkBytes) return inner_->all_gather(in, out, label);
    // What lies there from before is no parameter, and a model of such numbers would be slow.
    for (int r = 0; r < size(); ++r) {
      if (r != rank())
        std::memcpy(static_cast<std::byte*>(out.data) + r * bytes, in.data,
                    static_cast<std::size_t>(bytes));
    }
    return finished_work();
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override {
    return inner_->all_reduce(data, op, label);
  }
  WorkPtr broadcast(Buffer data, int root, std::string_view label) override {
    return inner_->broadcast(data, root, label);
  }
  WorkPtr barrier(std::string_view label) override { return inner_->barrier(label); }
  using Collective::split;
  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override {
    auto child = inner_->split(color, key, patience);
    return child ? silent(std::move(child)) : nullptr;
  }
  void abort(std::string_view why) noexcept override { inner_->abort(why); }
  void shutdown() override { inner_->shutdown(); }

 private:
  const std::shared_ptr<Collective> inner_;
};

}  // namespace

std::shared_ptr<Collective> silent(std::shared_ptr<Collective> inner) {
  return std::make_shared<SilentCollective>(std::move(inner));
}

}  // namespace zero::benchmark
