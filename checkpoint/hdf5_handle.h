#pragma once

/// The HDF5 library, held at arm's length: identifiers that close themselves, errors that become
/// exceptions.

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace zero::checkpoint::hdf5 {

/// While it lives, this thread alone is inside HDF5 and the library prints nothing. Restores what
/// was set before.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* client_ = nullptr;
};

/// Throws FormatError with the library's own explanation.
[[noreturn]] void fail(std::string_view action);

/// An identifier, a count or a status of the library: negative means failure.
template <class Result>
Result check(Result result, std::string_view action) {
  if (result < 0) fail(action);
  return result;
}

/// Closes an identifier, whatever it is of. Its destructor ignores what closing reports; close()
/// does not.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle(hid_t id, Closer closer, std::string_view action)
      : id_(check(id, action)), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) closer_(id_);
  }
  void close(std::string_view action) { check(closer_(std::exchange(id_, -1)), action); }
  hid_t get() const noexcept { return id_; }

 private:
  hid_t id_;
  Closer closer_;
};

}  // namespace zero::checkpoint::hdf5
