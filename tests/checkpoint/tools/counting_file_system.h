#pragma once

/// Another file system, with the bytes that were read counted.

#include <atomic>
#include <memory>

#include "checkpoint/file_system.h"

namespace zero::checkpoint::testing {

class CountingFileSystem : public FileSystem {
 public:
  explicit CountingFileSystem(std::shared_ptr<FileSystem> inner) : inner_(std::move(inner)) {}

  std::uint64_t bytes_read() const { return *bytes_read_; }

  std::unique_ptr<File> create(const std::string& path) override { return inner_->create(path); }
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override {
    return std::make_unique<CountingFile>(inner_->open(path, links), bytes_read_);
  }
  void make_directory(const std::string& path) override { inner_->make_directory(path); }
  void fsync_directory(const std::string& path) override { inner_->fsync_directory(path); }
  void rename_new(const std::string& from, const std::string& to) override {
    inner_->rename_new(from, to);
  }
  void rename_over(const std::string& from, const std::string& to) override {
    inner_->rename_over(from, to);
  }
  void unlink(const std::string& path) override { inner_->unlink(path); }
  void remove_directory(const std::string& path) override { inner_->remove_directory(path); }
  std::vector<std::string> list(const std::string& path) override { return inner_->list(path); }
  FileStatus status(const std::string& path) override { return inner_->status(path); }
  std::uint64_t free_bytes(const std::string& path) override { return inner_->free_bytes(path); }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return inner_->lock(path); }
  std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) override {
    return inner_->lock_directory(path, sharing);
  }

 private:
  using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

  class CountingFile : public File {
   public:
    CountingFile(std::unique_ptr<File> inner, Counter counter)
        : inner_(std::move(inner)), counter_(std::move(counter)) {}
    std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) override {
      return inner_->pwrite(data, offset);
    }
    std::size_t pread(std::span<std::byte> data, std::uint64_t offset) override {
      const std::size_t count = inner_->pread(data, offset);
      *counter_ += count;
      return count;
    }
    void fsync() override { inner_->fsync(); }
    void close() override { inner_->close(); }
    std::uint64_t size() override { return inner_->size(); }

   private:
    std::unique_ptr<File> inner_;
    Counter counter_;
  };

  std::shared_ptr<FileSystem> inner_;
  Counter bytes_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace zero::checkpoint::testing
