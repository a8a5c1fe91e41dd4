#include <cmath>
#include <limits>

#include "libzero/optim/parameter_loader.h"
#include "libzero/optim/weight_types.h"
#include "tests/optim/misuse_support.h"
#include "tests/optim/toy_model.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

/// Float32 tensors in memory; reading number `fails_at` finds damage.
class MemoryWeights : public WeightSource {
 public:
  MemoryWeights(std::map<std::string, torch::Tensor> tensors, std::int64_t fails_at)
      : tensors_(std::move(tensors)), left_(fails_at) {}

  std::vector<WeightEntry> entries() const override {
    std::vector<WeightEntry> entries;
    for (const auto& [name, tensor] : tensors_)
      entries.push_back({name, "F32", tensor.sizes().vec()});
    return entries;
  }
  std::map<std::string, std::string> aliases() const override { return {}; }
  void read(const std::string& name, std::uint64_t offset,
            std::span<std::byte> dst) const override {
    if (left_-- == 0) throw FormatError("weights: damaged in the middle of " + name);
    std::memcpy(dst.data(),
                static_cast<const char*>(tensors_.at(name).contiguous().data_ptr()) + offset,
                dst.size());
  }

 private:
  std::map<std::string, torch::Tensor> tensors_;
  mutable std::int64_t left_;
};

/// What a ParameterLoader works on, without an Optimizer around it.
struct Bare {
  Bare(const Comm& comm, torch::Dtype dtype)
      : model(dtype),
        table(make_parameter_table(named_parameters(*model), {})),
        buffers(named_buffers(*model)),
        layout(table.specs,
               {.bucket_bytes = 6000, .first_bucket_bytes = 1000, .shard_alignment = 64}),
        states(make_bucket_states(layout, 2, comm->rank(), comm->size())) {}

  Snapshot everything() const {
    Snapshot result = snapshot(model);
    result.emplace_back("scale", model->scale.clone());
    for (const BucketState& state : states) {
      result.emplace_back("masters", torch::from_blob(const_cast<float*>(state.master.data()),
                                                      {state.master.size()}, torch::kFloat)
                                         .clone());
    }
    return result;
  }

  ToyModel model;
  ParameterTable table;
  std::vector<NamedTensor> buffers;
  Layout layout;
  std::vector<BucketState> states;
};

std::map<std::string, torch::Tensor> weights() {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : ToyModel()->named_parameters())
    tensors[item.key()] = numbers(item.value().sizes(), 3);
  tensors.erase("output");
  tensors["scale"] = torch::full({1}, 0.5F);
  return tensors;
}

constexpr std::int64_t kPiece = 501;
constexpr auto kAllow = [] { return LoadParametersOptions().allow_dtype_change(true); };

TEST(ParameterLoaderTest, DamageAtAnyReadChangesNothing) {
  std::int64_t reads = 0;
  for (bool failed = true; failed; ++reads) {
    std::vector<std::string> errors(3);
    on_every_rank(3, [&](const Comm& comm) {
      Bare bare(comm, torch::kBFloat16);
      const Snapshot before = bare.everything();
      ParameterLoader loader(bare.layout, bare.table, bare.buffers, bare.states, *comm, kPiece);
      const auto rank = static_cast<std::size_t>(comm->rank());
      try {
        loader.stage([&] { return std::make_unique<MemoryWeights>(weights(), reads); }, kAllow());
      } catch (const FormatError& error) {
        errors[rank] = error.what();
      }
      expect_same(before, bare.everything());
    });
    failed = !errors[0].empty();
    for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
    if (failed) {
      EXPECT_THAT(errors[0], HasSubstr("damaged in the middle of "));
    }
  }
  EXPECT_GT(reads, 15);  // pieces of several sizes were among them
}

TEST(ParameterLoaderTest, PiecesOfAnySizeGiveTheSame) {
  const auto tensors = weights();
  for (const std::int64_t piece : {std::int64_t{64}, kPiece, std::int64_t{1} << 20}) {
    on_every_rank(3, [&](const Comm& comm) {
      Bare bare(comm, torch::kHalf);
      ParameterLoader loader(bare.layout, bare.table, bare.buffers, bare.states, *comm, piece);
      loader.stage([&] { return std::make_unique<MemoryWeights>(tensors, -1); }, kAllow());
      loader.apply();
      for (const auto& [name, value] : tensors) {
        const torch::Tensor now =
            name == "scale" ? bare.model->scale : bare.model->named_parameters()[name].detach();
        EXPECT_TRUE(torch::equal(now, value.to(torch::kHalf))) << name << " in pieces of " << piece;
      }
    });
  }
}

/// All 16-bit patterns and what lies around their borders, as float32.
torch::Tensor hard_floats() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0x1000U, 0x0fffU, 0x1001U})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  return torch::tensor(values);
}

TEST(WeightTypesTest, ConvertAsLibTorchRounds) {
  const torch::Tensor floats = hard_floats();
  for (const torch::Dtype from : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    for (const torch::Dtype to : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf}) {
      const torch::Tensor source = floats.to(from);
      torch::Tensor target = torch::empty_like(floats, to);
      convert_weights(
          weight_type_of(from), {static_cast<const std::byte*>(source.data_ptr()), source.nbytes()},
          weight_type_of(to), {static_cast<std::byte*>(target.data_ptr()), target.nbytes()});
      const torch::Tensor expected = source.to(torch::kFloat).to(to);
      EXPECT_TRUE(torch::equal(torch::isnan(target), torch::isnan(expected))) << from << to;
      EXPECT_TRUE(torch::equal(torch::nan_to_num(target.to(torch::kDouble), -7, -8, -9),
                               torch::nan_to_num(expected.to(torch::kDouble), -7, -8, -9)))
          << from << to;
    }
  }
}

TEST(WeightTypesTest, CountFiniteValuesThatBecomeInfinite) {
  const std::vector<double> values{1e39,
                                   -1e39,
                                   1e6,
                                   1,
                                   std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()};
  std::vector<std::byte> out(values.size() * 8);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(convert_weights("F64", bytes, "F64", out), 0);
  EXPECT_EQ(convert_weights("F64", bytes, "F32", out), 2);
  EXPECT_EQ(convert_weights("F64", bytes, "BF16", out), 2);
  EXPECT_EQ(convert_weights("F64", bytes, "F16", out), 3);
}

}  // namespace
}  // namespace zero::testing
