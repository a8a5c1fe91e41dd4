#pragma once

/// What a disk does by itself.

#include <cstdint>
#include <string>

namespace zero::benchmark {

/// A file without a name, written once.
class Disk {
 public:
  /// Throws IoError; also where the file system has no O_DIRECT.
  Disk(const std::string& folder, std::int64_t bytes, std::int64_t block_bytes, int threads);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Reads each block and writes it back, in order.
  void walk();

 private:
  void transfer(bool read);

  std::int64_t blocks_;
  std::int64_t block_bytes_;
  int threads_;
  int fd_ = -1;
};

}  // namespace zero::benchmark
