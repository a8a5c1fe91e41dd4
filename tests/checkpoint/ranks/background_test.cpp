// Saving behind the training's back.

#include "checkpoint/ranks/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

#include "libzero/collective/testing/faults.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using testing::Fault;
using ::testing::HasSubstr;

/// Saves through it wait in begin(), the lock taken and nothing written, until the gate opens. Rank
/// 0's, that is: all others wait for it.
class GatedStore : public Store {
 public:
  explicit GatedStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}

  void close_gate() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open_gate() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }

  /// Returns at once if nobody is going to come.
  void wait_until_at_gate(bool somebody_comes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return at_gate_ || !somebody_comes; });
  }

  Listing list() override { return inner_->list(); }
  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    auto writer = inner_->begin(common, world_size);
    std::unique_lock lock(mutex_);
    at_gate_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    at_gate_ = false;
    return writer;
  }
  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    return inner_->join(ticket, common, world_size);
  }
  std::unique_ptr<Reader> open(std::int64_t step) override { return inner_->open(step); }
  void remove(std::int64_t step) override { inner_->remove(step); }

 private:
  std::shared_ptr<Store> inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool at_gate_ = false;
};

/// Each rank of a training with a saver of its own.
struct Trainer {
  Trainer(const World& world, const std::shared_ptr<Collective>& comm_)
      : comm(comm_),
        rank(comm_->rank()),
        gate(std::make_shared<GatedStore>(world.store(rank))),
        saver_comm(comm_->split(0, rank)),
        saver(std::make_unique<BackgroundSaver>(gate, saver_comm)) {}

  ~Trainer() {
    saver.reset();
    try {
      saver_comm->shutdown();
      comm->shutdown();
    } catch (const Error&) {  // Somebody died.
    }
  }

  void start(const Sample& sample) const { saver->start(sample.common(), {sample.rank(rank), ""}); }

  std::shared_ptr<Collective> comm;
  int rank;
  std::shared_ptr<GatedStore> gate;
  std::shared_ptr<Collective> saver_comm;
  std::unique_ptr<BackgroundSaver> saver;
};

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Background : public ::testing::TestWithParam<Flavour> {
 protected:
  void on_ranks(const std::function<void(Trainer&)>& body) {
    zero::testing::on_ranks(world_.size(), [&](const std::shared_ptr<Collective>& comm) {
      Trainer trainer(world_, comm);
      body(trainer);
    });
  }
  std::string steps_difference(const std::vector<std::int64_t>& steps) {
    return difference_of_steps(*world_.fresh_store(), steps, world_.size());
  }

  World world_{GetParam(), 3};
};

INSTANTIATE_TEST_SUITE_P(Stores, Background, ::testing::Values(Flavour::kMemory, Flavour::kHdf5),
                         [](const auto& each) {
                           return each.param == Flavour::kMemory ? "Memory" : "Hdf5";
                         });

TEST_P(Background, SavesWhatWasThereWhenItStarted) {
  on_ranks([](Trainer& trainer) {
    trainer.gate->close_gate();
    Sample sample(5, 3);
    RankPart part{sample.rank(trainer.rank), ""};
    for (std::size_t i = 0; i < part.state.states.size(); i += 2) {
      give_by_function(part.state.states[i]);
    }
    trainer.saver->start(sample.common(), part);
    EXPECT_FALSE(trainer.saver->wait_for(std::chrono::milliseconds(0)));
    // The next step changes everything at once, before a single byte was written.
    for (const StateView& view : sample.rank(trainer.rank).states) {
      for (const auto piece : view.pieces) {
        std::fill_n(const_cast<std::byte*>(piece.data()), piece.size(), std::byte{0xee});
      }
    }
    sample.common().counters["samples_seen"] = -1;
    sample.rank(trainer.rank).blobs.clear();
    trainer.comm->barrier("everybody has looked and changed")->wait();
    trainer.gate->open_gate();
    const auto outcome = trainer.saver->wait();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->step, 5);
    EXPECT_TRUE(trainer.saver->wait_for(std::chrono::milliseconds(0)));
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
  });
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(Background, ASecondStartWaitsForTheFirst) {
  on_ranks([](Trainer& trainer) {
    for (std::int64_t step = 1; step <= 4; ++step) trainer.start(Sample(step, 3));
    EXPECT_EQ(trainer.saver->wait()->step, 4);
  });
  EXPECT_EQ(steps_difference({1, 2, 3, 4}), "");
}

TEST_P(Background, ReportsAnOutcomeOnce) {
  on_ranks([](Trainer& trainer) {
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
    trainer.start(Sample(1, 3));
    EXPECT_TRUE(trainer.saver->wait_for(std::chrono::seconds(60)));
    EXPECT_EQ(trainer.saver->wait()->step, 1);
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
  });
}

TEST_P(Background, DestructionWaitsForTheSaveInFlight) {
  on_ranks([](Trainer& trainer) {
    trainer.gate->close_gate();
    trainer.start(Sample(5, 3));
    trainer.gate->open_gate();
  });
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(Background, AnErrorComesOutOnceOfWaitAndOfTheNextStart) {
  save_together(world_, 5);
  std::vector<std::string> texts(3);
  on_ranks([&](Trainer& trainer) {
    const Sample again(5, 3);
    trainer.start(again);
    texts[static_cast<std::size_t>(trainer.rank)] = error_text([&] { trainer.saver->wait(); });
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
    trainer.start(again);
    // The save that fails to start is not made; the one after it is.
    EXPECT_THAT(error_text([&] { trainer.start(Sample(6, 3)); }), HasSubstr("already"));
    trainer.start(Sample(7, 3));
    EXPECT_EQ(trainer.saver->wait()->step, 7);
  });
  EXPECT_THAT(texts[0], HasSubstr("step 5, rank 0, phase begin"));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
  EXPECT_EQ(steps_difference({5, 7}), "");
}

TEST_P(Background, DestructionAfterAFailureIsQuiet) {
  save_together(world_, 5);
  on_ranks([](Trainer& trainer) { trainer.start(Sample(5, 3)); });
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(Background, ASaveInTheForegroundMeanwhileIsRefusedOnAllAndDisturbsNothing) {
  std::vector<std::string> texts(3);
  on_ranks([&](Trainer& trainer) {
    const Sample behind(5, 3), in_front(6, 3);
    const RankPart part{in_front.rank(trainer.rank), ""};
    trainer.gate->close_gate();
    trainer.start(behind);
    // Until rank 0's writer has the lock, the one in front would win.
    const auto save_in_front = [&] {
      save_on_ranks(*world_.store(trainer.rank), in_front.common(), part, *trainer.comm);
    };
    trainer.gate->wait_until_at_gate(trainer.rank == 0);
    texts[static_cast<std::size_t>(trainer.rank)] = error_text(save_in_front);
    trainer.gate->open_gate();
    EXPECT_EQ(trainer.saver->wait()->step, 5);
    EXPECT_EQ(error_text(save_in_front), "");
  });
  EXPECT_THAT(texts[0], HasSubstr("rank 0, phase begin"));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
  EXPECT_EQ(steps_difference({5, 6}), "");
}

TEST_P(Background, ARankWithoutMemoryForTheCopyIsARefusalThatAllHear) {
  std::vector<std::string> texts(3);
  on_ranks([&](Trainer& trainer) {
    const Sample sample(5, 3);
    RankPart part{sample.rank(trainer.rank), ""};
    const std::byte byte{};
    if (trainer.rank == 1) {
      for (auto& piece : part.state.states[0].pieces) piece = {&byte, std::size_t{1} << 62};
    }
    texts[static_cast<std::size_t>(trainer.rank)] =
        error_text([&] { trainer.saver->start(sample.common(), part); });
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
    trainer.start(sample);
    EXPECT_EQ(trainer.saver->wait()->step, 5);
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 1: "), HasSubstr("copied")));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
  EXPECT_EQ(steps_difference({5}), "");
}

TEST_P(Background, AFunctionThatThrowsIsARefusalThatAllHear) {
  std::vector<std::string> texts(3);
  on_ranks([&](Trainer& trainer) {
    const Sample sample(5, 3);
    RankPart part{sample.rank(trainer.rank), ""};
    if (trainer.rank == 2) {
      give_by_function(part.state.states[0]);
      part.state.states[0].fill = [](const Extent&, std::span<std::byte>) {
        throw IoError("the offloaded state cannot be read");
      };
    }
    texts[static_cast<std::size_t>(trainer.rank)] =
        error_text([&] { trainer.saver->start(sample.common(), part); });
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 2: "), HasSubstr("offloaded")));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
}

TEST_P(Background, TheCopysMemoryServesLargerAndSmallerStatesAlike) {
  on_ranks([](Trainer& trainer) {
    std::int64_t step = 1;
    for (const bool tiny : {true, false, true, false}) {
      const Sample sample = tiny ? tiny_sample(step, 3) : Sample(step, 3);
      trainer.start(sample);
      EXPECT_EQ(trainer.saver->wait()->step, step);
      ++step;
    }
  });
  const auto store = world_.fresh_store();
  for (const std::int64_t step : {2, 4}) EXPECT_EQ(difference(*store->open(step), step, 3), "");
}

TEST_P(Background, WhatRanksShareAndDoNotAgreeAboutIsRefusedBeforeAnythingStarts) {
  std::vector<std::string> texts(3);
  on_ranks([&](Trainer& trainer) {
    Sample sample(5, 3);
    sample.common().counters["samples_seen"] += trainer.rank == 2 ? 1 : 0;
    texts[static_cast<std::size_t>(trainer.rank)] = error_text([&] { trainer.start(sample); });
    EXPECT_EQ(trainer.saver->wait(), std::nullopt);
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 2 has 'counter samples_seen"), HasSubstr("step 5")));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
}

TEST_P(Background, ADeathIsACommErrorOnTheOthersAndTheOldCheckpointStays) {
  ASSERT_EQ(save_together(world_, 1).problem(), "");
  const auto errors = zero::testing::run_ranks(
      make_threads(3, std::chrono::seconds(20)), [&](const std::shared_ptr<Collective>& comm) {
        zero::testing::Fault fault;
        fault.label = "phase write, who failed";
        const auto mine = comm->rank() == 2 ? zero::testing::with_faults(comm, {fault}) : comm;
        Trainer trainer(world_, mine);
        trainer.start(Sample(2, 3));
        trainer.saver->wait();
      });
  for (const auto& error : errors) EXPECT_TRUE(is_a<CommError>(error));
  EXPECT_EQ(steps_difference({1}), "");
}

TEST(BackgroundOnDisk, AFullDiskIsAnErrorOnAllAndTheNextSaveWorks) {
  const World world(Flavour::kHdf5, 3);
  save_together(world, 1);
  std::vector<std::string> texts(3);
  world.files(1).set_fault(Fault{"pwrite", 1, ENOSPC, true});
  zero::testing::on_ranks(3, [&](const std::shared_ptr<Collective>& comm) {
    Trainer trainer(world, comm);
    trainer.start(Sample(2, 3));
    texts[static_cast<std::size_t>(trainer.rank)] = error_text([&] { trainer.saver->wait(); });
    comm->barrier("everybody has heard")->wait();
    if (trainer.rank == 1) world.files(1).set_fault(Fault{"never", 1});
    trainer.start(Sample(3, 3));
    EXPECT_EQ(trainer.saver->wait()->step, 3);
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 1, phase write"), HasSubstr("errno 28")));
  EXPECT_EQ(texts, std::vector<std::string>(3, texts[0]));
  EXPECT_EQ(difference_of_steps(*world.fresh_store(), {1, 3}, 3), "");
}

TEST(BackgroundSaverMade, OfNothingIsRefused) {
  EXPECT_THROW(BackgroundSaver(nullptr, make_threads(1, std::chrono::seconds(1))[0]),
               ContractError);
  EXPECT_THROW(BackgroundSaver(World(Flavour::kMemory, 1).store(), nullptr), ContractError);
}

}  // namespace
}  // namespace zero::checkpoint
