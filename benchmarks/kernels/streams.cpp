#include "streams.h"

#include <thread>
#include <vector>

#include "libzero/base/float16.h"

namespace zero::benchmark {
namespace {

std::int64_t bytes_for(std::int64_t n) {
  return 5 * Arena::room_for(4 * n) + 2 * Arena::room_for(2 * n);
}

AdamWRun part_of(const AdamWRun& run, std::int64_t begin, std::int64_t end) {
  AdamWRun part = run;
  part.gradient = static_cast<const std::byte*>(run.gradient) + begin * size_of(run.gradient_dtype);
  part.master += begin;
  part.exp_avg += begin;
  part.exp_avg_sq += begin;
  if (run.low_precision != nullptr)
    part.low_precision = static_cast<std::uint16_t*>(run.low_precision) + begin;
  part.n = end - begin;
  return part;
}

}  // namespace

Streams::Streams(std::int64_t n)
    : n_(n),
      arena_(std::make_shared<Arena>(bytes_for(n))),
      gradient_(arena_, n),
      master_(arena_, n),
      exp_avg_(arena_, n),
      exp_avg_sq_(arena_, n),
      other_gradient_(arena_, n),
      half_gradient_(arena_, n),
      low_precision_(arena_, n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(i % 1000 - 500) * 1e-4f;
    gradient()[i] = value;
    other_gradient()[i] = -0.5f * value;
    master()[i] = 10 * value;
    half_gradient()[i] = bfloat16_from_float(value);
  }
}

AdamWRun Streams::run(DType gradient_dtype, bool with_low_precision) {
  AdamWRun run;
  run.gradient = gradient_dtype == DType::kFloat32 ? static_cast<const void*>(gradient())
                                                   : static_cast<const void*>(half_gradient());
  run.gradient_dtype = gradient_dtype;
  run.master = master();
  run.exp_avg = exp_avg();
  run.exp_avg_sq = exp_avg_sq();
  if (with_low_precision) run.low_precision = low_precision();
  run.n = n_;
  return run;
}

void on_threads(int threads, const AdamWRun& run,
                const std::function<void(const AdamWRun&)>& kernel) {
  std::vector<std::thread> others;
  const auto cut = [&](int i) { return run.n * i / threads / 64 * 64; };
  for (int i = 1; i < threads; ++i) {
    const std::int64_t end = i + 1 == threads ? run.n : cut(i + 1);
    others.emplace_back([&kernel, part = part_of(run, cut(i), end)] { kernel(part); });
  }
  kernel(part_of(run, 0, threads == 1 ? run.n : cut(1)));
  for (std::thread& thread : others) thread.join();
}

}  // namespace zero::benchmark
