#include <cmath>

#include "libzero/kernels/cast.h"
#include "tests/gpu_check/parts.h"

namespace zero::gpu_check {

std::vector<float> values(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 2 + 1;
  for (float& value : result) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = std::ldexp(static_cast<float>(state >> 40) * 0x1p-24f - 0.5f,
                       static_cast<int>((state >> 33) % 13));
  }
  return result;
}

std::vector<std::byte> as_type(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype)));
  cast_elements(values.data(), DType::kFloat32, bytes.data(), dtype,
                static_cast<std::int64_t>(values.size()));
  return bytes;
}

}  // namespace zero::gpu_check
