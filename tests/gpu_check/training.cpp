#include "tests/gpu_check/training.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include "libzero/collective/self.h"

namespace zero::gpu_check {
namespace {

/// Hands out what it was given. A gradient that stays somebody else's is copied by whoever takes
/// it.
class Given final : public torch::autograd::Node {
 public:
  explicit Given(std::vector<at::Tensor> gradients) : gradients_(std::move(gradients)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& of_loss) override {
    const at::NoGradGuard no_grad;
    torch::autograd::variable_list result;
    for (const at::Tensor& gradient : gradients_) {
      const bool is_scaled = gradient.scalar_type() == at::kHalf;
      result.push_back(is_scaled ? gradient * of_loss[0].to(at::kHalf) : gradient);
    }
    return result;
  }

 private:
  std::vector<at::Tensor> gradients_;
};

/// A wave along the elements, none of them zero; each number has its own.
at::Tensor wave(at::IntArrayRef shape, double number, double amplitude) {
  const std::int64_t count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(1, count + 1, torch::kFloat) * (0.37 + 0.01 * number))
      .mul_(amplitude)
      .view(shape);
}

}  // namespace

void synchronize(c10::Device device) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::vector<std::vector<std::int64_t>> shapes_of(std::int64_t count) {
  const std::int64_t width = count >= 100'000'000 ? 2048 : count >= 2'000'000 ? 512 : 64;
  const std::int64_t of_block = 12 * width * width + 13 * width;
  const std::int64_t blocks = std::max<std::int64_t>(1, (count + of_block / 2) / of_block);
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::vector<std::vector<std::int64_t>> block = {
        {width}, {width}, {3 * width, width}, {3 * width}, {width, width},     {width},
        {width}, {width}, {4 * width, width}, {4 * width}, {width, 4 * width}, {width}};
    shapes.insert(shapes.end(), block.begin(), block.end());
  }
  return shapes;
}

std::vector<NamedTensor> parameters_of(const std::vector<std::vector<std::int64_t>>& shapes,
                                       c10::ScalarType dtype, c10::Device device) {
  std::vector<NamedTensor> parameters;
  for (const auto& shape : shapes) {
    const auto number = static_cast<double>(parameters.size());
    const at::Tensor value = wave(shape, 0.3 + number, 0.05).to(dtype).to(device);
    parameters.push_back({std::to_string(parameters.size()), value.detach().requires_grad_()});
  }
  return parameters;
}

std::int64_t numel_of(const std::vector<NamedTensor>& parameters) {
  std::int64_t count = 0;
  for (const NamedTensor& parameter : parameters) count += parameter.tensor.numel();
  return count;
}

std::vector<at::Tensor> gradients_of(const std::vector<NamedTensor>& parameters,
                                     std::int64_t seed) {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : parameters) {
    const auto number = static_cast<double>(gradients.size()) + 0.1 * static_cast<double>(seed);
    gradients.push_back(wave(parameter.tensor.sizes(), number, 0x1p-6)
                            .to(parameter.tensor.scalar_type())
                            .to(parameter.tensor.device()));
  }
  return gradients;
}

at::Tensor loss_with(const std::vector<NamedTensor>& parameters,
                     const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> inputs;
  for (const NamedTensor& parameter : parameters) inputs.push_back(parameter.tensor);
  const auto node = std::make_shared<Given>(gradients);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  at::Tensor loss =
      torch::ones({}, at::TensorOptions().dtype(at::kFloat).device(inputs.front().device()));
  torch::autograd::set_history(loss, node);
  return loss;
}

std::vector<at::Tensor> copies_of(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const NamedTensor& parameter : parameters)
    copies.push_back(parameter.tensor.detach().to(at::kCPU).clone());
  return copies;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() != b[i].dtype() || !a[i].is_contiguous() || !b[i].is_contiguous() ||
        a[i].nbytes() != b[i].nbytes() ||
        std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(), a[i].nbytes()) != 0)
      return false;
  }
  return true;
}

std::shared_ptr<Collective> alone() {
  return make_self();
}

}  // namespace zero::gpu_check
