#include "libzero/optim/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <string_view>

#include "libzero/base/fnv.h"

namespace zero {
namespace {

using checkpoint::Blob;

Blob blob_of(const at::Tensor& state) {
  const auto* const begin = static_cast<const std::byte*>(state.const_data_ptr());
  return {begin, begin + state.nbytes()};
}

at::Tensor tensor_of(const Blob& state) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(state.size())}, at::kByte);
  if (!state.empty()) std::memcpy(tensor.mutable_data_ptr(), state.data(), state.size());
  return tensor;
}

/// A generator like the default one that nobody else draws from.
at::Generator generator_for_trial(c10::Device device) {
  if (device.is_cpu()) return at::detail::createCPUGenerator();
  at::Generator generator = default_generator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.clone();
}

}  // namespace

at::Generator default_generator(c10::Device device) {
  if (device.is_cpu()) return at::detail::getDefaultCPUGenerator();
  return at::globalContext().defaultGenerator(device);
}

std::string random_key(c10::DeviceType type) {
  return "random." + c10::DeviceTypeName(type, /*lower_case=*/true);
}

Blob random_state(c10::Device device) {
  at::Generator generator = default_generator(device);
  const std::lock_guard lock(generator.mutex());
  return blob_of(generator.get_state());
}

std::string problem_of_random_state(const Blob& state, c10::Device device) {
  at::Generator generator = generator_for_trial(device);
  try {
    generator.set_state(tensor_of(state));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return "the random state is none of this version of LibTorch's: blob " +
           random_key(device.type()) + " of " + std::to_string(state.size()) +
           " bytes: " + text.substr(0, text.find('\n'));
  }
  return "";
}

void set_random_state(const Blob& state, c10::Device device) {
  at::Generator generator = default_generator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(tensor_of(state));
}

Blob derived_random_state(const Blob& of_another, int rank, std::int64_t step, c10::Device device) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(of_another.data()), of_another.size()));
  hash.add(static_cast<std::int64_t>(rank));
  hash.add(step);
  at::Generator generator = generator_for_trial(device);
  generator.set_current_seed(hash.value());
  return blob_of(generator.get_state());
}

}  // namespace zero
