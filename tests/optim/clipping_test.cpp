/// Clipping by value and by group in the sharded optimizer, against fp64 and over stages and
/// worlds.

#include <cmath>
#include <limits>

#include "libzero/train/group_norms.h"
#include "tests/offload/offload_support.h"
#include "tests/optim/rebuild_support.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Bits = std::map<std::string, std::string>;

std::vector<Part> clipped_parts() {
  return {{.name = "large", .shape = {90, 70}},
          {.name = "apart", .shape = {5000}, .seed = 2},
          {.name = "bias", .shape = {300}, .seed = 3},
          {.name = "mixed", .shape = {30, 40}, .seed = 4, .is_transposed = true}};
}

/// "apart" is group 1, "bias" group 2.
Options clipped_options(int stage, double apart, double bias) {
  const auto named = [](const std::string& wanted) {
    return [wanted](const std::string& name, const at::Tensor&) { return name == wanted; };
  };
  Options options;
  options.stage(stage).bucket_bytes(16'000).first_bucket_bytes(2000);
  return options.groups({{named("apart"), AdamWOptions(1e-2).weight_decay(0.1), apart},
                         {named("bias"), AdamWOptions(1e-2).weight_decay(0.1), bias}});
}

/// The gradient of micro-batch `micro` in step `step`, exactly.
torch::Tensor gradient_of(const NamedTensor& item, std::int64_t step, std::int64_t micro) {
  const double seed = static_cast<double>(item.name[0]) + 7.0 * static_cast<double>(step) +
                      0.3 * static_cast<double>(micro);
  return numbers(item.tensor.sizes(), seed, item.name == "apart" ? 3.0 : 1.0)
      .to(item.tensor.dtype());
}

StepResult clipped_step_of(PartsJob& job, std::int64_t step) {
  for (std::int64_t i = job.comm->rank(); i < kPartMicros; i += job.comm->size()) {
    torch::Tensor loss = torch::zeros({}, torch::kFloat);
    for (const NamedTensor& item : job.parts.tensors)
      loss = loss + (item.tensor * gradient_of(item, step, i)).to(torch::kFloat).sum();
    job.optimizer->backward(loss);
  }
  return job.optimizer->step();
}

/// In fp64.
torch::Tensor mean_gradient(const NamedTensor& item, std::int64_t step) {
  torch::Tensor sum = torch::zeros(item.tensor.sizes(), torch::kDouble);
  for (std::int64_t i = 0; i < kPartMicros; ++i)
    sum += gradient_of(item, step, i).to(torch::kDouble);
  return sum / static_cast<double>(kPartMicros);
}

double norm_of(const std::vector<torch::Tensor>& gradients) {
  double squares = 0;
  for (const torch::Tensor& gradient : gradients) squares += gradient.square().sum().item<double>();
  return std::sqrt(squares);
}

/// AdamW of one parameter in fp64, by the formulas of the papers.
struct Reference {
  explicit Reference(const torch::Tensor& start)
      : p(start.detach().to(torch::kDouble).clone()), m(zeros_like(p)), v(zeros_like(p)) {}

  void step(const torch::Tensor& g, std::int64_t t) {
    p = p * (1 - 1e-2 * 0.1);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.999, t);
    p = p - 1e-2 * (m / c1) / ((v / c2).sqrt() + 1e-8);
  }

  torch::Tensor p, m, v;
};

void expect_close(Optimizer& optimizer, const std::string& name, const Reference& reference) {
  const auto close = [&](StateKind kind, const torch::Tensor& expected, double tolerance) {
    const auto got = optimizer.gather(name, kind).to(torch::kDouble);
    EXPECT_LE((got - expected).abs().max().item<double>(),
              tolerance * std::max(1e-12, expected.abs().max().item<double>()))
        << name << " kind " << static_cast<int>(kind);
  };
  close(StateKind::kExpAvg, reference.m, 1e-6);
  close(StateKind::kExpAvgSq, reference.v, 1e-6);
  close(StateKind::kMaster, reference.p, 1e-5);
}

class ClippingTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, ClippingTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

/// `check` after each of three steps; the bits at the end are the same everywhere.
void on_every_setting(
    torch::Dtype dtype, const std::function<Options(int stage)>& options,
    const std::function<void(PartsJob&, const StepResult&, std::int64_t)>& check) {
  Bits expected;
  for (const int world : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world));
      on_every_rank(world, [&](const Comm& comm) {
        PartsJob job(comm, Parts(dtype, clipped_parts()), options(stage));
        for (std::int64_t step = 0; step < 3; ++step) {
          const StepResult result = clipped_step_of(job, step);
          job.results += number_text(result.grad_norm) + " " + number_text(result.clip_factor);
          for (const double norm : result.group_norms) job.results += " " + number_text(norm);
          check(job, result, step);
        }
        const Bits bits = job.image();
        if (comm->rank() == 0 && expected.empty()) expected = bits;
        if (comm->rank() == 0) {
          EXPECT_EQ(difference_of(expected, bits), "");
        }
        job.optimizer->shutdown();
      });
    }
  }
}

TEST_P(ClippingTest, ByValueBoundsEachElementOfTheMeanAndReportsTheNormBefore) {
  constexpr double kLimit = 0.25;
  const Parts start(GetParam(), clipped_parts());
  std::vector<std::map<std::string, Reference>> after(1);
  for (const NamedTensor& item : start.tensors) after[0].emplace(item.name, item.tensor);
  for (std::int64_t step = 0; step < 3; ++step) {
    after.push_back(after.back());
    for (const NamedTensor& item : start.tensors)
      after.back().at(item.name).step(mean_gradient(item, step).clamp(-kLimit, kLimit), step + 1);
  }
  on_every_setting(
      GetParam(), [&](int stage) { return clipped_options(stage, 0, 0).clip_value(kLimit); },
      [&](PartsJob& job, const StepResult& result, std::int64_t step) {
        std::vector<torch::Tensor> gradients;
        for (const NamedTensor& item : job.parts.tensors) {
          gradients.push_back(mean_gradient(item, step));
          expect_close(*job.optimizer, item.name,
                       after[static_cast<std::size_t>(step) + 1].at(item.name));
        }
        EXPECT_NEAR(result.grad_norm, norm_of(gradients), 1e-5 * result.grad_norm);
        EXPECT_EQ(result.clip_factor, 1);
        EXPECT_THAT(result.group_norms, IsEmpty());
        const auto whole = job.optimizer->gather("apart", StateKind::kGradient);
        EXPECT_GT(whole.abs().max().item<double>(), kLimit);  // as it was before
      });
}

TEST_P(ClippingTest, ByGroupIsByTheNormOfTheGroupAloneAndOfTheOthersTogether) {
  const Parts start(GetParam(), clipped_parts());
  on_every_setting(
      GetParam(), [](int stage) { return clipped_options(stage, 0.5, 1e6).clip_norm(2.0); },
      [&](PartsJob& job, const StepResult& result, std::int64_t step) {
        const auto mean = [&](const char* name) {
          return mean_gradient({name, start.of(name)}, step);
        };
        const double others = norm_of({mean("large"), mean("mixed")});
        const double apart = norm_of({mean("apart")}), bias = norm_of({mean("bias")});
        ASSERT_THAT(result.group_norms, SizeIs(3));
        EXPECT_NEAR(result.group_norms[0], others, 1e-5 * others);
        EXPECT_NEAR(result.group_norms[1], apart, 1e-5 * apart);
        EXPECT_NEAR(result.group_norms[2], bias, 1e-5 * bias);
        EXPECT_NEAR(result.grad_norm, std::hypot(others, apart, bias), 1e-5 * result.grad_norm);
        EXPECT_GT(others, 4);  // so that all of this clips
        EXPECT_GT(apart, 1);
        EXPECT_NEAR(result.clip_factor, 2.0 / (others + 1e-6), 1e-5);
        EXPECT_EQ(result.group_clip_factors[0], result.clip_factor);
        EXPECT_NEAR(result.group_clip_factors[1], 0.5 / (apart + 1e-6), 1e-5);
        EXPECT_EQ(result.group_clip_factors[2], 1);
        if (step > 0) return;
        for (const auto& [name, group] :
             {std::pair("large", 0), {"mixed", 0}, {"apart", 1}, {"bias", 2}}) {
          const double factor = result.group_clip_factors[static_cast<std::size_t>(group)];
          const auto expected = mean(name) * factor * 0.1;
          const auto got = job.optimizer->gather(name, StateKind::kExpAvg).to(torch::kDouble);
          EXPECT_LE((got - expected).abs().max().item<double>(),
                    1e-6 * expected.abs().max().item<double>())
              << name;
        }
      });
}

TEST(Clipping, GroupNormsThatAreAskedForChangeNoBit) {
  Bits without;
  for (const bool asked : {false, true}) {
    on_every_rank(2, [&](const Comm& comm) {
      PartsJob job(comm, Parts(torch::kFloat, clipped_parts()),
                   clipped_options(1, 0, 0).clip_norm(0.5).group_norms(asked));
      for (std::int64_t step = 0; step < 3; ++step) {
        const StepResult result = clipped_step_of(job, step);
        EXPECT_THAT(result.group_norms, SizeIs(asked ? 3 : 0));
        EXPECT_THAT(result.group_clip_factors, Each(result.clip_factor));
        const std::vector<double> gathered = group_norms(*job.optimizer);
        for (std::size_t i = 0; i < result.group_norms.size(); ++i)
          EXPECT_NEAR(result.group_norms[i], gathered[i], 1e-6 * gathered[i]);
      }
      const Bits bits = job.image();
      if (comm->rank() == 0 && !asked) without = bits;
      if (comm->rank() == 0) {
        EXPECT_EQ(difference_of(without, bits), "");
      }
      job.optimizer->shutdown();
    });
  }
}

TEST(Clipping, ShardsThatCutBlocksOfTheNormHaveTheSameGroupNorms) {
  on_every_rank(4, [](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kFloat, clipped_parts()),
                 clipped_options(2, 0.5, 0).shard_alignment(10));
    const StepResult result = clipped_step_of(job, 0);
    const std::vector<double> gathered = group_norms(*job.optimizer);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(result.group_norms[i], gathered[i], 1e-6 * gathered[i]) << i;
    job.optimizer->shutdown();
  });
}

TEST(Clipping, OneBlockOfAnUnalignedShardMayHoldParametersOfTwoGroups) {
  on_every_rank(4, [](const Comm& comm) {  // rank 1 has [48, 96): the end of one, the start of two
    Parts parts(torch::kFloat, {{.name = "two", .shape = {100}, .seed = 2},
                                {.name = "one", .shape = {50}, .seed = 3}});
    const auto is_two = [](const std::string& name, const at::Tensor&) { return name == "two"; };
    PartsJob job(
        comm, std::move(parts),
        Options().group_norms(true).shard_alignment(8).groups({{is_two, AdamWOptions(1e-2), 0}}));
    EXPECT_EQ(job.optimizer->layout().buckets().size(), 1u);
    const StepResult result = clipped_step_of(job, 0);
    const std::vector<double> gathered = group_norms(*job.optimizer);
    ASSERT_THAT(result.group_norms, SizeIs(2));
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(result.group_norms[i], gathered[i], 1e-6 * gathered[i]) << i;
    job.optimizer->shutdown();
  });
}

TEST(Clipping, AnOverflowIsSaidOfItsGroup) {
  on_every_rank(2, [](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kHalf, clipped_parts()), clipped_options(2, 1, 0));
    const auto bias = job.parts.of("bias");
    if (comm->rank() == 0)
      job.optimizer->backward((bias.to(torch::kFloat) * 1e6).sum());
    else
      job.optimizer->backward((job.parts.of("apart").to(torch::kFloat) * 1e-3).sum());
    const StepResult result = job.optimizer->step();
    EXPECT_FALSE(result.applied);
    ASSERT_THAT(result.group_norms, SizeIs(3));
    EXPECT_EQ(result.group_norms[0], 0);
    EXPECT_GT(result.group_norms[1], 0);
    EXPECT_LT(result.group_norms[1], 1);
    EXPECT_EQ(result.group_norms[2], std::numeric_limits<double>::infinity());
    EXPECT_THAT(result.group_clip_factors, Each(1));
    job.optimizer->shutdown();
  });
}

TEST(Clipping, IsTheSameWithStateOnADiskAndAfterARebuild) {
  for (const bool by_value : {true, false}) {
    Bits expected;
    for (const bool on_disk : {false, true}) {
      const TemporaryFolder folder;
      for (const int stage : {0, 2}) {
        on_every_rank(2, [&](const Comm& comm) {
          Options options = clipped_options(stage, by_value ? 0 : 0.5, 0);
          if (by_value) options.clip_value(0.25);
          if (on_disk) options.offload(in_small_blocks(folder));
          PartsJob job(comm, Parts(torch::kBFloat16, clipped_parts()), options);
          for (std::int64_t step = 0; step < 3; ++step) {
            if (step == 1) job.rebuild();
            clipped_step_of(job, step);
          }
          const Bits bits = job.image();
          if (comm->rank() == 0 && expected.empty()) expected = bits;
          if (comm->rank() == 0) {
            EXPECT_EQ(difference_of(expected, bits), "");
          }
          job.optimizer->shutdown();
        });
      }
    }
  }
}

TEST(Clipping, LimitsThatMakeNoSenseAreRefused) {
  const auto refusal = [](const Options& options) {
    return errors_on_ranks(1, [&](const Comm& comm) {
      PartsJob job(comm, Parts(torch::kFloat, clipped_parts()), options);
    })[0];
  };
  EXPECT_THAT(refusal(clipped_options(2, 0, 0).clip_value(1).clip_norm(1)),
              HasSubstr("clip_value together with a clip_norm is not defined"));
  EXPECT_THAT(refusal(clipped_options(2, 1, 0).clip_value(1)),
              HasSubstr("clip_value together with a clip_norm is not defined"));
  EXPECT_THAT(refusal(clipped_options(2, 0, -1)),
              HasSubstr("clip_norm of group 2 must be finite and at least 0"));
  for (const double value : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(refusal(clipped_options(2, 0, 0).clip_value(value)),
                HasSubstr("clip_value must be finite and at least 0"));
  for (const double value : {1e-60, 1e60})
    EXPECT_THAT(refusal(clipped_options(2, 0, 0).clip_value(value)),
                HasSubstr("clip_value must be a normal number as a float32"));
}

TEST(Clipping, LimitsThatDifferBetweenRanksAreRefused) {
  const auto refusals = [](const std::function<Options(bool odd)>& options) {
    return errors_on_ranks(2, [&](const Comm& comm) {
      PartsJob job(comm, Parts(torch::kFloat, clipped_parts()), options(comm->rank() == 1));
    });
  };
  EXPECT_THAT(refusals([](bool odd) { return clipped_options(2, 0, 0).clip_value(odd ? 2 : 1); }),
              Each(AllOf(HasSubstr("rank 1"), HasSubstr("clip_value 2"))));
  EXPECT_THAT(refusals([](bool odd) { return clipped_options(2, odd ? 2 : 1, 0); }),
              Each(AllOf(HasSubstr("rank 1"), HasSubstr("group 1"), HasSubstr("clip_norm 2"))));
}

}  // namespace
}  // namespace zero::testing
