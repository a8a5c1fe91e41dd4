#include "benchmarks/common/rounds.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

namespace zero::benchmark {
namespace {

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// While it lives, no ordinary program takes this thread's core, where the system allows that: a
/// sample of some milliseconds is then a sample of what it measures.
class Undisturbed {
 public:
  Undisturbed() { schedule(SCHED_FIFO, 1); }
  ~Undisturbed() { schedule(SCHED_OTHER, 0); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  static void schedule(int policy, int priority) {
    sched_param parameters{};
    parameters.sched_priority = priority;
    // Refused to ordinary users; then the sample is as disturbed as anybody's.
    static_cast<void>(::sched_setscheduler(0, policy, &parameters));
  }
};

Time time_of(const Contender& contender) {
  if (contender.prepare) contender.prepare();
  std::optional<Undisturbed> undisturbed;
  if (contender.short_and_busy) undisturbed.emplace();
  const double cpu = thread_seconds();
  const auto start = std::chrono::steady_clock::now();
  contender.timed();
  const auto end = std::chrono::steady_clock::now();
  const Time time{std::chrono::duration<double>(end - start).count(), thread_seconds() - cpu};
  undisturbed.reset();
  if (contender.clean_up) contender.clean_up();
  return time;
}

std::vector<double> walls_of(const std::vector<Time>& times) {
  std::vector<double> walls;
  for (const Time& time : times) walls.push_back(time.wall);
  return walls;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_wall(const std::vector<Time>& times) {
  return median(walls_of(times));
}

double Result::median_ratio(double Time::*which) const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i)
    ratios.push_back((ours[i].*which) / (plain[i].*which));
  return median(ratios);
}

double Result::ratio_of_minima() const {
  const auto least = [](const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  };
  return least(walls_of(ours)) / least(walls_of(plain));
}

Result compare(const Comparison& comparison, int rounds) {
  Result result{comparison.id, comparison.what, comparison.limit, {}, {}};
  time_of(comparison.plain);
  time_of(comparison.ours);
  for (int round = 0; round < rounds; ++round) {
    Time ours, plain;
    if (round % 2 == 0) {
      plain = time_of(comparison.plain);
      ours = time_of(comparison.ours);
    } else {
      ours = time_of(comparison.ours);
      plain = time_of(comparison.plain);
    }
    result.ours.push_back(ours);
    result.plain.push_back(plain);
  }
  return result;
}

}  // namespace zero::benchmark
