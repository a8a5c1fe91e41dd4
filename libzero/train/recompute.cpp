#include "libzero/train/recompute.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mutex>
#include <optional>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/shape_text.h"
#include "libzero/train/autocast.h"
#include "libzero/train/generator_states.h"

namespace zero {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

/// Leaves the function when all is there. No std::exception, so that handlers for errors let it by.
struct EnoughRecomputed {};

/// Autocast of the devices that it matters for.
class AutocastStates {
 public:
  AutocastStates()
      : cpu_(autocast_state(at::kCPU)),
        cuda_(autocast_state(at::kCUDA)),
        caches_(at::autocast::is_autocast_cache_enabled()) {}

  /// Restores on destruction what was there before.
  class Guard {
   public:
    explicit Guard(const AutocastStates& states)
        : cpu_(at::kCPU, states.cpu_),
          cuda_(at::kCUDA, states.cuda_),
          cached_before_(at::autocast::is_autocast_cache_enabled()) {
      at::autocast::set_autocast_cache_enabled(states.caches_);
    }
    ~Guard() { at::autocast::set_autocast_cache_enabled(cached_before_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Autocast cpu_, cuda_;
    bool cached_before_;
  };

 private:
  AutocastState cpu_, cuda_;
  bool caches_;
};

/// The generators at a snapshot, while one lives.
class DrawAgain {
 public:
  explicit DrawAgain(GeneratorStates states) : before_(GeneratorStates::now()) { states.restore(); }
  ~DrawAgain() { before_.restore(); }
  DrawAgain(const DrawAgain&) = delete;
  DrawAgain& operator=(const DrawAgain&) = delete;

 private:
  GeneratorStates before_;
};

struct Description {
  std::vector<std::int64_t> sizes;
  c10::ScalarType dtype;
  c10::Device device;

  explicit Description(const at::Tensor& tensor)
      : sizes(tensor.sizes().vec()), dtype(tensor.scalar_type()), device(tensor.device()) {}
  friend bool operator==(const Description&, const Description&) = default;

  std::string text() const {
    return std::string(c10::toString(dtype)) + shape_text(sizes) + " on " + device.str();
  }
};

/// One call of recompute(). Lives as long as a node of autograd's graph has something to ask of it.
class Region {
 public:
  Region(const std::vector<at::Tensor>& inputs, RecomputeScope::Again again,
         const RecomputeOptions& options)
      : again_(std::move(again)), early_stop_(options.early_stop) {
    // As autograd saves tensors: with a check that nobody writes them, and in a region around this
    // one not kept but recomputed, too.
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
    if (options.preserve_random) random_ = GeneratorStates::now();
  }

  /// The first run: tensor number saved_.size() was saved.
  std::size_t record(const at::Tensor& tensor) {
    saved_.emplace_back(tensor);
    return saved_.size() - 1;
  }

  /// The first run is over.
  void end_recording() noexcept { is_recorded_ = true; }

  /// For backward, be it one within the first run. Thread-safe: devices have threads of their own.
  at::Tensor take(std::size_t index) {
    const std::lock_guard lock(mutex_);
    const int task = torch::autograd::get_current_graph_task_id();
    if (task != task_ || index >= recomputed_.size() || !recomputed_[index].defined()) {
      recompute();
      task_ = task;
    }
    require_same(index);
    return std::move(recomputed_[index]);
  }

  /// The second run saves a tensor. Throws EnoughRecomputed.
  void add_recomputed(const at::Tensor& tensor) {
    recomputed_.push_back(tensor.detach());
    const bool stops_early = early_stop_ || !is_recorded_;
    if (stops_early && recomputed_.size() == saved_.size()) throw EnoughRecomputed();
  }

 private:
  void recompute();

  void require_same_number() const {
    ZERO_REQUIRE(recomputed_.size() == saved_.size(),
                 "recompute: the function saved another number of tensors for backward when it ran "
                 "again; it must do the same both times: " +
                     std::to_string(recomputed_.size()) + " instead of " +
                     std::to_string(saved_.size()));
  }

  void require_same(std::size_t index) const {
    const Description again(recomputed_[index]);
    ZERO_REQUIRE(again == saved_[index],
                 "recompute: the function saved another tensor for backward when it ran again; it "
                 "must do the same both times: number " +
                     std::to_string(index) + " is " + again.text() + ", was " +
                     saved_[index].text());
  }

  RecomputeScope::Again again_;
  bool early_stop_;
  std::vector<SavedVariable> inputs_;
  std::optional<GeneratorStates> random_;
  AutocastStates autocast_;
  std::vector<Description> saved_;
  bool is_recorded_ = false;

  std::mutex mutex_;  // guards what follows
  std::vector<at::Tensor> recomputed_;
  int task_ = -1;  // the backward that they are for
};

/// A tensor that the first run did not keep.
class Absent final : public SavedVariableHooks {
 public:
  explicit Absent(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  void call_pack_hook(const at::Tensor& tensor) override { index_ = region_->record(tensor); }
  at::Tensor call_unpack_hook() override { return region_->take(index_); }

 private:
  std::shared_ptr<Region> region_;
  std::size_t index_ = 0;
};

class Recording final : public SavedTensorSink {
 public:
  explicit Recording(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  ~Recording() override { region_->end_recording(); }
  std::unique_ptr<SavedVariableHooks> hooks() override { return std::make_unique<Absent>(region_); }

 private:
  std::shared_ptr<Region> region_;
};

/// A tensor that the second run brings. Its own graph is never used.
class Brought final : public SavedVariableHooks {
 public:
  explicit Brought(Region& region) : region_(&region) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    region_->add_recomputed(tensor);
    kept_ = tensor.detach();
  }
  /// A backward within the function, of a gradient penalty say.
  at::Tensor call_unpack_hook() override { return kept_; }

 private:
  Region* region_;
  at::Tensor kept_;
};

class Replaying final : public SavedTensorSink {
 public:
  explicit Replaying(Region& region) : region_(&region) {}
  std::unique_ptr<SavedVariableHooks> hooks() override {
    return std::make_unique<Brought>(*region_);
  }

 private:
  Region* region_;
};

void Region::recompute() {
  recomputed_.clear();
  recomputed_.reserve(saved_.size());
  std::vector<at::Tensor> inputs;
  for (const SavedVariable& input : inputs_) inputs.push_back(input.unpack());
  std::optional<DrawAgain> random;
  if (random_) random.emplace(*random_);
  const AutocastStates::Guard autocast(autocast_);
  const c10::AutoGradMode gradients(true);
  Replaying replaying(*this);
  const SavedTensorScope scope(replaying);
  try {
    again_(inputs);
  } catch (const EnoughRecomputed&) {
  }
  require_same_number();
}

}  // namespace

RecomputeScope::RecomputeScope(std::vector<at::Tensor> inputs, Again again,
                               const RecomputeOptions& options) {
  if (!c10::GradMode::is_enabled()) return;
  recording_ =
      std::make_unique<Recording>(std::make_shared<Region>(inputs, std::move(again), options));
  scope_ = std::make_unique<SavedTensorScope>(*recording_);
}

RecomputeScope::~RecomputeScope() = default;

}  // namespace zero
