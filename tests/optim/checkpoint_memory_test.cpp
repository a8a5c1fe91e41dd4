/// What saving and loading allocate.

#include "checkpoint/memory_store.h"
#include "libzero/optim/checkpoint_state.h"
#include "tests/optim/checkpoint_support.h"
#include "tests/optim/faulty_store.h"
#include "tests/optim/live_bytes.h"

namespace zero::testing {
namespace {

std::int64_t bytes_of_values(const Job& job) {
  std::int64_t bytes = 0;
  for (const auto& parameter : job.model->parameters()) {
    if (!parameter.requires_grad()) bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  for (const auto& buffer : job.model->buffers())
    bytes += static_cast<std::int64_t>(buffer.nbytes());
  return bytes;
}

TEST(CheckpointMemory, ALoadHoldsTheShardOnceMoreAndLetsTheOldOneGo) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    const auto store = checkpoint::make_memory_store();
    on_jobs(1, {.dtype = dtype}, [&](Job& job) {
      job.train(1);
      job.optimizer->save(*store);
      const std::int64_t before = live_library_bytes();
      std::int64_t peak = 0;
      FaultyStore watched(*store, {.read = [&](std::int32_t, std::string_view) {
        peak = std::max(peak, live_library_bytes());
      }});
      job.optimizer->load(watched, 1);
      std::int64_t elements = 0;
      for (const Bucket& bucket : job.optimizer->layout().buckets()) elements += bucket.numel;
      EXPECT_EQ(peak - before, 3 * 4 * elements + bytes_of_values(job));
      EXPECT_EQ(live_library_bytes(), before);
    });
  }
}

TEST(CheckpointMemory, OfASaveIsThatOfTensorsThatAreNotInOnePiece) {
  on_jobs(1, {}, [&](Job& job) {
    const std::int64_t before = live_library_bytes();
    const CheckpointState state = CheckpointAccess(*job.optimizer).state({});
    EXPECT_EQ(state.part.refusal, "");
    const auto bytes = [](const torch::Tensor& t) { return static_cast<std::int64_t>(t.nbytes()); };
    EXPECT_EQ(live_library_bytes() - before,
              bytes(job.model->mixed) + bytes(job.model->bias) + bytes(job.model->table));
  });
}

}  // namespace
}  // namespace zero::testing
