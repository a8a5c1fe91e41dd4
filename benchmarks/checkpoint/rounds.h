#pragma once

/// Two ways to do the same, timed in turns.

#include <functional>
#include <string>
#include <vector>

namespace zero::checkpoint::benchmark {

/// One way. What is not `timed` may take as long as it likes.
struct Contender {
  std::function<void()> prepare;  ///< May be empty.
  std::function<void()> timed;
  std::function<void()> clean_up;  ///< May be empty.
};

struct Comparison {
  std::string id;
  std::string what;
  double limit = 0;  ///< Of the ratio; 0: none.
  Contender ours;
  Contender plain;
};

struct Result {
  std::string id;
  std::string what;
  double limit = 0;
  std::vector<double> ours;   ///< Seconds, by round.
  std::vector<double> plain;  ///< Seconds, by round.

  /// The median of the rounds' ratios ours / plain.
  double value() const;
  double ratio_of_minima() const;
  bool pass() const { return limit == 0 || value() <= limit; }
};

double median(std::vector<double> values);

/// One round without a record, then `rounds`; who comes first changes from round to round.
Result compare(const Comparison& comparison, int rounds);

}  // namespace zero::checkpoint::benchmark
