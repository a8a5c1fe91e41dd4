#include "libzero/estimate/transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kMaxMeasure = std::int64_t{1} << 28;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
constexpr std::int64_t kElementsOfARow = std::int64_t{1} << 24;

void require_measure(const char* name, std::int64_t value, std::int64_t most) {
  ZERO_REQUIRE(value > 0 && value <= most,
               "estimate: a measure of the model is missing or out of "
               "range, give one of 1 to " +
                   std::to_string(most) + ": " + name + " = " + std::to_string(value) +
                   (value == 0 ? " (missing)" : ""));
}

class Rows {
 public:
  explicit Rows(DType dtype) : dtype_(dtype) {}

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    rows_.push_back({.name = name, .shape = std::move(shape), .dtype = dtype_});
  }
  void add_with_bias(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width});
    add(name + ".bias", {width});
  }
  std::vector<ParameterSpec> take() { return std::move(rows_); }

 private:
  DType dtype_;
  std::vector<ParameterSpec> rows_;
};

}  // namespace

std::vector<ParameterSpec> transformer_parameters(const Transformer& model, DType dtype) {
  require_measure("layers", model.layers, kMaxTransformerLayers);
  require_measure("hidden", model.hidden, kMaxMeasure);
  require_measure("vocabulary", model.vocabulary, kMaxMeasure);
  require_measure("context", model.context, kMaxMeasure);
  const std::int64_t width = model.hidden;
  Rows rows(dtype);
  rows.add("token_embedding.weight", {model.vocabulary, width});
  rows.add("position_embedding.weight", {model.context, width});
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    rows.add_norm(block + "ln1", width);
    rows.add_with_bias(block + "qkv", 3 * width, width);
    rows.add_with_bias(block + "proj", width, width);
    rows.add_norm(block + "ln2", width);
    rows.add_with_bias(block + "fc", 4 * width, width);
    rows.add_with_bias(block + "fc_out", width, 4 * width);
  }
  rows.add_norm("ln_f", width);
  std::vector<ParameterSpec> all = rows.take();
  elements_of(all);
  return all;
}

std::vector<ParameterSpec> anonymous_parameters(std::int64_t count, DType dtype) {
  ZERO_REQUIRE(count > 0 && count <= kMaxElements,
               "estimate: the number of parameters must be 1 to 2^50: " + std::to_string(count));
  // Very large models get larger rows, so that their number stays small.
  const std::int64_t row = std::max(kElementsOfARow, count >> 16);
  Rows rows(dtype);
  for (std::int64_t done = 0; done < count; done += row) {
    rows.add("part." + std::to_string(done / row), {std::min(row, count - done)});
  }
  return rows.take();
}

std::int64_t elements_of(std::span<const ParameterSpec> parameters) {
  std::int64_t total = 0;
  for (const ParameterSpec& parameter : parameters) {
    if (parameter.alias_of >= 0) continue;
    const std::int64_t elements = parameter.numel();
    ZERO_REQUIRE(elements <= kMaxElements - total,
                 "estimate: the model has more than 2^50 elements; the row that passes it: " +
                     parameter.name);
    total += elements;
  }
  return total;
}

}  // namespace zero
