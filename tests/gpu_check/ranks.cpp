#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/nccl/nccl.h"
#include "libzero/collective/threads.h"
#include "tests/gpu_check/device_data.h"
#include "tests/gpu_check/parts.h"

namespace zero::gpu_check {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr std::int64_t kCompared = 100'003;  // elements of a slice

struct Measured {
  double seconds = 0;
  bool right = false;
};

struct Results {
  Measured reduce_scatter, all_gather, all_reduce, broadcast;
};

struct World {
  int size = 1;
  bool deterministic = true;
  bool registered = false;
};

/// One rank: the same calls over NCCL and over `threads`, compared; then timed.
class RankCheck {
 public:
  RankCheck(const Apis& apis, Collective& comm, Collective& reference, const Settings& settings,
            const World& world)
      : lane_(apis), comm_(comm), reference_(reference), settings_(settings), world_(world) {}

  Results run() {
    Results results;
    results.reduce_scatter.right = !world_.deterministic || sums_are_right();
    results.all_gather.right = gathers_right();
    results.all_reduce.right = totals_are_right();
    results.broadcast.right = copies_right();
    time(results);
    return results;
  }

 private:
  std::uint64_t seed() const { return 100 + static_cast<std::uint64_t>(comm_.rank()); }

  bool sums_are_right() {
    const auto given = as_type(values(kCompared * comm_.size(), seed()), DType::kBFloat16);
    std::vector<float> expected(kCompared);
    const DeviceData<std::byte> in(lane_, given, place(given.size()));
    const DeviceData<float> out(lane_, expected);
    const std::int64_t all = kCompared * comm_.size();
    reference_
        .reduce_scatter({given.data(), all, DType::kBFloat16},
                        {expected.data(), kCompared, DType::kFloat32}, {})
        ->wait();
    comm_
        .reduce_scatter({in.get(), all, DType::kBFloat16}, {out.get(), kCompared, DType::kFloat32},
                        {})
        ->wait();
    const auto sums = out.read();
    return std::memcmp(sums.data(), expected.data(), sums.size() * 4) == 0;
  }

  bool gathers_right() {
    const auto given = values(kCompared, seed());
    std::vector<float> expected(static_cast<std::size_t>(kCompared * comm_.size()));
    const DeviceData<float> in(lane_, given, place(given.size() * 4));
    const DeviceData<float> out(lane_, expected, place(expected.size() * 4));
    const auto all = static_cast<std::int64_t>(expected.size());
    reference_
        .all_gather({given.data(), kCompared, DType::kFloat32},
                    {expected.data(), all, DType::kFloat32}, "")
        ->wait();
    comm_.all_gather({in.get(), kCompared, DType::kFloat32}, {out.get(), all, DType::kFloat32}, "")
        ->wait();
    return out.read() == expected;
  }

  /// Each type has a kernel of its own.
  bool totals_are_right() {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (!total_is_right(as_type(values(kCompared, seed()), dtype), dtype, ReduceOp::kSum)) {
        return false;
      }
    }
    std::vector<std::byte> words(kCompared * 8);
    const std::vector<float> random = values(kCompared * 2, seed());
    std::memcpy(words.data(), random.data(), words.size());
    return total_is_right(words, DType::kInt64, ReduceOp::kSum) &&
           total_is_right(words, DType::kInt64, ReduceOp::kMax);
  }

  bool total_is_right(std::vector<std::byte> expected, DType dtype, ReduceOp op) {
    const DeviceData<std::byte> data(lane_, expected, place(expected.size()));
    reference_.all_reduce({expected.data(), kCompared, dtype}, op, "")->wait();
    comm_.all_reduce({data.get(), kCompared, dtype}, op, "")->wait();
    return data.read() == expected;
  }

  bool copies_right() {
    const DeviceData<float> data(lane_, values(kCompared, seed()), place(kCompared * 4));
    const int root = comm_.size() - 1;
    comm_.broadcast({data.get(), kCompared, DType::kFloat32}, root, "")->wait();
    return data.read() == values(kCompared, 100 + static_cast<std::uint64_t>(root));
  }

  void time(Results& results) {
    const std::int64_t slice = std::max<std::int64_t>(settings_.elements / comm_.size(), 1);
    const std::int64_t all = slice * comm_.size();
    const DeviceData<std::byte> whole(lane_,
                                      std::vector<std::byte>(static_cast<std::size_t>(all * 2)),
                                      place(static_cast<std::size_t>(all * 2)));
    const nccl::DeviceMemory sums(lane_.apis(), slice * 4);
    std::byte* const own = whole.get() + comm_.rank() * slice * 2;
    ReduceScatterOptions options;
    options.any_order = !world_.deterministic;
    results.reduce_scatter.seconds = time([&] {
      return comm_.reduce_scatter({whole.get(), all, DType::kBFloat16},
                                  {sums.get(), slice, DType::kFloat32}, options);
    });
    results.all_gather.seconds = time([&] {
      return comm_.all_gather({own, slice, DType::kBFloat16}, {whole.get(), all, DType::kBFloat16},
                              "");
    });
    results.all_reduce.seconds = time([&] {
      return comm_.all_reduce({whole.get(), all, DType::kBFloat16}, ReduceOp::kSum, "");
    });
    results.broadcast.seconds = time([&] {
      return comm_.broadcast({whole.get(), all, DType::kBFloat16}, 0, "");
    });
  }

  double time(const std::function<WorkPtr()>& call) {
    call()->wait();
    comm_.barrier("timing")->wait();
    const auto start = std::chrono::steady_clock::now();
    std::vector<WorkPtr> works;
    for (int i = 0; i < settings_.rounds; ++i) works.push_back(call());
    for (const WorkPtr& work : works) work->wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count() / settings_.rounds;
  }

  /// Collective. Memory that NCCL was told of, where this world is one of such memory; or none.
  std::shared_ptr<void> place(std::size_t bytes) {
    if (!world_.registered) return nullptr;
    struct Registered {
      std::shared_ptr<void> memory;
      std::shared_ptr<void> token;  // goes first
    };
    const auto length = static_cast<std::int64_t>(bytes);
    const auto registered = std::make_shared<Registered>();
    registered->memory = comm_.device_memory(length);
    registered->token = comm_.register_memory(registered->memory.get(), length);
    if (!registered->token) throw std::runtime_error("NCCL does not register its own memory");
    return {registered, registered->memory.get()};
  }

  Lane lane_;
  Collective& comm_;
  Collective& reference_;
  const Settings& settings_;
  const World& world_;
};

/// The slowest rank counts; all must be right.
void merge(Measured& all, const Measured& one) {
  all.seconds = std::max(all.seconds, one.seconds);
  all.right = all.right && one.right;
}

Results run_world(const Apis& apis, const Settings& settings, const World& world) {
  const int size = world.size;
  const auto controls = make_threads(size, kTimeout);
  const auto references = make_threads(size, kTimeout);
  const auto store = make_memory_store();
  Results all{{0, true}, {0, true}, {0, true}, {0, true}};
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      try {
        const nccl::OnDevice here(*apis, rank);
        nccl::Options options;
        options.apis = apis;
        options.control = controls[r];
        options.store = store;
        options.device = rank;
        options.timeout = kTimeout;
        const auto comm = nccl::join(std::move(options));
        const Results mine = RankCheck(apis, *comm, *references[r], settings, world).run();
        comm->shutdown();
        references[r]->shutdown();
        const std::lock_guard lock(mutex);
        merge(all.reduce_scatter, mine.reduce_scatter);
        merge(all.all_gather, mine.all_gather);
        merge(all.all_reduce, mine.all_reduce);
        merge(all.broadcast, mine.broadcast);
      } catch (...) {
        references[r]->abort("rank " + std::to_string(rank) + " failed");
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return all;
}

}  // namespace

void check_ranks(const Apis& apis, const Settings& settings, Report& report) {
  int devices = 0;
  nccl::check_cuda(*apis, apis->cuda.get_device_count(&devices), "cudaGetDeviceCount");
  if (settings.devices > 0) devices = std::min(devices, settings.devices);
  for (int size = 1; size <= devices; size *= 2) {
    const double bytes =
        static_cast<double>(std::max<std::int64_t>(settings.elements / size, 1) * size) * 2;
    // bfloat16; the rate is the whole buffer's.
    const std::string tail = " over NCCL, world " + std::to_string(size);
    const Results ordered = run_world(apis, settings, {size, true, false});
    const Results native = run_world(apis, settings, {size, false, false});
    report.rate("reduce_scatter in rank order" + tail, bytes, ordered.reduce_scatter.seconds,
                ordered.reduce_scatter.right);
    report.rate("reduce_scatter in NCCL's order" + tail, bytes, native.reduce_scatter.seconds,
                std::nullopt);
    report.rate("all_gather" + tail, bytes, ordered.all_gather.seconds, ordered.all_gather.right);
    report.rate("all_reduce" + tail, bytes, ordered.all_reduce.seconds, ordered.all_reduce.right);
    report.rate("broadcast" + tail, bytes, ordered.broadcast.seconds, ordered.broadcast.right);
    if (size == 1) continue;
    const Results told = run_world(apis, settings, {size, true, true});
    const std::string how = ", registered" + tail;
    report.rate("reduce_scatter in rank order" + how, bytes, told.reduce_scatter.seconds,
                told.reduce_scatter.right);
    report.rate("all_gather" + how, bytes, told.all_gather.seconds, told.all_gather.right);
    report.rate("all_reduce" + how, bytes, told.all_reduce.seconds, told.all_reduce.right);
    report.rate("broadcast" + how, bytes, told.broadcast.seconds, told.broadcast.right);
  }
}

}  // namespace zero::gpu_check
