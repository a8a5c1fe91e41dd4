#include "checkpoint/file_system.h"

#include <cerrno>
#include <system_error>

namespace zero::checkpoint {

FileError::FileError(std::string_view operation, std::string_view path, int code)
    : IoError("the file system refused " + std::string(operation) + ": " +
              std::generic_category().message(code) + " (errno " + std::to_string(code) +
              "): " + std::string(path)),
      code_(code) {}

namespace {

/// The result of a transfer that signals may interrupt.
template <class Transfer>
std::size_t uninterrupted(Transfer transfer) {
  for (int left = kMaxInterruptions;; --left) {
    try {
      return transfer();
    } catch (const FileError& error) {
      if (error.code() != EINTR || left == 0) throw;
    }
  }
}

}  // namespace

void write_all(File& file, std::span<const std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    const std::size_t written = uninterrupted([&] { return file.pwrite(data, offset); });
    data = data.subspan(written);
    offset += written;
  }
}

void read_all(File& file, std::span<std::byte> data, std::uint64_t offset, std::string_view path) {
  while (!data.empty()) {
    const std::size_t count = uninterrupted([&] { return file.pread(data, offset); });
    if (count == 0) {
      throw FormatError("the file ends early, restore it or use another checkpoint: byte " +
                        std::to_string(offset) + " of " + std::string(path));
    }
    data = data.subspan(count);
    offset += count;
  }
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (path.empty() || path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace zero::checkpoint
