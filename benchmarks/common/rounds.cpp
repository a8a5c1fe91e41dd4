#include "rounds.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace zero::checkpoint::benchmark {
namespace {

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Time time_of(const Contender& contender) {
  if (contender.prepare) contender.prepare();
  const double cpu = thread_seconds();
  const auto start = std::chrono::steady_clock::now();
  contender.timed();
  const auto end = std::chrono::steady_clock::now();
  const Time time{std::chrono::duration<double>(end - start).count(), thread_seconds() - cpu};
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

}  // namespace zero::checkpoint::benchmark
