#include "libzero/optim/pinned_memory.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "libzero/base/error.h"

namespace zero {

at::Tensor pinned_tensor(at::IntArrayRef sizes, at::ScalarType dtype, std::string_view what) {
  try {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(true));
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    const auto bytes =
        c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
    throw Error(
        "device: there is no room for pinned host memory; make the model smaller, start fewer "
        "ranks on this host, or let processes lock more memory (ulimit -l, a container's limits): "
        "wanted " +
        std::to_string(bytes) + " bytes for " + std::string(what) + ": " +
        reason.substr(0, reason.find('\n')));
  }
}

void keep_for_good(std::vector<at::Tensor> memory) noexcept {
  try {
    // Never destroyed: a device that wakes up late may still write there as the program ends.
    static std::mutex& mutex = *new std::mutex;
    static auto& kept = *new std::vector<std::vector<at::Tensor>>;
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(memory));
  } catch (const std::exception&) {  // not even room to remember it: it goes with its owner
  }
}

}  // namespace zero
