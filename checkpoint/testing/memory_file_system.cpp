#include "checkpoint/testing/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace zero::checkpoint::testing {

struct MemoryNode {
  bool is_directory = false;
  std::vector<std::byte> bytes, synced_bytes;
  std::map<std::string, std::shared_ptr<MemoryNode>> entries, synced_entries;
};

namespace {

void lose_unsynced(MemoryNode& node, PowerCut cut) {
  if (!node.is_directory) {
    if (cut != PowerCut::kEverything) node.bytes = node.synced_bytes;
    node.synced_bytes = node.bytes;
    return;
  }
  if (cut == PowerCut::kNothing) node.entries = node.synced_entries;
  node.synced_entries = node.entries;
  for (auto& [name, child] : node.entries) lose_unsynced(*child, cut);
}

}  // namespace

class MemoryFile : public File {
 public:
  MemoryFile(MemoryFileSystem& owner, std::shared_ptr<MemoryNode> node, std::string path)
      : owner_(owner), node_(std::move(node)), path_(std::move(path)) {}

  std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) override {
    if (data.empty()) return 0;
    const std::lock_guard lock(owner_.mutex_);
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(data.size(), owner_.free_bytes_));
    if (count == 0) throw FileError("pwrite", path_, ENOSPC);
    owner_.free_bytes_ -= count;
    auto& bytes = node_->bytes;
    if (bytes.size() < offset + count) bytes.resize(offset + count);
    std::memcpy(bytes.data() + offset, data.data(), count);
    return count;
  }
  std::size_t pread(std::span<std::byte> data, std::uint64_t offset) override {
    const std::lock_guard lock(owner_.mutex_);
    const auto& bytes = node_->bytes;
    if (offset >= bytes.size() || data.empty()) return 0;
    const std::size_t count = std::min(data.size(), bytes.size() - offset);
    std::memcpy(data.data(), bytes.data() + offset, count);
    return count;
  }
  void fsync() override {
    const std::lock_guard lock(owner_.mutex_);
    node_->synced_bytes = node_->bytes;
  }
  void close() override {}
  std::uint64_t size() override {
    const std::lock_guard lock(owner_.mutex_);
    return node_->bytes.size();
  }

 private:
  MemoryFileSystem& owner_;
  std::shared_ptr<MemoryNode> node_;
  std::string path_;
};

/// Many share a path, or one has it alone.
class MemoryLock : public FileLock {
 public:
  MemoryLock(MemoryFileSystem& owner, std::string path) : owner_(owner), path_(std::move(path)) {}
  ~MemoryLock() override {
    const std::lock_guard lock(owner_.mutex_);
    const auto held = owner_.locks_.find(path_);
    if (held != owner_.locks_.end() && --held->second <= 0) owner_.locks_.erase(held);
  }

 private:
  MemoryFileSystem& owner_;
  std::string path_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<MemoryNode>()) {
  root_->is_directory = true;
}

void MemoryFileSystem::crash(PowerCut cut) {
  const std::lock_guard lock(mutex_);
  locks_.clear();
  lose_unsynced(*root_, cut);
}

void MemoryFileSystem::set_free_bytes(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_bytes_ = bytes;
}

std::vector<std::byte> MemoryFileSystem::content(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node || node->is_directory) throw FileError("content", path, ENOENT);
  return node->bytes;
}

void MemoryFileSystem::set_content(const std::string& path, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  Node& node = directory_of("set_content", path)->entries[base_name(path)];
  if (!node) node = std::make_shared<MemoryNode>();
  node->bytes = node->synced_bytes = std::move(bytes);
}

MemoryFileSystem::Node MemoryFileSystem::find(const std::string& path) {
  Node node = root_;
  for (std::size_t begin = 0; node && begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) {
      const auto child = node->entries.find(path.substr(begin, end - begin));
      node = child == node->entries.end() ? nullptr : child->second;
    }
    begin = end + 1;
  }
  return node;
}

MemoryFileSystem::Node MemoryFileSystem::directory_of(const char* operation,
                                                      const std::string& path) {
  Node node = find(parent_path(path));
  if (!node) throw FileError(operation, path, ENOENT);
  if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
  return node;
}

std::unique_ptr<File> MemoryFileSystem::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  Node& node = directory_of("create", path)->entries[base_name(path)];
  if (node) throw FileError("create", path, EEXIST);
  node = std::make_shared<MemoryNode>();
  return std::make_unique<MemoryFile>(*this, node, path);
}

std::unique_ptr<File> MemoryFileSystem::open(const std::string& path, Links) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("open", path, ENOENT);
  if (node->is_directory) throw FileError("open", path, EINVAL);
  return std::make_unique<MemoryFile>(*this, node, path);
}

void MemoryFileSystem::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  Node& node = directory_of("mkdir", path)->entries[base_name(path)];
  if (node) throw FileError("mkdir", path, EEXIST);
  node = std::make_shared<MemoryNode>();
  node->is_directory = true;
}

void MemoryFileSystem::fsync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("fsync of a directory", path, ENOENT);
  node->synced_entries = node->entries;
}

void MemoryFileSystem::move(const std::string& from, const std::string& to, bool replace) {
  const std::lock_guard lock(mutex_);
  const Node node = find(from);
  if (!node) throw FileError("rename", from, ENOENT);
  const Node source = directory_of("rename", from);
  const Node target = directory_of("rename", to);
  if (!replace && target->entries.contains(base_name(to))) throw FileError("rename", to, EEXIST);
  source->entries.erase(base_name(from));
  target->entries[base_name(to)] = node;
}

void MemoryFileSystem::rename_new(const std::string& from, const std::string& to) {
  move(from, to, false);
}

void MemoryFileSystem::rename_over(const std::string& from, const std::string& to) {
  move(from, to, true);
}

void MemoryFileSystem::unlink(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("unlink", path, ENOENT);
  if (node->is_directory) throw FileError("unlink", path, EISDIR);
  free_bytes_ += node->bytes.size();
  directory_of("unlink", path)->entries.erase(base_name(path));
}

void MemoryFileSystem::remove_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("rmdir", path, ENOENT);
  if (!node->is_directory) throw FileError("rmdir", path, ENOTDIR);
  if (!node->entries.empty()) throw FileError("rmdir", path, ENOTEMPTY);
  directory_of("rmdir", path)->entries.erase(base_name(path));
}

std::vector<std::string> MemoryFileSystem::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("list", path, ENOENT);
  if (!node->is_directory) throw FileError("list", path, ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

FileStatus MemoryFileSystem::status(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) return {};
  return {node->is_directory ? FileKind::kDirectory : FileKind::kRegular, node->bytes.size()};
}

std::uint64_t MemoryFileSystem::free_bytes(const std::string&) {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

std::unique_ptr<FileLock> MemoryFileSystem::lock(const std::string& path) {
  const std::lock_guard lock(mutex_);
  Node& node = directory_of("lock", path)->entries[base_name(path)];
  if (!node) node = std::make_shared<MemoryNode>();
  return locked(path, Sharing::kAlone);
}

std::unique_ptr<FileLock> MemoryFileSystem::lock_directory(const std::string& path,
                                                           Sharing sharing) {
  const std::lock_guard lock(mutex_);
  const Node node = find(path);
  if (!node) throw FileError("lock", path, ENOENT);
  if (!node->is_directory) throw FileError("lock", path, ENOTDIR);
  return locked(path, sharing);
}

std::unique_ptr<FileLock> MemoryFileSystem::locked(const std::string& path, Sharing sharing) {
  const auto held = locks_.find(path);
  if (held == locks_.end()) {
    locks_[path] = sharing == Sharing::kAlone ? 0 : 1;
  } else if (sharing == Sharing::kAlone || held->second == 0) {
    return nullptr;
  } else {
    ++held->second;
  }
  return std::make_unique<MemoryLock>(*this, path);
}

}  // namespace zero::checkpoint::testing
