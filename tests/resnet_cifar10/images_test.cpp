#include "examples/resnet_cifar10/images.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <vector>

#include "tests/resnet_cifar10/cifar_folder.h"
#include "tests/thrown.h"

namespace resnet {
namespace {

using ::testing::HasSubstr;
using zero::testing::thrown;

class Images : public ::testing::Test {
 protected:
  Images() {
    write_images(folder_ / "data_batch_1.bin", 20);
    write_images(folder_ / "data_batch_2.bin", 5);
    write_images(folder_ / "test_batch.bin", 3);
  }
  zero::testing::TemporaryFolder folder_;
};

/// The crop that `image` is of the whole one; a mirrored one is sought mirrored.
bool is_crop_of(const torch::Tensor& image, const torch::Tensor& whole) {
  for (std::int64_t place = 0; place < 9 * 9; ++place) {
    const auto crop = whole.narrow(1, place / 9, 32).narrow(2, place % 9, 32);
    if (torch::equal(image, crop) || torch::equal(image, crop.flip(2))) return true;
  }
  return false;
}

TEST_F(Images, FilesAreReadInOrderOfTheirNumbers) {
  const auto files = training_files(folder_.path(), 2);
  EXPECT_EQ(files.count(), 25);
  const std::vector<std::int64_t> samples = {19, 21};
  EXPECT_TRUE(torch::equal(plain(files, samples).labels, torch::tensor({9, 1}, torch::kLong)));
  EXPECT_EQ(test_file(folder_.path()).count(), 3);
}

TEST_F(Images, PlainImagesAreNormalizedByChannel) {
  const std::vector<std::int64_t> samples = {2};
  const Batch batch = plain(test_file(folder_.path()), samples);
  EXPECT_EQ(batch.images.sizes(), (std::vector<std::int64_t>{1, 3, 32, 32}));
  EXPECT_TRUE(batch.images.is_contiguous(torch::MemoryFormat::ChannelsLast));
  const double byte = 7 * 2 + 5 + 3 * 4;  // row 4, column 5
  EXPECT_NEAR(batch.images[0][0][4][5].item<double>(), (byte / 255 - 0.4914) / 0.2470, 1e-6);
  EXPECT_NEAR(batch.images[0][2][4][5].item<double>(), (byte / 255 - 0.4465) / 0.2616, 1e-6);
}

TEST_F(Images, AnAugmentedImageIsACropOfThePaddedOneOrItsMirrorImage) {
  const auto files = training_files(folder_.path(), 1);
  std::vector<std::int64_t> samples(20);
  std::iota(samples.begin(), samples.end(), 0);
  const Batch batch = augmented(files, samples, 1, 0);
  const Batch whole = plain(files, samples);
  EXPECT_TRUE(torch::equal(batch.labels, whole.labels));
  const auto black =
      (0 - torch::tensor({0.4914F, 0.4822F, 0.4465F})) / torch::tensor({0.2470F, 0.2435F, 0.2616F});
  for (std::int64_t i = 0; i < 20; ++i) {
    auto padded = black.view({3, 1, 1}).expand({3, 40, 40}).clone();
    padded.narrow(1, 4, 32).narrow(2, 4, 32).copy_(whole.images[i]);
    EXPECT_TRUE(is_crop_of(batch.images[i], padded)) << i;
  }
}

TEST_F(Images, AugmentationBelongsToSeedEpochAndSampleNotToTheBatch) {
  const auto files = training_files(folder_.path(), 1);
  const std::vector<std::int64_t> alone = {7}, among = {3, 7, 11};
  const auto expected = augmented(files, alone, 1, 4).images[0];
  EXPECT_TRUE(torch::equal(augmented(files, among, 1, 4).images[1], expected));

  int different = 0;  // each pair agrees once in 162 times
  for (std::int64_t epoch = 5; epoch < 15; ++epoch) {
    different += torch::equal(augmented(files, alone, 1, epoch).images[0], expected) ? 0 : 1;
    different +=
        torch::equal(augmented(files, alone, static_cast<std::uint64_t>(epoch), 4).images[0],
                     expected)
            ? 0
            : 1;
  }
  EXPECT_GE(different, 18);
}

TEST_F(Images, AMissingFileAndOneThatEndsWithinAnImageAreNamed) {
  EXPECT_THAT(thrown<zero::IoError>([&] { training_files(folder_.path(), 3); }),
              HasSubstr("data_batch_3.bin"));
  std::filesystem::resize_file(folder_ / "test_batch.bin", 2 * 3073 + 5);
  EXPECT_THAT(thrown<zero::FormatError>([&] { test_file(folder_.path()); }),
              HasSubstr("test_batch.bin: byte 6146"));
}

}  // namespace
}  // namespace resnet
