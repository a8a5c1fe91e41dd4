#pragma once

/// The commit protocol.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/receipt.h"
#include "checkpoint/shard_file.h"

namespace zero::checkpoint {

class Hdf5Writer : public Writer {
 public:
  /// A Writer without a lock was made by join() or with locks switched off; `commits` tells which.
  Hdf5Writer(std::shared_ptr<FileSystem> files, std::string root, Hdf5StoreOptions options,
             CommonState common, int world_size, std::string attempt, bool commits,
             std::unique_ptr<FileLock> lock, std::vector<std::string> warnings);
  ~Hdf5Writer() override;

  std::string ticket() const override;
  std::string put(int rank, const RankState& state) override;
  void accept(std::string_view receipt) override;
  CommitResult commit() override;
  void abort() override;

 private:
  enum class Phase { kOpen, kVoid, kFinished };

  void claim(int rank);
  void keep(int rank, Receipt receipt);
  void prepare();
  void write_view(Manifest& made, ShardIndex& index);
  void publish();
  void finish() noexcept;
  Manifest manifest() const;

  const std::shared_ptr<FileSystem> files_;
  const std::string root_;
  const Hdf5StoreOptions options_;
  const CommonState common_;
  const int world_size_;
  const std::string attempt_;
  const std::string temporary_;
  const bool commits_;

  std::mutex mutex_;
  Phase phase_ = Phase::kOpen;
  std::unique_ptr<FileLock> lock_;
  std::vector<std::string> warnings_;
  std::vector<bool> claimed_;
  std::map<int, Receipt> receipts_;
};

}  // namespace zero::checkpoint
