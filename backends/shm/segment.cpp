#include "backends/shm/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "libzero/base/error.h"

namespace zero::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string text_of(int error) {
  return std::strerror(error);
}

[[noreturn]] void refuse(const std::string& what, std::size_t bytes, int error) {
  throw IoError(
      "there is not enough memory for the ranks to share; free some, raise the limit (ulimit -f, "
      "ulimit -v, the container's), or use the backend gloo: " +
      what + " of " + std::to_string(bytes) + " bytes: " + text_of(error));
}

/// Under a limit of file sizes (ulimit -f) growing a file is answered with a signal that kills.
/// While one of these lives, it is an error like any other.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlock() {
    const timespec at_once{};
    if (sigismember(&before_, SIGXFSZ) == 0) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
};

}  // namespace

Segment::Segment(Descriptor descriptor, std::size_t bytes)
    : descriptor_(std::move(descriptor)), bytes_(bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.number(), 0);
  if (data == MAP_FAILED) refuse("mmap", bytes, errno);
  data_ = static_cast<std::byte*>(data);
}

Segment::Segment(Segment&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Segment Segment::create(std::size_t bytes) {
  Descriptor descriptor(::memfd_create("libzero", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open()) {
    throw Unavailable(
        "this system has no memory that ranks could share; use the backend gloo: "
        "memfd_create: " +
        text_of(errno));
  }
  const FileSizeSignalBlock no_signal;
  if (::ftruncate(descriptor.number(), static_cast<off_t>(bytes)) != 0) {
    refuse("ftruncate", bytes, errno);
  }
  // Nobody can take pages away from under those that map them.
  if (::fcntl(descriptor.number(), F_ADD_SEALS, kSeals) != 0) refuse("sealing", bytes, errno);
  return {std::move(descriptor), bytes};
}

Segment Segment::open(pid_t pid, int number, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.is_open()) {
    throw Unavailable(
        "this rank may not open the memory that another one shares; run all ranks as one user "
        "and in one container, or use the backend gloo: " +
        path + ": " + text_of(errno));
  }
  struct stat status {};
  const int seals = ::fcntl(descriptor.number(), F_GET_SEALS);
  if (::fstat(descriptor.number(), &status) != 0 || seals < 0 || (seals & kSeals) != kSeals ||
      status.st_size != static_cast<off_t>(bytes)) {
    throw ContractError("what another rank offers to share is no memory of libzero's of " +
                        std::to_string(bytes) +
                        " bytes; run the same libzero on every rank: " + path);
  }
  return {std::move(descriptor), bytes};
}

void Segment::allocate(std::size_t begin, std::size_t bytes) {
  const FileSizeSignalBlock no_signal;
  int result = 0;
  do {
    result =
        ::fallocate(descriptor_.number(), 0, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) refuse("fallocate", bytes, errno);
}

}  // namespace zero::shm
