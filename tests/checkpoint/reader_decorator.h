#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/store.h"

namespace zero::checkpoint::testing {

/// Another reader, which outlives it. A test overrides what it watches or changes.
class ReaderDecorator : public Reader {
 public:
  explicit ReaderDecorator(const Reader& inner) : inner_(inner) {}

  const StepInfo& info() const override { return inner_.info(); }
  const CommonState& common() const override { return inner_.common(); }
  const std::map<std::string, Blob>& rank_blobs(int rank) const override {
    return inner_.rank_blobs(rank);
  }
  std::vector<std::string> states(std::int32_t parameter) const override {
    return inner_.states(parameter);
  }
  DType dtype(std::int32_t parameter, std::string_view state) const override {
    return inner_.dtype(parameter, state);
  }
  std::vector<Extent> extents(int rank, std::string_view state) const override {
    return inner_.extents(rank, state);
  }
  void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t end,
            std::span<std::byte> dst) const override {
    inner_.read(parameter, state, begin, end, dst);
  }

 private:
  const Reader& inner_;
};

}  // namespace zero::checkpoint::testing
