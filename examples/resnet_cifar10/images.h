#pragma once

/// CIFAR-10 on the disk, and what a training makes of its images.

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>

#include "libzero/zero.h"

namespace resnet {

constexpr std::int64_t kClasses = 10;

/// data_batch_1.bin ... data_batch_<files>.bin of the folder. Throws what zero::CifarFiles throws,
/// naming the file.
zero::CifarFiles training_files(const std::string& folder, int files);

/// test_batch.bin.
zero::CifarFiles test_file(const std::string& folder);

/// What the network sees of an image, and what it should say.
struct Batch {
  torch::Tensor images;  ///< float32 [n, 3, 32, 32], channels last; about mean 0, variance 1.
  torch::Tensor labels;  ///< int64 [n].
};

/// Images as they are.
Batch plain(const zero::CifarFiles& files, std::span<const std::int64_t> samples);

/// Each image moved by up to 4 pixels both ways, and mirrored or not, by a seed made of (seed,
/// epoch, sample): the same whichever rank asks, and when a step is taken again after a resume.
Batch augmented(const zero::CifarFiles& files, std::span<const std::int64_t> samples,
                std::uint64_t seed, std::int64_t epoch);

}  // namespace resnet
