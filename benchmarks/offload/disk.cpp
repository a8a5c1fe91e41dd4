#include "disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/offload/page_memory.h"

namespace zero::benchmark {

Disk::Disk(const std::string& folder, std::int64_t bytes, std::int64_t block_bytes, int threads)
    : blocks_((bytes + block_bytes - 1) / block_bytes),
      block_bytes_(block_bytes),
      threads_(threads) {
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  if (fd_ < 0) {
    throw IoError(
        "no file without a name past the page cache can be made here; name another "
        "--directory: " +
        folder + ": " + std::system_category().message(errno));
  }
  if (const int error = ::posix_fallocate(fd_, 0, blocks_ * block_bytes_); error != 0) {
    ::close(fd_);
    throw IoError("no room: " + folder + ": " + std::system_category().message(error));
  }
  transfer(/*read=*/false);
}

Disk::~Disk() {
  ::close(fd_);
}

void Disk::walk() {
  transfer(/*read=*/true);
}

void Disk::transfer(bool read) {
  std::atomic<std::int64_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    PageMemory memory(block_bytes_);
    const auto size = static_cast<std::size_t>(block_bytes_);
    for (std::int64_t block = next++; block < blocks_; block = next++) {
      const off_t at = block * block_bytes_;
      if (read && ::pread(fd_, memory.data(), size, at) != block_bytes_) failed = true;
      if (::pwrite(fd_, memory.data(), size, at) != block_bytes_) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < threads_; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (failed) throw IoError("the disk failed in the middle of the measurement");
}

}  // namespace zero::benchmark
