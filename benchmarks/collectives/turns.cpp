#include "benchmarks/collectives/turns.h"

#include <algorithm>
#include <chrono>

#include "benchmarks/common/rounds.h"

namespace zero::benchmark::collectives {
namespace {

using Clock = std::chrono::steady_clock;

double time_of(const Contender& contender, Collective& comm) {
  comm.barrier("ready")->wait();
  const auto start = Clock::now();
  contender.call();
  std::int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  comm.all_reduce({&nanoseconds, 1, DType::kInt64}, ReduceOp::kMax, "slowest rank")->wait();
  return 1e-9 * static_cast<double>(nanoseconds);
}

}  // namespace

Times run_rounds(const Race& race, Collective& comm, int rounds) {
  const std::size_t count = race.contenders.size();
  Times times(count);
  for (const Contender& contender : race.contenders) time_of(contender, comm);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % count;
      times[turn].push_back(time_of(race.contenders[turn], comm));
    }
  }
  return times;
}

double median_ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  return median(ratios);
}

}  // namespace zero::benchmark::collectives
