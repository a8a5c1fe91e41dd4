#include "cases.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "checkpoint/file_system.h"
#include "checkpoint/hash.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/ranks/background_save.h"
#include "libzero/collective/self.h"

namespace zero::checkpoint::benchmark {
namespace {

using zero::benchmark::compare;

constexpr std::size_t kSlice = std::size_t{8} << 20;

template <class Byte, class Function>
void for_each_slice(std::span<Byte> data, Function function) {
  for (; !data.empty(); data = data.subspan(std::min(kSlice, data.size()))) {
    function(data.first(std::min(kSlice, data.size())));
  }
}

/// Everything that the comparisons share.
class Bench {
 public:
  Bench(Model& model, const std::string& folder)
      : model_(model),
        plain_path_(join_path(folder, "plain")),
        root_(join_path(folder, "checkpoints")),
        files_(on_disk()),
        store_(make_hdf5_store(files_, root_)) {
    for (const auto& state : model.memory()) {
      copies_.emplace_back(state.begin(), state.end());  // Touched: no page is new when it counts.
    }
  }
  ~Bench() {
    for (const char* name : {".lock", "LATEST"}) files_->unlink(join_path(root_, name));
    files_->remove_directory(root_);
  }

  Comparison write() {
    return {"write",
            "one rank's put() against pwrite and fsync of the same bytes",
            1.15,
            {[this] { writer_ = store_->begin(model_.common(), 1); },
             [this] { writer_->put(0, model_.part()); }, [this] { writer_.reset(); }},
            plain_write()};
  }

  Comparison save() {
    return {"save",
            "begin, put and commit against pwrite and fsync of the same bytes",
            0,
            {nullptr, [this] { save_now(); }, [this] { store_->remove(model_.common().step); }},
            plain_write()};
  }

  Comparison stall() {
    saver_ = std::make_unique<BackgroundSaver>(store_, make_self());
    return {"stall",
            "BackgroundSaver::start() against memcpy of the shard",
            1.5,
            {nullptr,
             [this] {
               saver_->start(model_.common(), {model_.part(), ""});
             },
             [this] {
               saver_->wait();
               store_->remove(model_.common().step);
             }},
            {nullptr,
             [this] {
               for (std::size_t i = 0; i < copies_.size(); ++i) {
                 std::memcpy(copies_[i].data(), model_.memory()[i].data(), copies_[i].size());
               }
             },
             nullptr}};
  }

  /// REQUIRES a committed checkpoint: save_now().
  Comparison load() {
    return {"load",
            "open and read() of every parameter against pread and hash of the same bytes",
            1.15,
            {nullptr, [this] { load_now(); }, nullptr},
            {nullptr, [this] { read_plainly(); }, nullptr}};
  }

  void save_now() {
    const auto writer = store_->begin(model_.common(), 1);
    writer->put(0, model_.part());
    writer->commit();
  }
  void remove_saved() { store_->remove(model_.common().step); }
  void stop_saver() { saver_.reset(); }

 private:
  Contender plain_write() {
    return {nullptr, [this] { write_plainly(); }, [this] { files_->unlink(plain_path_); }};
  }

  void write_plainly() {
    const auto file = files_->create(plain_path_);
    std::uint64_t offset = 0;
    for (const auto& state : model_.memory()) {
      for_each_slice(state, [&](std::span<const std::byte> slice) {
        write_all(*file, slice, offset);
        offset += slice.size();
      });
    }
    file->fsync();
    file->close();
  }

  void load_now() {
    const auto reader = store_->open(model_.common().step);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      std::span<std::byte> rest = copies_[i];
      for (const Extent& extent : model_.part().states[i].extents) {
        const auto size = static_cast<std::size_t>(extent.end - extent.begin) * sizeof(float);
        reader->read(extent.parameter, model_.part().states[i].name, extent.begin, extent.end,
                     rest.first(size));
        rest = rest.subspan(size);
      }
    }
  }

  void read_plainly() {
    const std::string path =
        join_path(join_path(root_, step_name(model_.common().step)), shard_name(0, 1));
    const auto file = files_->open(path);
    std::uint64_t offset = 0;
    for (auto& copy : copies_) {
      for_each_slice(std::span(copy), [&](std::span<std::byte> slice) {
        read_all(*file, slice, offset, path);
        offset += slice.size();
        last_ = hash_of(slice);
      });
    }
  }

  Model& model_;
  const std::string plain_path_, root_;
  const std::shared_ptr<FileSystem> files_;
  const std::shared_ptr<Store> store_;
  std::vector<std::vector<std::byte>> copies_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<BackgroundSaver> saver_;
  Hash last_;
};

}  // namespace

std::vector<Result> run_cases(Model& model, const std::string& folder, const std::string& place,
                              int rounds) {
  Bench bench(model, folder);
  std::vector<Result> results;
  results.push_back(compare(bench.write(), rounds));
  results.push_back(compare(bench.save(), rounds));
  results.push_back(compare(bench.stall(), rounds));
  bench.stop_saver();
  bench.save_now();
  results.push_back(compare(bench.load(), rounds));
  bench.remove_saved();
  for (Result& result : results) result.id = "checkpoint." + result.id + "." + place;
  return results;
}

}  // namespace zero::checkpoint::benchmark
