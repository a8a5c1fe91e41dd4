// How long resharding takes against a copy of the same bytes, and how much memory it needs. Not a
// test: its figures are for people.
//
//   checkpoint_reshard_time FOLDER MIB FROM TO REPETITIONS

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/ownership.h"
#include "checkpoint/tools/reshard.h"

namespace zero::checkpoint {
namespace {

/// Of this process, in KiB: "VmRSS", "VmHWM".
long memory_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::atol(line.c_str() + field.size() + 1);
  }
  return 0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

/// An embedding and blocks of matrices and vectors, as language models have them.
CommonState common_of(std::int64_t elements) {
  CommonState common;
  common.groups = {{{"lr", 0.1}}};
  put_layout_options(common, {});
  const std::int64_t width = 768;
  const auto add = [&](std::vector<std::int64_t> shape) {
    const std::string name = "p" + std::to_string(common.parameters.size());
    common.parameters.push_back({name, std::move(shape), DType::kFloat32, 0, true, -1});
    elements -= common.parameters.back().numel();
  };
  add({elements / 4 / width, width});
  while (elements > 0) {
    for (const std::int64_t rows : {3 * width, width, 4 * width, 4 * width}) {
      add({rows, width});
      add({rows});
    }
  }
  return common;
}

/// Something that no disk compresses, at the speed of memory.
void fill(const Extent& part, std::span<std::byte> dst) {
  std::uint64_t state = static_cast<std::uint64_t>(part.begin) * 0x9e3779b97f4a7c15u + 1;
  for (std::size_t at = 0; at + 8 <= dst.size(); at += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(dst.data() + at, &state, 8);
  }
}

void generate(Store& store, const CommonState& common, int world_size) {
  const Ownership ownership(common, world_size);
  const auto writer = store.begin(common, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    RankState state;
    for (const char* name : {"exp_avg", "exp_avg_sq", "master"}) {
      state.states.push_back({name, DType::kFloat32, ownership.trainable(rank), {}, fill});
    }
    writer->put(rank, state);
  }
  writer->commit();
}

/// Each file read, written and fsynced by pieces of 1 MiB.
void copy(FileSystem& files, const std::string& from, const std::string& to) {
  std::vector<std::byte> buffer(1 << 20);
  files.make_directory(to);
  for (const std::string& name : files.list(from)) {
    const auto source = files.open(join_path(from, name));
    const auto target = files.create(join_path(to, name));
    std::uint64_t at = 0;
    while (const std::size_t count = source->pread(buffer, at)) {
      write_all(*target, std::span(buffer).first(count), at);
      at += count;
    }
    target->fsync();
    target->close();
  }
  files.fsync_directory(to);
}

void remove(FileSystem& files, const std::string& folder) {
  for (const std::string& name : files.list(folder)) files.unlink(join_path(folder, name));
  files.remove_directory(folder);
}

struct Times {
  std::vector<double> wall, cpu;  ///< Seconds; CPU of all threads.
};

template <class Call>
void take_time(Times& times, Call call) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  call();
  times.cpu.push_back(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  times.wall.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* what, const Times& times) {
  std::cout << what << ": median " << median(times.wall) << " s (";
  for (const double time : times.wall) std::cout << ' ' << time;
  std::cout << " ), CPU " << median(times.cpu) << " s\n";
}

class Measurement {
 public:
  Measurement(const std::string& folder, std::int64_t mib, int from, int to)
      : copy_(join_path(folder, "copy")),
        source_(make_hdf5_store(files_, join_path(folder, "source"))),
        target_(make_hdf5_store(files_, join_path(folder, "target"))),
        directory_(join_path(join_path(folder, "source"), step_name(0))) {
    options_.world_size = to;
    generate(*source_, common_of(mib * (1 << 20) / 12), from);
  }
  ~Measurement() { source_->remove(0); }

  void copy_once(Times& times) {
    take_time(times, [&] { copy(*files_, directory_, copy_); });
    remove(*files_, copy_);
  }
  void reshard_once(Times& times) {
    reset_peak();
    const long before = memory_kib("VmRSS");
    take_time(times, [&] { reshard(*source_->open(0), *target_, options_); });
    peak_ = std::max(peak_, memory_kib("VmHWM") - before);
    target_->remove(0);
  }
  void digests_once(Times& times) {
    take_time(times, [&] { digests_of(*source_->open(0)); });
  }
  long peak_mib() const { return peak_ / 1024; }

 private:
  std::shared_ptr<FileSystem> files_ = on_disk();
  std::string copy_;
  std::unique_ptr<Store> source_, target_;
  std::string directory_;
  ReshardOptions options_;
  long peak_ = 0;
};

void measure(const std::string& folder, std::int64_t mib, int from, int to, int repetitions) {
  Measurement measurement(folder, mib, from, to);
  Times copies, reshards, digests;
  for (int i = 0; i < repetitions; ++i) {  // Neither always finds the other's dirty pages.
    if (i % 2 == 0) measurement.copy_once(copies);
    measurement.reshard_once(reshards);
    if (i % 2 == 1) measurement.copy_once(copies);
    measurement.digests_once(digests);
  }
  std::cout << mib << " MiB, " << from << " -> " << to << " ranks, peak " << measurement.peak_mib()
            << " MiB above idle, ratio of the medians "
            << median(reshards.wall) / median(copies.wall) << '\n';
  print("copy", copies);
  print("reshard", reshards);
  print("digests", digests);
}

}  // namespace
}  // namespace zero::checkpoint

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: " << arguments[0] << " FOLDER MIB FROM TO REPETITIONS\n";
    return 2;
  }
  zero::checkpoint::measure(arguments[1], std::atoll(arguments[2]), std::atoi(arguments[3]),
                            std::atoi(arguments[4]), std::atoi(arguments[5]));
}
