#pragma once

/// Timelines of steps that never happened.

#include <cstdint>
#include <string>

#include "libzero/observe/timeline.h"

namespace zero::testing {

inline OptimizerFacts two_buckets(int rank, int world_size, int stage = 2) {
  return {rank,
          world_size,
          stage,
          "threads",
          {{"bucket 0 (b .. a)", DType::kFloat32, DType::kBFloat16, 100},
           {"bucket 1 (\"c\" .. c)", DType::kFloat32, DType::kBFloat16, 50}}};
}

/// One step that begins at `begin`: the rank comes to its collectives `late` after the others.
inline void feed_step(Observer& observer, Nanoseconds begin, Nanoseconds late = 0) {
  const auto training = Lane::kTraining, communication = Lane::kCommunication;
  const auto at = [begin](Nanoseconds t) { return begin + t; };
  observer.observe({Activity::kForward, training, -1, 0, at(0), at(1000 + late)});
  observer.observe({Activity::kReduce, communication, 0, 800, at(2000 + late), at(3000)});
  observer.observe({Activity::kBackward, training, -1, 0, at(1000 + late), at(4000)});
  observer.observe({Activity::kReduce, communication, 1, 400, at(4000 + late), at(5000)});
  observer.observe({Activity::kReduceWait, training, -1, 0, at(4100), at(5000)});
  observer.observe({Activity::kVote, training, -1, 64, at(5000 + late), at(5500)});
  observer.observe({Activity::kUpdate, training, 0, 0, at(5500), at(6500)});
  observer.observe({Activity::kGather, communication, 0, 400, at(6500), at(7500)});
  observer.observe({Activity::kUpdate, training, 1, 0, at(6500), at(7000)});
  observer.observe({Activity::kGatherWait, training, -1, 0, at(7000), at(7500)});
  observer.observe({Activity::kStep, training, -1, 0, at(4100), at(7600)});
  StepResult result;
  result.applied = true;
  observer.step_ended(result);
}

}  // namespace zero::testing
