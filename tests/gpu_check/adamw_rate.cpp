// How near AdamW comes to what the GPU's memory can do: a copy within the GPU.

#include <algorithm>
#include <cmath>
#include <vector>

#include "libzero/kernels/adamw.h"
#include "tests/gpu_check/device_data.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/samples.h"

namespace zero::gpu_check {
namespace {

// fp32 gradient, master and both moments read, the latter three and a bfloat16 copy written.
constexpr std::int64_t kBytes = 4 + 3 * 4 + 3 * 4 + 2;
constexpr int kLaunches = 4;  // of one sample: beside them what the host does is nothing

class Arrays {
 public:
  Arrays(const Apis& apis, std::int64_t count)
      : count_(count),
        gradient_(apis, count * 4),
        master_(apis, count * 4),
        exp_avg_(apis, count * 4),
        exp_avg_sq_(apis, count * 4),
        low_precision_(apis, count * 2) {}

  cuda::AdamWStep step(const cuda::StepState* state, const AdamWConstants* constants) const {
    cuda::AdamWStep args;
    args.state = state;
    args.constants = constants;
    args.gradient = gradient_.get();
    args.gradient_dtype = DType::kFloat32;
    args.master = static_cast<float*>(master_.get());
    args.exp_avg = static_cast<float*>(exp_avg_.get());
    args.exp_avg_sq = static_cast<float*>(exp_avg_sq_.get());
    args.low_precision = low_precision_.get();
    args.low_precision_dtype = DType::kBFloat16;
    args.count = count_;
    return args;
  }

  void fill(Lane& lane) const {
    std::vector<float> some = values(std::min<std::int64_t>(count_, 1 << 20), 3);
    for (float& value : some) value = std::abs(value);  // a root of exp_avg_sq is taken
    for (const nccl::DeviceMemory* array : {&gradient_, &master_, &exp_avg_, &exp_avg_sq_}) {
      const auto each = static_cast<std::int64_t>(some.size());
      for (std::int64_t at = 0; at < count_; at += each) {
        lane.copy(static_cast<float*>(array->get()) + at, some.data(),
                  static_cast<std::size_t>(std::min(each, count_ - at)) * 4);
      }
    }
  }

  void copy(const Lane& lane) const {
    nccl::check_cuda(*lane.apis(),
                     lane.apis()->cuda.memcpy_async(exp_avg_.get(), gradient_.get(),
                                                    static_cast<std::size_t>(count_) * 4,
                                                    nccl::kCudaMemcpyDefault, lane.stream()),
                     "cudaMemcpyAsync");
  }

 private:
  std::int64_t count_;
  nccl::DeviceMemory gradient_, master_, exp_avg_, exp_avg_sq_, low_precision_;
};

void judge(const Samples& adamw, const Samples& copy, std::int64_t count, const Settings& settings,
           Report& report) {
  const auto elements = static_cast<double>(count);
  const auto rate = [](double bytes, const Samples& samples) {
    return number(bytes / samples.median() * 1e-9, 0) + " GB/s (best " +
           number(bytes / samples.best() * 1e-9, 0) + ")";
  };
  report.note("AdamW, fp32 state and gradient, bfloat16 parameter",
              number(adamw.median() * 1e9 / elements, 4) + " ns a parameter (best " +
                  number(adamw.best() * 1e9 / elements, 4) + ")");
  report.note("AdamW's traffic, " + std::to_string(kBytes) + " bytes a parameter",
              rate(elements * kBytes, adamw));
  report.note("copy within the GPU, read and written", rate(elements * 8, copy));
  const double share = (kBytes / adamw.median()) / (8 / copy.median());
  const std::string what = "AdamW's traffic, of the copy's", text = number(share * 100, 1) + " %";
  if (settings.judges_speed) {
    report.judge(what, text, "at least " + number(kShareOfCopy * 100, 0) + " %",
                 share >= kShareOfCopy);
  } else {
    report.note(what, text);
  }
}

}  // namespace

void check_adamw_rate(const Apis& apis, const Settings& settings, Report& report) {
  const nccl::OnDevice here(*apis, 0);
  Lane lane(apis);
  const std::int64_t count = settings.adamw_elements;
  const Arrays arrays(apis, count);
  arrays.fill(lane);
  cuda::StepState applied;
  applied.apply = 1;
  applied.gradient_factor = 0.37f;
  const DeviceData<cuda::StepState> state(lane, {applied});
  const DeviceData<AdamWConstants> constants(lane, {adamw_constants({}, 7)});
  const cuda::AdamWStep step = arrays.step(state.get(), constants.get());
  Samples adamw, copy;
  for (int round = 0; round < settings.rounds; ++round) {
    copy.add(lane.time(kLaunches, [&] { arrays.copy(lane); }));
    adamw.add(lane.time(kLaunches, [&] {
      nccl::check_cuda(*apis, apis->kernels.adamw(&step, lane.stream()), "The kernel adamw");
    }));
  }
  judge(adamw, copy, count, settings, report);
}

}  // namespace zero::gpu_check
