#include "libzero/train/device.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace zero {

bool cpu_has_bfloat16() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__)
  constexpr unsigned long kHwcap2Bf16 = 1ul << 14;  // HWCAP2_BF16 of the Linux kernel
  return (getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
#else
  return false;
#endif
}

}  // namespace zero
