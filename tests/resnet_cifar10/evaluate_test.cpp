#include "examples/resnet_cifar10/evaluate.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/optim/ranks.h"
#include "tests/resnet_cifar10/cifar_folder.h"

namespace resnet {
namespace {

using zero::testing::on_ranks;

/// Score over `images` images on `ranks` ranks, and that every rank has it.
Score score_on(int ranks, int images) {
  const zero::testing::TemporaryFolder folder;
  write_images(folder / "test_batch.bin", images);
  std::vector<Score> scores(static_cast<std::size_t>(ranks));
  std::mutex seeding;
  on_ranks(ranks, [&](const std::shared_ptr<zero::Collective>& comm) {
    const auto model = [&] {
      const std::lock_guard lock(seeding);
      torch::manual_seed(3);
      return ResNet18(kClasses, 8);
    };
    ResNet18 mine = model();
    scores[static_cast<std::size_t>(comm->rank())] =
        evaluate(mine, test_file(folder.path()), *comm);
    EXPECT_TRUE(mine->is_training());
  });
  for (const Score& score : scores) {
    EXPECT_EQ(score.loss, scores[0].loss);
    EXPECT_EQ(score.accuracy, scores[0].accuracy);
  }
  return scores[0];
}

TEST(Evaluate, RanksWithUnequalPartsGiveTheScoreOfOneRank) {
  for (const int images : {1, 7, 110}) {  // less than ranks, no multiple of them, several batches
    const Score alone = score_on(1, images);
    for (const int ranks : {2, 3}) {
      const Score shared = score_on(ranks, images);
      EXPECT_NEAR(shared.loss, alone.loss, 1e-5 * alone.loss) << images << " on " << ranks;
      EXPECT_NEAR(shared.accuracy, alone.accuracy, 1e-12) << images << " on " << ranks;
    }
  }
}

TEST(Evaluate, AnUntrainedNetworkKnowsNothing) {
  const Score score = score_on(1, 110);
  EXPECT_NEAR(score.accuracy, 0.1, 0.1);
  EXPECT_GT(score.loss, 1.5);
}

}  // namespace
}  // namespace resnet
