#include "libzero/train/checkpointer.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/ranks/background_save.h"
#include "checkpoint/ranks/save.h"
#include "libzero/collective/agreement.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/collective/messages.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/train/checkpoint_root.h"

namespace zero {
namespace {

/// From what the log sink threw.
class SinkError : public Error {
 public:
  using Error::Error;
};

/// What a save under way is given once the optimizer is dead: nobody should wait much longer for
/// the program's end.
constexpr std::chrono::seconds kLastWait{60};

constexpr const char* kSinkThrew =
    "checkpoints: the log sink threw; what it was told of has happened, make it throw nothing: ";

std::string describe(const checkpoint::SaveOutcome& outcome, const std::string& root) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%.2f MiB in %.2f s",
                static_cast<double>(outcome.bytes) / (1 << 20), outcome.seconds);
  return "checkpoint: step " + std::to_string(outcome.step) + " saved, " + numbers + ": " +
         checkpoint::join_path(root, checkpoint::step_name(outcome.step));
}

std::string steps_text(const std::vector<std::int64_t>& steps) {
  std::string text = steps.size() == 1 ? "step " : "steps ";
  for (std::size_t i = 0; i < steps.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(steps[i]);
  return text;
}

}  // namespace

struct Checkpointer::Impl {
  Impl(Optimizer& optimizer_, std::string root_, CheckpointOptions options_)
      : optimizer(optimizer_),
        access(optimizer_),
        root(std::move(root_)),
        options(std::move(options_)),
        comm(access.comm()) {
    access.run([this] { open(); });
  }

  /// Collective.
  void open() {
    require_same_everywhere();
    on_rank_0("opening the root of checkpoints",
              [this] { keeper.emplace(checkpoint::on_disk(), root, options.lock()); });
    checkpoint::Hdf5StoreOptions store_options;
    store_options.lock = options.lock();
    store_options.lock_wait = checkpoint::kPatientLockWait;
    store = checkpoint::make_hdf5_store(checkpoint::on_disk(), root, store_options);
    if (!options.async()) return;
    saver_comm = comm->split(/*color=*/0, /*key=*/comm->rank());
    saver.emplace(store, saver_comm);
  }

  ~Impl() {
    const bool is_orderly = std::uncaught_exceptions() == exceptions_before && !access.is_dead();
    if (saver && access.is_dead() && !saver->wait_for(kLastWait))
      saver_comm->abort("the optimizer died, and the save under way did not end in time");
    try {
      const auto outcome = saver ? saver->wait() : std::nullopt;
      if (outcome) see_off_alone(*outcome);
    } catch (const SinkError&) {  // dropped, as from any destructor
    } catch (const std::exception& error) {
      tell_without_throwing(error);
      return;
    }
    saver.reset();
    if (!is_orderly || saver_comm == nullptr) return;
    try {
      saver_comm->shutdown();          // so that nobody takes this rank's leaving for a death
    } catch (const std::exception&) {  // they were told by what they asked for
    }
  }

  void require_same_everywhere() {
    require_agreement(*comm, {"root of checkpoints " + root,
                              "checkpoints to keep " + std::to_string(options.keep()),
                              "checkpoints to keep, every " + std::to_string(options.keep_every()),
                              std::string("checkpoints async ") + (options.async() ? "yes" : "no"),
                              std::string("checkpoints lock ") + (options.lock() ? "yes" : "no")});
    ZERO_REQUIRE(!root.empty(), "checkpoints: the root must have a name");
    ZERO_REQUIRE(options.keep() >= 0, "checkpoints: keep must be at least 1, or 0 for all: " +
                                          std::to_string(options.keep()));
    ZERO_REQUIRE(options.keep_every() >= 0,
                 "checkpoints: keep_every must be a number of steps, or 0 for none: " +
                     std::to_string(options.keep_every()));
  }

  /// Collective.
  void on_rank_0(const char* label, const std::function<void()>& function) {
    all_or_none(*comm, label, [&] {
      if (comm->rank() == 0) function();
    });
  }

  /// Throws SinkError: the sink is the caller's, and may throw anything.
  void tell(LogLevel level, const std::string& line) const {
    if (comm->rank() != 0 || !options.log()) return;
    try {
      options.log()(level, line);
    } catch (const std::exception& error) {
      throw SinkError(std::string(kSinkThrew) + error.what());
    } catch (...) {
      throw SinkError(std::string(kSinkThrew) + "no std::exception");
    }
  }

  void tell_without_throwing(const std::exception& error) const noexcept {
    try {
      tell(LogLevel::kWarning,
           std::string("checkpoint: a save that nobody asked after failed: ") + error.what());
    } catch (...) {  // a destructor has nobody else to tell
    }
  }

  /// Collective. Waits for a save under way and sees it off.
  void collect() {
    if (!saver) return;
    if (const auto outcome = saver->wait()) see_off(*outcome);
  }

  /// Collective: what goes wrong here is rank 0's alone, and the others must not go on without it.
  void see_off(const checkpoint::SaveOutcome& outcome) {
    on_rank_0("seeing a checkpoint off", [&] { see_off_alone(outcome); });
  }

  /// Not collective. The work comes before the talk: a sink that throws stops no removal.
  void see_off_alone(const checkpoint::SaveOutcome& outcome) {
    if (comm->rank() != 0) return;
    checkpoint::RetentionRule rule;
    rule.keep = options.keep();
    rule.keep_every = options.keep_every();
    rule.run_id = run_id;
    const checkpoint::Removal removal = keeper->tidy(*store, rule, outcome.step);
    tell(LogLevel::kInfo, describe(outcome, root));
    warn_of(outcome.warnings);
    if (!removal.removed.empty())
      tell(LogLevel::kInfo, "checkpoint: removed older ones: " + steps_text(removal.removed));
    warn_of(removal.problems);
  }

  void warn_of(const std::vector<std::string>& warnings) const {
    for (const std::string& warning : warnings) tell(LogLevel::kWarning, "checkpoint: " + warning);
  }

  /// Collective. What the trainer calls the run, else what it was called before, else a new name.
  std::string agreed_run_id(const std::string& given) {
    require_same("save: the run id", given, *comm);
    if (!given.empty()) return given;
    if (!run_id.empty()) return run_id;
    return together(*comm, "naming the run", [this] {
      return broadcast_message(checkpoint::random_attempt(), *comm, "id of the run");
    });
  }

  /// Collective. Whatever ranks refuse comes out before anything is written or removed.
  void save(TrainerState trainer) {
    collect();
    trainer.run_id = agreed_run_id(trainer.run_id);
    const CheckpointState state = access.state(trainer);
    checkpoint::agree_to_save(state.common, state.part, *comm);
    run_id = trainer.run_id;
    on_rank_0("room for a checkpoint",
              [&] { warn_of(keeper->make_way(*store, optimizer.steps_taken())); });
    if (saver) {
      saver->start(state.common, state.part);
    } else {
      see_off(checkpoint::save_agreed(*store, state.common, state.part, *comm));
    }
  }

  /// Collective.
  LoadReport resume(LoadOptions load) {
    access.run([&] {
      all_or_none(*comm, "resume: the options", [&] {
        ZERO_REQUIRE(!load.weights_only(),
                     "resume: weights_only starts another training; call Optimizer::load with it, "
                     "and save into another root: " +
                         root);
      });
      collect();
    });
    LoadReport report = optimizer.load(root, load.fall_back(true));
    if (report.found) run_id = report.trainer.run_id;
    access.run([&] {
      on_rank_0("what was resumed", [&] {
        if (report.found) keeper->resumed(report.step, report.damaged_steps);
        warn_of(report.warnings);
      });
    });
    return report;
  }

  Optimizer& optimizer;
  CheckpointAccess access;
  std::string root;
  CheckpointOptions options;
  std::shared_ptr<Collective> comm;
  std::optional<CheckpointRoot> keeper;  // rank 0 only
  std::shared_ptr<checkpoint::Store> store;
  std::shared_ptr<Collective> saver_comm;            // async only
  std::optional<checkpoint::BackgroundSaver> saver;  // async only
  std::string run_id;                                // empty: not chosen yet
  int exceptions_before = std::uncaught_exceptions();
};

Checkpointer::Checkpointer(Optimizer& optimizer, const std::string& root,
                           const CheckpointOptions& options)
    : impl_(std::make_unique<Impl>(optimizer, root, options)) {}

Checkpointer::~Checkpointer() = default;

void Checkpointer::save(const TrainerState& trainer) {
  impl_->access.run([&] { impl_->save(trainer); });
}
LoadReport Checkpointer::resume(LoadOptions options) {
  return impl_->resume(std::move(options));
}
void Checkpointer::finish() {
  impl_->access.run([this] { impl_->collect(); });
}

}  // namespace zero
