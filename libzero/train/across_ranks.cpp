#include "libzero/train/across_ranks.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/base/shape_text.h"
#include "libzero/collective/agreement.h"
#include "libzero/optim/model_sync.h"

namespace zero {
namespace {

using Words = std::vector<std::int64_t>;  // int64, or the bits of float64

/// Everybody's words, by rank.
std::vector<Words> gather(const Words& mine, const char* label, Collective& comm) {
  const auto each = static_cast<std::int64_t>(mine.size());
  const auto ranks = static_cast<std::size_t>(comm.size());
  Words all(mine.size() * ranks);
  comm.all_gather({mine.data(), each, DType::kInt64},
                  {all.data(), each * comm.size(), DType::kInt64}, label)
      ->wait();
  std::vector<Words> by_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
    by_rank.emplace_back(begin, begin + each);
  }
  return by_rank;
}

void require_weight(double weight, std::size_t rank) {
  ZERO_REQUIRE(std::isfinite(weight) && weight >= 0,
               "reduce_mean: a weight must be finite and not negative: rank " +
                   std::to_string(rank) + " passed " + number_text(weight));
}

bool is_counted(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

std::vector<std::string> facts_of(const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> facts;
  for (const auto& [name, tensor] : buffers) {
    facts.push_back("buffer " + name + ": " + c10::toString(tensor.scalar_type()) + " " +
                    shape_text(tensor.sizes().vec()));
  }
  return facts;
}

/// All elements of all buffers.
Words pack(const std::vector<NamedTensor>& buffers) {
  Words words;
  for (const auto& [name, tensor] : buffers) {
    if (is_counted(tensor)) {
      const at::Tensor values = tensor.to(at::kCPU, at::kLong).contiguous();
      const auto* const data = values.const_data_ptr<std::int64_t>();
      words.insert(words.end(), data, data + values.numel());
    } else {
      const at::Tensor values = tensor.to(at::kCPU, at::kDouble).contiguous();
      const auto* const data = values.const_data_ptr<double>();
      for (std::int64_t i = 0; i < values.numel(); ++i)
        words.push_back(std::bit_cast<std::int64_t>(data[i]));
    }
  }
  return words;
}

std::int64_t largest(const std::vector<Words>& by_rank, std::size_t at) {
  std::int64_t result = by_rank[0][at];
  for (const Words& words : by_rank) result = std::max(result, words[at]);
  return result;
}

double mean(const std::vector<Words>& by_rank, std::size_t at) {
  double sum = 0;
  for (const Words& words : by_rank) sum += std::bit_cast<double>(words[at]);
  return sum / static_cast<double>(by_rank.size());
}

}  // namespace

double reduce_mean(double value, double weight, Collective& comm) {
  return reduce_mean(std::span(&value, 1), weight, comm).front();
}

std::vector<double> reduce_mean(std::span<const double> values, double weight, Collective& comm) {
  Words mine = {std::bit_cast<std::int64_t>(weight)};
  for (const double value : values) mine.push_back(std::bit_cast<std::int64_t>(value));
  const std::vector<Words> by_rank = gather(mine, "mean of metrics", comm);

  double total = 0;
  std::vector<double> sums(values.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto of_rank = std::bit_cast<double>(by_rank[rank][0]);
    require_weight(of_rank, rank);
    if (of_rank == 0) continue;
    total += of_rank;
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += std::bit_cast<double>(by_rank[rank][i + 1]) * of_rank;
  }
  ZERO_REQUIRE(total > 0, "reduce_mean: at least one rank must have a weight above 0: all are 0");
  for (double& sum : sums) sum /= total;
  return sums;
}

void sync_buffers(const torch::nn::Module& module, Collective& comm) {
  sync_buffers(named_buffers(module), comm);
}

void sync_buffers(const std::vector<NamedTensor>& buffers, Collective& comm) {
  require_agreement(comm, facts_of(buffers));
  for (const auto& [name, tensor] : buffers) {
    ZERO_REQUIRE(!tensor.is_complex(),
                 "sync_buffers: complex buffers have no mean here; leave it out: " + name);
  }
  const c10::NoGradGuard no_grad;
  const std::vector<Words> by_rank = gather(pack(buffers), "buffers of all ranks", comm);
  std::size_t next = 0;
  for (const auto& [name, tensor] : buffers) {
    const bool counts = is_counted(tensor);
    at::Tensor values = at::empty(tensor.sizes(), counts ? at::kLong : at::kDouble);
    for (std::int64_t i = 0; i < values.numel(); ++i, ++next) {
      if (counts)
        values.mutable_data_ptr<std::int64_t>()[i] = largest(by_rank, next);
      else
        values.mutable_data_ptr<double>()[i] = mean(by_rank, next);
    }
    copy_into(tensor, values.to(tensor.device(), tensor.scalar_type()));
  }
}

}  // namespace zero
