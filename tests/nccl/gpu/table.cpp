#include "tests/nccl/gpu/table.h"

#include <cstdio>

namespace zero::gpu_check {

void Table::add(const std::string& what, double bytes, double seconds, std::optional<bool> right) {
  if (right == false) ++wrong_;
  const char* const verdict = !right ? "not compared" : *right ? "same bits" : "DIFFERS";
  if (bytes > 0 && seconds > 0) {
    std::printf("| %s | %.1f GB/s | %s |\n", what.c_str(), bytes / seconds * 1e-9, verdict);
  } else {
    std::printf("| %s | | %s |\n", what.c_str(), verdict);
  }
  std::fflush(stdout);
}

void Table::heading(const std::string& text) const {
  std::printf("\n%s\n\n| what | rate | beside the CPU |\n| --- | --- | --- |\n", text.c_str());
}

}  // namespace zero::gpu_check
