#include <iostream>

#include "backends/connect.h"
#include "libzero/base/error.h"

// A rank that needs a plug-in: says where it was looked for if there is none.
int main() {
  try {
    const auto comm = zero::connect();
    std::cout << "backend " << comm->backend() << '\n';
    comm->shutdown();
    return 0;
  } catch (const zero::Unavailable& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
}
