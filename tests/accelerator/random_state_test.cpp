// The random state of a device in checkpoints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/memory_store.h"
#include "checkpoint/ranks/save.h"
#include "checkpoint/store.h"
#include "libzero/base/error.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/random_state.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Comm = std::shared_ptr<Collective>;
using Numbers = std::vector<float>;

/// What dropout would draw next.
Numbers draw(c10::Device device) {
  const at::Tensor mask = torch::empty({64}).bernoulli_(0.5, default_generator(device));
  return {mask.data_ptr<float>(), mask.data_ptr<float>() + mask.numel()};
}

void seed(c10::Device device, std::uint64_t value) {
  default_generator(device).set_current_seed(value);
}

struct Job {
  Job(const Comm& comm, c10::Device on)
      : toy(torch::kFloat, on),
        optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                  testing::toy_options(2).offload(Offload::kHost), comm) {}
  ~Job() { optimizer.shutdown(); }
  Toy toy;
  Optimizer optimizer;
};

std::unique_ptr<checkpoint::Store> saved_by(int world, bool on_device,
                                            std::vector<Numbers>* next = nullptr) {
  auto store = checkpoint::make_memory_store();
  testing::on_ranks(world, [&](const Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm->rank());
    Job job(comm, on_device ? device(comm->rank()) : torch::kCPU);
    seed(device(comm->rank()), 100 + rank);
    draw(device(comm->rank()));
    job.optimizer.save(*store);
    if (next != nullptr) next->at(rank) = draw(device(comm->rank()));
  });
  return store;
}

struct Outcome {
  Numbers next;
  std::string how, detail;  // of the device's line; empty without one
  std::string how_of_cpu;
};

std::vector<Outcome> loaded_by(int world, bool on_device, checkpoint::Store& store,
                               const LoadOptions& options = {}) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(world));
  testing::on_ranks(world, [&](const Comm& comm) {
    Job job(comm, on_device ? device(comm->rank()) : torch::kCPU);
    seed(device(comm->rank()), 7);
    const LoadReport report = job.optimizer.load(store, 0, options);
    Outcome& outcome = outcomes[static_cast<std::size_t>(comm->rank())];
    outcome.next = draw(device(comm->rank()));
    for (const LoadItem& item : report.items) {
      if (item.item == "random state") outcome.how_of_cpu = name_of(item.how);
      if (item.item != "random state of fake") continue;
      outcome.how = name_of(item.how);
      outcome.detail = item.detail;
    }
  });
  return outcomes;
}

Numbers untouched() {
  seed(device(0), 7);
  return draw(device(0));
}

TEST(RandomStatesOfADevice, GoOnAfterAResumeAsIfItHadNeverStopped) {
  std::vector<Numbers> expected(2);
  const auto store = saved_by(2, true, &expected);
  ASSERT_NE(expected[0], expected[1]);
  const auto outcomes = loaded_by(2, true, *store);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[rank].next, expected[rank]) << rank;
    EXPECT_EQ(outcomes[rank].how, "restored");
    EXPECT_EQ(outcomes[rank].how_of_cpu, "restored");
  }
}

TEST(RandomStatesOfADevice, OfRanksThatAreNewAreDerivedEachOther) {
  std::vector<Numbers> saved(2);
  const auto store = saved_by(2, true, &saved);
  const auto outcomes = loaded_by(4, true, *store, LoadOptions().reshard_on_load(true));
  const auto again = loaded_by(4, true, *store, LoadOptions().reshard_on_load(true));
  std::vector<Numbers> all = saved;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(outcomes[rank].next, again[rank].next) << rank;
    EXPECT_EQ(outcomes[rank].how, rank < 2 ? "restored" : "derived");
    if (rank < 2) {
      EXPECT_EQ(outcomes[rank].next, saved[rank]) << rank;
      continue;
    }
    EXPECT_EQ(std::count(all.begin(), all.end(), outcomes[rank].next), 0) << rank;
    EXPECT_THAT(outcomes[rank].detail, HasSubstr("from rank 0's"));
    all.push_back(outcomes[rank].next);
  }
}

TEST(RandomStatesOfADevice, AreTakenFromTheFirstRankThatHadOneWhereRankZeroTrainedOnTheCpu) {
  std::vector<Numbers> saved(2);
  auto store = checkpoint::make_memory_store();
  testing::on_ranks(2, [&](const Comm& comm) {
    Job job(comm, comm->rank() == 1 ? device(1) : torch::kCPU);
    job.optimizer.save(*store);
  });
  const auto outcomes = loaded_by(2, true, *store);
  EXPECT_EQ(outcomes[0].how, "derived");
  EXPECT_THAT(outcomes[0].detail, HasSubstr("from rank 1's"));
  EXPECT_EQ(outcomes[1].how, "restored");
}

TEST(RandomStatesOfADevice, AreLeftInTheCheckpointByRanksOnTheCpuWhichSaySo) {
  const auto store = saved_by(2, true);
  for (const Outcome& outcome : loaded_by(2, false, *store)) {
    EXPECT_EQ(outcome.how, "dropped");
    EXPECT_THAT(outcome.detail, HasSubstr("trains on cpu"));
    EXPECT_EQ(outcome.how_of_cpu, "restored");
    EXPECT_EQ(outcome.next, untouched());
  }
}

TEST(RandomStatesOfADevice, StayAsTheyAreWhereACheckpointOfTheCpuHasNoneAndTheReportSaysSo) {
  const auto store = saved_by(2, false);
  for (const Outcome& outcome : loaded_by(2, true, *store)) {
    EXPECT_EQ(outcome.how, "defaulted");
    EXPECT_EQ(outcome.how_of_cpu, "restored");
    EXPECT_EQ(outcome.next, untouched());
  }
  for (const Outcome& outcome : loaded_by(2, false, *store)) EXPECT_EQ(outcome.how, "");
}

TEST(RandomStatesOfADevice, StayAsTheyAreWhereTheCallerSaysSo) {
  const auto store = saved_by(1, true);
  for (const LoadOptions& options :
       {LoadOptions().random_state(false), LoadOptions().weights_only(true)}) {
    const Outcome outcome = loaded_by(1, true, *store, options)[0];
    EXPECT_EQ(outcome.how, "kept");
    EXPECT_EQ(outcome.next, untouched());
  }
}

TEST(RandomStatesOfADevice, OfAnotherSizeAreRefusedOnEveryRankNamingRankAndBlob) {
  const auto store = checkpoint::make_memory_store();
  testing::on_ranks(2, [&](const Comm& comm) {
    Job job(comm, device(comm->rank()));
    const CheckpointAccess access(job.optimizer);
    CheckpointState state = access.state({});
    if (comm->rank() == 1) state.part.state.blobs.at("random.fake").resize(17);
    checkpoint::save_on_ranks(*store, state.common, state.part, *access.comm());
  });
  std::vector<std::string> errors(2);
  testing::on_ranks(2, [&](const Comm& comm) {
    Job job(comm, device(comm->rank()));
    try {
      job.optimizer.load(*store, 0);
    } catch (const ContractError& error) {
      errors[static_cast<std::size_t>(comm->rank())] = error.what();
    }
    EXPECT_TRUE(job.optimizer.load(*store, 0, LoadOptions().random_state(false)).found);
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 1: "), HasSubstr("blob random.fake of 17 bytes"),
                                 HasSubstr("random_state(false)"))));
}

}  // namespace
}  // namespace zero::accelerator_test
