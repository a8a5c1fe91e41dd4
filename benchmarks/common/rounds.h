#pragma once

/// Two ways to do the same, timed in turns.

#include <functional>
#include <string>
#include <vector>

namespace zero::benchmark {

/// One way. What is not `timed` may take as long as it likes.
struct Contender {
  std::function<void()> prepare;  ///< May be empty.
  std::function<void()> timed;
  std::function<void()> clean_up;  ///< May be empty.
  /// It takes less than a tenth of a second and does not wait: other programs can be kept away.
  bool short_and_busy = false;
};

struct Comparison {
  std::string id;
  std::string what;
  double limit = 0;  ///< Of the ratio; 0: none.
  Contender ours;
  Contender plain;
};

/// Of one round.
struct Time {
  double wall = 0;  ///< Seconds.
  double cpu = 0;   ///< Seconds that the calling thread ran; other threads' work is not in it.
};

struct Result {
  std::string id;
  std::string what;
  double limit = 0;
  std::vector<Time> ours;   ///< By round.
  std::vector<Time> plain;  ///< By round.

  /// The median of the rounds' ratios ours / plain of wall time.
  double value() const { return median_ratio(&Time::wall); }
  /// What the value would be if no other program took the cores away, nor a disk the time.
  double cpu_ratio() const { return median_ratio(&Time::cpu); }
  /// Of wall times.
  double ratio_of_minima() const;
  bool pass() const { return limit == 0 || value() <= limit; }

 private:
  double median_ratio(double Time::*which) const;
};

double median(std::vector<double> values);
/// In seconds of wall time.
double median_wall(const std::vector<Time>& times);

/// One round without a record, then `rounds`; who comes first changes from round to round.
Result compare(const Comparison& comparison, int rounds);

}  // namespace zero::benchmark
