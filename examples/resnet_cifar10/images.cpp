#include "examples/resnet_cifar10/images.h"

#include <array>
#include <vector>

namespace resnet {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kPadding = 4;

// Of the training images' pixels, by channel.
constexpr std::array kMean = {0.4914F, 0.4822F, 0.4465F};
constexpr std::array kDeviation = {0.2470F, 0.2435F, 0.2616F};

Batch normalized(const torch::Tensor& images, const torch::Tensor& labels) {
  const auto mean = torch::tensor(torch::ArrayRef(kMean)).view({3, 1, 1});
  const auto deviation = torch::tensor(torch::ArrayRef(kDeviation)).view({3, 1, 1});
  const auto values = (images.to(torch::kFloat) / 255 - mean) / deviation;
  return {values.contiguous(torch::MemoryFormat::ChannelsLast), labels};
}

/// `padded`: [3, 40, 40].
torch::Tensor cut_out(const torch::Tensor& padded, std::uint64_t random) {
  constexpr std::uint64_t kPlaces = 2 * kPadding + 1;
  const auto down = static_cast<std::int64_t>(random % kPlaces);
  const auto right = static_cast<std::int64_t>(random / kPlaces % kPlaces);
  const bool is_mirrored = (random >> 63) != 0;
  const auto image = padded.narrow(1, down, kSide).narrow(2, right, kSide);
  return is_mirrored ? image.flip(2) : image;
}

}  // namespace

zero::CifarFiles training_files(const std::string& folder, int files) {
  std::vector<std::string> paths;
  for (int i = 1; i <= files; ++i)
    paths.push_back(folder + "/data_batch_" + std::to_string(i) + ".bin");
  return zero::CifarFiles(paths);
}

zero::CifarFiles test_file(const std::string& folder) {
  return zero::CifarFiles({folder + "/test_batch.bin"});
}

Batch plain(const zero::CifarFiles& files, std::span<const std::int64_t> samples) {
  const zero::LabelledImages read = files.read(samples);
  return normalized(read.images, read.labels);
}

Batch augmented(const zero::CifarFiles& files, std::span<const std::int64_t> samples,
                std::uint64_t seed, std::int64_t epoch) {
  const zero::LabelledImages read = files.read(samples);
  const auto padded =
      torch::constant_pad_nd(read.images, {kPadding, kPadding, kPadding, kPadding}, 0);
  std::vector<torch::Tensor> images;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    images.push_back(cut_out(padded[static_cast<std::int64_t>(i)],
                             zero::micro_batch_seed(seed, epoch, samples[i])));
  }
  return normalized(torch::stack(images), read.labels);
}

}  // namespace resnet
