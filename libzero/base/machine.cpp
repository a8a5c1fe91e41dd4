#include "libzero/base/machine.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace zero {

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace zero
