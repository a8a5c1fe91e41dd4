#include <iostream>

#include "libzero/base/dtype.h"
#include "libzero/base/error.h"
#include "libzero/layout/layout.h"

// Uses headers and symbols of zero::core; says nothing when all is well.
int main() {
  const zero::Layout layout({{.name = "weight", .shape = {300, 70}}}, {});
  if (layout.slot(0).numel != 21000 || layout.shard(0, 1, 2).size() == 0) {
    std::cerr << "the layout is wrong\n";
    return 1;
  }
  try {
    zero::size_of(static_cast<zero::DType>(200));
  } catch (const zero::ContractError&) {
    return 0;
  }
  std::cerr << "an unknown dtype was not refused\n";
  return 1;
}
