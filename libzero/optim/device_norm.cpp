#include "libzero/optim/device_norm.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>

#include "libzero/kernels/exact_digits.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {
namespace {

constexpr std::int64_t kWords = kExactWords + 1;  // the last one counts what is not finite

}  // namespace

DeviceNorm::DeviceNorm(DeviceLane& lane, std::size_t sums)
    : lane_(lane),
      words_(lane.allocate(static_cast<std::int64_t>(sums) * kWords * 8).view(at::kLong)),
      words_on_host_(pinned_tensor(words_.sizes(), at::kLong, "the norm of the gradients")),
      sums_(sums) {}

void DeviceNorm::begin() {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  words_.zero_();
}

void DeviceNorm::add(std::size_t sum, const at::Tensor& blocks) {
  if (blocks.numel() == 0) return;
  const c10::StreamGuard on_stream(lane_.stream());
  const cuda::SumExactly args{
      blocks.const_data_ptr<double>(), blocks.numel(),
      words_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(sum) * kWords};
  lane_.check(lane_.kernels().sum_exactly(&args, lane_.native()), "sum_exactly");
}

const std::vector<GroupSquares>& DeviceNorm::end() {
  const at::NoGradGuard no_grad;
  {
    const c10::StreamGuard on_stream(lane_.stream());
    words_on_host_.copy_(words_, /*non_blocking=*/true);
  }
  lane_.synchronize("the norm of the gradients");
  const std::int64_t* words = words_on_host_.const_data_ptr<std::int64_t>();
  for (GroupSquares& sum : sums_) {
    sum = GroupSquares();
    sum.finite = words[kExactWords] == 0;
    if (sum.finite) sum.sum.merge({words, static_cast<std::size_t>(kExactWords)});
    words += kWords;
  }
  return sums_;
}

}  // namespace zero
