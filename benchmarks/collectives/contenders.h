#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/collectives/gloo_ring.h"
#include "libzero/collective/collective.h"

namespace zero::benchmark::collectives {

/// One way to do a job; every rank calls it at the same time.
struct Contender {
  std::string name;
  std::function<void()> call;
};

/// Ways to do the same job with the same bytes.
struct Race {
  /// "reduce_scatter", "all_gather", "reduce_scatter_and_all_gather" or "all_reduce".
  std::string operation;
  DType dtype = DType::kFloat32;
  std::int64_t bytes = 0;  ///< Of the whole bucket, on each rank.
  std::vector<Contender> contenders;
};

/// The memory that all races use.
struct Memory {
  Memory(std::int64_t bytes, int size);
  std::vector<std::byte> in, whole, staging;
  std::vector<float> out;
};

struct Backends {
  std::shared_ptr<Collective> shm;
  std::shared_ptr<Collective> gloo;
  std::shared_ptr<GlooRing> ring;
};

std::vector<Race> make_races(const Backends& backends, Memory& memory,
                             const std::vector<std::int64_t>& sizes);

}  // namespace zero::benchmark::collectives
