#include <cstdio>
#include <cstdlib>

#include "fuzz_targets.h"

namespace zero::checkpoint::torture {

void broken(std::string_view promise) {
  std::fprintf(stderr, "a promise is broken: %.*s\n", static_cast<int>(promise.size()),
               promise.data());
  std::abort();
}

}  // namespace zero::checkpoint::torture
