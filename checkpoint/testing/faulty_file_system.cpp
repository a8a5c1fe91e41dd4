#include "checkpoint/testing/faulty_file_system.h"

#include <algorithm>
#include <utility>

namespace zero::checkpoint::testing {

void FaultyFileSystem::before(const char* operation, const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (dead_) throw SimulatedCrash();
  const int all = ++calls_[""];
  const int same = ++calls_[operation];
  if (!fault_ || (!fault_->operation.empty() && fault_->operation != operation)) return;
  const int count = fault_->operation.empty() ? all : same;
  if (count != fault_->at && !(fault_->persistent && count > fault_->at)) return;
  struck_ = true;
  if (fault_->code != 0) throw FileError(operation, path, fault_->code);
  dead_ = true;
  throw SimulatedCrash();
}

class FaultyFile : public File {
 public:
  FaultyFile(FaultyFileSystem& owner, std::unique_ptr<File> inner, std::string path)
      : owner_(owner), inner_(std::move(inner)), path_(std::move(path)) {}

  std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) override {
    owner_.before("pwrite", path_);
    return inner_->pwrite(shortened(data), offset);
  }
  std::size_t pread(std::span<std::byte> data, std::uint64_t offset) override {
    owner_.before("pread", path_);
    return inner_->pread(shortened(data), offset);
  }
  void fsync() override {
    owner_.before("fsync", path_);
    if (!owner_.files_lie_) inner_->fsync();
  }
  void close() override {
    owner_.before("close", path_);
    inner_->close();
  }
  std::uint64_t size() override {
    owner_.before("size", path_);
    return inner_->size();
  }
  std::uint64_t stored_bytes(std::uint64_t offset, std::uint64_t size,
                             std::uint64_t enough) override {
    return inner_->stored_bytes(offset, size, enough);
  }

 private:
  template <class Span>
  Span shortened(Span data) const {
    const std::size_t longest = owner_.longest_transfer_;
    return longest == 0 ? data : data.first(std::min(longest, data.size()));
  }

  FaultyFileSystem& owner_;
  std::unique_ptr<File> inner_;
  std::string path_;
};

void FaultyFileSystem::set_fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void FaultyFileSystem::set_lying_fsync(bool files, bool directories) {
  files_lie_ = files;
  directories_lie_ = directories;
}

std::map<std::string, int> FaultyFileSystem::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

bool FaultyFileSystem::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

std::unique_ptr<File> FaultyFileSystem::create(const std::string& path) {
  before("create", path);
  return std::make_unique<FaultyFile>(*this, inner_->create(path), path);
}

std::unique_ptr<File> FaultyFileSystem::open(const std::string& path, Links links) {
  before("open", path);
  return std::make_unique<FaultyFile>(*this, inner_->open(path, links), path);
}

void FaultyFileSystem::make_directory(const std::string& path) {
  before("make_directory", path);
  inner_->make_directory(path);
}

void FaultyFileSystem::fsync_directory(const std::string& path) {
  before("fsync_directory", path);
  if (!directories_lie_) inner_->fsync_directory(path);
}

void FaultyFileSystem::rename_new(const std::string& from, const std::string& to) {
  before("rename_new", from);
  inner_->rename_new(from, to);
}

void FaultyFileSystem::rename_over(const std::string& from, const std::string& to) {
  before("rename_over", from);
  inner_->rename_over(from, to);
}

void FaultyFileSystem::unlink(const std::string& path) {
  before("unlink", path);
  inner_->unlink(path);
}

void FaultyFileSystem::remove_directory(const std::string& path) {
  before("remove_directory", path);
  inner_->remove_directory(path);
}

std::vector<std::string> FaultyFileSystem::list(const std::string& path) {
  before("list", path);
  return inner_->list(path);
}

FileStatus FaultyFileSystem::status(const std::string& path) {
  before("status", path);
  return inner_->status(path);
}

std::uint64_t FaultyFileSystem::free_bytes(const std::string& path) {
  before("free_bytes", path);
  return inner_->free_bytes(path);
}

std::unique_ptr<FileLock> FaultyFileSystem::lock(const std::string& path) {
  before("lock", path);
  return inner_->lock(path);
}

std::unique_ptr<FileLock> FaultyFileSystem::lock_directory(const std::string& path,
                                                           Sharing sharing) {
  before("lock_directory", path);
  return inner_->lock_directory(path, sharing);
}

}  // namespace zero::checkpoint::testing
