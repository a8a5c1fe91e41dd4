#include "tests/nccl/fake/weather.h"

#include <thread>

#include "libzero/base/mix64.h"

namespace zero::nccl_test {

Weather& Weather::now() {
  static Weather& weather = *new Weather;  // outlives every thread
  return weather;
}

void Weather::reset(bool all_is_device_memory) {
  const std::lock_guard lock(mutex_);
  all_is_device_memory_ = all_is_device_memory;
  most_delay_us_ = 0;
  hook_ = nullptr;
  kernel_hook_ = nullptr;
  look_hook_ = nullptr;
  has_hook_ = false;
  broken_.clear();
}

void Weather::delay(std::uint64_t seed, std::chrono::microseconds most) {
  random_ = seed;
  most_delay_us_ = most.count();
}

std::uint64_t Weather::random(std::uint64_t limit) {
  return mix64(random_.fetch_add(kGoldenGamma)) % limit;
}

void Weather::pause() {
  const std::int64_t most = most_delay_us_;
  if (most == 0) return;
  const std::uint64_t kind = random(8);
  if (kind < 5) return;
  if (kind == 5) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(random(static_cast<std::uint64_t>(most))));
}

void Weather::on_call(std::function<int(const std::string&, int)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
  has_hook_ = true;
}

int Weather::call(const char* function, int rank) {
  pause();
  if (!has_hook_) return 0;
  std::unique_lock lock(mutex_);
  const auto hook = hook_;
  lock.unlock();
  return hook ? hook(function, rank) : 0;
}

void Weather::on_kernel(std::function<int(int, std::int64_t)> hook) {
  const std::lock_guard lock(mutex_);
  kernel_hook_ = std::move(hook);
}

int Weather::kernel(int rank, std::int64_t kernel) {
  std::unique_lock lock(mutex_);
  const auto hook = kernel_hook_;
  lock.unlock();
  return hook ? hook(rank, kernel) : 0;
}

void Weather::on_look(std::function<int(int)> hook) {
  const std::lock_guard lock(mutex_);
  look_hook_ = std::move(hook);
}

int Weather::look(int rank) {
  std::unique_lock lock(mutex_);
  const auto hook = look_hook_;
  lock.unlock();
  return hook ? hook(rank) : 0;
}

void Weather::broke_rule(const std::string& what) {
  const std::lock_guard lock(mutex_);
  broken_.push_back(what);
}

std::vector<std::string> Weather::broken_rules() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

}  // namespace zero::nccl_test
