#pragma once

/// Learning rates over a training, as factors of a peak. No LibTorch in here.

#include <cstdint>
#include <functional>

namespace zero {

/// A rule that gives each update its factor. Updates are counted from 1 and are those that were
/// applied: a step that an overflow skipped counts for nothing. The last update of a schedule of n
/// updates has the end's factor, and so have all later ones; the start's would be update 0's, which
/// is none. (PyTorch's schedulers, which are stepped after the first update, give it update 0's.)
///
///   const auto schedule = zero::Schedule::cosine(9000, 0.1).warmup(1000);
///
/// Sources: cosine, Loshchilov & Hutter 2017 (arXiv 1608.03983), equation 5; inverse_sqrt, Vaswani
/// et al. 2017 (arXiv 1706.03762), equation 3; one_cycle, Smith & Topin 2018 (arXiv 1708.07120), in
/// the form of PyTorch's OneCycleLR with two phases; stable_decay, Hu et al. 2024 (arXiv
/// 2404.06395), its 1 - sqrt, Hägele et al. 2024 (arXiv 2405.18392); warmup, Goyal et al. 2017
/// (arXiv 1706.02677).
///
/// All throw ContractError naming the argument that is out of range: numbers of updates below 1,
/// factors that are negative or not finite. Immutable: any number of threads may read one.
class Schedule {
 public:
  /// 1.
  static Schedule constant();
  /// From 1 to `end` in a straight line: 1 + (end - 1) * u / updates.
  static Schedule linear(std::int64_t updates, double end = 0);
  /// end + (1 - end) * (1 + cos(pi * u / updates)) / 2.
  static Schedule cosine(std::int64_t updates, double end = 0);
  /// end + (1 - end) * (1 - u / updates)^power; power above 0.
  static Schedule polynomial(std::int64_t updates, double power, double end = 0);
  /// sqrt(scale / (scale + u)), without an end. After warmup(scale) this is sqrt(scale / update).
  static Schedule inverse_sqrt(std::int64_t scale);

  struct OneCycle {
    double rise = 0.3;        ///< Part of the updates that rise: above 0 and below 1.
    double start = 1 / 25.0;  ///< Factor of update 0.
    double end = 1 / 250'000.0;
  };
  /// Half a cosine from `start` up to 1, which the update nearest to rise * updates has, and half a
  /// cosine down to `end`. Needs 2 updates.
  static Schedule one_cycle(std::int64_t updates, const OneCycle& shape);
  /// Of the default shape, which is PyTorch's.
  static Schedule one_cycle(std::int64_t updates) { return one_cycle(updates, OneCycle()); }

  enum class Decay {
    kLinear,        ///< 1 - x, where x goes from 0 to 1.
    kCosine,        ///< (1 + cos(pi * x)) / 2.
    kOneMinusSqrt,  ///< 1 - sqrt(x).
  };
  /// 1 for `stable` updates (0 or more), then in `decay` updates down to `end`; the same as
  /// constant().then(stable, ...). With warmup() it is what is called warm-up-stable-decay.
  static Schedule stable_decay(std::int64_t stable, std::int64_t decay, double end = 0,
                               Decay shape = Decay::kLinear);

  /// `updates` (0: none) in a straight line from `start` to 1, start + (1 - start) * u / updates;
  /// then this schedule from its beginning.
  Schedule warmup(std::int64_t updates, double start = 0) const;

  /// The first `updates` (0 or more) of this schedule, then `next` from its beginning.
  Schedule then(std::int64_t updates, const Schedule& next) const;

  /// Every factor multiplied.
  Schedule times(double factor) const;

  /// Of update `update`. Throws ContractError below 1.
  double factor(std::int64_t update) const;

 private:
  using Rule = std::function<double(std::int64_t update)>;
  explicit Schedule(Rule rule);
  Rule rule_;
};

}  // namespace zero
