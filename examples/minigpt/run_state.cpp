#include "examples/minigpt/run_state.h"

#include <bit>

#include "examples/minigpt/trajectory.h"
#include "libzero/base/error.h"

namespace minigpt {
namespace {

// Counters beside the optimizer's own. The last two say what "samples_seen" counts.
constexpr const char* kSamplesSeen = "samples_seen";
constexpr const char* kSeed = "seed";
constexpr const char* kWindows = "windows";

constexpr const char* kFlags = "flags";  // a blob: what decides the run's course

}  // namespace

zero::TrainerState RunState::to_save() const {
  zero::TrainerState state;
  state.run_id = run_id_;
  state.counters = {{kSamplesSeen, samples_seen_},
                    {kSeed, std::bit_cast<std::int64_t>(flags_.seed)},
                    {kWindows, windows_}};
  state.blobs[kFlags] = remember_trajectory(flags_);
  return state;
}

std::set<std::string> RunState::required() {
  return {kSamplesSeen, kSeed, kWindows};
}

void RunState::go_on_from(const zero::TrainerState& saved) {
  const auto require = [&](const char* counter, std::int64_t mine, const char* flag) {
    const std::int64_t theirs = saved.counters.at(counter);
    if (theirs == mine) return;
    throw zero::ContractError(
        std::string("--resume: the checkpoint's position in the data means other samples here; "
                    "pass the flags of the run that saved it (") +
        flag + "): " + counter + " is " + std::to_string(mine) + ", was " + std::to_string(theirs));
  };
  require(kSeed, std::bit_cast<std::int64_t>(flags_.seed), "--seed");
  require(kWindows, windows_, "--data and --context");
  samples_seen_ = saved.counters.at(kSamplesSeen);
  run_id_ = saved.run_id;
}

std::string RunState::changed_flags(const zero::TrainerState& saved) const {
  const auto flags = saved.blobs.find(kFlags);
  return flags == saved.blobs.end() ? "" : changes_of_trajectory(flags->second, flags_);
}

}  // namespace minigpt
