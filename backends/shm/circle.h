#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/shm/board.h"
#include "backends/shm/fate.h"
#include "backends/shm/guard.h"
#include "backends/shm/roll_call.h"
#include "backends/shm/rows.h"
#include "backends/shm/waiter.h"
#include "libzero/base/function_ref.h"
#include "libzero/collective/key_value_store.h"

namespace zero::shm {

/// Longer timeouts count as this one: the clock must be able to add them.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// What a communicator shares with those that split() makes of it.
struct Family {
  bool may_spin = false;
  std::shared_ptr<Guard> guard;
  std::shared_ptr<KeyValueStore> store;  ///< Lives as long: others may still need what serves it.
};

/// All ranks of one communicator: runs calls, each opened by a roll call, and sees to it that a
/// call that fails here fails everywhere with the same reason. One call at a time; fail() and
/// abort() any time.
class Circle {
 public:
  using Body = FunctionRef<void(Rows&, const RollCall&)>;

  /// processes[r] is the index of rank r's process in the guard.
  Circle(Board board, std::shared_ptr<Family> family, std::vector<int> processes,
         std::chrono::milliseconds timeout);
  /// The others are told, unless shut_down() was called. Does not block.
  ~Circle();
  Circle(const Circle&) = delete;
  Circle& operator=(const Circle&) = delete;

  int rank() const { return board_.rank(); }
  int size() const { return board_.size(); }
  const std::shared_ptr<Family>& family() const { return family_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  int process_of(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }

  /// A header with the next sequence number. Throws CommError if the communicator is dead.
  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0) const;

  /// Roll call, comparison, then `body` with what moves the payload. Throws ContractError if the
  /// ranks' calls do not match, CommError (dead) otherwise, also where `body` threw.
  void run(const CallHeader& call, std::span<const std::byte> inline_payload, Body body);

  /// Within a body: every rank's text, in rank order.
  std::vector<std::string> exchange_texts(const std::string& text);

  /// Waits for all ranks; their end harms nobody from now on.
  void shut_down(const CallHeader& call);
  /// Leaves a communicator that is dead already.
  void leave_dead() { shut_down_ = true; }
  bool is_shut_down() const { return shut_down_; }

  void abort(const std::string& reason) noexcept { fate_.abort(reason); }
  bool failed() const { return fate_.failed(); }

 private:
  void exchange(const CallHeader& call, std::span<const std::byte> inline_payload);
  void note_death(int process);
  std::string why_expired(const CallHeader& call) const;
  [[noreturn]] void give_up(const CallHeader& call, const std::string& reason);

  Board board_;
  const std::shared_ptr<Family> family_;
  const std::vector<int> processes_;
  const std::chrono::milliseconds timeout_;
  Fate fate_;
  Waiter waiter_;
  RollCall roll_call_;
  Rows rows_;
  CallHeader call_;  // the present one
  std::uint64_t sequence_ = 0;
  bool roll_called_ = false;  // of the present call: everybody is there
  bool shut_down_ = false;
  std::uint64_t watcher_ = 0;
};

}  // namespace zero::shm
