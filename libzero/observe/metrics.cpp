#include "libzero/observe/metrics.h"

#include <cmath>

#include "libzero/base/number_text.h"

namespace zero::observe {
namespace {

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return number_text(value);
}

/// Writes metrics that all bear the rank.
class Page {
 public:
  explicit Page(int rank) : rank_(R"(rank=")" + std::to_string(rank) + "\"") {}

  Page& family(const char* name, const char* type, const char* help) {
    name_ = std::string("libzero_") + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
    return *this;
  }
  Page& sample(double value, const std::string& labels = "") {
    text_ += name_ + "{" + rank_ + (labels.empty() ? "" : "," + labels) + "} " + value_text(value) +
             "\n";
    return *this;
  }
  Page& sample(std::int64_t value, const std::string& labels = "") {
    return sample(static_cast<double>(value), labels);
  }

  std::string text_;

 private:
  std::string name_;
  const std::string rank_;
};

void add_parts(Page& page, const StepTimes& sums) {
  page.family("step_part_seconds_total", "counter", "Time of the training thread, by what it did.")
      .sample(sums.forward, R"(part="forward")")
      .sample(sums.backward, R"(part="backward")")
      .sample(sums.wait, R"(part="wait")")
      .sample(sums.update, R"(part="update")")
      .sample(sums.other, R"(part="other")");
}

std::string bucket_label(std::size_t bucket, const char* work) {
  return "bucket=\"" + std::to_string(bucket) + "\",work=\"" + work + "\"";
}

void add_buckets(Page& page, const std::vector<BucketTimes>& buckets) {
  page.family("bucket_seconds_total", "counter", "Time inside a bucket's collectives.");
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    page.sample(buckets[b].reduce, bucket_label(b, "reduce"));
    page.sample(buckets[b].gather, bucket_label(b, "gather"));
  }
  page.family("bucket_bytes_total", "counter", "Bytes that a bucket's collectives moved.");
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    page.sample(buckets[b].reduce_bytes, bucket_label(b, "reduce"));
    page.sample(buckets[b].gather_bytes, bucket_label(b, "gather"));
  }
}

void add_times(StepTimes& sums, const StepTimes& times) {
  sums.forward += times.forward;
  sums.backward += times.backward;
  sums.wait += times.wait;
  sums.update += times.update;
  sums.other += times.other;
  sums.buckets.resize(times.buckets.size());
  for (std::size_t b = 0; b < sums.buckets.size(); ++b) {
    sums.buckets[b].reduce += times.buckets[b].reduce;
    sums.buckets[b].gather += times.buckets[b].gather;
    sums.buckets[b].reduce_bytes += times.buckets[b].reduce_bytes;
    sums.buckets[b].gather_bytes += times.buckets[b].gather_bytes;
  }
}

}  // namespace

void Metrics::add(const StepResult& result, double step_seconds, const StepTimes* times) {
  ++steps_;
  if (!result.applied) ++skipped_;
  applied_ = result.step;
  seconds_ += step_seconds;
  last_seconds_ = step_seconds;
  loss_ = result.loss;
  grad_norm_ = result.grad_norm;
  clip_factor_ = result.clip_factor;
  loss_scale_ = result.loss_scale;
  host_bytes_ = result.host_bytes;
  device_bytes_ = result.device_bytes;
  if (times == nullptr) return;
  has_times_ = true;
  add_times(sums_, *times);
}

std::string Metrics::text(int rank) const {
  Page page(rank);
  page.family("steps_total", "counter", "Steps that this process has taken.").sample(steps_);
  page.family("steps_skipped_total", "counter",
              "Of these, steps that were skipped: a gradient was not finite.")
      .sample(skipped_);
  page.family("applied_steps", "gauge", "Steps applied in the whole training.").sample(applied_);
  page.family("step_seconds_total", "counter", "Wall time of all steps.").sample(seconds_);
  page.family("step_seconds", "gauge", "Wall time of the last step.").sample(last_seconds_);
  page.family("loss", "gauge", "Weighted mean loss of the last step.").sample(loss_);
  page.family("gradient_norm", "gauge", "L2 norm of the last step's gradient before clipping.")
      .sample(grad_norm_);
  page.family("clip_factor", "gauge", "What the last step's gradient was multiplied by.")
      .sample(clip_factor_);
  page.family("loss_scale", "gauge", "Scale that the last step's gradients carried.")
      .sample(loss_scale_);
  page.family("memory_bytes", "gauge", "What the optimizer holds, by where it lies.")
      .sample(host_bytes_, R"(place="host")");
  if (device_bytes_ > 0) page.sample(device_bytes_, R"(place="device")");
  if (has_times_) {
    add_parts(page, sums_);
    add_buckets(page, sums_.buckets);
  }
  return page.text_;
}

}  // namespace zero::observe
