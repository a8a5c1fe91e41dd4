#include "tests/gpu_check/fake_machine.h"

#include <torch/torch.h>

#include <algorithm>

#include "libzero/base/error.h"
#include "libzero/optim/options.h"
#include "tests/accelerator/device.h"
#include "tests/gpu_check/fake_faults.h"
#include "tests/gpu_check/fake_memory.h"
#include "tests/nccl/fake/weather.h"

namespace zero::gpu_check {
namespace {

class FakeMachine final : public Machine {
 public:
  explicit FakeMachine(const std::vector<std::string>& faults)
      : faults_(faults), apis_(faulty_apis(faults)) {
    nccl_test::Weather::now().reset(false);
    count_fake_memory(has("forgotten-memory"));
    if (has("no-gpu")) throw Unavailable("The fake machine has no GPU");
  }

  std::string description() const override { return "fake"; }
  std::shared_ptr<const nccl::Apis> apis() const override { return apis_; }
  c10::Device device(int index) const override { return accelerator_test::device(index); }
  int devices() const override { return accelerator_test::kDevices; }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 40; }
  Options options() const override {
    Options options;
    options.device_kernels({apis_, &apis_->kernels});
    if (has("on-host")) options.offload(Offload::kHost);
    if (has("stage")) options.stage(1);
    if (has("small-scale")) options.loss_scaler().initial_scale = 1;
    if (has("large-scale")) options.loss_scaler().initial_scale = 0x1p60;
    return options;
  }
  std::unique_ptr<checkpoint::Store> store() const override {
    return make_kept_store(has("damaged-store"));
  }
  /// LibTorch moves modules by Tensor::set_data(), which refuses this kind of device.
  void move(torch::nn::Module& module) const override {
    const at::NoGradGuard no_grad;
    for (at::Tensor& tensor : module.parameters())
      tensor.unsafeGetTensorImpl()->shallow_copy_from(
          tensor.detach().to(device(0)).getIntrusivePtr());
  }

 private:
  bool has(const std::string& fault) const {
    return std::find(faults_.begin(), faults_.end(), fault) != faults_.end();
  }

  const std::vector<std::string> faults_;
  std::shared_ptr<const nccl::Apis> apis_;
};

}  // namespace

MachinePtr make_fake_machine(const std::vector<std::string>& faults) {
  return std::make_unique<FakeMachine>(faults);
}

}  // namespace zero::gpu_check
