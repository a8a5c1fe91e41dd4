#pragma once

/// Gloo's own ring all-reduce, as its users call it.

#include <cstdint>
#include <memory>

#include "libzero/collective/key_value_store.h"

namespace zero::benchmark::collectives {

class GlooRing {
 public:
  GlooRing(int rank, int size, std::shared_ptr<KeyValueStore> store);
  ~GlooRing();

  void all_reduce(float* data, std::int64_t count);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace zero::benchmark::collectives
