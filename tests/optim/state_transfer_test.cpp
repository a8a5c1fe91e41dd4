/// Shards of one layout into those of another, in many small rounds.

#include "libzero/optim/state_transfer.h"

#include "tests/optim/misuse_support.h"

namespace zero::testing {
namespace {

constexpr StateKind kKept[] = {StateKind::kExpAvg, StateKind::kExpAvgSq};
constexpr OffloadedArray kArrays[] = {OffloadedArray::kMaster, kept_array(0), kept_array(1)};

/// One rank's arrays over parameters of a kind.
struct Side {
  Side(const std::vector<std::pair<std::string, std::int64_t>>& parameters, torch::Dtype dtype,
       std::int64_t bucket_bytes, int stage, const Collective& comm)
      : table(make_parameter_table(tensors_of(parameters, dtype), {})),
        layout(table.specs, {bucket_bytes, bucket_bytes, 64}),
        states(make_bucket_states(layout, stage, comm.rank(), comm.size(), kKept)) {}

  static std::vector<NamedTensor> tensors_of(
      const std::vector<std::pair<std::string, std::int64_t>>& parameters, torch::Dtype dtype) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, size] : parameters)
      tensors.push_back({name, torch::zeros({size}, dtype).requires_grad_(true)});
    return tensors;
  }

  StateArrays arrays() { return {layout, table, states, nullptr}; }

  ParameterTable table;
  Layout layout;
  std::vector<BucketState> states;
};

float value_of(const std::string& name, OffloadedArray array, std::int64_t element) {
  return 1e5f * static_cast<float>(name[0]) + 2e4f * static_cast<float>(array) +
         static_cast<float>(element);
}

class StateTransferTest : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(RoundsOf, StateTransferTest, ::testing::Values(1, 100, 1 << 20),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(StateTransferTest, BringsEveryElementToItsNewOwner) {
  for (const int world : {1, 2, 4}) {
    for (const int stage : {0, 2}) {
      on_every_rank(world, [&](const Comm& comm) {
        Side before({{"a", 300}, {"b", 700}, {"c", 70}}, torch::kBFloat16, 900, stage, *comm);
        Side after({{"c", 70}, {"x", 200}, {"b", 700}, {"a", 300}}, torch::kBFloat16, 1500, stage,
                   *comm);
        const StateArrays from = before.arrays(), to = after.arrays();
        for (std::int32_t p = 0; p < 3; ++p) {
          const Extent kept = from.kept(p);
          for (const OffloadedArray array : kArrays) {
            for (std::int64_t i = kept.begin; i < kept.end; ++i) {
              const float value =
                  value_of(before.table.specs[static_cast<std::size_t>(p)].name, array, i);
              from.write(p, array, i, 1, &value);
            }
          }
        }
        const std::vector<std::int32_t> sources = {2, -1, 1, 0};
        StateTransfer transfer(from, to, sources, stage == 0, *comm, GetParam());
        EXPECT_FALSE(transfer.run().has_value());
        transfer.put_parameters();
        for (std::int32_t p = 0; p < 4; ++p) {
          const auto index = static_cast<std::size_t>(p);
          const Extent kept = to.kept(p);
          for (std::int64_t i = kept.begin; i < kept.end; ++i) {
            const std::string& name = after.table.specs[index].name;
            for (const OffloadedArray array : kArrays) {
              float value = -1;
              to.read(p, array, i, 1, &value);
              ASSERT_EQ(value, sources[index] < 0 ? 0 : value_of(name, array, i)) << name << i;
            }
            ASSERT_EQ(after.table.tensors[index][i].item<float>(),
                      sources[index] < 0 ? 0
                                         : torch::tensor(value_of(name, OffloadedArray::kMaster, i))
                                               .to(torch::kBFloat16)
                                               .item<float>());
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace zero::testing
