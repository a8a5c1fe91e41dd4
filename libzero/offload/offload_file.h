#pragma once

/// The file that one rank's state lies in.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libzero/offload/io_calls.h"
#include "libzero/offload/offload_plan.h"

namespace zero {

/// Its room is taken when it is made, and it has no name from then on: nobody else can open it, and
/// it goes with the process. Arrays that were never written hold zeros. Every array has a checksum,
/// in memory, by which whatever changes on the disk is found when it is read.
///
/// Blocks are read and written by any number of threads, each block by one at a time. All functions
/// throw IoError, which names the file and the place in it.
class OffloadFile {
 public:
  /// `calls` null: the operating system's. `label` tells the file apart in errors.
  OffloadFile(std::shared_ptr<IoCalls> calls, const std::string& folder, const std::string& label,
              const OffloadPlan& plan);
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  /// A whole block; `memory` begins at a page and has the block's size.
  void read(std::size_t block, std::byte* memory);
  void write(std::size_t block, const std::byte* memory);

  /// One array of it; `memory` begins at a page and has the array's size in whole pages.
  void read_array(std::size_t block, OffloadedArray array, std::byte* memory);
  void write_array(std::size_t block, OffloadedArray array, const std::byte* memory);

  /// False where the file system knows no O_DIRECT: the page cache keeps copies then.
  bool is_direct() const noexcept { return direct_; }
  /// Bytes of memory that the checksums take.
  std::int64_t bookkeeping_bytes() const noexcept;
  const std::string& name() const noexcept { return name_; }

 private:
  struct Seal {
    std::uint64_t checksum = 0;
    bool written = false;
  };
  void open(const std::string& folder);
  void find_out_whether_direct();
  void pread_all(std::byte* to, std::int64_t bytes, std::int64_t offset);
  void pwrite_all(const std::byte* from, std::int64_t bytes, std::int64_t offset);
  void check(std::size_t block, std::size_t array, std::byte* memory) const;
  [[noreturn]] void fail(const std::string& what, int error, std::int64_t offset) const;

  std::shared_ptr<IoCalls> calls_;
  const OffloadPlan& plan_;
  std::string name_;
  int fd_ = -1;
  bool direct_ = false;
  std::vector<std::array<Seal, kOffloadedArrays>> seals_;
};

}  // namespace zero
