#include "libzero/optim/loss_box.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "libzero/optim/device_wait.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {

LossBox::Slot& LossBox::next_slot(c10::Device device) {
  if (used_ == slots_.size()) {
    slots_.push_back({0, pinned_tensor({1}, at::kDouble, "a loss"), c10::Event(device.type())});
  }
  return slots_[used_];
}

void LossBox::put(std::size_t call, const at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  Slot& slot = next_slot(loss.device());
  slot.call = call;
  slot.value.copy_(loss.detach().to(at::kDouble).view({1}), /*non_blocking=*/true);
  slot.arrived.record(c10::impl::VirtualGuardImpl(loss.device().type()).getStream(loss.device()));
  ++used_;
}

void LossBox::take(std::vector<BackwardCall>& calls) {
  for (std::size_t i = 0; i < used_; ++i) {
    const Slot& slot = slots_[i];
    wait_for(slot.arrived, limit_, "a loss to be known");
    calls[slot.call].loss = *slot.value.const_data_ptr<double>();
  }
  used_ = 0;
}

}  // namespace zero
