/// A checkpoint that another kind of training takes: weights alone, or with other parameters
/// trained, frozen, tied.

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "checkpoint/ranks/save.h"
#include "libzero/base/float16.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/random_plan.h"
#include "libzero/optim/random_state.h"
#include "libzero/optim/trainer_keys.h"
#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

using checkpoint::Blob;
using checkpoint::make_memory_store;
using checkpoint::Store;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Restored how_is(const LoadReport& report, const std::string& item) {
  for (const LoadItem& line : report.items) {
    if (line.item == item) return line.how;
  }
  ADD_FAILURE() << "no item " << item << " in\n" << to_text(report);
  return Restored::kRestored;
}

/// What only belongs to the training, not to its weights.
bool is_moment(const std::string& name) {
  return name.starts_with("exp_avg");
}

class WeightsOnlyTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, WeightsOnlyTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST_P(WeightsOnlyTest, AreTheMastersAndEverythingElseBeginsAnew) {
  const auto dtype = GetParam();
  const auto store = make_memory_store();
  on_jobs(2, {.stage = 2, .dtype = dtype}, [&](Job& job) {
    job.train(4);
    job.optimizer->save(*store);
  });
  const Image& saved = twin_image(dtype, 4);
  std::vector<Image> continued(2);
  for (const int world : {1, 3}) {
    on_jobs(world, {.stage = world % 3, .dtype = dtype, .seed = 5, .lr = 0.25}, [&](Job& job) {
      job.train(2);  // what the optimizer did before leaves no trace
      const double lr = job.optimizer->param_groups()[0].options().get_lr();
      const LoadReport report = job.optimizer->load(*store, 4, LoadOptions().weights_only(true));
      EXPECT_EQ(report.step, 4);
      EXPECT_EQ(how_is(report, "exp_avg"), Restored::kDefaulted);
      EXPECT_EQ(how_is(report, "steps"), Restored::kDefaulted);
      EXPECT_EQ(how_is(report, "loss scale"), Restored::kDefaulted);
      EXPECT_EQ(how_is(report, "options of groups"), Restored::kKept);
      EXPECT_EQ(how_is(report, "random state"), Restored::kKept);
      const Image image = job.image();
      for (const auto& [name, bytes] : image) {
        if (is_moment(name)) {
          EXPECT_EQ(bytes, std::string(bytes.size(), '\0')) << name;
        } else if (name != "steps" && name != "scale" && name != "options") {
          EXPECT_EQ(bytes, saved.at(name)) << name;
        }
      }
      EXPECT_EQ(image.at("steps"), "0 0");
      EXPECT_EQ(image.at("scale"), dtype == torch::kHalf ? "65536" : "1");
      EXPECT_EQ(job.optimizer->param_groups()[0].options().get_lr(), lr);
      job.train(4);
      const Image later = job.image();
      if (job.comm_->rank() == 0) continued[world == 1 ? 0 : 1] = later;
    });
  }
  EXPECT_EQ(first_difference(continued[0], continued[1]), "");
}

/// A model of four tensors: "a" and "b", of which one may be frozen, and "t" and "u", which may be
/// the same one.
struct Model {
  Model(const Comm& comm, bool a_trains, bool b_trains, bool is_tied, float value) {
    const auto tensor = [&](std::int64_t n, bool trains) {
      return torch::full({n}, value, torch::kBFloat16).requires_grad_(trains);
    };
    a = tensor(9000, a_trains);
    b = tensor(70, b_trains);
    t = tensor(5000, true);
    u = is_tied ? t : tensor(5000, true);
    optimizer = std::make_unique<Optimizer>(
        std::vector<NamedTensor>{{"a", a}, {"b", b}, {"t", t}, {"u", u}},
        std::vector<NamedTensor>(), AdamWOptions(1e-3), toy_options(2), comm);
  }

  torch::Tensor a, b, t, u;
  std::unique_ptr<Optimizer> optimizer;
};

constexpr StateKind kStates[] = {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq};

float value_of(const std::string& name, std::int64_t element, StateKind kind) {
  return static_cast<float>(name[0]) + 0.001f * static_cast<float>(element) +
         1000 * static_cast<float>(kind);
}

/// Trains a, t and u, which are one tensor; b is frozen.
std::unique_ptr<Store> saved_model() {
  auto store = make_memory_store();
  on_every_rank(2, [&](const Comm& comm) {
    Model model(comm, true, false, true, 7);
    for (const StateKind kind : kStates) {
      model.optimizer->for_each_shard(kind, [&](const ShardView& view) {
        for (std::size_t i = 0; i < view.values.size(); ++i)
          view.values[i] = value_of(view.name, view.begin + static_cast<std::int64_t>(i), kind);
      });
    }
    model.optimizer->save(*store);
    model.optimizer->shutdown();
  });
  return store;
}

void expect_state(Optimizer& optimizer, const std::string& name, const std::string& saved,
                  StateKind kind) {
  const auto whole = optimizer.gather(name, kind);
  for (std::int64_t i = 0; i < whole.numel(); ++i)
    ASSERT_EQ(whole.data_ptr<float>()[i], value_of(saved, i, kind)) << name << " " << i;
}

TEST(ChangedTraining, TakesMastersValuesAndCopiesOfBoth) {
  const auto store = saved_model();
  for (const int world : {1, 3}) {
    on_every_rank(world, [&](const Comm& comm) {
      Model model(comm, false, true, false, 1);
      const LoadReport report = model.optimizer->load(
          *store, 0, LoadOptions().reshard_on_load(true).allow_changed_training(true));
      for (std::int64_t i = 0; i < model.a.numel(); ++i) {  // frozen: the master, rounded
        ASSERT_EQ(model.a[i].item<float>(),
                  float_from_bfloat16(bfloat16_from_float(value_of("a", i, StateKind::kMaster))));
      }
      const auto of_b = [&](StateKind kind) { return model.optimizer->gather("b", kind); };
      EXPECT_TRUE(torch::equal(of_b(StateKind::kMaster), torch::full({70}, 7.0f)));
      EXPECT_TRUE(torch::equal(of_b(StateKind::kExpAvg), torch::zeros({70})));
      EXPECT_TRUE(torch::equal(of_b(StateKind::kExpAvgSq), torch::zeros({70})));
      for (const char* name : {"t", "u"}) {
        for (const StateKind kind : kStates) expect_state(*model.optimizer, name, "t", kind);
      }
      for (const char* item : {"parameter a", "parameter b", "parameter u"})
        EXPECT_EQ(how_is(report, item), Restored::kConverted) << item;
      model.optimizer->shutdown();
    });
  }
}

TEST(ChangedTraining, IsRefusedWithoutTheOptionWhichIsNamedForEach) {
  const auto store = saved_model();
  on_every_rank(2, [&](const Comm& comm) {
    Model model(comm, false, true, false, 1);
    EXPECT_THAT(thrown<ContractError>([&] { model.optimizer->load(*store, 0); }),
                AllOf(HasSubstr("3 differences"),
                      HasSubstr("'a': trainable in the checkpoint, frozen in the model "
                                "(allow_changed_training)"),
                      HasSubstr("'b': frozen in the checkpoint, trainable in the model "
                                "(allow_changed_training)"),
                      HasSubstr("'u': tied to 't' in the checkpoint, not in the model "
                                "(allow_changed_training)")));
    EXPECT_TRUE(torch::equal(model.a.detach(), torch::ones({9000}, torch::kBFloat16)));
    model.optimizer->shutdown();
  });
}

TEST(ChangedTraining, DoesNotMatterToWhoWantsTheWeightsAlone) {
  const auto store = saved_model();
  on_every_rank(1, [&](const Comm& comm) {
    Model model(comm, false, true, true, 1);
    model.optimizer->load(*store, 0, LoadOptions().weights_only(true));
    EXPECT_EQ(model.a[3].item<float>(),
              float_from_bfloat16(bfloat16_from_float(value_of("a", 3, StateKind::kMaster))));
    expect_state(*model.optimizer, "u", "t", StateKind::kMaster);
    EXPECT_TRUE(torch::equal(model.b.detach(), torch::full({70}, 7, torch::kBFloat16)));
    model.optimizer->shutdown();
  });
}

/// A checkpoint of three ranks, each with a random state of its own. LibTorch's generator belongs
/// to the process: ranks that are threads take turns.
struct ThreeStates {
  ThreeStates() {
    std::mutex mutex;
    on_jobs(3, {}, [&](Job& job) {
      const CheckpointAccess access(*job.optimizer);
      const auto comm = access.comm();
      const auto rank = static_cast<std::size_t>(comm->rank());
      std::optional<CheckpointState> state;
      {
        const std::lock_guard lock(mutex);
        torch::manual_seed(100 + rank);
        states[rank] = random_state();
        state.emplace(access.state({}));
      }
      checkpoint::save_on_ranks(*store, state->common, state->part, *comm);
    });
  }

  std::unique_ptr<Store> store = make_memory_store();
  std::vector<Blob> states = std::vector<Blob>(3);
};

TEST(RandomStates, GoBackToTheRanksThatTheyCameFromAndNewRanksGetTheirOwn) {
  const ThreeStates saved;
  const auto reader = saved.store->open(0);
  std::vector<Blob> all;
  for (int rank = 0; rank < 5; ++rank) {
    LoadPlan plan;
    const auto taken = plan_random_state(*reader, {}, rank, plan);
    ASSERT_TRUE(taken) << rank;
    EXPECT_EQ(problem_of_random_state(*taken), "");
    EXPECT_EQ(std::count(all.begin(), all.end(), *taken), 0) << "two ranks draw the same numbers";
    all.push_back(*taken);
    const Restored how = rank < 3 ? Restored::kRestored : Restored::kDerived;
    EXPECT_EQ(plan.items.at(0).how, how);
    if (rank < 3) {
      EXPECT_EQ(*taken, saved.states[static_cast<std::size_t>(rank)]) << rank;
    }
    EXPECT_FALSE(plan_random_state(*reader, LoadOptions().random_state(false), rank, plan));
    EXPECT_FALSE(plan_random_state(*reader, LoadOptions().weights_only(true), rank, plan));
  }
}

TEST(RandomStates, OfWhicheverRankAreCheckedAndNamed) {
  const auto store = make_memory_store();
  on_jobs(3, {}, [&](Job& job) {
    const CheckpointAccess access(*job.optimizer);
    CheckpointState state = access.state({});
    if (job.comm_->rank() == 2) state.part.state.blobs[std::string(kRandomCpu)].resize(17);
    checkpoint::save_on_ranks(*store, state.common, state.part, *access.comm());
  });
  std::vector<std::string> texts(3);
  on_jobs(3, {}, [&](Job& job) {
    texts[static_cast<std::size_t>(job.comm_->rank())] =
        thrown<ContractError>([&] { job.optimizer->load(*store, 0); });
    job.optimizer->load(*store, 0, LoadOptions().random_state(false));
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("rank 2: "), HasSubstr("none of this version"))));
}

}  // namespace
}  // namespace zero::testing
