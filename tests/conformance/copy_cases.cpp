#include <gtest/gtest.h>

#include <atomic>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

std::vector<std::int64_t> counts() {
  return {0, 1, 3, 4099, 100'001};
}

Array whole_of(const std::vector<Array>& parts) {
  const std::int64_t slice = parts[0].count();
  Array whole(parts[0].dtype(), slice * static_cast<std::int64_t>(parts.size()));
  for (std::size_t r = 0; r < parts.size(); ++r) {
    whole.write_slice(static_cast<std::int64_t>(r) * slice, parts[r]);
  }
  return whole;
}

void gathers(const Setting& setting, DType dtype, bool in_place) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::int64_t count : counts()) {
      const auto parts = rank_patterns(dtype, count, comm->size(), 60);
      const Array& mine = parts[static_cast<std::size_t>(comm->rank())];
      Array out(dtype, count * comm->size());
      if (in_place) out.write_slice(comm->rank() * count, mine);
      const ConstBuffer in = in_place ? out.slice(comm->rank() * count, count) : mine.view();
      comm->all_gather(in, out.buffer(), "parameters")->wait();
      EXPECT_TRUE(out == whole_of(parts)) << "rank " << comm->rank() << ", " << count;
    }
  });
}

void broadcasts(const Setting& setting, DType dtype) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (int root = 0; root < comm->size(); ++root) {
      for (const std::int64_t count : counts()) {
        Array data = pattern(dtype, count, 70 + comm->rank());
        comm->broadcast(data.buffer(), root, "start")->wait();
        EXPECT_TRUE(data == pattern(dtype, count, 70 + root)) << "root " << root;
      }
    }
  });
}

void barrier_waits_for_everybody(const Setting& setting) {
  std::atomic<int> arrived = 0;
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      comm->barrier("round")->wait();
      EXPECT_GE(arrived.load(), round * comm->size());
    }
  });
}

void ranks_know_their_place(const Setting& setting) {
  std::atomic<int> ranks_seen = 0;
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    EXPECT_EQ(comm->size(), setting.world_size);
    EXPECT_FALSE(comm->backend().empty());
    ranks_seen |= 1 << comm->rank();
  });
  EXPECT_EQ(ranks_seen, (1 << setting.world_size) - 1);
}

}  // namespace

std::vector<Case> copy_cases() {
  std::vector<Case> cases = {{"RanksKnowTheirPlace", ranks_know_their_place},
                             {"BarrierWaitsForEverybody", barrier_waits_for_everybody}};
  for (const DType dtype : kAllTypes) {
    cases.push_back(
        {"AllGather" + title_of(dtype), [dtype](const Setting& s) { gathers(s, dtype, false); }});
    cases.push_back({"AllGatherInPlace" + title_of(dtype),
                     [dtype](const Setting& s) { gathers(s, dtype, true); }});
    cases.push_back({"BroadcastFromEveryRoot" + title_of(dtype),
                     [dtype](const Setting& s) { broadcasts(s, dtype); }});
  }
  return cases;
}

}  // namespace zero::testing
