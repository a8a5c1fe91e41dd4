/// What a checkpoint holds besides parameters, and what LoadOptions change.

#include <gmock/gmock.h>

#include "libzero/base/float16.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/random_state.h"
#include "tests/optim/checkpoint_support.h"
#include "tests/optim/faulty_store.h"

namespace zero::testing {
namespace {

using checkpoint::Blob;
using checkpoint::make_memory_store;
using checkpoint::Store;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Restored how_is(const LoadReport& report, const std::string& item) {
  for (const LoadItem& line : report.items) {
    if (line.item == item) return line.how;
  }
  ADD_FAILURE() << "no item " << item << " in\n" << to_text(report);
  return Restored::kRestored;
}

Blob blob_of(std::size_t size, int seed) {
  Blob blob(size);
  for (std::size_t i = 0; i < size; ++i)
    blob[i] = static_cast<std::byte>(i * 131 + static_cast<std::size_t>(seed));
  return blob;
}

std::unique_ptr<Store> saved(int world_size, const JobOptions& options, std::int64_t steps = 3) {
  auto store = make_memory_store();
  on_jobs(world_size, options, [&](Job& job) {
    job.train(steps);
    job.optimizer->save(*store);
  });
  return store;
}

TEST(CheckpointContent, IsTheSameAtEveryStageButForTheNumber) {
  std::vector<Image> images;
  for (const int stage : {0, 1, 2}) {
    const auto store = saved(3, {.stage = stage, .dtype = torch::kBFloat16});
    const auto reader = store->open(3);
    EXPECT_EQ(reader->info().stage, stage);
    Image image;
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* state : {"master", "exp_avg", "exp_avg_sq", "value"}) {
        for (const Extent& extent : reader->extents(rank, state)) {
          std::string bytes(
              static_cast<std::size_t>((extent.end - extent.begin) *
                                       size_of(reader->dtype(extent.parameter, state))),
              '\0');
          reader->read(extent.parameter, state, extent.begin, extent.end,
                       std::as_writable_bytes(std::span(bytes)));
          image[std::to_string(rank) + state +
                checkpoint::describe(extent, reader->common().parameters)] = bytes;
        }
      }
    }
    images.push_back(image);
  }
  EXPECT_EQ(first_difference(images[0], images[1]), "");
  EXPECT_EQ(first_difference(images[0], images[2]), "");
}

TEST(CheckpointContent, SpreadsFrozenParametersAndLeavesBuffersToRank0) {
  const auto reader = saved(3, {})->open(3);
  const auto& rows = reader->common().parameters;
  std::map<std::string, std::vector<std::int64_t>> counts;  // by name, elements of each rank
  for (int rank = 0; rank < 3; ++rank) {
    for (const Extent& extent : reader->extents(rank, "value")) {
      auto& of = counts[rows[static_cast<std::size_t>(extent.parameter)].name];
      of.resize(3);
      of[static_cast<std::size_t>(rank)] += extent.end - extent.begin;
    }
  }
  using ::testing::ElementsAre;
  EXPECT_THAT(counts.at("frozen"), ElementsAre(32, 32, 32));
  EXPECT_THAT(counts.at("bias"), ElementsAre(3, 3, 2));
  EXPECT_THAT(counts.at("running"), ElementsAre(24, 0, 0));  // three float64 as bytes
  EXPECT_THAT(counts.at("mask"), ElementsAre(5, 0, 0));
  EXPECT_THAT(counts.at("counts"), ElementsAre(24, 0, 0));
  EXPECT_THAT(counts.at("batches"), ElementsAre(1, 0, 0));
  EXPECT_THAT(counts.at("table"), ElementsAre(12, 0, 0));
  EXPECT_FALSE(counts.contains("empty"));
}

TEST(CheckpointContent, CopiesOnlyWhatIsNotInOnePiece) {
  on_jobs(1, {}, [&](Job& job) {
    const CheckpointState state = CheckpointAccess(*job.optimizer).state({});
    ASSERT_EQ(state.part.refusal, "");
    EXPECT_EQ(state.copies.size(), 3u);  // mixed and bias and table are transposed
    const auto* const weight =
        static_cast<const std::byte*>(job.model->first->weight.const_data_ptr());
    bool found = false;
    for (const auto& view : state.part.state.states) {
      for (const auto piece : view.pieces) found = found || piece.data() == weight;
    }
    EXPECT_TRUE(found);
  });
}

TEST(CheckpointContent, IsTheMomentThatWasAskedFor) {
  const auto store = make_memory_store();
  on_jobs(1, {}, [&](Job& job) {
    job.train(3);
    job.optimizer->save(*store);
    const torch::NoGradGuard no_grad;
    job.model->first->weight.add_(1);
    job.model->running.add_(1);
  });
  on_jobs(1, {.seed = 1}, [&](Job& job) {
    job.optimizer->load(*store, 3);
    EXPECT_EQ(first_difference(twin_image(torch::kFloat, 3), job.image()), "");
  });
}

TEST(CheckpointContent, BringsTheTrainersOwnBackOnEachRank) {
  const auto store = make_memory_store();
  const auto state_of = [](int rank) {
    TrainerState trainer{.counters = {{"samples_seen", 30}, {"epoch", -2}},
                         .blobs = {{"schedule", blob_of(100, 1)}, {"none", {}}},
                         .rank_blobs = {{"sampler", blob_of(1 << 20, rank)}, {"none", {}}},
                         .run_id = "first-run"};
    return trainer;
  };
  on_jobs(3, {}, [&](Job& job) { job.optimizer->save(*store, state_of(job.comm_->rank())); });
  on_jobs(3, {.seed = 1}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(*store, 0);
    const TrainerState expected = state_of(job.comm_->rank());
    EXPECT_EQ(report.trainer.counters, expected.counters);
    EXPECT_EQ(report.trainer.blobs, expected.blobs);
    EXPECT_EQ(report.trainer.rank_blobs, expected.rank_blobs);
    EXPECT_EQ(report.trainer.run_id, "first-run");
  });
  for (const int world : {2, 4}) {
    on_jobs(world, {}, [&](Job& job) {
      const LoadReport report = job.optimizer->load(*store, 0, LoadOptions().reshard_on_load(true));
      const int rank = job.comm_->rank();
      EXPECT_EQ(report.trainer.rank_blobs,
                rank < 3 ? state_of(rank).rank_blobs : TrainerState().rank_blobs);
      if (world == 2) {
        EXPECT_EQ(how_is(report, "blobs of rank 2"), Restored::kDropped);
      }
      if (rank == 3) {
        EXPECT_EQ(how_is(report, "rank blob sampler"), Restored::kDefaulted);
      }
      EXPECT_EQ(how_is(report, "random state"),
                rank < 3 ? Restored::kRestored : Restored::kDerived);
    });
  }
}

TEST(CheckpointContent, CountersGrowOverSeveralResumes) {
  const auto store = make_memory_store();
  std::int64_t seen = 0;
  for (const std::int64_t until : {3, 4, 6}) {
    on_jobs(2, {}, [&](Job& job) {
      std::int64_t mine = 0;
      if (seen > 0) {
        const auto report = job.optimizer->load(*store, seen / 10);
        mine = report.trainer.counters.at("samples_seen");
        EXPECT_EQ(mine, seen);
      }
      const std::int64_t before = job.optimizer->steps_taken();
      job.train(until);
      mine += 10 * (until - before);
      job.optimizer->save(*store, {.counters = {{"samples_seen", mine}}});
      EXPECT_EQ(mine, 10 * until);
    });
    seen = 10 * until;
  }
}

TEST(CheckpointContent, BringsRandomNumbersBack) {
  const auto store = make_memory_store();
  const auto draw = [] { return bytes_of(torch::rand({5})) + bytes_of(torch::randn({3})); };
  std::string next;
  on_jobs(1, {}, [&](Job& job) {
    torch::manual_seed(11);
    draw();
    job.optimizer->save(*store);
    next = draw();
  });
  on_jobs(1, {}, [&](Job& job) {
    torch::manual_seed(12);
    const LoadReport report = job.optimizer->load(*store, 0);
    EXPECT_EQ(how_is(report, "random state"), Restored::kRestored);
    EXPECT_EQ(draw(), next);
    torch::manual_seed(12);
    const std::string own = draw();
    torch::manual_seed(12);
    const LoadReport kept = job.optimizer->load(*store, 0, LoadOptions().random_state(false));
    EXPECT_EQ(how_is(kept, "random state"), Restored::kKept);
    EXPECT_EQ(draw(), own);
  });
}

TEST(RandomState, OfANewRankIsDerivedFromRank0sTheRankAndTheStep) {
  torch::manual_seed(1);
  const Blob first = random_state();
  torch::manual_seed(2);
  const Blob second = random_state();
  const Blob derived = derived_random_state(first, 3, 20);
  EXPECT_EQ(derived, derived_random_state(first, 3, 20));
  EXPECT_NE(derived, derived_random_state(first, 4, 20));
  EXPECT_NE(derived, derived_random_state(first, 3, 21));
  EXPECT_NE(derived, derived_random_state(second, 3, 20));
  EXPECT_EQ(problem_of_random_state(derived), "");
  EXPECT_NE(problem_of_random_state(Blob(derived.size() - 1)), "");
  EXPECT_NE(problem_of_random_state({}), "");
}

TEST(CheckpointContent, KeepsLossScaleAndSkipsAsIfNothingHadHappened) {
  const auto scales = [](Job& job, std::int64_t until) {
    std::string text;
    while (job.optimizer->steps_taken() < until) {
      job.train(job.optimizer->steps_taken() + 1);
      text += number_text(job.optimizer->loss_scale()) + "/" +
              std::to_string(job.optimizer->steps_applied()) + " ";
    }
    return text;
  };
  constexpr std::int64_t kAll = 14, kFirst = 6;
  std::string straight, in_two;
  on_jobs(1, {.dtype = torch::kHalf}, [&](Job& job) { straight = scales(job, kAll); });
  const auto store = make_memory_store();
  on_jobs(1, {.dtype = torch::kHalf}, [&](Job& job) {
    in_two = scales(job, kFirst);
    job.optimizer->save(*store);
  });
  on_jobs(1, {.dtype = torch::kHalf, .seed = 2}, [&](Job& job) {
    job.optimizer->load(*store, kFirst);
    in_two += scales(job, kAll);
  });
  EXPECT_EQ(in_two, straight);
  EXPECT_NE(straight.find("/0 "), std::string::npos) << "nothing was skipped: " << straight;
  EXPECT_EQ(straight.find("/0 ", straight.find("/1 ")), std::string::npos) << straight;
}

double lr_of(const Job& job) {
  return job.optimizer->param_groups()[0].options().get_lr();
}

double decay_of(const Job& job) {
  const auto& options = job.optimizer->param_groups()[0].options();
  return static_cast<const AdamWOptions&>(options).weight_decay();
}

TEST(LoadOption, KeepOptionsWinsOverTheCheckpointAndNothingElseDoes) {
  const auto store = saved(1, {.lr = 1e-2});
  on_jobs(1, {.lr = 0.5}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(*store, 3, LoadOptions().keep_options({"lr"}));
    EXPECT_EQ(lr_of(job), 0.5);
    EXPECT_EQ(decay_of(job), 0.1 + 1e-2);
    EXPECT_EQ(how_is(report, "option lr"), Restored::kKept);
    EXPECT_EQ(how_is(report, "option weight_decay"), Restored::kRestored);
  });
}

TEST(LoadOption, RequiredRefusesWithoutASchedule) {
  const auto store = saved(1, {});
  on_jobs(1, {}, [&](Job& job) {
    EXPECT_THAT(thrown<ContractError>(
                    [&] { job.optimizer->load(*store, 3, LoadOptions().required({"schedule"})); }),
                HasSubstr("'schedule': required"));
  });
}

TEST(LoadOption, AllowDTypeChangeRoundsFromTheMasters) {
  for (const auto& types :
       {std::pair(torch::kFloat, torch::kBFloat16), std::pair(torch::kBFloat16, torch::kFloat),
        std::pair(torch::kFloat, torch::kHalf)}) {
    const torch::Dtype from = types.first, to = types.second;
    const auto store = saved(2, {.dtype = from});
    const Image& before = twin_image(from, 3);
    on_jobs(2, {.dtype = to, .seed = 1}, [&](Job& job) {
      EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*store, 3); }),
                  HasSubstr("(allow_dtype_change)"));
      const LoadReport report =
          job.optimizer->load(*store, 3, LoadOptions().allow_dtype_change(true));
      EXPECT_EQ(how_is(report, "parameter first.weight"), Restored::kConverted);
      EXPECT_EQ(how_is(report, "buffer scale"), Restored::kConverted);
      const Image after = job.image();
      for (const char* name : {"embedding", "first.weight", "mixed", "gain"}) {
        for (const char* state : {"master ", "exp_avg ", "exp_avg_sq "})
          EXPECT_EQ(after.at(std::string(state) + name), before.at(std::string(state) + name));
        const auto master = job.optimizer->gather(name, StateKind::kMaster);
        EXPECT_EQ(after.at(std::string("parameter ") + name), bytes_of(master.to(to))) << name;
      }
      job.train(5);
    });
  }
}

TEST(LoadOption, AllowRegroupMovesStatesByNameAndTakesPresentOptions) {
  const auto store = saved(2, {});
  on_every_rank(2, [&](const Comm& comm) {
    SavedModel model = make_model({.seed = 1});
    Options options = options_of({});
    options.groups({});  // everything in group 0 now
    Optimizer optimizer(*model, AdamWOptions(0.25), options, comm);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.load(*store, 3); }),
                ::testing::AllOf(HasSubstr("groups: 2 in the checkpoint, 1 in the model"),
                                 HasSubstr("'first.bias': group 1 in the checkpoint, group 0")));
    const LoadReport report = optimizer.load(*store, 3, LoadOptions().allow_regroup(true));
    EXPECT_EQ(how_is(report, "options of groups"), Restored::kKept);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
    const Image& before = twin_image(torch::kFloat, 3);
    EXPECT_EQ(bytes_of(optimizer.gather("first.bias", StateKind::kExpAvg)),
              before.at("exp_avg first.bias"));
    EXPECT_EQ(optimizer.steps_taken(), 3);
    optimizer.shutdown();
  });
}

TEST(LoadOption, AllowMissingKeepsValuesAndStartsMomentsAtZero) {
  const auto store = make_memory_store();
  const auto full = saved(1, {});
  save_edited(*full->open(3), *store, [](EditedState& state) {
    // gain, bias and table come from a checkpoint that calls them otherwise
    for (ParameterSpec& row : state.common.parameters) {
      if (row.name == "gain" || row.name == "bias" || row.name == "table") row.name += ".old";
    }
  });
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    on_jobs(2, {.stage = 1, .dtype = dtype, .seed = 4}, [&](Job& job) {
      job.train(1);  // moments are not 0
      const Image before = job.image();
      const LoadReport report = job.optimizer->load(*store, 3,
                                                    LoadOptions()
                                                        .reshard_on_load(true)
                                                        .allow_missing(true)
                                                        .allow_extra(true)
                                                        .allow_dtype_change(true));
      const Image after = job.image();
      for (const char* item : {"parameter gain", "master gain", "parameter bias", "buffer table"})
        EXPECT_EQ(after.at(item), before.at(item)) << item;
      EXPECT_EQ(after.at("exp_avg gain"), std::string(4, '\0'));
      EXPECT_EQ(after.at("exp_avg_sq gain"), std::string(4, '\0'));
      EXPECT_EQ(after.at("master first.weight"),
                twin_image(torch::kFloat, 3).at("master first.weight"));
      EXPECT_EQ(how_is(report, "parameter gain"), Restored::kDefaulted);
      EXPECT_EQ(how_is(report, "parameter gain.old"), Restored::kDropped);
      EXPECT_EQ(how_is(report, "buffer table.old"), Restored::kDropped);
      job.train(5);
    });
  }
}

/// Tensors of every awkward size, in shards that may begin at any second element.
struct Awkward {
  explicit Awkward(const Comm& comm, float value) {
    for (const std::int64_t n : {1, 2, 3, 5, 6, 7, 57, 97, 1000})
      tensors.push_back(
          {std::string("n").append(std::to_string(n)), torch::full({n}, value).requires_grad_()});
    Options options;
    options.stage(comm->size() % 3).shard_alignment(2).bucket_bytes(300).first_bucket_bytes(40);
    optimizer = std::make_unique<Optimizer>(tensors, std::vector<NamedTensor>(), AdamWOptions(1e-3),
                                            options, comm);
  }
  std::vector<NamedTensor> tensors;
  std::unique_ptr<Optimizer> optimizer;
};

float awkward_value(const std::string& name, std::int64_t element, StateKind kind) {
  return static_cast<float>(name.size() * 100'000 + static_cast<std::size_t>(element) * 4 +
                            static_cast<std::size_t>(kind));
}

void for_each_kind(const std::function<void(StateKind)>& function) {
  for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq})
    function(kind);
}

TEST(LoadAtAnyWorld, GivesEveryElementForAwkwardSizesAndEmptyShards) {
  for (const int saved_world : {1, 2, 3, 5, 8}) {
    const auto store = make_memory_store();
    on_every_rank(saved_world, [&](const Comm& comm) {
      Awkward job(comm, 1);
      for_each_kind([&](StateKind kind) {
        job.optimizer->for_each_shard(kind, [&](const ShardView& view) {
          for (std::size_t i = 0; i < view.values.size(); ++i)
            view.values[i] =
                awkward_value(view.name, view.begin + static_cast<std::int64_t>(i), kind);
        });
      });
      job.optimizer->save(*store);
      job.optimizer->shutdown();
    });
    for (int world = 1; world <= 8; ++world) {
      SCOPED_TRACE(std::to_string(saved_world) + " -> " + std::to_string(world));
      on_every_rank(world, [&](const Comm& comm) {
        Awkward job(comm, 2);
        job.optimizer->load(*store, 0, LoadOptions().reshard_on_load(true));
        for (const NamedTensor& item : job.tensors) {
          for_each_kind([&](StateKind kind) {
            const auto whole = job.optimizer->gather(item.name, kind);
            for (std::int64_t i = 0; i < whole.numel(); ++i)
              ASSERT_EQ(whole.data_ptr<float>()[i], awkward_value(item.name, i, kind)) << item.name;
          });
          EXPECT_TRUE(torch::equal(item.tensor.detach(),
                                   job.optimizer->gather(item.name, StateKind::kMaster)));
        }
        job.optimizer->shutdown();
      });
    }
  }
}

}  // namespace
}  // namespace zero::testing
