#include "libzero/observe/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "libzero/base/error.h"

namespace zero::observe {
namespace {

constexpr std::size_t kBuffered = 1 << 16;

}  // namespace

NewFile::NewFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp-" + std::to_string(::getpid())) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be made");
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::fail(const char* what) const {
  const int code = errno;
  throw IoError("a file " + std::string(what) + ", check the folder and its free space: " +
                std::generic_category().message(code) + ": " + path_);
}

void NewFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffered) flush();
}

void NewFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void NewFile::commit(Existing existing) {
  flush();
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail("cannot be written");
  if (existing == Existing::kReplace) {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be put in its place");
    temporary_.clear();
    return;
  }
  // Unlike rename, link fails where the name is taken; the destructor takes the other name away.
  if (::link(temporary_.c_str(), path_.c_str()) == 0) return;
  if (errno == EEXIST)
    throw ContractError("the file exists, choose another name or remove it: " + path_);
  fail("cannot be put in its place");
}

}  // namespace zero::observe
