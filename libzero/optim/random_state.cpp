#include "libzero/optim/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
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

}  // namespace

Blob random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return blob_of(generator.get_state());
}

std::string problem_of_random_state(const Blob& state) {
  try {
    at::detail::createCPUGenerator().set_state(tensor_of(state));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return "the random state is none of this version of LibTorch's: " +
           text.substr(0, text.find('\n'));
  }
  return "";
}

void set_random_state(const Blob& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(tensor_of(state));
}

Blob derived_random_state(const Blob& of_rank_0, int rank, std::int64_t step) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(of_rank_0.data()), of_rank_0.size()));
  hash.add(static_cast<std::int64_t>(rank));
  hash.add(step);
  return blob_of(at::detail::createCPUGenerator(hash.value()).get_state());
}

}  // namespace zero
