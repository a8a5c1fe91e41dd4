/// How long ranks wait for one another in checkpoints.

#include <thread>

#include "tests/optim/checkpoint_support.h"
#include "tests/optim/faulty_store.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using checkpoint::Store;

TEST(CheckpointPatience, ASlowDiskIsNotTakenForADeadRank) {
  const auto store = make_memory_store();
  const auto timeout = std::chrono::seconds(2);
  const auto errors = errors_on_ranks(
      2,
      [&](const Comm& comm) {
        Job job(comm);
        FaultyStore slow(*store, {.put = [&] { std::this_thread::sleep_for(timeout * 1.5); }});
        job.optimizer->save(comm->rank() == 1 ? static_cast<Store&>(slow) : *store);
        job.optimizer->shutdown();
      },
      timeout);
  EXPECT_EQ(errors, std::vector<std::string>(2));
  EXPECT_EQ(store->list().steps.size(), 1u);
}

}  // namespace
}  // namespace zero::testing
