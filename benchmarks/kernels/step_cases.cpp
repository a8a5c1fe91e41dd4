#include <string>

#include "cases.h"
#include "floor.h"

namespace zero::benchmark {
namespace {

// Ours over the floor: the promise is 90 % of the floor's speed.
constexpr double kLimit = 1 / 0.9;

struct Format {
  const char* name;
  DType gradient;
  bool low_precision;
  DType low_precision_dtype;
};

constexpr Format kFormats[] = {
    {"fp32", DType::kFloat32, false, DType::kBFloat16},
    {"fp32_to_bf16", DType::kFloat32, true, DType::kBFloat16},
    {"fp32_to_fp16", DType::kFloat32, true, DType::kFloat16},
    {"bf16_to_bf16", DType::kBFloat16, true, DType::kBFloat16},
    {"fp16_to_fp16", DType::kFloat16, true, DType::kFloat16},
};

Comparison step_case(Streams& streams, const Format& format, int threads) {
  AdamWRun run = streams.run(format.gradient, format.low_precision);
  run.low_precision_dtype = format.low_precision_dtype;
  const auto contender = [run, threads](auto kernel) {
    return Contender{nullptr, [=] { on_threads(threads, run, kernel); }, nullptr,
                     /*short_and_busy=*/true};
  };
  const AdamWConstants constants = adamw_constants({}, 10);
  return {std::string("kernels.adamw.") + format.name + "." + std::to_string(threads) + "t",
          "one step of AdamW against the same streams without arithmetic", kLimit,
          contender([constants](const AdamWRun& part) { adamw_step(constants, part); }),
          contender(walk_streams)};
}

}  // namespace

std::vector<Comparison> step_cases(Streams& streams) {
  std::vector<Comparison> cases;
  for (const Format& format : kFormats) {
    for (const int threads : {1, 2}) cases.push_back(step_case(streams, format, threads));
  }
  return cases;
}

}  // namespace zero::benchmark
