#include "model.h"

#include <string>

namespace zero::checkpoint::benchmark {

void Model::add_parameter(const std::string& name, std::vector<std::int64_t> shape) {
  common_.parameters.push_back({name, std::move(shape), DType::kFloat32, 0, true, -1});
}

Model::Model(std::uint64_t bytes) {
  constexpr std::int64_t kWidth = 768;
  common_.groups = {{{"lr", 1e-3}, {"weight_decay", 0.1}}};
  const auto wanted = static_cast<std::int64_t>(bytes / (3 * sizeof(float)));
  std::int64_t numel = 0;
  for (int layer = 0; numel < wanted; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    const std::size_t first = common_.parameters.size();
    add_parameter(block + "norm.weight", {kWidth});
    add_parameter(block + "attention.weight", {3 * kWidth, kWidth});
    add_parameter(block + "attention.bias", {3 * kWidth});
    add_parameter(block + "projection.weight", {kWidth, kWidth});
    add_parameter(block + "up.weight", {4 * kWidth, kWidth});
    add_parameter(block + "up.bias", {4 * kWidth});
    add_parameter(block + "down.weight", {kWidth, 4 * kWidth});
    for (std::size_t row = first; row < common_.parameters.size(); ++row) {
      numel += common_.parameters[row].numel();
    }
  }
  for (const char* state : {"master", "exp_avg", "exp_avg_sq"}) add_state(state, numel);
}

void Model::add_state(const std::string& name, std::int64_t numel) {
  auto& words = memory_.emplace_back(static_cast<std::size_t>(numel));
  std::uint32_t word = static_cast<std::uint32_t>(memory_.size());
  for (std::uint32_t& w : words) w = word = word * 1664525u + 1013904223u;
  std::span<const std::byte> rest = std::as_bytes(std::span(words));
  views_.push_back(rest);
  StateView view{name, DType::kFloat32, {}, {}};
  for (std::size_t row = 0; row < common_.parameters.size(); ++row) {
    const std::int64_t count = common_.parameters[row].numel();
    view.extents.push_back({static_cast<std::int32_t>(row), 0, count});
    view.pieces.push_back(rest.first(static_cast<std::size_t>(count) * sizeof(float)));
    rest = rest.subspan(view.pieces.back().size());
  }
  part_.states.push_back(std::move(view));
}

std::uint64_t Model::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& state : views_) bytes += state.size();
  return bytes;
}

}  // namespace zero::checkpoint::benchmark
