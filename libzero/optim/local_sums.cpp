#include "libzero/optim/local_sums.h"

#include "libzero/kernels/sum.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

void LocalSums::add(std::int32_t parameter, const at::Tensor& gradient) {
  const auto p = static_cast<std::size_t>(parameter);
  if (gradient.numel() == 0) return;
  if (sums_[p].size() == 0) {
    sums_[p] = AlignedArray<float>(gradient.numel());
    bytes_ += sums_[p].bytes();
  }
  const at::Tensor dense = gradient.to(at::kCPU).contiguous();
  const void* part = dense.const_data_ptr();
  sum_parts(Parts(&part, 1), dtype_of(dense, "gradient"), sums_[p].data(), dense.numel(),
            /*accumulate=*/held_[p], nullptr);
  held_[p] = true;
}

const float* LocalSums::of(std::int32_t parameter) const {
  const auto p = static_cast<std::size_t>(parameter);
  return held_[p] ? sums_[p].data() : nullptr;
}

}  // namespace zero
