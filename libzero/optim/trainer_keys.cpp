#include "libzero/optim/trainer_keys.h"

namespace zero {
namespace {

template <typename Value>
std::string problem_of(const std::map<std::string, Value>& entries, const std::string& what) {
  for (const auto& [key, value] : entries) {
    if (!checkpoint::is_key(key)) {
      return what + " has a name that is not 1-64 of A-Z a-z 0-9 _ . -, the first no dot: '" + key +
             "'";
    }
    if (is_libzero_key(key)) return what + " has a name that belongs to libzero: '" + key + "'";
  }
  return "";
}

template <typename Value>
std::map<std::string, Value> of_trainer(const std::map<std::string, Value>& entries) {
  std::map<std::string, Value> result;
  for (const auto& [key, value] : entries) {
    if (!is_libzero_key(key)) result.emplace(key, value);
  }
  return result;
}

}  // namespace

bool is_libzero_key(std::string_view key) noexcept {
  return key == kAppliedSteps || key.starts_with("layout.") || key.starts_with("optimizer.") ||
         key.starts_with("random.");
}

std::string problem_of_keys(const TrainerState& trainer) {
  if (!trainer.run_id.empty() && !checkpoint::is_key(trainer.run_id)) {
    return "the run id is not 1-64 of A-Z a-z 0-9 _ . -, the first no dot: '" + trainer.run_id +
           "'";
  }
  std::string problem = problem_of(trainer.counters, "a counter");
  if (problem.empty()) problem = problem_of(trainer.blobs, "a blob");
  if (problem.empty()) problem = problem_of(trainer.rank_blobs, "a blob of this rank");
  return problem;
}

TrainerState trainer_part(const checkpoint::CommonState& common,
                          const std::map<std::string, checkpoint::Blob>& rank_blobs) {
  return {of_trainer(common.counters), of_trainer(common.blobs), of_trainer(rank_blobs),
          common.run_id};
}

}  // namespace zero
