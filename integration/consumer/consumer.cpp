#include <iostream>

#include "libzero/base/dtype.h"
#include "libzero/base/error.h"
#include "libzero/layout/layout.h"

// Uses the headers and a symbol of the library; says nothing when all is well.
int main() {
  if (zero::size_of(zero::DType::kBFloat16) != 2) return 1;
  try {
    zero::size_of(static_cast<zero::DType>(200));
  } catch (const zero::ContractError&) {
    return 0;
  }
  std::cerr << "an unknown dtype was not refused\n";
  return 1;
}
