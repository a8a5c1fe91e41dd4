// ZERO_FUZZ_TARGET names the function of fuzz_targets.h that libFuzzer calls.

#include <cstddef>

#include "fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zero::checkpoint::torture::ZERO_FUZZ_TARGET({data, size});
  return 0;
}
