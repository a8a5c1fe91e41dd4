#pragma once

/// Runs something on each instruction set that this program has and this machine knows.

#include <hwy/highway.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

/// While it lives, the kernels run on `target` alone.
class OnInstructionSet {
 public:
  explicit OnInstructionSet(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~OnInstructionSet() { hwy::SetSupportedTargetsForTest(0); }
  OnInstructionSet(const OnInstructionSet&) = delete;
  OnInstructionSet& operator=(const OnInstructionSet&) = delete;
};

/// Best first; the last is plain C++.
inline std::vector<std::int64_t> instruction_sets() {
  return hwy::SupportedAndGeneratedTargets();
}

}  // namespace zero
