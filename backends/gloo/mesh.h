#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backends/gloo/device.h"
#include "backends/gloo/fate.h"
#include "backends/gloo/letterbox.h"
#include "backends/gloo/links.h"
#include "backends/gloo/roll_call.h"
#include "backends/gloo/store.h"
#include "backends/gloo/timekeeper.h"
#include "backends/gloo/transfers.h"
#include "libzero/base/function_ref.h"
#include "libzero/collective/call_header.h"

namespace zero::gloo_backend {

struct MeshOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<Device> device;                                 // null where size is 1
  std::optional<std::chrono::milliseconds> meeting_timeout = {};  // none: timeout
};

/// All ranks, connected to all others: runs calls, each opened by a roll call, and sees to it that
/// a call that fails here fails everywhere with the same reason. A world of one has no peers and
/// uses neither network nor threads.
///
/// Threads beside the device's: the letter box and the timekeeper. One call at a time; abort() any
/// time.
class Mesh {
 public:
  using Body = FunctionRef<void(Transfers&, const RollCall&)>;

  /// Meets the other ranks through the store, whose keys must be used by this mesh alone. Throws
  /// CommError naming the ranks that did not come in time.
  Mesh(const MeshOptions& options, const Store& store);
  /// Peers are told, unless shutdown() was called. Blocks for a fraction of a second at most.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const MeshOptions& options() const { return options_; }

  /// A header with the next sequence number.
  CallHeader describe_next(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                           std::int64_t count = 0) const;

  /// Roll call, comparison, then `body` with what moves the payload. Throws ContractError if the
  /// ranks' calls do not match: every rank then knows, and the mesh is usable unless the next call
  /// says why not. Throws CommError (dead) otherwise, also where `body` threw.
  void run(const CallHeader& call, std::span<const std::byte> inline_payload, Body body);

  /// Waits for all ranks, then lets peers go without taking it for a death.
  void shut_down(const CallHeader& call);
  bool is_shut_down() const { return shut_down_; }

  /// The first reason stands; every wait in flight ends, and the peers are told. Any thread.
  void fail(const std::string& reason) noexcept;

 private:
  void connect(const Store& store);
  [[noreturn]] void leave_meeting(const std::string& reason);
  void exchange(const CallHeader& call, std::span<const std::byte> inline_payload);
  void call_roll(const CallHeader& call, std::span<const std::byte> inline_payload);
  void wait_until_all_know(const CallHeader& call) noexcept;
  void require_alive(const CallHeader& call) const;
  void wait_until_all_leave(const CallHeader& call) noexcept;
  [[noreturn]] void give_up(const CallHeader& call, const std::string& reason);
  std::string why_interrupted(const CallHeader& call);
  std::vector<int> find_culprits(const std::vector<int>& missing);

  const MeshOptions options_;
  std::uint64_t sequence_ = 1;
  bool shut_down_ = false;
  bool roll_called_ = false;  // of the present call: everybody is there
  Fate fate_;
  std::unique_ptr<Links> control_;
  std::unique_ptr<Links> data_;
  std::optional<Transfers> transfers_;
  std::optional<RollCall> roll_call_;
  std::unique_ptr<LetterBox> letters_;
  std::unique_ptr<Timekeeper> timekeeper_;
};

}  // namespace zero::gloo_backend
