// The update of long runs on several of LibTorch's threads: the bits of one thread, every element
// once, no memory.

#include "libzero/optim/threaded_step.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "libzero/base/float16.h"
#include "libzero/collective/collective.h"
#include "libzero/kernels/adamw.h"
#include "tests/optim/allocations.h"

namespace zero {
namespace {

constexpr std::int64_t kLong = (128 << 10) + 777;  // the last block is not whole

struct State {
  explicit State(std::int64_t n, DType gradient_dtype, bool low) {
    const auto size = static_cast<std::size_t>(n);
    for (auto* array : {&gradient, &master, &exp_avg, &exp_avg_sq}) array->resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      gradient[i] = static_cast<float>(i % 1013) * 1e-3f - 0.5f;
      master[i] = static_cast<float>(i % 769) * 1e-2f;
      exp_avg_sq[i] = static_cast<float>(i % 11) * 1e-4f;
      half_gradient.push_back(bfloat16_from_float(gradient[i]));
    }
    copy.resize(low ? size : 0);
    run.gradient = gradient_dtype == DType::kFloat32 ? static_cast<void*>(gradient.data())
                                                     : static_cast<void*>(half_gradient.data());
    run.gradient_dtype = gradient_dtype;
    run.master = master.data();
    run.exp_avg = exp_avg.data();
    run.exp_avg_sq = exp_avg_sq.data();
    if (low) run.low_precision = copy.data();
    run.n = n;
  }

  /// A step of elements [begin, end).
  void step(const AdamWConstants& constants, std::int64_t begin, std::int64_t end) {
    AdamWRun part = run;
    const auto at = [begin](const void* data, DType dtype) {
      return static_cast<const std::byte*>(data) + begin * size_of(dtype);
    };
    part.gradient = at(run.gradient, run.gradient_dtype);
    part.master += begin;
    part.exp_avg += begin;
    part.exp_avg_sq += begin;
    if (run.low_precision != nullptr)
      part.low_precision = const_cast<std::byte*>(at(run.low_precision, run.low_precision_dtype));
    part.n = end - begin;
    adamw_step(constants, part);
  }

  bool operator==(const State& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(master, other.master) && same(exp_avg, other.exp_avg) &&
           same(exp_avg_sq, other.exp_avg_sq) && same(copy, other.copy);
  }

  std::vector<float> gradient, master, exp_avg, exp_avg_sq;
  std::vector<std::uint16_t> half_gradient, copy;
  AdamWRun run;
};

void run_step(ThreadedStep& threaded, const AdamWConstants& constants, State& state) {
  threaded(state.run.n,
           [&](std::int64_t begin, std::int64_t end) { state.step(constants, begin, end); });
}

/// LibTorch's number of threads, as long as it lives. Threads that have calculated keep theirs.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

void expect_bits_of_one_thread(std::int64_t n, int threads) {
  const AdamWConstants constants = adamw_constants({}, 3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool low : {false, true}) {
      State expected(n, dtype, low), actual(n, dtype, low);
      ThreadedStep step;
      const Threads those(threads);
      for (int i = 0; i < 2; ++i) {
        adamw_step(constants, expected.run);
        run_step(step, constants, actual);
      }
      EXPECT_TRUE(expected == actual) << n << " elements, " << threads << " threads, low " << low;
    }
  }
}

TEST(ThreadedStep, HasTheBitsOfOneThreadWhateverTheirNumber) {
  for (const int threads : {1, 2, 3, 7}) expect_bits_of_one_thread(kLong, threads);
}

TEST(ThreadedStep, HasThemForRunsOfAnyLength) {
  for (const std::int64_t n : {0, 1, 4097, 128 << 10, (128 << 10) + 1, (1 << 20) - 1})
    expect_bits_of_one_thread(n, 2);
}

/// Memory that nobody has touched: whoever writes a page first has a page fault.
class FreshPages {
 public:
  explicit FreshPages(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data_, MAP_FAILED);
    ::madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  ~FreshPages() { ::munmap(data_, bytes_); }
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Of the calling thread, while it works.
template <class Work>
std::int64_t faults_of(const Work& work) {
  const testing::TrainingThread thread;
  testing::take_costs();
  testing::enter_library();
  work();
  testing::leave_library();
  return testing::take_costs().faults;
}

/// In a step that writes every page of its copy for the first time.
std::int64_t faults_of_a_step(int threads, std::int64_t n) {
  State state(n, DType::kFloat32, false);
  const FreshPages copy(static_cast<std::size_t>(n) * sizeof(std::uint16_t));
  ThreadedStep step;
  const Threads those(threads);
  run_step(step, adamw_constants({}, 1), state);  // without the copy: everything else is there
  state.run.low_precision = copy.data();
  return faults_of([&] { run_step(step, adamw_constants({}, 2), state); });
}

bool kernel_counts_faults() {
  const FreshPages page(1);
  return faults_of([&] { *static_cast<volatile char*>(page.data()) = 1; }) > 0;
}

TEST(ThreadedStep, LeavesAShareOfALongRunToTheOtherThreads) {
  if (!kernel_counts_faults()) GTEST_SKIP() << "this kernel counts no page faults";
  constexpr std::int64_t n = 1 << 20;
  const std::int64_t pages = n * 2 / ::getpagesize();
  EXPECT_GE(faults_of_a_step(1, n), pages);
  EXPECT_LT(faults_of_a_step(2, n), pages * 3 / 4);
}

TEST(ThreadedStep, TakesNoMemoryOnTwoThreads) {
  const testing::TrainingThread thread;
  State state(kLong, DType::kFloat32, true);
  ThreadedStep step;
  const Threads two(2);
  run_step(step, adamw_constants({}, 1), state);  // LibTorch starts its threads
  testing::take_costs();
  testing::enter_library();
  run_step(step, adamw_constants({}, 2), state);
  testing::leave_library();
  EXPECT_EQ(testing::take_costs().allocations, 0);
}

TEST(ThreadedStep, CallsInsideLibTorchsOwnParallelWorkStayOnTheirThread) {
  const AdamWConstants constants = adamw_constants({}, 3);
  State expected(kLong, DType::kFloat32, true), actual(kLong, DType::kFloat32, true);
  ThreadedStep step;
  const Threads two(2);
  adamw_step(constants, expected.run);
  const c10::ParallelGuard inside(true);
  run_step(step, constants, actual);
  EXPECT_TRUE(expected == actual);
}

}  // namespace
}  // namespace zero
