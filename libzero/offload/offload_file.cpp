#include "libzero/offload/offload_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include "libzero/base/checksum.h"
#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr mode_t kOwnerOnly = 0600;
/// How often in a row a call that a signal interrupted is tried again.
constexpr int kMaxInterruptions = 1000;

std::span<const std::byte> bytes_of(const OffloadBlock& block, const std::byte* memory) {
  return {memory, static_cast<std::size_t>(block.array_bytes())};
}

/// Runs a call until no signal interrupts it.
template <typename Call>
ssize_t uninterrupted(Call call) {
  ssize_t done = -1;
  for (int i = 0; i < kMaxInterruptions; ++i) {
    done = call();
    if (done >= 0 || errno != EINTR) break;
  }
  return done;
}

bool cannot_be_nameless(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOENT;
}

}  // namespace

OffloadFile::OffloadFile(std::shared_ptr<IoCalls> calls, const std::string& folder,
                         const std::string& label, const OffloadPlan& plan)
    : calls_(calls ? std::move(calls) : std::make_shared<IoCalls>()),
      plan_(plan),
      name_(folder + "/libzero-offload-" + label),
      seals_(plan.blocks().size()) {
  open(folder);
  try {
    if (plan_.file_bytes() == 0) return;
    if (const int error = calls_->allocate(fd_, plan_.file_bytes()); error != 0) {
      fail(
          "offload: there is no room for the optimizer's state; free some, or name another "
          "folder: " +
              std::to_string(plan_.file_bytes()) + " bytes",
          error, 0);
    }
    find_out_whether_direct();
  } catch (...) {
    calls_->close(fd_);
    throw;
  }
}

OffloadFile::~OffloadFile() {
  calls_->close(fd_);
}

/// Without a name where the file system can; otherwise the name is taken away at once.
void OffloadFile::open(const std::string& folder) {
  fd_ = calls_->open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly);
  if (fd_ >= 0) return;
  if (!cannot_be_nameless(errno))
    fail("offload: no file can be made in this folder; it must exist and be writable", errno, 0);
  const std::string path = name_ + "-" + std::to_string(::getpid());
  fd_ = calls_->open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, kOwnerOnly);
  if (fd_ < 0)
    fail("offload: no file can be made in this folder; it must exist and be writable", errno, 0);
  if (calls_->unlink(path.c_str()) == 0) return;
  const int error = errno;
  calls_->close(fd_);
  fail("offload: the name of the new file cannot be taken away", error, 0);
}

/// Some file systems take the flag and refuse the first call.
void OffloadFile::find_out_whether_direct() {
  if (calls_->go_direct(fd_) != 0) return;
  PageMemory page(kPageBytes);
  const auto size = static_cast<std::size_t>(kPageBytes);
  direct_ = calls_->pwrite(fd_, page.data(), size, 0) == kPageBytes &&
            calls_->pread(fd_, page.data(), size, 0) == kPageBytes;
  if (!direct_ && calls_->go_buffered(fd_) != 0)
    fail("offload: the file cannot be read or written", errno, 0);
}

void OffloadFile::fail(const std::string& what, int error, std::int64_t offset) const {
  std::string text = what + ": " + name_ + ", byte " + std::to_string(offset);
  if (error != 0) text += ": " + std::system_category().message(error);
  throw IoError(text);
}

void OffloadFile::pread_all(std::byte* to, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t got = uninterrupted(
        [&] { return calls_->pread(fd_, to, static_cast<std::size_t>(bytes), offset); });
    if (got < 0) fail("offload: reading the optimizer's state failed", errno, offset);
    const std::int64_t whole = got < bytes ? got / kPageBytes * kPageBytes : got;
    if (whole == 0)
      fail("offload: the file ends too early; somebody else has shortened it", 0, offset);
    to += whole, bytes -= whole, offset += whole;
  }
}

void OffloadFile::pwrite_all(const std::byte* from, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t put = uninterrupted(
        [&] { return calls_->pwrite(fd_, from, static_cast<std::size_t>(bytes), offset); });
    if (put < 0) fail("offload: writing the optimizer's state failed", errno, offset);
    const std::int64_t whole = put < bytes ? put / kPageBytes * kPageBytes : put;
    if (whole == 0) fail("offload: the disk takes no more of the optimizer's state", 0, offset);
    from += whole, bytes -= whole, offset += whole;
  }
}

void OffloadFile::check(std::size_t block, std::size_t array, std::byte* memory) const {
  const OffloadBlock& where = plan_.blocks()[block];
  const Seal& seal = seals_[block][array];
  if (!seal.written) {
    std::memset(memory, 0, static_cast<std::size_t>(where.array_bytes()));
  } else if (checksum(bytes_of(where, memory)) != seal.checksum) {
    fail(
        "offload: what was read is not what was written: the disk is damaged, or somebody has "
        "changed the file",
        0, where.offset + where.at[array]);
  }
}

void OffloadFile::read(std::size_t block, std::byte* memory) {
  const OffloadBlock& where = plan_.blocks()[block];
  const auto& seals = seals_[block];
  if (std::any_of(seals.begin(), seals.end(), [](const Seal& seal) { return seal.written; }))
    pread_all(memory, where.bytes, where.offset);
  for (std::size_t array = 0; array < kOffloadedArrays; ++array) {
    if (where.at[array] >= 0) check(block, array, memory + where.at[array]);
  }
}

void OffloadFile::write(std::size_t block, const std::byte* memory) {
  const OffloadBlock& where = plan_.blocks()[block];
  pwrite_all(memory, where.bytes, where.offset);
  for (std::size_t array = 0; array < kOffloadedArrays; ++array) {
    if (where.at[array] >= 0)
      seals_[block][array] = {checksum(bytes_of(where, memory + where.at[array])), true};
  }
}

void OffloadFile::read_array(std::size_t block, OffloadedArray array, std::byte* memory) {
  const OffloadBlock& where = plan_.blocks()[block];
  const auto a = static_cast<std::size_t>(array);
  if (seals_[block][a].written)
    pread_all(memory, whole_pages(where.array_bytes()), where.offset + where.at[a]);
  check(block, a, memory);
}

void OffloadFile::write_array(std::size_t block, OffloadedArray array, const std::byte* memory) {
  const OffloadBlock& where = plan_.blocks()[block];
  const auto a = static_cast<std::size_t>(array);
  pwrite_all(memory, whole_pages(where.array_bytes()), where.offset + where.at[a]);
  seals_[block][a] = {checksum(bytes_of(where, memory)), true};
}

std::int64_t OffloadFile::bookkeeping_bytes() const noexcept {
  return static_cast<std::int64_t>(seals_.size() * sizeof(seals_[0]));
}

}  // namespace zero
