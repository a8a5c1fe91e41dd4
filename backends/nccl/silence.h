#pragma once

/// Who is to blame when the GPUs did not finish in time.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "libzero/collective/call_header.h"
#include "libzero/collective/key_value_store.h"

namespace zero::nccl {

/// Ranks whose patience is over say in the store how far they have come. All of them have waited
/// from the same exchange of headers on, so that who does not say anything within a moment is no
/// longer there, and who has come less far than the others holds them up.
class Silence {
 public:
  Silence(std::shared_ptr<KeyValueStore> store, int rank, int size,
          std::chrono::milliseconds timeout);

  /// `progress`: how many launches this rank has behind it. Returns the reason, the same on every
  /// rank that asks: "rank 2 fell silent in collective #2, ..., which took longer than 400 ms".
  /// Takes a quarter of the timeout at most, but up to 250 ms where that is less, and never more
  /// than a second.
  std::string explain(const CallHeader& call, std::int64_t progress) const;

 private:
  std::string verdict(const CallHeader& call, std::int64_t progress) const;

  const std::shared_ptr<KeyValueStore> store_;
  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace zero::nccl
