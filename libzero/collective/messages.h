#pragma once

/// Messages of any length over a Collective.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/collective.h"

namespace zero {

/// No rank sends more at once.
inline constexpr std::int64_t kMaxMessageBytes = std::int64_t{1} << 30;

/// Something went wrong that this rank alone knows of. See together().
class LocalFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Receivers { kEveryRank, kRankZero };

/// Collective: every rank's message, by rank; nothing to those who do not receive. A single round
/// if all messages are empty. REQUIRES at most kMaxMessageBytes. Throws CommError, LocalFailure.
std::vector<std::string> gather_messages(std::string_view mine, Receivers receivers,
                                         Collective& comm, const std::string& label);

/// Collective: rank 0's message, on every rank. As above otherwise.
std::string broadcast_message(std::string mine, Collective& comm, const std::string& label);

/// Builds a message of numbers and texts.
class MessageWriter {
 public:
  MessageWriter& add(std::int64_t value);
  MessageWriter& add(std::string_view text);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes them out again, in the same order. Throws LocalFailure where the message ends too early.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}
  std::int64_t number();
  std::string text();

 private:
  std::string_view take(std::int64_t count);
  std::string_view rest_;
};

/// Collective, before all ranks throw what all of them know: whoever throws may leave at once,
/// while the last message to a slower rank is still under way. What it meets itself is not told:
/// what is to be thrown came first.
void wait_until_all_know(Collective& comm, const std::string& label) noexcept;

/// Runs a collective function. What this rank alone knows of (a damaged message, no memory) must
/// not leave the others waiting: `comm` is aborted then, and CommError comes out.
template <class Function>
auto together(Collective& comm, const std::string& what, Function function) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why =
        what + " failed on rank " + std::to_string(comm.rank()) + ": " + error.what();
    comm.abort(why);
    throw CommError("a rank could not go on, start all of them again: " + why);
  }
}

}  // namespace zero
