#pragma once

/// Ranks in threads that save into one place, each through a Store of its own, which can be broken.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/ranks/save.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "sample.h"
#include "tests/optim/ranks.h"

namespace zero::checkpoint {

inline const std::string kRoot = "/checkpoints";

enum class Flavour { kMemory, kHdf5 };

class World {
 public:
  World(Flavour flavour, int size);

  int size() const { return static_cast<int>(stores_.size()); }
  const std::shared_ptr<Store>& store(int rank = 0) const { return stores_[index(rank)]; }
  /// kHdf5 only.
  testing::FaultyFileSystem& files(int rank) const { return *files_[index(rank)]; }
  testing::MemoryFileSystem& disk() const { return *disk_; }

  /// A store of its own on the disk as it is, without faults (kMemory: rank 0's).
  std::shared_ptr<Store> fresh_store() const;
  /// New stores, as if the job had been started again. Keeps the disk.
  void restart();

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  Flavour flavour_;
  std::shared_ptr<testing::MemoryFileSystem> disk_;
  std::vector<std::shared_ptr<testing::FaultyFileSystem>> files_;
  std::vector<std::shared_ptr<Store>> stores_;
};

/// What one rank brings along; made from a Sample, to be spoiled by tests.
struct Input {
  CommonState common;
  RankPart part;
};
using Spoil = std::function<void(int rank, Input& input)>;
using Decorate = std::function<std::shared_ptr<Collective>(int rank, std::shared_ptr<Collective>)>;

/// The view's content by a function instead of by memory, which must stay.
void give_by_function(StateView& view);

/// How a save ended on each rank.
struct Ending {
  std::vector<SaveOutcome> outcomes;
  std::vector<std::exception_ptr> errors;

  /// Empty if the save succeeded everywhere with the same outcome; else what went wrong first.
  std::string problem() const;
  /// Empty unless every rank threw an error of the same type and text: that text.
  std::string common_error() const;
};

/// A Sample of `step`, saved by all ranks of the world together.
Ending save_together(const World& world, std::int64_t step, const Spoil& spoil = nullptr,
                     const Decorate& decorate = nullptr,
                     std::chrono::milliseconds timeout = std::chrono::seconds(60));

template <class Type>
bool is_a(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const Type&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Empty if exactly these steps are there, whole and each with its own content.
std::string difference_of_steps(Store& store, const std::vector<std::int64_t>& steps,
                                int world_size);

}  // namespace zero::checkpoint
