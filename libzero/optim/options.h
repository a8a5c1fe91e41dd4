#pragma once

/// What an Optimizer is told at construction, in LibTorch's builder style.

#include <c10/core/ScalarType.h>
#include <torch/arg.h>
#include <torch/optim/optimizer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "libzero/base/log.h"
#include "libzero/offload/offload.h"
#include "libzero/optim/loss_scaler.h"
#include "libzero/optim/observer.h"

namespace zero::cuda {
struct KernelApi;
}

namespace zero {

/// Hyperparameters of AdamW (Loshchilov & Hutter, arXiv 1711.05101), with the names and defaults of
/// torch::optim::AdamWOptions. Formulas: libzero/kernels/adamw.h. LibTorch's learning-rate
/// schedulers drive it through get_lr() and set_lr(). Optimizer's constructor and step() throw
/// ContractError for a beta outside [0, 1) or too near 1 for float32, and for another value that is
/// negative or not finite.
struct AdamWOptions : torch::optim::OptimizerCloneableOptions<AdamWOptions> {
  using Betas = std::tuple<double, double>;

  /// With a learning rate and LibTorch's defaults for the rest.
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT: implicit, as in LibTorch
  /// Learning rate.
  TORCH_ARG(double, lr);
  /// Decay of the averages of the gradient and of its square, a step.
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  /// Added to the square root of the second average, whose bias is corrected.
  TORCH_ARG(double, eps) = 1e-8;
  /// Decoupled: a step multiplies the weights by 1 - lr * weight_decay.
  TORCH_ARG(double, weight_decay) = 1e-2;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(const double new_lr) override { lr(new_lr); }
};

/// Hyperparameters of stochastic gradient descent with momentum, with the names and defaults of
/// torch::optim::SGDOptions, but for two things: weight_decay is decoupled, as AdamW's, and there
/// is no dampening. Formulas: libzero/kernels/sgd.h. Schedulers drive it through get_lr() and
/// set_lr(). Optimizer's constructor and step() throw ContractError for a momentum outside [0, 1)
/// or too near 1 for float32, nesterov without momentum, and another value that is negative or not
/// finite. Where no group has momentum as the optimizer is built, it keeps no momentum_buffer.
struct SGDOptions : torch::optim::OptimizerCloneableOptions<SGDOptions> {
  /// With a learning rate alone.
  SGDOptions(double lr) : lr_(lr) {}  // NOLINT: implicit, as in LibTorch
  /// Learning rate.
  TORCH_ARG(double, lr);
  /// Decay of the buffer of gradients, a step; 0: there is no buffer.
  TORCH_ARG(double, momentum) = 0;
  /// Decoupled: a step multiplies the weights by 1 - lr * weight_decay.
  TORCH_ARG(double, weight_decay) = 0;
  /// Nesterov's variant of momentum.
  TORCH_ARG(bool, nesterov) = false;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(const double new_lr) override { lr(new_lr); }
};

/// One rule's options: their type says how an Optimizer updates. All groups of one have the same.
struct RuleOptions : std::variant<AdamWOptions, SGDOptions> {
  using variant::variant;
  /// AdamW with a learning rate and LibTorch's defaults.
  RuleOptions(double lr) : variant(AdamWOptions(lr)) {}  // NOLINT: AdamW with a learning rate
};

/// Parameters with options of their own: those for which `predicate(name, tensor)` is true and no
/// earlier group's is.
struct ParameterGroup {
  std::function<bool(const std::string& name, const at::Tensor& tensor)> predicate;
  RuleOptions options;
  /// Largest L2 norm of this group's own mean gradient: the group is clipped apart from all others.
  /// 0: it is clipped with all that have no limit of their own (Options::clip_norm).
  double clip_norm = 0;
};

/// What to do with a trainable parameter that received no gradient in a backward call of some rank.
enum class Unused {
  kZero,   ///< It contributes zeros; weight decay and old momentum still move it.
  kError,  ///< step() throws ContractError on every rank, naming parameter and rank; one of no
           ///< element counts too.
};

/// What does not depend on the rule or the group. Optimizer's constructor throws ContractError for
/// what is out of range or differs between ranks. Not thread-safe.
struct Options {
  /// 0: replicated (as DDP). 1: optimizer state sharded. 2: gradients too. The bits of the result
  /// are the same.
  TORCH_ARG(int, stage) = 2;
  /// Largest global L2 norm of the mean gradient (Pascanu et al. 2013, arXiv 1211.5063, algorithm
  /// 1), without groups that have a clip_norm of their own; 0 turns clipping off (the norm is still
  /// reported).
  TORCH_ARG(double, clip_norm) = 0.0;
  /// Largest magnitude of an element of the mean gradient: each is brought into [-clip_value,
  /// clip_value], as torch's clip_grad_value_ does; 0 turns it off. Norms are those before. Not
  /// together with a clip_norm, be it a group's.
  TORCH_ARG(double, clip_value) = 0.0;
  /// StepResult says the norm and the clip factor of each parameter group. A group with a clip_norm
  /// of its own turns it on, too.
  TORCH_ARG(bool, group_norms) = false;
  /// dtype in which gradients travel: torch::kFloat or torch::kBFloat16. Default: each parameter's
  /// own dtype.
  TORCH_ARG(std::optional<c10::ScalarType>, wire) = std::nullopt;
  /// Above 0: keeps an exponential moving average e of the masters p with this decay, 0.999 say, e
  /// += (1 - decay) * (p - e) (libzero/kernels/ema.h), sharded as the moments are.
  /// Optimizer::ema_scope() brings it into the model. It begins at the weights, moves with applied
  /// steps alone, and begins anew where somebody writes the weights (refresh_masters(),
  /// load_parameters()).
  TORCH_ARG(double, ema) = 0.0;
  /// What becomes of a trainable parameter without gradient.
  TORCH_ARG(Unused, unused) = Unused::kZero;
  /// Reduce when backward ends instead of while it runs. Needed where a parameter receives its
  /// gradient in several parts of one backward (re-entrant checkpointing).
  TORCH_ARG(bool, defer_reduction) = false;
  /// False allows Optimizer::no_sync(): less communication, for sums whose bits depend on the
  /// number of ranks. And where state lies on a GPU, the backend may add gradients up in an order
  /// of its own (ReduceScatterOptions::any_order): NCCL takes its own reduce-scatter then, which
  /// rounds after each addition to the dtype that travels.
  TORCH_ARG(bool, deterministic) = true;
  /// Used where a trainable parameter is float16; bfloat16 and float32 do no scaling at all.
  TORCH_ARG(LossScalerOptions, loss_scaler) = {};
  /// Group 0 holds what no group here claims, with the options given to the Optimizer; group i + 1
  /// is the i-th here.
  TORCH_ARG(std::vector<ParameterGroup>, groups) = {};
  /// Cap of a bucket, the unit that gradients travel in, in bytes of its dtype (see LayoutOptions).
  TORCH_ARG(std::int64_t, bucket_bytes) = std::int64_t{25} << 20;
  /// Cap of each dtype's first bucket, in bytes: a small one lets the overlap begin early.
  TORCH_ARG(std::int64_t, first_bucket_bytes) = std::int64_t{1} << 20;
  /// Elements; no multiple of 64 gives up equal bits over world sizes (see LayoutOptions).
  TORCH_ARG(std::int64_t, shard_alignment) = 4096;
  /// Every how many applied steps the ranks compare their parameters, byte for byte by a 64-bit
  /// hash of each, frozen ones too; 0: never. Twice in such a step: as backward used them, since
  /// the update of stages 1 and 2 writes over what one rank has damaged, and as the update leaves
  /// them. On a difference step() throws Error on every rank, naming the first parameter that
  /// differs, the step and which ranks hold what; found before the update, it was not made. From
  /// then on backward(), step() and whatever saves throw Error, too, until load() has put a
  /// checkpoint in place. Costs two readings of the model and a tiny all-reduce
  /// (docs/determinism.md).
  TORCH_ARG(std::int64_t, checksum_every) = 0;
  /// Where masters of 16-bit parameters and moments lie: Offload::kDisk(folder) keeps them in
  /// a file and a few blocks of them in memory, with the same bits (docs/offload.md); of a model on
  /// a GPU Offload::kHost keeps them in host memory (docs/gpu.md). Default: where the parameters
  /// lie. The kind must be the same on every rank, the folder need not.
  TORCH_ARG(Offload, offload) = {};
  /// How long ranks wait for one another in save(), load() and Checkpointer, so that a slow disk is
  /// not taken for a dead rank; where the communicator's own timeout is longer, that counts.
  TORCH_ARG(std::chrono::milliseconds, checkpoint_timeout) = std::chrono::minutes(30);
  /// How long the host waits for a GPU that the model lies on, each time that it needs something
  /// from there: a loss, a bucket of gradients, parameters. Afterwards the GPU counts as hanging:
  /// the optimizer dies with a CommError that says what it waited for, and the other ranks hear of
  /// it. What LibTorch waits for by itself (saving buffers and frozen parameters, the trainer's own
  /// item() and copies) has no such end.
  TORCH_ARG(std::chrono::milliseconds, device_timeout) = std::chrono::minutes(5);
  /// The kernels of the kind of device that the model lies on, where state lies there, too. Null:
  /// for CUDA those of libzero_cuda_kernels.so, which is looked for like a plug-in (docs/gpu.md).
  TORCH_ARG(std::shared_ptr<const cuda::KernelApi>, device_kernels) = nullptr;
  /// Told how the model was laid out, of skipped steps, and of leaving without shutdown(), on every
  /// rank that has one. Default: nobody.
  TORCH_ARG(LogSink, log) = nullptr;
  /// Told what the optimizer does from when to when (docs/observability.md); of this rank alone,
  /// and of one optimizer at a time. Default: nobody, at the cost of a branch here and there.
  TORCH_ARG(std::shared_ptr<Observer>, observer) = nullptr;
};

}  // namespace zero
