#include "libzero/base/error.h"

namespace zero {

void throw_contract_error(const std::string& message) {
  throw ContractError(message);
}

}  // namespace zero
