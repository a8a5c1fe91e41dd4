#include "rounds.h"

#include <algorithm>
#include <chrono>

namespace zero::checkpoint::benchmark {
namespace {

double seconds_of(const Contender& contender) {
  if (contender.prepare) contender.prepare();
  const auto start = std::chrono::steady_clock::now();
  contender.timed();
  const auto end = std::chrono::steady_clock::now();
  if (contender.clean_up) contender.clean_up();
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Result::value() const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / plain[i]);
  return median(ratios);
}

double Result::ratio_of_minima() const {
  return *std::min_element(ours.begin(), ours.end()) /
         *std::min_element(plain.begin(), plain.end());
}

Result compare(const Comparison& comparison, int rounds) {
  Result result{comparison.id, comparison.what, comparison.limit, {}, {}};
  seconds_of(comparison.plain);
  seconds_of(comparison.ours);
  for (int round = 0; round < rounds; ++round) {
    double ours = 0, plain = 0;
    if (round % 2 == 0) {
      plain = seconds_of(comparison.plain);
      ours = seconds_of(comparison.ours);
    } else {
      ours = seconds_of(comparison.ours);
      plain = seconds_of(comparison.plain);
    }
    result.ours.push_back(ours);
    result.plain.push_back(plain);
  }
  return result;
}

}  // namespace zero::checkpoint::benchmark
