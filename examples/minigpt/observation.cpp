#include "examples/minigpt/observation.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/observe/observers.h"

namespace minigpt {
namespace {

namespace observe = zero::observe;

}  // namespace

Observation::Observation(const Flags& flags, int rank, Say say)
    : flags_(flags), rank_(rank), say_(std::move(say)) {
  std::vector<std::shared_ptr<zero::Observer>> all;
  if (flags.profile > 0) {
    timeline_ = std::make_shared<observe::Timeline>(
        observe::TimelineOptions{.skip = 2, .steps = flags.profile});
    all.push_back(timeline_);
  }
  if (rank == 0 && (!flags.tensorboard.empty() || flags.metrics_port >= 0)) {
    meter_ = std::make_shared<observe::StepMeter>();
    all.push_back(meter_);
  }
  if (rank == 0 && flags.late_rank_every > 0) {
    late_rank_ = std::make_shared<observe::LateRank>(
        observe::LateRankOptions{.every = flags.late_rank_every});
    all.push_back(late_rank_);
  }
  if (!all.empty()) observer_ = std::make_shared<observe::Observers>(std::move(all));
}

void Observation::begin(bool append) {
  if (timeline_) {
    std::error_code error;
    std::filesystem::create_directories(flags_.profile_dir, error);
    if (error)
      throw zero::IoError("--profile-dir cannot be made: " + error.message() + ": " +
                          flags_.profile_dir);
  }
  if (rank_ != 0) return;
  if (!flags_.log.empty()) log_.emplace(flags_.log, append);
  if (!flags_.tensorboard.empty()) board_.emplace(flags_.tensorboard);
  if (flags_.metrics_port < 0) return;
  metrics_.emplace(observe::MetricsServerOptions{
      .port = static_cast<std::uint16_t>(flags_.metrics_port), .rank = rank_});
  say_("metrics: http://127.0.0.1:" + std::to_string(metrics_->port()) + "/metrics");
}

void Observation::step(const Step& step) {
  if (log_) log_step(step);
  if (board_) draw_step(step);
  if (metrics_) metrics_->add(step.result, step.seconds, &meter_->last());
  if (late_rank_) {
    if (const auto lateness = late_rank_->take()) say_(observe::text_of(*lateness));
  }
  if (timeline_ && timeline_->is_complete() && !is_timeline_written_) write_timeline();
}

void Observation::log_step(const Step& step) {
  observe::JsonObject line;
  line.add("step", step.step).add("lr", step.lr);
  add_to(line, step.result);
  line.add("tokens_per_s", step.tokens_per_second).add("step_s", step.seconds);
  if (meter_) add_to(line, meter_->last());
  if (step.samples != nullptr) line.add("samples", *step.samples);
  log_->write(line);
}

void Observation::draw_step(const Step& step) {
  const observe::StepTimes& times = meter_->last();
  std::vector<observe::Scalar> scalars = {
      {"loss/training", step.result.loss},
      {"optimizer/learning_rate", step.lr},
      {"optimizer/gradient_norm", step.result.grad_norm},
      {"optimizer/clip_factor", step.result.clip_factor},
      {"optimizer/loss_scale", step.result.loss_scale},
      {"optimizer/skipped_in_a_row", static_cast<double>(step.result.consecutive_skips)},
      {"time/step", step.seconds},
      {"time/forward", times.forward},
      {"time/backward", times.backward},
      {"time/wait", times.wait},
      {"time/update", times.update},
      {"time/other", times.other},
      {"speed/tokens_per_second", step.tokens_per_second},
      {"memory/host", static_cast<double>(step.result.host_bytes)}};
  if (step.result.device_bytes > 0)
    scalars.push_back({"memory/device", static_cast<double>(step.result.device_bytes)});
  board_->add(step.step, scalars);
}

void Observation::evaluation(std::int64_t step, double loss) {
  if (log_) log_->write(observe::JsonObject().add("step", step).add("eval_loss", loss));
  const observe::Scalar scalar[] = {{"loss/validation", loss}};
  if (board_) board_->add(step, scalar);
}

void Observation::write_timeline() {
  is_timeline_written_ = true;
  timeline_->write(observe::timeline_path(flags_.profile_dir, rank_));
  if (rank_ == 0)
    say_("timeline: " + flags_.profile_dir + "; zero trace merge all.json " + flags_.profile_dir +
         " puts the ranks into one file");
}

void Observation::finish() {
  if (timeline_ && !is_timeline_written_) write_timeline();
}

void Observation::save_what_there_is() noexcept {
  try {
    finish();
  } catch (const std::exception&) {  // what the run failed of is what people must hear
  }
}

}  // namespace minigpt
