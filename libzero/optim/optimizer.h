#pragma once

/// A drop-in optimizer that shards itself over ranks.
///
///   auto comm = zero::connect();
///   auto optimizer = zero::Optimizer(*model, zero::AdamWOptions(3e-4).weight_decay(0.1),
///                                    zero::Options().stage(2).clip_norm(1.0), comm);
///   for (auto& batch : data) {
///     // the micro-batch's own mean, undivided
///     for (auto& micro : batch) optimizer.backward(model->loss(micro));
///     zero::StepResult r = optimizer.step();
///     if (r.applied) schedule.step();
///   }
///   optimizer.shutdown();

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/ema_scope.h"
#include "libzero/optim/load_parameters.h"
#include "libzero/optim/memory_report.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/options.h"
#include "libzero/optim/rebuild.h"
#include "libzero/optim/resume.h"
#include "libzero/optim/state_kind.h"
#include "libzero/optim/step_result.h"

namespace zero::checkpoint {
class Store;
}

namespace zero {

/// A piece of state that lies on this rank: elements [begin, end) of a parameter in row-major
/// order.
struct ShardView {
  const std::string& name;
  std::int32_t parameter;  ///< Index in layout().parameters().
  std::int64_t begin;
  std::int64_t end;
  std::span<float> values;  ///< Valid during the call only; what is written stays.
};

/// ZeRO stages 0, 1 and 2 (Rajbhandari et al. 2020, arXiv 1910.02054) with AdamW or SGD (the type
/// of the options says which), fp32 masters, loss scaling and global-norm clipping (docs/step.md).
///
/// Members are called by one thread; those marked collective by every rank, in the same order.
/// Gradients arrive through backward() only: a loss.backward() of a model whose parameters an
/// Optimizer holds throws ContractError, and so does a loss of another Optimizer's that reaches
/// them.
///
/// `.grad` of the parameters belongs to the Optimizer while it lives; what lies there at
/// construction is dropped. A module's zero_grad() does no harm; a `.grad` set by hand makes the
/// next backward() throw ContractError. Parameters may get new memory or values; after another
/// shape, dtype, device or requires_grad backward(), step() and whatever else needs them throw
/// ContractError naming the parameter, step() on every rank, until rebuild() was called.
///
/// The model may lie on a GPU, all of it on one (docs/gpu.md): state lies there, too, or where
/// Options::offload says. What is handed out, gather()'s tensors for one, lies in host memory.
///
/// Errors. ContractError: nothing was changed, but the gradients of the present window are dropped
/// where the ranks disagreed. CommError: the optimizer is dead; every later call but those that
/// only report (memory(), layout(), steps_applied(), steps_taken(), loss_scale()) and shutdown()
/// throws, and if the failure fell into the update the message says that parameters may stand at
/// two different steps: start again from saved weights; otherwise it says that they were not
/// changed. With Options::offload to a disk also IoError, on every rank: the constructor, step(),
/// gather(), save(), load(), rebuild() and what else reads or writes state say whether the
/// optimizer can go on, or is dead as after a CommError and throws IoError from then on
/// (docs/offload.md).
class Optimizer : public torch::optim::Optimizer {
 public:
  /// Collective. Takes the trainable parameters of `model`, gives rank 0's parameters and buffers
  /// to every rank, and splits a communicator of its own off `comm`. Throws ContractError on every
  /// rank if models or options differ, naming the first difference, and if a rank has options out
  /// of range, parameters that cannot be trained or none that are trainable, naming them. `comm`
  /// can be used again after a ContractError.
  Optimizer(const torch::nn::Module& model, const RuleOptions& defaults, const Options& options,
            const std::shared_ptr<Collective>& comm);

  /// The same for tensors that no module owns.
  Optimizer(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
            const RuleOptions& defaults, const Options& options,
            const std::shared_ptr<Collective>& comm);

  /// Never blocks longer than the timeout; call shutdown() first.
  ~Optimizer() override;

  /// Runs backward of `loss` (one floating element) times the loss scale times `weight`, and adds
  /// the gradient to the window, reducing it over the ranks while backward goes on. The mean is
  /// taken in step(), over the weights of all calls of all ranks: pass the micro-batch's own mean,
  /// undivided, and, for ragged batches, its token count as weight. A call of weight 0 contributes
  /// exactly nothing, be its loss NaN, and does not run autograd.
  ///
  /// Each rank must make the same number of calls. If autograd throws, the exception passes
  /// through, and step() will throw ContractError on every rank unless zero_grad() has dropped the
  /// window. A call that is refused (a loss that is none, a weight below 0 or above 2^40) throws
  /// ContractError and does not count. An exception of the caller's between two calls leaves the
  /// window as it is: go on with it, or call zero_grad() on every rank.
  void backward(const at::Tensor& loss, std::int64_t weight = 1);

  /// For observers only: the forward whose loss the next backward() takes begins now. Without a
  /// call it is taken to begin where the last backward() or step() returned, so that reading data
  /// or evaluating in between counts as forward.
  void begin_forward() noexcept;

  /// While one lives, backward() adds its gradients up on this rank and reduces nothing; the first
  /// call after the last one is gone reduces the sum of all of them, at the price of one. float32
  /// parameters hold the sum in `.grad`; 16-bit ones in fp32 memory of full size, taken at the
  /// first such call and kept (MemoryReport::local_sums). May outlive the optimizer.
  class [[nodiscard]] NoSync {
   public:
    /// For no_sync(): counts *depth, which must not be null, up until the end.
    explicit NoSync(std::shared_ptr<int> depth) : depth_(std::move(depth)) { ++*depth_; }
    NoSync(NoSync&&) noexcept = default;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (depth_) --*depth_;
    }

   private:
    std::shared_ptr<int> depth_;
  };

  /// To be used alike on every rank; scopes may lie within each other. A window's last backward()
  /// must lie outside: step() and gather() of the gradient throw ContractError on every rank while
  /// calls are unreduced on one of them, and step() where the ranks covered different calls. Which
  /// parameters went unused is settled over all the calls that are reduced together. Throws
  /// ContractError unless Options().deterministic(false).
  NoSync no_sync();

  /// Collective: ends the window. Throws ContractError on every rank for no backward at all,
  /// different numbers of backward calls (with both counts; on a rank that makes more it may come
  /// out of backward() already), a backward that threw, unused parameters where they are an error,
  /// a sum of weights of 0, and options of parameter groups that are out of range or differ between
  /// ranks. Throws zero::Error on every rank when LossScalerOptions::max_consecutive_skips is
  /// reached, and when ranks hold different parameters (Options::checksum_every).
  ///
  /// Where the model lies on a GPU it may return before the GPU has finished: what this thread's
  /// stream is given afterwards sees the new parameters. A gather that fails only then throws
  /// CommError out of the next call.
  StepResult step();

  /// For code written against torch::optim::Optimizer: the closure, if any, must call backward()
  /// itself.
  at::Tensor step(LossClosure closure) override;

  /// Drops the gradients of the present window. To be called on every rank or on none. (After a
  /// step there is no need.)
  void zero_grad();

  /// Collective: brings the average of the weights (Options::ema) into the model, on every rank,
  /// for as long as what it returns lives: to evaluate, export or sample with it.
  ///
  ///   {
  ///     const zero::EmaScope average = optimizer.ema_scope();
  ///     evaluate(model);
  ///   }  // the weights are back, to the bit
  ///
  /// Until then everything but what only reports and shutdown() throws ContractError. Throws
  /// ContractError where no average is kept; and on every rank IoError, with the weights in place,
  /// where an average on a disk cannot be read.
  EmaScope ema_scope();

  /// Collective: after someone wrote the parameters (pretrained weights), takes rank 0's as
  /// everybody's and as masters. An average (Options::ema) begins anew from them. Throws
  /// ContractError for a parameter that has another shape, dtype or device than before.
  void refresh_masters();

  /// Collective: after parameters of the model were frozen, unfrozen, added, removed or resized, or
  /// buffers were, the optimizer is as if it had been saved, built anew on the changed model and
  /// loaded, bit for bit (docs/concepts.md). Between a step() and the next backward().
  ///
  /// State is kept by name: a parameter that was trained before and is now, under the same name and
  /// with the same shape, keeps value, master, moments and the number of steps that it took part
  /// in, whichever tensor, dtype or group it is of now. All others that are trained now start
  /// fresh, from rank 0's value in the model, with moments and a step count of 0: those that were
  /// added, resized, frozen until now (freezing lets go of the moments), or named in `options`.
  /// Frozen parameters and buffers become rank 0's. Groups are asked for each parameter again and
  /// keep their present options, and so do schedules that drive them. Step counts, loss scale and
  /// random state stay; the gradients of the last window are dropped. layout() is another one
  /// afterwards.
  ///
  /// Holds the state before and after at once, each rank its own share. Everything is compared and
  /// brought before anything is changed: after ContractError and others, which every rank throws
  /// alike, the optimizer is as it was; an IoError (state on a disk) says whether it is. Values of
  /// float32 parameters, which are their own masters, must be alike on all ranks: a difference that
  /// is found afterwards ends the optimizer. ContractError in the middle of a window, if models or
  /// options differ between ranks, naming the first parameter that does, and for what the
  /// constructor refuses, models on a GPU whose state lies elsewhere among it. CommError kills the
  /// optimizer.
  RebuildReport rebuild(const torch::nn::Module& model, const RebuildOptions& options = {});

  /// The same for tensors that no module owns.
  RebuildReport rebuild(const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& buffers,
                        const RebuildOptions& options = {});

  /// Collective: rank 0 reads a .safetensors file, or a *.safetensors.index.json beside its parts,
  /// and every rank's parameters and buffers become what it holds; rank 0's arguments count. The
  /// masters of 16-bit parameters become the file's values in full float32 precision, the
  /// parameters are rounded from them. Moments, step counts and loss scale stay, an average begins
  /// anew; the gradients of the present window are dropped. A tied parameter is found under any of
  /// its names. Needs 4 bytes for each parameter, divided by the ranks, while it runs.
  ///
  /// Everything is read and checked before anything is changed. Throws, on every rank alike,
  /// ContractError with all names, shapes and dtypes that do not fit, FormatError, IoError,
  /// Unavailable (a build without checkpoints), Error (no memory): nothing was changed. CommError
  /// kills the optimizer.
  ParametersReport load_parameters(const std::string& file,
                                   const LoadParametersOptions& options = {});

  /// Collective: one parameter's state, whole, as a float32 tensor of its shape, on every rank. A
  /// tied parameter answers under each name. Throws ContractError for a name that is unknown or not
  /// trainable, and for a moment that the update rule does not keep; the window stays as it is.
  at::Tensor gather(const std::string& name, StateKind kind);

  /// Calls `visit` for each piece that this rank owns, in order of parameters; state on a disk
  /// comes in pieces of a block at most. kMaster of a float32 parameter is the parameter itself;
  /// writing it here does not reach the other ranks: follow with refresh_masters() if you must. Not
  /// collective. Throws ContractError for kGradient, which gather() reads, and for a moment that
  /// the update rule does not keep; CommError where state lies on a GPU that hangs, or whose last
  /// gather has failed; and what `visit` throws.
  void for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit);

  /// Collective: saves the present state as checkpoint number steps_taken() under `root`, which is
  /// made if it is missing (its parent must exist), and returns when it is on the disk
  /// (docs/checkpoints.md says what is in it). Not in the middle of a window: between a step() and
  /// the next backward().
  ///
  /// Whatever fails on one rank, every rank throws the same error, naming that rank, and the
  /// optimizer is as it was: training can go on, also after CommitUnknown (checkpoint/store.h) and
  /// IoError. ContractError in the middle of a window, if the step has a checkpoint already, or for
  /// what a rank cannot save: keys of `trainer` that break the rules, or values of `trainer`,
  /// options of groups or buffers' shapes that differ between ranks. CommError if a rank died or
  /// fell silent, which kills this optimizer. Throws Unavailable in a build without HDF5.
  void save(const std::string& root, const TrainerState& trainer = {});

  /// The same into a store of whatever kind; each rank passes its own, of the same root.
  void save(checkpoint::Store& store, const TrainerState& trainer = {});

  /// Collective: takes over a checkpoint. `from` is a checkpoint's directory, or a root, whose
  /// newest checkpoint is meant; an empty or missing root is no error: `found` of the report is
  /// false then. Every parameter, moment, frozen parameter and buffer, the loss scale, the steps,
  /// the options of the groups and LibTorch's random states are as they were when it was saved,
  /// and training goes on with the same bits; what LoadOptions made different is in the report.
  /// Not in the middle of a window.
  ///
  /// Everything is read and checked on every rank before anything is touched: after ContractError,
  /// FormatError and IoError, which every rank throws alike, the optimizer and the model are as
  /// they were. ContractError if model, options or world differ from what was saved in a way that
  /// `options` do not allow, listing all differences and, for another world size, the command that
  /// reshards; and for `from` or `options` that differ between ranks. FormatError for a damaged
  /// checkpoint. CommError if a rank died or fell silent, which kills this optimizer. Throws
  /// Unavailable in a build without HDF5.
  LoadReport load(const std::string& from, const LoadOptions& options = {});

  /// The same for one step of a store of whatever kind. Throws ContractError if there is none.
  LoadReport load(checkpoint::Store& store, std::int64_t step, const LoadOptions& options = {});

  /// torch::save() and torch::load() see one rank's memory: both throw ContractError.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  /// Bytes that this rank holds now, by kind; not collective.
  MemoryReport memory() const;
  /// Which parameter lies where. The reference is good until rebuild().
  const Layout& layout() const noexcept;
  /// Steps that changed the parameters, those before a checkpoint that was loaded included.
  std::int64_t steps_applied() const noexcept;
  /// Windows that step() ended, applied or skipped: the number of a checkpoint saved now.
  std::int64_t steps_taken() const noexcept;
  /// The factor of the next backward(): exactly 1 where no trainable parameter is float16.
  double loss_scale() const noexcept;

  /// Not collective; any thread, and a signal handler, while this lives. The result of the step
  /// that ends next says stop_requested on every rank, and so do those of all later ones: a step
  /// that throws loses nothing. A call during step() may count for the step after it.
  void request_stop() noexcept;

  /// Collective: leaves in good order. Later calls throw ContractError.
  void shutdown();

  /// Not collective: this rank cannot go on, for a reason of its own. Whatever the other ranks wait
  /// in or call next here, saves and loads included, throws CommError that names this rank and
  /// `why`, and so do later calls on this rank. Does nothing after shutdown() or a CommError. The
  /// communicator that was given to the constructor is told apart: Collective::abort().
  void abort(std::string_view why) noexcept;

 private:
  friend class CheckpointAccess;
  class Impl;
  std::atomic<bool> stop_requested_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
