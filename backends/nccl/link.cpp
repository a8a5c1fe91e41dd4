#include "backends/nccl/link.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libzero/base/quiet_thread.h"

namespace zero::nccl {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long the helper waits for a call of NCCL to return before it aborts beside it.
constexpr milliseconds kEntryPatience{1000};
// How long whoever is done with registered memory waits for an abort that NCCL may need it for.
constexpr milliseconds kDeregisterPatience{5000};

/// Sleeps between two looks, longer and longer.
class Pause {
 public:
  /// True if there is a failure.
  bool operator()(const Fate& fate) {
    const bool failed = fate.sleep(time_);
    time_ = std::min(time_ * 2, microseconds(500));
    return failed;
  }

 private:
  microseconds time_{10};
};

}  // namespace

Link::Link(Options options) : options_(std::move(options)), stream_(options_.apis) {}

void Link::check_nccl(int result, const char* function) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  const char* detail = apis()->nccl.get_last_error(comm_);
  throw Broken(std::string(function) + " gave error " + std::to_string(result) + " (" +
               apis()->nccl.get_error_string(result) + ")" +
               (detail == nullptr || *detail == '\0' ? "" : std::string(": ") + detail));
}

NcclUniqueId Link::unique_id() const {
  NcclUniqueId id;
  check_nccl(apis()->nccl.get_unique_id(&id), "ncclGetUniqueId");
  return id;
}

void Link::connect(const NcclUniqueId& id, Clock::time_point deadline) {
  const OnDevice here(*apis(), device());
  {
    const std::lock_guard entry(entry_);
    NcclConfig config;
    const int result = apis()->nccl.comm_init_rank_config(&born_, size(), id, rank(), &config);
    comm_ = born_;
    check_nccl(result, "ncclCommInitRankConfig");
  }
  {
    const std::lock_guard lock(mutex_);
    has_helper_ = true;
  }
  helper_ = start_quiet_thread([self = shared_from_this()] { self->help(); });
  if (options_.fate->failed()) kill();
  settle(deadline, "ncclCommInitRankConfig");
}

int Link::async_error() {
  const std::lock_guard entry(entry_);
  if (comm_ == nullptr) throw Stopped{};
  int state = kNcclSuccess;
  check_nccl(apis()->nccl.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError");
  return state;
}

/// Returns when what `function` began is under way.
void Link::settle(Clock::time_point deadline, const char* function) {
  Pause pause;
  while (true) {
    if (options_.fate->failed()) throw Stopped{};
    const int state = async_error();
    if (state == kNcclSuccess) return;
    check_nccl(state, function);
    if (Clock::now() >= deadline) throw Expired{};
    pause(*options_.fate);
  }
}

void Link::group(Clock::time_point deadline,
                 const std::function<void(const NcclApi& nccl, NcclComm comm)>& calls) {
  {
    const std::lock_guard entry(entry_);
    if (comm_ == nullptr) throw Stopped{};
    const NcclApi& nccl = apis()->nccl;
    check_nccl(nccl.group_start(), "ncclGroupStart");
    try {
      calls(nccl, comm_);
    } catch (...) {
      nccl.group_end();  // or the thread would stay inside a group
      throw;
    }
    check_nccl(nccl.group_end(), "ncclGroupEnd");
  }
  settle(deadline, "ncclGroupEnd");
}

void Link::await(const Event& event, Clock::time_point deadline) {
  const OnDevice here(*apis(), device());
  Pause pause;
  while (true) {
    const bool done = event.done();
    // Only now: kernels that were aborted are done as well.
    if (options_.fate->failed()) throw Stopped{};
    if (done) return;
    check_nccl(async_error(), "The communicator");
    if (Clock::now() >= deadline) throw Expired{};
    pause(*options_.fate);
  }
}

void Link::finish(Clock::time_point deadline) {
  const OnDevice here(*apis(), device());
  Event last(apis());
  last.record(stream());
  await(last, deadline);
  {
    const std::lock_guard entry(entry_);
    if (comm_ == nullptr) throw Stopped{};
    deregister_all();
    check_nccl(apis()->nccl.comm_finalize(comm_), "ncclCommFinalize");
  }
  settle(deadline, "ncclCommFinalize");
  const std::lock_guard entry(entry_);
  if (comm_ == nullptr) throw Stopped{};
  const int result = apis()->nccl.comm_destroy(std::exchange(comm_, nullptr));
  check_nccl(result, "ncclCommDestroy");
}

std::shared_ptr<void> Link::register_memory(const Range& allocation) {
  const OnDevice here(*apis(), device());
  const std::lock_guard entry(entry_);
  if (comm_ == nullptr) throw Stopped{};
  void* const memory = const_cast<char*>(allocation.begin);
  void* handle = nullptr;
  // Does not need the other ranks: never in progress, also where the communicator does not block.
  const int result = apis()->nccl.comm_register(
      comm_, memory, static_cast<std::size_t>(allocation.bytes), &handle);
  check_nccl(result, "ncclCommRegister");
  const std::int64_t number = registrations_.add(allocation, handle);
  return {memory, [self = shared_from_this(), number](void*) { self->deregister(number); }};
}

/// The entry, while NCCL does nothing in the background that it has to look up what it was told
/// for. Not owned where that does not come about.
std::unique_lock<Gate> Link::enter_at_rest() noexcept {
  const auto until = Clock::now() + kEntryPatience;
  while (true) {
    std::unique_lock entry(entry_, until);
    if (!entry.owns_lock() || comm_ == nullptr || !is_launching()) return entry;
    if (Clock::now() >= until) return {};
    entry.unlock();
    std::this_thread::sleep_for(microseconds(50));
  }
}

/// The caller has the entry.
bool Link::is_launching() noexcept {
  int state = kNcclSuccess;
  const int result = apis()->nccl.comm_get_async_error(comm_, &state);
  return result == kNcclSuccess && state == kNcclInProgress;
}

void Link::deregister(std::int64_t number) noexcept {
  {
    const auto entry = enter_at_rest();
    const auto handle = entry.owns_lock() ? registrations_.remove(number) : std::nullopt;
    if (handle && comm_ != nullptr) {
      try {
        const OnDevice here(*apis(), device());
        apis()->nccl.comm_deregister(comm_, *handle);
      } catch (const Broken&) {  // a device that has failed: nothing reaches into it any more
      }
    }
  }
  if (!options_.fate->failed() || is_closed()) return;
  settled(kDeregisterPatience);  // the memory may go now: kernels that use it may not be there
}

bool Link::is_closed() noexcept {
  const std::lock_guard lock(mutex_);
  return closing_;
}

/// The caller has the entry.
void Link::deregister_all() noexcept {
  for (void* const handle : registrations_.remove_all()) {
    apis()->nccl.comm_deregister(comm_, handle);
  }
}

void Link::help() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return killed_ || closing_; });
  if (killed_) {
    lock.unlock();
    {
      // Not for ever: a call that hangs inside NCCL is what abort is there to end.
      const std::unique_lock entry(entry_, Clock::now() + kEntryPatience);
      apis()->cuda.set_device(device());
      // While it launches it looks things up itself, and has not reached into anybody's memory yet.
      if (entry.owns_lock() && comm_ != nullptr && !is_launching()) deregister_all();
      NcclComm const comm = std::exchange(comm_, nullptr);
      if (comm != nullptr) apis()->nccl.comm_abort(comm);
    }
    lock.lock();
  }
  ended_ = true;
  changed_.notify_all();
}

void Link::kill() noexcept {
  const std::lock_guard lock(mutex_);
  killed_ = true;
  changed_.notify_all();
}

bool Link::settled(milliseconds time) noexcept {
  const auto until = Clock::now() + time;
  {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return ended_ || !has_helper_; };
    if (!changed_.wait_until(lock, until, ended)) return false;
  }
  // Nothing ends this sleep early: a plain one.
  while (!stream_.idle()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(microseconds(200));
  }
  return true;
}

bool Link::close(milliseconds time) noexcept {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  const bool idle = settled(time);
  if (!idle) stream_.abandon();
  if (!helper_.joinable()) return idle;
  std::unique_lock lock(mutex_);
  const bool ended = ended_;
  lock.unlock();
  if (ended) {
    helper_.join();
  } else {
    helper_.detach();  // it keeps this object alive
  }
  return idle;
}

}  // namespace zero::nccl
