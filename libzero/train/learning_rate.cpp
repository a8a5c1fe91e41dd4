#include "libzero/train/learning_rate.h"

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr const char* kApplied = "schedule.applied";

std::string peak_key(std::size_t group) {
  return "schedule.peak." + std::to_string(group);
}

std::int64_t counter(const TrainerState& trainer, const std::string& key) {
  const auto found = trainer.counters.find(key);
  ZERO_REQUIRE(found != trainer.counters.end(),
               "LearningRate: the checkpoint has no such counter; it was saved without "
               "LearningRate::save() or with fewer groups: " +
                   key);
  return found->second;
}

}  // namespace

LearningRate::LearningRate(torch::optim::Optimizer& optimizer, const Schedule& schedule)
    : LearningRate(optimizer, std::vector(optimizer.param_groups().size(), schedule)) {}

LearningRate::LearningRate(torch::optim::Optimizer& optimizer, std::vector<Schedule> schedules)
    : optimizer_(optimizer), schedules_(std::move(schedules)) {
  ZERO_REQUIRE(schedules_.size() == optimizer_.param_groups().size(),
               "LearningRate: pass one schedule, or one for each parameter group: " +
                   std::to_string(schedules_.size()) + " schedules, " +
                   std::to_string(optimizer_.param_groups().size()) + " groups");
  for (const auto& group : optimizer_.param_groups()) peaks_.push_back(group.options().get_lr());
  go_to(0);
}

void LearningRate::step() {
  go_to(applied_ + 1);
}

void LearningRate::go_to(std::int64_t updates) {
  ZERO_REQUIRE(updates >= 0,
               "LearningRate: updates must not be negative: " + std::to_string(updates));
  ZERO_REQUIRE(optimizer_.param_groups().size() == peaks_.size(),
               "LearningRate: the optimizer's groups are others than at construction; make a new "
               "one: " +
                   std::to_string(optimizer_.param_groups().size()) + " groups, were " +
                   std::to_string(peaks_.size()));
  applied_ = updates;
  const std::vector<double> next = rates();
  for (std::size_t group = 0; group < next.size(); ++group)
    optimizer_.param_groups()[group].options().set_lr(next[group]);
}

std::vector<double> LearningRate::rates() const {
  std::vector<double> result;
  for (std::size_t group = 0; group < peaks_.size(); ++group)
    result.push_back(peaks_[group] * schedules_[group].factor(applied_ + 1));
  return result;
}

void LearningRate::save(TrainerState& trainer) const {
  trainer.counters[kApplied] = applied_;
  for (std::size_t group = 0; group < peaks_.size(); ++group)
    trainer.counters[peak_key(group)] = std::bit_cast<std::int64_t>(peaks_[group]);
}

void LearningRate::load(const TrainerState& trainer) {
  const std::int64_t applied = counter(trainer, kApplied);
  ZERO_REQUIRE(applied >= 0,
               "LearningRate: the checkpoint's counter schedule.applied must not be "
               "negative: " +
                   std::to_string(applied));
  std::vector<double> peaks;
  for (std::size_t group = 0; group < peaks_.size(); ++group) {
    peaks.push_back(std::bit_cast<double>(counter(trainer, peak_key(group))));
    ZERO_REQUIRE(std::isfinite(peaks.back()) && peaks.back() >= 0,
                 "LearningRate: the checkpoint's counter is no learning rate: " + peak_key(group));
  }
  ZERO_REQUIRE(!trainer.counters.contains(peak_key(peaks_.size())),
               "LearningRate: the checkpoint has more parameter groups than the optimizer, which "
               "has " +
                   std::to_string(peaks_.size()));
  peaks_ = std::move(peaks);
  go_to(applied);
}

}  // namespace zero
