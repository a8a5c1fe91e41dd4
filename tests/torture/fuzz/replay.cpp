// Runs what fuzzing has found interesting, in any build: FOLDER/<target>/<input>. Says how many.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz_targets.h"

namespace zero::checkpoint::torture {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, void (*)(Input)> kTargets = {{"names", fuzz_names},
                                                         {"manifest", fuzz_manifest},
                                                         {"receipt", fuzz_receipt},
                                                         {"common", fuzz_common},
                                                         {"shard", fuzz_shard},
                                                         {"directory", fuzz_directory},
                                                         {"safetensors", fuzz_safetensors}};

std::vector<std::uint8_t> content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::set<fs::path> sorted(const fs::path& folder) {
  return {fs::directory_iterator(folder), fs::directory_iterator()};
}

int replay(const fs::path& root) {
  for (const auto& [name, target] : kTargets) {
    int count = 0;
    target({});
    for (const fs::path& path : sorted(root / name)) {
      // Printed before, so that a crash names its input.
      std::printf("%s\r", path.c_str());
      std::fflush(stdout);
      target(content_of(path));
      ++count;
    }
    std::printf("%s: %d inputs\n", name.c_str(), count);
    if (count == 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace zero::checkpoint::torture

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: checkpoint_fuzz_replay FOLDER\n");
    return 2;
  }
  return zero::checkpoint::torture::replay(argv[1]);
}
