#pragma once

/// The optimizer behind its public face: the one place that sees reducer, state, vote and update
/// together. optimizer_impl.cpp holds the window (backward and what surrounds it),
/// optimizer_step.cpp what ends it, optimizer_save.cpp and optimizer_load.cpp what goes to
/// checkpoints and comes from them, optimizer_weights.cpp what brings weights from elsewhere,
/// optimizer_rebuild.cpp how one optimizer takes another's place, optimizer_offload.cpp what can go
/// wrong with state on a disk, optimizer_device.cpp what is different where state lies on a GPU,
/// optimizer_ema.cpp the average, optimizer_memory.cpp what all of it takes.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/failure.h"
#include "libzero/offload/offloaded_state.h"
#include "libzero/optim/build_plan.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/device_home.h"
#include "libzero/optim/fresh_state.h"
#include "libzero/optim/gradient_reducer.h"
#include "libzero/optim/group_clipping.h"
#include "libzero/optim/group_options.h"
#include "libzero/optim/host_image.h"
#include "libzero/optim/label.h"
#include "libzero/optim/loss_box.h"
#include "libzero/optim/optimizer.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/parameter_update.h"
#include "libzero/optim/rebuild.h"
#include "libzero/optim/replica_check.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/state_access.h"
#include "libzero/optim/state_arrays.h"
#include "libzero/optim/step_vote.h"
#include "libzero/optim/task_queue.h"
#include "libzero/optim/update_classes.h"
#include "libzero/optim/update_rule.h"

namespace zero {

class Optimizer::Impl {
 public:
  enum class Content {
    kOfRank0,    ///< Collective: every rank's model becomes rank 0's, and masters its parameters.
    kOfAnother,  ///< No collective: make_successor() and succeed() bring it, and tell of it.
  };
  /// `stop_requested` must outlive this. `before`: the image of another, if it has one; see
  /// HostImage.
  Impl(BuildPlan plan, const std::vector<NamedTensor>& buffers, const Options& options,
       const std::atomic<bool>& stop_requested, Content content, const HostImage* before = nullptr);
  ~Impl();

  /// The options of `face`'s groups; `what` begins the fault.
  PresentGroups groups_of(const Optimizer& face, const std::string& what) const;
  void backward(const at::Tensor& loss, std::int64_t weight);
  NoSync no_sync();
  /// `fault`: empty, or why the caller cannot step on this rank.
  StepResult step(const std::vector<OptionValues>& groups, std::string fault);
  void begin_forward() noexcept;
  EmaScope ema_scope();
  void zero_grad();
  void refresh_masters();
  ParametersReport load_parameters(const std::string& file, const LoadParametersOptions& options);
  at::Tensor gather(const std::string& name, StateKind kind);
  void for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit);
  MemoryReport memory() const;
  /// The same in a step: what does not grow with use is counted once.
  MemoryReport memory_in_step();
  void shutdown();
  void abort(std::string_view why) noexcept;

  /// See CheckpointAccess.
  CheckpointState checkpoint_state(const PresentGroups& groups, const TrainerState& trainer);
  std::shared_ptr<Collective> checkpoint_comm();
  void run_for_checkpoints(const std::function<void()>& collectives);
  bool is_dead() const { return !dead_because_.empty(); }
  void require_same_root(const std::string& root);
  checkpoint::SaveOutcome save(checkpoint::Store& store, const PresentGroups& groups,
                               const TrainerState& trainer);
  struct LoadSource {
    checkpoint::Store* store = nullptr;  // null: by path
    std::int64_t step = 0;
    std::string from = {};
  };
  LoadReport load(Optimizer& face, const LoadSource& source, const LoadOptions& options);

  /// An optimizer that is to take this one's place, and what is left to be done then.
  struct Successor;
  /// Collective. This one is as it was, whatever is thrown.
  Successor make_successor(const Optimizer& face, const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& buffers, const RebuildOptions& options);
  /// Collective, on the successor once it is in place; `before` is done for then.
  void succeed(Impl& before, Optimizer& face, Successor& rest);
  /// To the log.
  void tell_of_birth() const;

  /// The tensors that backward and forward use.
  ParameterTable& model() noexcept { return image_ ? image_->model() : table_; }
  const ParameterTable& model() const noexcept { return image_ ? image_->model() : table_; }

  const Options options_;
  const RuleOptions defaults_;  // of group 0, at first
  const std::unique_ptr<UpdateRule> rule_;
  const std::vector<StateKind> kept_;  // beside the masters
  ParameterTable table_;               // what is stepped: the model, or its image
  const std::vector<NamedTensor> buffers_;
  const Layout layout_;
  // Null: the model lies in host memory, or state where the model does.
  const std::unique_ptr<HostImage> image_;
  LossScaler scaler_;
  ReplicaCheck replicas_;
  PresentGroups groups_;  // of the last step
  std::int64_t steps_applied_ = 0;
  std::int64_t windows_ended_ = 0;  // applied or skipped
  const std::atomic<bool>* const stop_requested_;

 private:
  static constexpr const char* kParametersMixed =
      "parameters may stand at two different steps, start again from saved weights";
  static constexpr const char* kNothingChanged = "no parameter was changed since the last step";

  static constexpr const char* kHalfLoaded =
      "a checkpoint was put in place in part, start again and load it";

  static constexpr const char* kHalfRebuilt =
      "the optimizer was rebuilt in part, start again from a checkpoint";

  void require_alive() const;
  void require_not_dead() const;
  /// Alive, and no gather of the step before has failed; waits for those that are on their way.
  void require_settled();
  void put_average();
  void say(LogLevel level, const std::string& line) const;
  void require_same_shapes() const;
  void tell_observer() const;
  StepVote make_vote();
  StepVote sound_vote();
  void wait_for_reductions();
  StepTally gather_votes(const StepVote& mine);
  void wait_for_gathers();
  StepResult end_window(const std::vector<OptionValues>& groups, std::string fault);
  void find_nonfinite(StepVote& vote) const;
  void sum_in_memory(StepVote& vote);
  void sum_groups();
  /// Squares that are summed here, of gradients in memory.
  static void add_squares(const float* values, std::int64_t numel, GroupSquares& group);
  Decision decide_step(const StepTally& tally);
  void require_sound_window(const StepTally& tally, const std::string& fault,
                            const std::vector<OptionValues>& groups);
  void require_reduced(const StepTally& tally) const;
  StepTally vote(const std::vector<OptionValues>& groups, std::string fault);
  void end_forward();
  void run_autograd(const at::Tensor& loss, std::int64_t weight, bool hold);
  void set_begun(std::vector<std::int64_t> begun);
  void make_reducer();
  StateArrays state_arrays();
  void require_ready_to_rebuild(const PresentGroups& groups) const;
  void plan_succession(Successor& next, const PresentGroups& groups,
                       const std::vector<NamedTensor>& parameters,
                       const std::vector<NamedTensor>& buffers, const RebuildOptions& options);
  void fill(Successor& next);
  void take_over(Impl& before) noexcept;
  void synchronize(Successor& rest);
  void begin_rule(const std::vector<OptionValues>& groups);
  void update(float gradient_factor, const std::vector<OptionValues>& groups);
  std::optional<Failure> update_buckets(float gradient_factor,
                                        const std::vector<OptionValues>& groups);
  static std::vector<DType> wire_dtypes(const Layout& layout, const Options& options);
  /// State does, beside a model that does.
  static bool lies_on_gpu(const ParameterTable& table, const Options& options);
  StateMemory memory_of_states() const;
  static PayloadSize largest_payload(const Options& options, const Layout& layout,
                                     const std::vector<BucketState>& states,
                                     const std::vector<DType>& wire, int world_size);
  /// Null unless state lies on a GPU, on every rank. Collective then, unless content is another's:
  /// where one rank has no room, every rank throws its error.
  std::unique_ptr<DeviceHome> make_home(std::shared_ptr<const cuda::KernelApi> kernels,
                                        std::size_t groups, Content content);
  std::unique_ptr<ParameterUpdate> make_update();
  std::unique_ptr<BucketReduction> make_reduction();
  /// Waits until a GPU has done what the present stream was given so far: LibTorch's own waits have
  /// no end.
  void await_device() const;
  DistantState* distant() const noexcept;  ///< Null: all state lies in states_.
  void sum_on_device(StepVote& vote);
  void add_unaligned_groups();
  void find_nonfinite_on_device(StepVote& vote) const;
  /// Null where the model lies in host memory, or state where the model does. Collective unless
  /// content is another's: where one rank has no room, every rank throws its error.
  static std::unique_ptr<HostImage> make_image(const Options& options, ParameterTable& table,
                                               const Layout& layout, Collective& comm,
                                               Content content, const HostImage* before);
  /// Runs `make` on every rank; where it throws on one, every rank throws its error, and `comm` is
  /// shut down.
  static void make_on_all(Collective& comm, const std::string& label,
                          const std::function<void()>& make);
  /// Null unless state is offloaded. Collective then, unless content is another's: where one rank
  /// has no room, every rank throws its IoError.
  static std::unique_ptr<OffloadedState> make_offload(const Options& options, const Layout& layout,
                                                      const std::vector<BucketState>& states,
                                                      Collective& comm, Content content);
  /// The first blocks of a step are on their way; what fails comes out of step().
  void read_ahead() noexcept;
  /// Collective where state is offloaded: throws on every rank, and drops the window, if the first
  /// blocks did not come on one.
  void require_first_blocks();
  /// Collective where state is offloaded: kills the optimizer on every rank, with the same error,
  /// if one has a failure that cannot be undone.
  void settle_offload(std::string_view consequence, const std::optional<Failure>& failure);
  static void gather_and_step(void* self, std::int32_t bucket);  ///< A Task's function.
  void submit_gather(std::int32_t bucket);
  /// Somebody watches over what the GPU is still at work on; nobody waits for it.
  void submit_settling();
  /// Of the step before; for between two windows: inside of one it does nothing. Throws
  /// GatherError.
  void await_gathers();
  void let_gathers_end() noexcept;
  void mark_parameters_changed();
  MemoryReport memory_at_rest() const;
  void add_what_grows(MemoryReport& report) const;
  void add_device(MemoryReport& report) const;
  void upload(std::int32_t bucket);  ///< Where there is an image.
  /// See Options::checksum_every. `step` is the number of an applied step.
  void compare_replicas(std::int64_t step, const char* when);
  void drop_window();
  void discard_window();
  std::optional<double> present_gradient_scale();
  struct PreparedLoad;
  LoadTarget load_target();
  void require_ready_to_load(const PresentGroups& groups) const;
  void plan_load_of(const checkpoint::Reader& reader, const std::string& directory,
                    const PresentGroups& groups, const LoadOptions& options,
                    PreparedLoad& load) const;
  PreparedLoad prepare_load(const std::function<std::unique_ptr<checkpoint::Reader>()>& open,
                            const std::string& directory, const PresentGroups& groups,
                            const LoadOptions& options);
  PreparedLoad prepare_load_from(const std::string& from, const PresentGroups& groups,
                                 const LoadOptions& options);
  void put_in_place(Optimizer& face, PreparedLoad& load);
  void gather_parameters();
  [[noreturn]] void die(std::string_view consequence, const char* why);
  /// Runs a collective part; a CommError kills the optimizer, with `consequence` in its message and
  /// in those of later calls.
  template <typename Function>
  auto guarded(std::string_view consequence, Function function);
  /// Runs collectives of the window. The only rule that they can break is that all ranks make the
  /// same calls.
  template <typename Function>
  auto matched(Function function);
  /// Runs collectives of a checkpoint: a CommError kills the optimizer, any other error leaves it
  /// as it was.
  template <typename Function>
  auto checkpointing(const std::string& consequence, Function function);

  std::shared_ptr<Collective> comm_;
  std::shared_ptr<Collective> checkpoint_comm_;  // null until the first checkpoint
  std::vector<BucketState> states_;
  std::unique_ptr<OffloadedState> offload_;  // null: no state lies on a disk
  std::unique_ptr<DeviceHome> home_;         // null: no state lies on a GPU
  AlignedArray<std::byte> staging_;          // where there is no home
  CommClock clock_;
  const std::unique_ptr<ParameterUpdate> parameter_update_;
  StateAccess state_access_;
  VoteBox vote_box_;
  Label label_;
  std::vector<BackwardCall> calls_;  // of the present window
  LossBox losses_;                   // of those calls whose loss lies on a GPU
  std::shared_ptr<bool> holds_average_ = std::make_shared<bool>(false);  // the model does
  std::shared_ptr<int> no_sync_depth_ = std::make_shared<int>(0);
  std::vector<std::int64_t> begun_;          // by row: applied steps before its first
  std::vector<UpdateClass> classes_;         // of the table's classes
  std::vector<OptionValues> class_options_;  // of the present step
  std::vector<std::int64_t> class_steps_;
  // By parameter group, where group norms are wanted; otherwise empty.
  std::vector<GroupSquares> group_squares_;
  std::vector<double> group_limits_;
  GroupClipping group_clipping_;
  bool backward_failed_ = false;
  std::optional<MemoryReport> memory_at_rest_;  // once a step has asked
  Nanoseconds forward_begin_ = 0;               // 0: unknown; kept where there is an observer
  Nanoseconds last_collective_time_ = 0;        // of the last step
  double gradient_scale_ = 1;  // loss scale times sum of weights of what the accumulators hold
  std::string dead_because_;
  std::optional<Failure::Kind> dead_of_;  // empty: of a CommError
  bool shut_down_ = false;
  TaskQueue queue_;  // its thread uses all of the above: it ends first
  std::optional<GradientReducer> reducer_;
};

/// Parameters that other ranks have stepped did not come, and step() has returned.
class GatherError : public CommError {
 public:
  using CommError::CommError;
};

template <typename Function>
auto Optimizer::Impl::matched(Function function) {
  try {
    return function();
  } catch (const ContractError& error) {
    throw ContractError(
        std::string("the ranks made different numbers of backward calls; make as many on every "
                    "rank before step(), and cover the same ones with no_sync(); the gradients of "
                    "this window are dropped: ") +
        error.what());
  }
}

template <typename Function>
auto Optimizer::Impl::checkpointing(const std::string& consequence, Function function) {
  try {
    return function();
  } catch (const CommError& error) {
    if (!dead_because_.empty()) throw;  // died in a call within
    die(consequence, error.what());
  }
}

template <typename Function>
auto Optimizer::Impl::guarded(std::string_view consequence, Function function) {
  try {
    return function();
  } catch (const GatherError& error) {  // of the step before, which has returned
    die(kParametersMixed, error.what());
  } catch (const CommError& error) {
    die(consequence, error.what());
  } catch (const ContractError&) {
    discard_window();
    throw;
  } catch (const IoError&) {  // offloaded state was to be read: nothing of the window is missing
    throw;
  } catch (...) {  // out of memory in a task, say: what it should have reduced is missing
    backward_failed_ = true;
    throw;
  }
}

}  // namespace zero
