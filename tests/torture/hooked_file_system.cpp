#include "hooked_file_system.h"

#include <utility>

namespace zero::checkpoint::torture {
namespace {

class HookedFile : public File {
 public:
  HookedFile(std::unique_ptr<File> inner, std::string path, const BeforeChange& before)
      : inner_(std::move(inner)), path_(std::move(path)), before_(before) {}

  std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) override {
    before_("pwrite", path_);
    return inner_->pwrite(data, offset);
  }
  std::size_t pread(std::span<std::byte> data, std::uint64_t offset) override {
    return inner_->pread(data, offset);
  }
  void fsync() override {
    before_("fsync", path_);
    inner_->fsync();
  }
  void close() override {
    before_("close", path_);
    inner_->close();
  }
  std::uint64_t size() override { return inner_->size(); }

 private:
  std::unique_ptr<File> inner_;
  std::string path_;
  const BeforeChange& before_;
};

class HookedFileSystem : public FileSystem {
 public:
  HookedFileSystem(std::shared_ptr<FileSystem> inner, BeforeChange before)
      : inner_(std::move(inner)), before_(std::move(before)) {}

  std::unique_ptr<File> create(const std::string& path) override {
    before_("create", path);
    return std::make_unique<HookedFile>(inner_->create(path), path, before_);
  }
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override {
    return inner_->open(path, links);
  }
  void make_directory(const std::string& path) override {
    before_("make_directory", path);
    inner_->make_directory(path);
  }
  void fsync_directory(const std::string& path) override {
    before_("fsync_directory", path);
    inner_->fsync_directory(path);
  }
  void rename_new(const std::string& from, const std::string& to) override {
    before_("rename_new", from);
    inner_->rename_new(from, to);
  }
  void rename_over(const std::string& from, const std::string& to) override {
    before_("rename_over", from);
    inner_->rename_over(from, to);
  }
  void unlink(const std::string& path) override {
    before_("unlink", path);
    inner_->unlink(path);
  }
  void remove_directory(const std::string& path) override {
    before_("remove_directory", path);
    inner_->remove_directory(path);
  }
  std::vector<std::string> list(const std::string& path) override { return inner_->list(path); }
  FileStatus status(const std::string& path) override { return inner_->status(path); }
  std::uint64_t free_bytes(const std::string& path) override { return inner_->free_bytes(path); }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return inner_->lock(path); }
  std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) override {
    return inner_->lock_directory(path, sharing);
  }

 private:
  std::shared_ptr<FileSystem> inner_;
  BeforeChange before_;
};

}  // namespace

std::shared_ptr<FileSystem> with_hook(std::shared_ptr<FileSystem> inner, BeforeChange before) {
  return std::make_shared<HookedFileSystem>(std::move(inner), std::move(before));
}

}  // namespace zero::checkpoint::torture
