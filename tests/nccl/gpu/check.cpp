#include "tests/nccl/gpu/check.h"

#include <cmath>
#include <cstdio>

#include "libzero/kernels/cast.h"

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

int check(const std::shared_ptr<const nccl::Apis>& apis, const Settings& settings) {
  int runtime = 0;
  int devices = 0;
  apis->cuda.runtime_get_version(&runtime);
  apis->cuda.get_device_count(&devices);
  std::printf("CUDA runtime %d, NCCL %d, GPUs %d\n", runtime, apis->nccl_version, devices);
  Table table;
  check_kernels(apis, settings, table);
  check_ranks(apis, settings, table);
  if (table.wrong() == 0) {
    std::printf("\nAll numbers have the CPU's bits.\n");
    return 0;
  }
  std::printf("\n%d lines differ from the CPU.\n", table.wrong());
  return 1;
}

}  // namespace zero::gpu_check
