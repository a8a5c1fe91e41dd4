#include "backends/gpu_standing.h"

#include <charconv>
#include <map>
#include <vector>

#include "backends/rendezvous/roll_call.h"

namespace zero {
namespace {

using rendezvous::list_ranks;
using std::chrono::milliseconds;

constexpr const char* kCount = "GPUs/count";
constexpr const char* kVerdict = "GPUs/verdict";
constexpr const char* kYes = "yes";
constexpr const char* kNo = "no: ";

std::string key_of(int rank) {
  return "GPUs/" + std::to_string(rank);
}

/// "-" on a CPU, "!" and what is missing, or the version and the GPU.
std::string text_of(const GpuStanding& standing) {
  if (!standing.trains_on_gpu) return "-";
  if (!standing.missing.empty()) return "!" + standing.missing;
  return std::to_string(standing.nccl_version) + " " + standing.gpu;
}

GpuStanding parse(const std::string& text) {
  GpuStanding standing;
  if (text == "-") return standing;
  standing.trains_on_gpu = true;
  if (text.starts_with("!")) {
    standing.missing = text.substr(1);
    return standing;
  }
  const std::size_t space = std::min(text.find(' '), text.size());
  std::from_chars(text.data(), text.data() + space, standing.nccl_version);
  standing.gpu = text.substr(space);
  return standing;
}

std::vector<GpuStanding> read_all(KeyValueStore& store, int size, milliseconds timeout) {
  std::vector<GpuStanding> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(parse(store.get(key_of(rank), timeout)));
  return all;
}

/// The first thing that stands in the way, of the lowest rank that has it; "" if nothing does.
std::string problem_of(const std::vector<GpuStanding>& all) {
  std::vector<int> on_cpu;
  std::map<std::string, int> owners;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].trains_on_gpu) on_cpu.push_back(static_cast<int>(r));
  }
  if (!on_cpu.empty()) return list_ranks(on_cpu) + " on no GPU, others on one";
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].missing.empty()) return "rank " + std::to_string(r) + ": " + all[r].missing;
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto [owner, is_new] = owners.emplace(all[r].gpu, static_cast<int>(r));
    if (!is_new) return list_ranks({owner->second, static_cast<int>(r)}) + " share one GPU";
    if (all[r].nccl_version != all[0].nccl_version) {
      return "rank 0 has NCCL " + std::to_string(all[0].nccl_version) + ", rank " +
             std::to_string(r) + " " + std::to_string(all[r].nccl_version);
    }
  }
  return {};
}

}  // namespace

void show_standing(KeyValueStore& store, int rank, const GpuStanding& standing) {
  store.set(key_of(rank), text_of(standing));
  if (standing.trains_on_gpu) store.add(kCount, 1);
}

std::optional<std::string> why_not_nccl(KeyValueStore& store, int rank, int size,
                                        milliseconds timeout) {
  if (store.add(kCount, 0) == 0) return std::nullopt;
  if (rank == 0) {
    const std::string problem = problem_of(read_all(store, size, timeout));
    store.set(kVerdict, problem.empty() ? kYes : kNo + problem);
    return problem;
  }
  const std::string verdict = store.get(kVerdict, timeout);
  return verdict == kYes ? "" : verdict.substr(std::string(kNo).size());
}

}  // namespace zero
