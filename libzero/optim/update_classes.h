#pragma once

/// Which parameters are stepped with the same constants: those of one group that took part in the
/// same number of steps. Without LibTorch.

#include <cstdint>
#include <span>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero {

struct UpdateClass {
  std::int32_t group = 0;
  /// Applied steps of the optimizer before the class's first: what it has of the bias corrections
  /// counts from there.
  std::int64_t begun = 0;
  friend bool operator==(const UpdateClass&, const UpdateClass&) = default;
};

struct UpdateClasses {
  std::vector<UpdateClass> all;      ///< First one for each group, of begun = 0.
  std::vector<std::int32_t> of_row;  ///< Index in `all`; frozen rows' do not matter.
};

/// `begun`: for each row. An alias has its owner's class.
UpdateClasses make_update_classes(std::span<const ParameterSpec> rows,
                                  std::span<const std::int64_t> begun, std::size_t groups);

}  // namespace zero
