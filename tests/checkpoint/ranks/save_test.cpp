// What a save by several ranks promises over any Store.

#include "checkpoint/ranks/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "libzero/collective/all_or_none.h"
#include "libzero/collective/testing/faults.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SaveOnRanks : public ::testing::TestWithParam<Flavour> {
 protected:
  World world_{GetParam(), 3};

  std::string steps_difference(const std::vector<std::int64_t>& steps) {
    return difference_of_steps(*world_.fresh_store(), steps, world_.size());
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, SaveOnRanks, ::testing::Values(Flavour::kMemory, Flavour::kHdf5),
                         [](const auto& each) {
                           return each.param == Flavour::kMemory ? "Memory" : "Hdf5";
                         });

TEST_P(SaveOnRanks, ReadsBackEveryBitAtEveryWorldSize) {
  for (int size = 1; size <= 6; ++size) {
    const World world(GetParam(), size);
    const Ending ending = save_together(world, 7, nullptr);
    ASSERT_EQ(ending.problem(), "");
    EXPECT_EQ(ending.outcomes[0].step, 7);
    EXPECT_THAT(ending.outcomes[0].warnings, IsEmpty());
    EXPECT_EQ(difference_of_steps(*world.fresh_store(), {7}, size), "") << size << " ranks";
  }
}

TEST_P(SaveOnRanks, CountsTheBytesOfAllRanks) {
  const Sample sample(7, 3);
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < 3; ++rank) {
    for (const StateView& view : sample.rank(rank).states) {
      for (const auto piece : view.pieces) bytes += piece.size();
    }
  }
  EXPECT_EQ(save_together(world_, 7).outcomes[2].bytes, bytes);
}

TEST_P(SaveOnRanks, WhatFunctionsGiveIsSavedLikeMemory) {
  const Ending ending = save_together(world_, 7, [](int, Input& input) {
    for (StateView& view : input.part.state.states) give_by_function(view);
  });
  ASSERT_EQ(ending.problem(), "");
  EXPECT_EQ(ending.outcomes[0].bytes, save_together(world_, 8).outcomes[0].bytes);
  EXPECT_EQ(steps_difference({7, 8}), "");
}

TEST_P(SaveOnRanks, AFunctionThatThrowsFailsTheSaveOnEveryRank) {
  const Ending ending = save_together(world_, 7, [](int rank, Input& input) {
    if (rank != 2) return;
    give_by_function(input.part.state.states[1]);
    input.part.state.states[1].fill = [](const Extent&, std::span<std::byte>) {
      throw IoError("the offloaded state cannot be read");
    };
  });
  EXPECT_THAT(ending.common_error(),
              AllOf(HasSubstr("rank 2, phase write"), HasSubstr("offloaded")));
  EXPECT_TRUE(is_a<IoError>(ending.errors[0]));
  EXPECT_EQ(steps_difference({}), "");
  EXPECT_EQ(save_together(world_, 7).problem(), "");
}

TEST_P(SaveOnRanks, ARefusalOfOneRankStopsAllBeforeAnythingIsWritten) {
  for (int refusing = 0; refusing < 3; ++refusing) {
    const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
      if (rank != refusing) return;
      input.common = CommonState();
      input.part.state = RankState();
      input.part.refusal = "its shard is at another step";
    });
    EXPECT_THAT(ending.common_error(),
                AllOf(HasSubstr("rank " + std::to_string(refusing) + ": its shard is at another"),
                      HasSubstr("begin")));
    EXPECT_TRUE(is_a<ContractError>(ending.errors[0]));
  }
  EXPECT_EQ(world_.disk().status(kRoot).kind, FileKind::kMissing);
  EXPECT_EQ(save_together(world_, 5).problem(), "");
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(SaveOnRanks, ARankWithAnotherCommonStateIsNamedTogetherWithTheDifference) {
  const std::pair<std::string, std::function<void(CommonState&)>> cases[] = {
      {"has 'step: 6' where rank 0 has 'step: 5'", [](CommonState& c) { c.step = 6; }},
      {"run: other", [](CommonState& c) { c.run_id = "other"; }},
      {"stage: 1", [](CommonState& c) { c.stage = 1; }},
      {"number of parameters", [](CommonState& c) { c.parameters.pop_back(); }},
      {"scales float32", [](CommonState& c) { c.parameters[2].name = "scales"; }},
      {"[5, 7]",
       [](CommonState& c) { std::swap(c.parameters[0].shape[0], c.parameters[0].shape[1]); }},
      {"frozen", [](CommonState& c) { c.parameters[2].trainable = false; }},
      {"int64", [](CommonState& c) { c.parameters[2].dtype = DType::kInt64; }},
      {"group 1", [](CommonState& c) { c.parameters[0].group = 1; }},
      {"'parameter 5: head.weight float32 [7, 5] group 0'",
       [](CommonState& c) { c.parameters[5].alias_of = -1; }},
      {"applied steps of parameter 4: 77", [](CommonState& c) { c.applied_steps[4] = 77; }},
      {"number of groups: 1", [](CommonState& c) { c.groups.pop_back(); }},
      {"group 1, lr: 0.5", [](CommonState& c) { c.groups[1]["lr"] = 0.5; }},
      {"group 0, number of options", [](CommonState& c) { c.groups[0]["x"] = 0.5; }},
      {"loss scale: 2'", [](CommonState& c) { c.scaler.scale = 2; }},
      {"growth tracker: 99", [](CommonState& c) { c.scaler.growth_tracker = 99; }},
      {"hysteresis left: 99", [](CommonState& c) { c.scaler.hysteresis_left = 99; }},
      {"skips: 99", [](CommonState& c) { c.scaler.consecutive_skips = 99; }},
      {"counter samples_seen: 321' where rank 0 has 'counter samples_seen: 320'",
       [](CommonState& c) { ++c.counters["samples_seen"]; }},
      {"number of counters: 3", [](CommonState& c) { c.counters["more"] = 0; }},
      {"shared blob schedule: 33 bytes",
       [](CommonState& c) { c.blobs["schedule"][9] ^= std::byte{1}; }},
      {"number of surplus ranks: 1",
       [](CommonState& c) {
         c.surplus_rank_blobs[9] = {{"rng", Blob(3)}};
       }},
      {"number of shared blobs: 1", [](CommonState& c) { c.blobs.erase("empty"); }}};
  for (const auto& each : cases) {
    const auto& [words, change] = each;
    const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
      if (rank == 2) each.second(input.common);
    });
    EXPECT_THAT(ending.common_error(), AllOf(HasSubstr(words), HasSubstr("rank 2 has '")));
    EXPECT_TRUE(is_a<ContractError>(ending.errors[1])) << words;
  }
  EXPECT_EQ(steps_difference({}), "");
}

TEST_P(SaveOnRanks, AnExistingStepIsRefusedOnEveryRank) {
  ASSERT_EQ(save_together(world_, 5).problem(), "");
  const Ending ending = save_together(world_, 5);
  EXPECT_THAT(ending.common_error(), AllOf(HasSubstr("has a checkpoint already"),
                                           HasSubstr("step 5, rank 0, phase begin")));
  EXPECT_TRUE(is_a<ContractError>(ending.errors[2]));
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(SaveOnRanks, ASaveUnderWayElsewhereIsRefusedOnEveryRankAndNotDisturbed) {
  const Sample other(4, 1);
  const auto writer = world_.fresh_store()->begin(other.common(), 1);
  const Ending ending = save_together(world_, 5);
  EXPECT_THAT(ending.common_error(), HasSubstr("rank 0, phase begin"));
  EXPECT_TRUE(is_a<ContractError>(ending.errors[1]));
  writer->put(0, other.rank(0));
  writer->commit();
  EXPECT_EQ(difference_of_steps(*world_.fresh_store(), {4}, 1), "");
}

TEST_P(SaveOnRanks, APartThatBreaksTheRulesFailsTheSaveOnEveryRank) {
  for (int guilty = 0; guilty < 3; ++guilty) {
    const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
      if (rank == guilty) input.part.state.states[0].pieces[0] = {};
    });
    EXPECT_THAT(ending.common_error(),
                HasSubstr("step 5, rank " + std::to_string(guilty) + ", phase write: "));
    EXPECT_TRUE(is_a<ContractError>(ending.errors[0]));
    EXPECT_EQ(steps_difference({}), "");
  }
  EXPECT_EQ(save_together(world_, 5).problem(), "");
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(SaveOnRanks, FailuresOfSeveralRanksAreOneErrorAboutTheFirst) {
  const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
    if (rank != 0) input.part.state.states[0].pieces[0] = {};
  });
  EXPECT_THAT(ending.common_error(),
              AllOf(HasSubstr("rank 1, phase write"), HasSubstr("failed besides: 1")));
}

TEST_P(SaveOnRanks, AGapBetweenTheRanksIsFoundBeforeTheCommit) {
  const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
    if (rank != 1) return;
    input.part.state.states[0].extents.pop_back();
    input.part.state.states[0].pieces.pop_back();
  });
  EXPECT_THAT(ending.common_error(), AllOf(HasSubstr("phase commit"), HasSubstr("exactly once")));
  EXPECT_TRUE(is_a<ContractError>(ending.errors[2]));
  EXPECT_EQ(steps_difference({}), "");
  EXPECT_EQ(save_together(world_, 5).problem(), "");
}

TEST_P(SaveOnRanks, LargeBlobsOfOneRankArrive) {
  const Blob large(3 << 20, std::byte{42});
  const Ending ending = save_together(world_, 5, [&](int rank, Input& input) {
    if (rank == 1) input.part.state.blobs["large"] = large;
  });
  ASSERT_EQ(ending.problem(), "");
  const auto reader = world_.fresh_store()->open(5);
  EXPECT_EQ(reader->rank_blobs(1).at("large"), large);
  EXPECT_FALSE(reader->rank_blobs(0).contains("large"));
}

/// In which collective a rank fails, and whether the checkpoint may be there afterwards.
struct Place {
  std::string label;
  bool may_be_there = false;
};
const Place kPlaces[] = {{"who can save", false}, {"ticket, size", false},    {"ticket", false},
                         {"who failed", false},   {"receipts, sizes", false}, {"receipts", false},
                         {"outcome, size", true}, {"outcome", true}};

TEST_P(SaveOnRanks, ARankThatFailsInAnyPhaseGivesCommErrorOnAllAndTheOldCheckpointStays) {
  for (const Place& place : kPlaces) {
    for (int failing = 0; failing < 3; ++failing) {
      SCOPED_TRACE(place.label + ", rank " + std::to_string(failing));
      World world(GetParam(), 3);
      ASSERT_EQ(save_together(world, 1).problem(), "");
      const auto decorate = [&](int rank, std::shared_ptr<Collective> comm) {
        if (rank != failing) return comm;
        zero::testing::Fault fault;
        fault.label = place.label;
        fault.call = 1;
        return zero::testing::with_faults(std::move(comm), {fault});
      };
      const Ending ending = save_together(world, 2, nullptr, decorate);
      for (const auto& error : ending.errors) {
        EXPECT_TRUE(is_a<CommError>(error)) << zero::testing::message_of(error);
      }
      EXPECT_THAT(zero::testing::message_of(ending.errors[0]), HasSubstr("checkpoint of step 2"));
      const std::vector<std::int64_t> there =
          place.may_be_there ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1};
      EXPECT_EQ(difference_of_steps(*world.fresh_store(), there, 3), "");
      world.restart();
      EXPECT_EQ(save_together(world, 3).problem(), "");
    }
  }
}

/// Its writers have no ticket.
class NoTicketStore : public Store {
 public:
  explicit NoTicketStore(Store& inner) : inner_(inner) {}
  Listing list() override { return inner_.list(); }
  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    return std::make_unique<NoTicket>(inner_.begin(common, world_size));
  }
  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    return inner_.join(ticket, common, world_size);
  }
  std::unique_ptr<Reader> open(std::int64_t step) override { return inner_.open(step); }
  void remove(std::int64_t step) override { inner_.remove(step); }

 private:
  class NoTicket : public Writer {
   public:
    explicit NoTicket(std::unique_ptr<Writer> inner) : inner_(std::move(inner)) {}
    std::string ticket() const override { throw IoError("out of tickets"); }
    std::string put(int rank, const RankState& state) override { return inner_->put(rank, state); }
    void accept(std::string_view receipt) override { inner_->accept(receipt); }
    CommitResult commit() override { return inner_->commit(); }
    void abort() override { inner_->abort(); }

   private:
    std::unique_ptr<Writer> inner_;
  };
  Store& inner_;
};

TEST_P(SaveOnRanks, AWriterWithoutATicketIsAnErrorOnAll) {
  const Sample sample(2, 3);
  const auto errors = zero::testing::run_ranks(
      make_threads(3, std::chrono::milliseconds(1000)),
      [&](const std::shared_ptr<Collective>& comm) {
        const int rank = comm->rank();
        NoTicketStore store(*world_.store(rank));
        save_on_ranks(store, sample.common(), {sample.rank(rank), ""}, *comm);
      });
  const Ending ending{std::vector<SaveOutcome>(3), errors};
  EXPECT_TRUE(is_a<IoError>(errors[1])) << zero::testing::message_of(errors[1]);
  EXPECT_THAT(ending.common_error(),
              AllOf(HasSubstr("rank 0, phase begin"), HasSubstr("out of tickets")));
  EXPECT_EQ(save_together(world_, 2).problem(), "") << "the save was given up";
}

/// Its join() takes as long as the latch says.
class LateStore : public Store {
 public:
  LateStore(Store& inner, std::latch& latch) : inner_(inner), latch_(latch) {}
  Listing list() override { return inner_.list(); }
  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    return inner_.begin(common, world_size);
  }
  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    latch_.wait();
    return inner_.join(ticket, common, world_size);
  }
  std::unique_ptr<Reader> open(std::int64_t step) override { return inner_.open(step); }
  void remove(std::int64_t step) override { inner_.remove(step); }

 private:
  Store& inner_;
  std::latch& latch_;
};

TEST_P(SaveOnRanks, ARankThatFallsSilentIsNamedWithinTheTimeout) {
  ASSERT_EQ(save_together(world_, 1).problem(), "");
  const Sample sample(2, 3);
  std::latch others_gave_up(2);
  const auto errors =
      zero::testing::run_ranks(make_threads(3, std::chrono::milliseconds(1000)),
                               [&](const std::shared_ptr<Collective>& comm) {
                                 const int rank = comm->rank();
                                 LateStore late(*world_.store(rank), others_gave_up);
                                 try {
                                   save_on_ranks(rank == 1 ? late : *world_.store(rank),
                                                 sample.common(), {sample.rank(rank), ""}, *comm);
                                 } catch (...) {
                                   if (rank != 1) others_gave_up.count_down();
                                   throw;
                                 }
                               });
  for (const auto& error : errors) EXPECT_TRUE(is_a<CommError>(error));
  EXPECT_THAT(zero::testing::message_of(errors[0]),
              AllOf(HasSubstr("rank 1"), HasSubstr("phase write")));
  EXPECT_EQ(steps_difference({1}), "");
}

TEST_P(SaveOnRanks, DamagedMessagesNeverMakeADamagedCheckpoint) {
  for (const Place& place : kPlaces) {
    for (int failing = 0; failing < 3; ++failing) {
      SCOPED_TRACE(place.label + ", rank " + std::to_string(failing));
      const World world(GetParam(), 3);
      ASSERT_EQ(save_together(world, 1).problem(), "");
      const auto decorate = [&](int rank, std::shared_ptr<Collective> comm) {
        if (rank != failing) return comm;
        zero::testing::Fault fault;
        fault.kind = zero::testing::Fault::Kind::kCorrupt;
        fault.label = place.label;
        return zero::testing::with_faults(std::move(comm), {fault});
      };
      save_together(world, 2, nullptr, decorate, std::chrono::milliseconds(500));
      const auto store = world.fresh_store();
      const Listing listing = store->list();
      EXPECT_THAT(listing.damaged, IsEmpty());
      ASSERT_FALSE(listing.steps.empty());
      for (const StepInfo& info : listing.steps) {
        EXPECT_EQ(difference(*store->open(info.step), info.step, 3), "");
      }
    }
  }
}

TEST_P(SaveOnRanks, AnAbsurdSizeIsACommErrorOnAllThatSaysSo) {
  for (const char* label : {"ticket, size", "who failed, sizes", "receipts, sizes"}) {
    const auto decorate = [&](int rank, std::shared_ptr<Collective> comm) {
      if (rank != 1) return comm;
      zero::testing::Fault fault;
      fault.kind = zero::testing::Fault::Kind::kCorrupt;
      fault.label = label;
      return zero::testing::with_faults(std::move(comm), {fault});
    };
    const Ending ending = save_together(world_, 2, nullptr, decorate);
    for (const auto& error : ending.errors) {
      EXPECT_TRUE(is_a<CommError>(error));
      EXPECT_THAT(zero::testing::message_of(error),
                  AllOf(HasSubstr("failed on rank 1"), HasSubstr("announced a message of")));
    }
    EXPECT_EQ(steps_difference({}), "");
  }
}

TEST(FirstProblem, IsTheSameOnEveryRankAndNamesTheFirstThatHasOne) {
  std::vector<std::string> found(3);
  zero::testing::on_ranks(3, [&](const std::shared_ptr<Collective>& comm) {
    const int rank = comm->rank();
    EXPECT_EQ(first_problem("", *comm, "nothing"), "");
    found[static_cast<std::size_t>(rank)] =
        first_problem(rank == 0 ? "" : "of rank " + std::to_string(rank), *comm, "something");
  });
  EXPECT_EQ(found, std::vector<std::string>(3, "rank 1: of rank 1"));
}

}  // namespace
}  // namespace zero::checkpoint
