#include "checkpoint/ranks/background_save.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "checkpoint/ranks/snapshot.h"

namespace zero::checkpoint {

/// The snapshot belongs to the caller's thread, except while a save is in flight.
struct BackgroundSaver::Impl {
  Impl(std::shared_ptr<Store> store_, std::shared_ptr<Collective> comm_)
      : store(std::move(store_)), comm(std::move(comm_)) {
    ZERO_REQUIRE(store != nullptr && comm != nullptr,
                 "saving in the background needs a store and a communicator of its own");
    thread = std::thread([this] { work(); });
  }

  ~Impl() {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !in_flight; });
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return in_flight || stopping; });
      if (!in_flight) return;
      lock.unlock();
      std::optional<SaveOutcome> result;
      std::exception_ptr failure;
      try {
        result = save_agreed(*store, snapshot.common(), snapshot.part(), *comm);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      outcome = std::move(result);
      error = std::move(failure);
      in_flight = false;
      changed.notify_all();
    }
  }

  /// REQUIRES the lock, and that nothing is in flight.
  std::optional<SaveOutcome> take_result() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    return std::exchange(outcome, std::nullopt);
  }

  const std::shared_ptr<Store> store;
  const std::shared_ptr<Collective> comm;
  Snapshot snapshot;

  std::mutex mutex;
  std::condition_variable changed;
  bool in_flight = false;
  bool stopping = false;
  std::optional<SaveOutcome> outcome;
  std::exception_ptr error;
  std::thread thread;
};

BackgroundSaver::BackgroundSaver(std::shared_ptr<Store> store, std::shared_ptr<Collective> comm)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(comm))) {}

BackgroundSaver::~BackgroundSaver() = default;

void BackgroundSaver::start(const CommonState& common, const RankPart& part) {
  wait();
  impl_->snapshot.take(common, part);
  // The thread sleeps: until the save is in flight the communicator is the caller's.
  agree_to_save(impl_->snapshot.common(), impl_->snapshot.part(), *impl_->comm);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->in_flight = true;
  }
  impl_->changed.notify_all();
}

std::optional<SaveOutcome> BackgroundSaver::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return !impl_->in_flight; });
  return impl_->take_result();
}

bool BackgroundSaver::wait_for(std::chrono::milliseconds time) noexcept {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, time, [this] { return !impl_->in_flight; });
}

}  // namespace zero::checkpoint
