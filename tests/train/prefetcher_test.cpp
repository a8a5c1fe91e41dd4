/// Items come in order, no more of them wait than allowed, and nothing hangs at the end.

#include "libzero/train/prefetcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/train/sampler.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::thrown;

std::function<std::optional<int>()> counting_to(int end) {
  return [next = 0, end]() mutable -> std::optional<int> {
    if (next == end) return std::nullopt;
    return next++;
  };
}

TEST(Prefetcher, ItemsComeInOrderAndEnd) {
  for (const std::size_t capacity : {1u, 3u, 1000u}) {
    Prefetcher<int> prefetcher(counting_to(200), capacity);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(prefetcher.next(), i);
    EXPECT_EQ(prefetcher.next(), std::nullopt);
    EXPECT_EQ(prefetcher.next(), std::nullopt);
  }
}

/// Counts how many of its kind live.
class Counted {
 public:
  explicit Counted(std::atomic<int>& live) : live_(&live) { ++*live_; }
  Counted(Counted&& other) noexcept : live_(std::exchange(other.live_, nullptr)) {}
  ~Counted() {
    if (live_ != nullptr) --*live_;
  }
  Counted& operator=(Counted&&) = delete;

 private:
  std::atomic<int>* live_;
};

TEST(Prefetcher, NoMoreItemsLiveThanTheCapacityAndOneInTheMaking) {
  std::atomic<int> live = 0, most = 0;
  {
    Prefetcher<Counted> prefetcher(
        [&]() -> std::optional<Counted> {
          std::optional<Counted> item(std::in_place, live);
          if (live > most) most = live.load();
          return item;
        },
        3);
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(prefetcher.next().has_value());
  }
  EXPECT_LE(most, 3 + 1 + 1);  // the caller's own
  EXPECT_EQ(live, 0);
}

TEST(Prefetcher, WorksAhead) {
  std::latch two_made(2);
  Prefetcher<int> prefetcher(
      [&, next = 0]() mutable -> std::optional<int> {
        if (next < 2) two_made.count_down();
        return next++;
      },
      2);
  two_made.wait();  // nobody has asked for any
  EXPECT_EQ(prefetcher.next(), 0);
}

TEST(Prefetcher, AnExceptionComesOutAfterTheItemsBeforeIt) {
  Prefetcher<int> prefetcher(
      [next = 0]() mutable -> std::optional<int> {
        if (next == 2) throw std::runtime_error("disk gone");
        return next++;
      },
      8);
  EXPECT_EQ(prefetcher.next(), 0);
  EXPECT_EQ(prefetcher.next(), 1);
  EXPECT_EQ(thrown<std::runtime_error>([&] { prefetcher.next(); }), "disk gone");
  EXPECT_EQ(thrown<std::runtime_error>([&] { prefetcher.next(); }), "disk gone");
}

TEST(Prefetcher, LeavesWhereverItsMakerStands) {
  for (int i = 0; i < 200; ++i) {
    Prefetcher<int> prefetcher(counting_to(i % 5), 1 + static_cast<std::size_t>(i) % 3);
    if (i % 2 == 0) prefetcher.next();
  }
  EXPECT_THAT(thrown<ContractError>([] { Prefetcher<int>(counting_to(1), 0); }),
              HasSubstr("capacity"));
}

/// The maker is ahead, the position saved is not.
TEST(Prefetcher, ItemsCarryTheirPositionInTheData) {
  const SamplerOptions options{.samples = 40, .batch = 4, .seed = 1};
  std::vector<std::int64_t> uninterrupted, resumed;
  Sampler whole(options);
  for (int i = 0; i < 8; ++i) {
    for (const std::int64_t sample : whole.next().samples) uninterrupted.push_back(sample);
  }
  SamplerPosition position;
  for (int part = 0; part < 2; ++part) {
    Sampler sampler(options);
    sampler.go_to(position);
    Prefetcher<SampleBatch> batches([&] { return std::optional(sampler.next()); }, 3);
    for (int i = 0; i < 4; ++i) {
      const SampleBatch batch = *batches.next();
      resumed.insert(resumed.end(), batch.samples.begin(), batch.samples.end());
      position = batch.end;
    }
  }
  EXPECT_EQ(resumed, uninterrupted);
}

}  // namespace
}  // namespace zero
