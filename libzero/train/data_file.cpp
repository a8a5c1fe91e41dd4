#include "libzero/train/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

std::string error_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace

DataFile::DataFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0)
    throw IoError("data file: cannot be opened; check the path: " + path_ + ": " +
                  error_text(errno));
  struct stat status {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  const int error = errno;
  if (is_known && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  if (!is_known)
    throw IoError("data file: cannot be examined: " + path_ + ": " + error_text(error));
  throw FormatError("data file: is a folder or a device, not a file: " + path_);
}

DataFile::~DataFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

void DataFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw IoError("data file: " + at(offset, "reading failed: " + error_text(errno)));
    if (count == 0)
      throw FormatError("data file: " + at(offset,
                                           "the file ends here now; it was longer when it "
                                           "was opened"));
    offset += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::string DataFile::at(std::int64_t offset, const std::string& what) const {
  return path_ + ": byte " + std::to_string(offset) + ": " + what;
}

}  // namespace zero
