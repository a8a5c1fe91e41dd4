#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "libzero/base/fnv.h"
#include "libzero/base/number_text.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/optim/decision.h"
#include "libzero/optim/model_sync.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string describe_all(const UpdateRule& rule, const std::vector<OptionValues>& groups) {
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += (i > 0 ? "; group " : "group ") + std::to_string(i) + ": " + describe(rule, groups[i]);
  }
  return text;
}

std::uint64_t hash_of(const std::vector<OptionValues>& groups) {
  Fnv1a hash;
  for (const OptionValues& group : groups) {
    for (const double value : group) hash.add(std::bit_cast<std::int64_t>(value));
  }
  return hash.value();
}

void add_squares(std::span<const double> block_sums, GroupSquares& group) {
  if (std::all_of(block_sums.begin(), block_sums.end(),
                  [](double sum) { return std::isfinite(sum); }))
    group.sum.add(block_sums);
  else
    group.finite = false;
}

bool is_reduced(const BackwardCall& call) {
  return call.reduced;
}

}  // namespace

void Optimizer::Impl::add_squares(const float* values, std::int64_t numel, GroupSquares& group) {
  for (std::int64_t at = 0; at < numel; at += kNormBlock) {
    const double sum = block_sum_of_squares(values + at, std::min(kNormBlock, numel - at));
    zero::add_squares({&sum, 1}, group);
  }
}

StepVote Optimizer::Impl::make_vote() {
  StepVote vote;
  losses_.take(calls_);
  if (home_) {
    sum_on_device(vote);
  } else {
    sum_in_memory(vote);
  }
  vote.groups = group_squares_;
  if (options_.unused() == Unused::kError) vote.unused_parameter = reducer_->first_unused();
  if (reducer_->holds()) vote.soundness = Soundness::kUnreduced;
  if (backward_failed_) vote.soundness = Soundness::kBackwardThrew;
  vote.stop = stop_requested_->load();
  vote.collective_time = last_collective_time_;
  vote.calls = calls_;
  return vote;
}

/// A GPU that fails on one rank ends the optimizer on all.
StepVote Optimizer::Impl::sound_vote() {
  try {
    return make_vote();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    if (!home_) throw;
    die(kNothingChanged, error.what());
  }
}

void Optimizer::Impl::sum_in_memory(StepVote& vote) {
  for (const BucketState& state : states_) {
    const std::vector<double>& sums = state.block_sums;
    if (std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); })) {
      vote.sum_of_squares.add(sums);
    } else {
      vote.finite = false;
    }
  }
  if (!vote.finite) find_nonfinite(vote);
  sum_groups();
}

/// A block of the norm is of one parameter, unless shards begin inside of one (shard_alignment):
/// blocks are counted from the shard's beginning, and may reach into the next parameter then.
void Optimizer::Impl::sum_groups() {
  if (group_squares_.empty()) return;
  std::fill(group_squares_.begin(), group_squares_.end(), GroupSquares());
  for (const BucketState& state : states_) {
    for (const Segment& segment : state.owned_segments) {
      const ParameterSpec& spec = table_.specs[static_cast<std::size_t>(segment.parameter)];
      const std::int64_t at = segment.bucket_begin - state.owned.begin;
      GroupSquares& group = group_squares_[static_cast<std::size_t>(spec.group)];
      if (state.owned.begin % kNormBlock == 0) {
        const std::int64_t blocks = (segment.numel + kNormBlock - 1) / kNormBlock;
        zero::add_squares(std::span<const double>(state.block_sums)
                              .subspan(static_cast<std::size_t>(at / kNormBlock),
                                       static_cast<std::size_t>(blocks)),
                          group);
      } else {
        add_squares(state.accumulator.data() + at, segment.numel, group);
      }
    }
  }
}

void Optimizer::Impl::find_nonfinite(StepVote& vote) const {
  for (const BucketState& state : states_) {
    for (const Segment& segment : state.owned_segments) {
      const bool is_earlier =
          vote.nonfinite_parameter < 0 || segment.parameter < vote.nonfinite_parameter;
      const float* values = state.accumulator.data() + (segment.bucket_begin - state.owned.begin);
      if (is_earlier && first_nonfinite(values, segment.numel) >= 0)
        vote.nonfinite_parameter = segment.parameter;
    }
  }
}

void Optimizer::Impl::require_sound_window(const StepTally& tally, const std::string& fault,
                                           const std::vector<OptionValues>& groups) {
  ZERO_REQUIRE(fault.empty(), fault);
  ZERO_REQUIRE(
      tally.failure != Soundness::kRefused,
      "step: a rank cannot step, and says why; the gradients of this window are dropped: rank " +
          std::to_string(tally.failed_rank));
  ZERO_REQUIRE(
      tally.odd_rank < 0,
      "step: the options of the parameter groups differ between ranks; set them alike, and "
      "step schedules on every rank: rank " +
          std::to_string(tally.odd_rank) + " differs from rank 0; here " +
          describe_all(*rule_, groups));
  ZERO_REQUIRE(!calls_.empty(),
               "step: there is no gradient; call backward() first (one step() ends a window)");
  require_reduced(tally);
  ZERO_REQUIRE(tally.failed_rank < 0,
               "step: a backward call threw, so that the gradients of this window are incomplete; "
               "they are dropped, "
               "begin the window again: on rank " +
                   std::to_string(tally.failed_rank));
  ZERO_REQUIRE(
      tally.unused_rank < 0,
      "step: a parameter received no gradient; use it in the loss, freeze it, or allow it with "
      "Options().unused(Unused::kZero): parameter " +
          table_.specs[static_cast<std::size_t>(std::max(tally.unused_parameter, 0))].name +
          " on rank " + std::to_string(tally.unused_rank));
  ZERO_REQUIRE(tally.weight > 0,
               "step: the weights of all backward calls add up to 0; give one a positive weight");
}

void Optimizer::Impl::require_reduced(const StepTally& tally) const {
  ZERO_REQUIRE(tally.failure != Soundness::kUnreduced,
               "step: the last backward calls were made inside no_sync() and are not reduced; make "
               "the window's last call outside of it; the gradients of this window are dropped: on "
               "rank " +
                   std::to_string(tally.failed_rank));
  ZERO_REQUIRE(
      tally.odd_pattern_rank < 0,
      "step: no_sync() covered other backward calls than on rank 0; cover the same ones on "
      "every rank; the gradients of this window are dropped: on rank " +
          std::to_string(tally.odd_pattern_rank));
}

StepTally Optimizer::Impl::vote(const std::vector<OptionValues>& groups, std::string fault) {
  if (fault.empty()) fault = first_reshaped(model());
  if (fault.empty()) fault = first_refrozen(model());
  if (fault.empty()) fault = fault_of(*rule_, groups, "step");
  label_.begin("step ").add(windows_ended_ + 1).add(" after ");
  label_.add(static_cast<std::int64_t>(calls_.size())).add(" backward calls");
  return guarded(kNothingChanged, [&] {
    wait_for_reductions();
    StepVote mine = sound_vote();
    mine.options = hash_of(groups);
    if (!fault.empty()) mine.soundness = Soundness::kRefused;
    const StepTally tally = gather_votes(mine);
    require_sound_window(tally, fault, groups);
    return tally;
  });
}

void Optimizer::Impl::wait_for_reductions() {
  const ObservedScope scope(clock_.observer(), Activity::kReduceWait, Lane::kTraining);
  matched([this] { queue_.drain(); });
}

StepTally Optimizer::Impl::gather_votes(const StepVote& mine) {
  const auto bytes = static_cast<std::int64_t>(sizeof(std::int64_t)) * VoteBox::words(mine);
  const StepTally tally = matched([&] {
    const ObservedScope scope(clock_.observer(), Activity::kVote, Lane::kTraining, -1,
                              bytes * comm_->size());
    return clock_.timed([&] { return vote_box_.gather(mine, label_.text()); });
  });
  if (Observer* const observer = clock_.observer())
    observer->collective_times(vote_box_.collective_times());
  return tally;
}

StepResult Optimizer::Impl::step(const std::vector<OptionValues>& groups, std::string fault) {
  StepResult result;
  {
    const ObservedScope scope(clock_.observer(), Activity::kStep, Lane::kTraining);
    result = end_window(groups, std::move(fault));
  }
  if (Observer* const observer = clock_.observer()) {
    observer->step_ended(result);
    forward_begin_ = steady_now();
  }
  if (scaler_.exhausted()) {
    throw Error(
        "step: gave up after too many skipped steps in a row "
        "(LossScalerOptions::max_consecutive_skips): " +
        std::to_string(result.consecutive_skips) + ", the last because " + result.reason);
  }
  return result;
}

StepResult Optimizer::Impl::end_window(const std::vector<OptionValues>& groups, std::string fault) {
  const auto start = Clock::now();
  require_alive();
  replicas_.require_equal("step");
  const StepTally tally = vote(groups, std::move(fault));
  const Decision decision = decide_step(tally);
  StepResult result;
  result.group_norms = group_clipping_.norms;
  result.group_clip_factors = group_clipping_.clip_factors;
  result.loss = tally.loss;
  result.weight = tally.weight;
  result.grad_norm = decision.grad_norm;
  result.clip_factor = decision.clip_factor;
  result.loss_scale = scaler_.scale();
  result.deterministic = std::all_of(calls_.begin(), calls_.end(), is_reduced) &&
                         (!home_ || home_->payload->sums_in_rank_order());
  gradient_scale_ = scaler_.scale() * static_cast<double>(tally.weight);
  if (decision.apply) {
    require_first_blocks();
    compare_replicas(steps_applied_ + 1, "before the update of step ");
    update(decision.gradient_factor, groups);
    ++steps_applied_;
    result.applied = true;
  } else {
    result.overflow_parameter =
        table_.specs[static_cast<std::size_t>(std::max(tally.nonfinite_parameter, 0))].name;
    result.reason = "gradient is not finite in " + result.overflow_parameter;
  }
  ++windows_ended_;
  scaler_.update(/*overflow=*/!decision.apply);
  result.step = steps_applied_;
  result.next_loss_scale = scaler_.scale();
  result.stop_requested = tally.stop;
  result.consecutive_skips = scaler_.state().consecutive_skips;
  if (!result.applied) {
    say(LogLevel::kWarning, "step: skipped, " + result.reason + "; loss scale " +
                                number_text(result.loss_scale) + " -> " +
                                number_text(result.next_loss_scale));
  }
  drop_window();
  if (result.applied) compare_replicas(steps_applied_, "after step ");
  last_collective_time_ = clock_.take();
  result.comm_seconds = 1e-9 * static_cast<double>(last_collective_time_);
  const MemoryReport held = memory_in_step();
  result.host_bytes = held.on_host();
  result.device_bytes = held.on_device;
  result.seconds = seconds_since(start);
  return result;
}

Decision Optimizer::Impl::decide_step(const StepTally& tally) {
  Decision decision = decide({.sum_of_squares = tally.sum_of_squares,
                              .finite = tally.finite,
                              .loss_scale = scaler_.scale(),
                              .weight_sum = tally.weight,
                              .clip_norm = options_.clip_norm()});
  if (group_squares_.empty()) return decision;
  decide_groups({.squares = vote_box_.group_squares(),
                 .limits = group_limits_,
                 .loss_scale = scaler_.scale(),
                 .weight_sum = tally.weight,
                 .clip_norm = options_.clip_norm()},
                decision, group_clipping_);
  parameter_update_->clip_groups(group_clipping_.gradient_factors);
  return decision;
}

void Optimizer::Impl::compare_replicas(std::int64_t step, const char* when) {
  if (!replicas_.is_due(step)) return;
  std::string difference;
  try {
    queue_.drain();
    await_device();
    if (image_) image_->download();  // what backward uses, not what it should use
    const std::vector<std::uint64_t> hashes = hashes_of_parameters(table_);
    difference = clock_.timed([&] { return difference_on_ranks(hashes, table_, *comm_); });
  } catch (const std::exception& error) {  // a rank that has its answer updates at once
    die(kParametersMixed, error.what());
  }
  if (!difference.empty()) discard_window();
  replicas_.conclude(difference, when + std::to_string(step));
}

void Optimizer::Impl::update(float gradient_factor, const std::vector<OptionValues>& groups) {
  std::optional<Failure> failure;
  try {
    failure = update_buckets(gradient_factor, groups);
  } catch (const std::exception&
               error) {  // of whatever type: some parameters are stepped, others are not
    die(kParametersMixed, error.what());
  }
  settle_offload(kParametersMixed, failure);
}

/// Each class of an update rule's constants is stepped as its own number of steps says.
void Optimizer::Impl::begin_rule(const std::vector<OptionValues>& groups) {
  class_options_.clear();
  class_steps_.clear();
  for (const UpdateClass& one : classes_) {
    class_options_.push_back(groups[static_cast<std::size_t>(one.group)]);
    class_steps_.push_back(steps_applied_ + 1 - one.begun);
  }
  rule_->begin_step(class_options_, class_steps_);
}

/// What went wrong with offloaded state on this rank: all ranks make all collectives then, too.
std::optional<Failure> Optimizer::Impl::update_buckets(float gradient_factor,
                                                       const std::vector<OptionValues>& groups) {
  begin_rule(groups);
  parameter_update_->begin(gradient_factor);
  if (image_) {
    image_->download_changed();
    image_->begin_update();
  }
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    if (options_.stage() == 0) {
      queue_.submit({&Impl::gather_and_step, this, bucket});
    } else {
      parameter_update_->step_bucket(bucket);
      submit_gather(bucket);
    }
  }
  wait_for_gathers();
  if (image_) image_->finish_update();
  mark_parameters_changed();
  const std::optional<Failure> failure = parameter_update_->finish();
  submit_settling();
  return failure;
}

void Optimizer::Impl::wait_for_gathers() {
  const ObservedScope scope(clock_.observer(), Activity::kGatherWait, Lane::kTraining);
  queue_.drain();
}

void Optimizer::Impl::gather_and_step(void* self, std::int32_t bucket) {
  auto& impl = *static_cast<Impl*>(self);
  impl.parameter_update_->gather_and_step_bucket(bucket);
  impl.upload(bucket);
}

void Optimizer::Impl::submit_gather(std::int32_t bucket) {
  queue_.submit({[](void* self, std::int32_t index) {
                   auto& impl = *static_cast<Impl*>(self);
                   impl.parameter_update_->gather_bucket(index);
                   impl.upload(index);
                 },
                 this, bucket});
}

void Optimizer::Impl::submit_settling() {
  if (!home_ || comm_->size() == 1) return;
  queue_.submit({[](void* self, std::int32_t) {
                   try {
                     static_cast<Impl*>(self)->parameter_update_->settle();
                   } catch (const CommError& error) {
                     throw GatherError(error.what());
                   }
                 },
                 this});
}

void Optimizer::Impl::let_gathers_end() noexcept {
  try {
    await_gathers();
  } catch (...) {  // nobody is interested any more
  }
}

void Optimizer::Impl::await_gathers() {
  if (home_ && calls_.empty()) queue_.drain();
}

void Optimizer::Impl::upload(std::int32_t bucket) {
  if (image_) image_->upload(bucket);
}

void Optimizer::Impl::mark_parameters_changed() {
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    if (table_.specs[i].trainable) model().tensors[i].unsafeGetTensorImpl()->bump_version();
  }
  if (image_) image_->remember();
}

}  // namespace zero
