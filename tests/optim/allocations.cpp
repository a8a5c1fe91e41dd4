#include "tests/optim/allocations.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

// glibc's own functions, under the names that it keeps for those who replace malloc.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

enum class State { kOther, kTraining, kInLibrary };

thread_local State state = State::kOther;
thread_local std::int64_t faults_at_entry = 0;
std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> excused{0};
std::atomic<const char*> excused_prefix{nullptr};
std::atomic<std::int64_t> faults{0};
std::array<std::atomic<pid_t>, 64> training_threads{};

thread_local bool looking = false;  // at the stack, which may itself take memory

bool is_excused() noexcept {
  const char* const prefix = excused_prefix.load(std::memory_order_relaxed);
  if (prefix == nullptr) return false;
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < depth; ++i) {
    Dl_info info{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &info) != 0 && info.dli_sname != nullptr &&
        std::strncmp(info.dli_sname, prefix, std::strlen(prefix)) == 0)
      return true;
  }
  return false;
}

void note() noexcept {
  if (state == State::kTraining || looking) return;
  looking = true;
  (is_excused() ? excused : allocations).fetch_add(1, std::memory_order_relaxed);
  looking = false;
}

std::int64_t faults_of_this_thread() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

bool replace(pid_t from, pid_t to) noexcept {
  for (auto& thread : training_threads) {
    pid_t expected = from;
    if (thread.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

bool is_training(pid_t thread) noexcept {
  for (const auto& other : training_threads) {
    if (other.load() == thread) return true;
  }
  return false;
}

/// The tenth word of /proc/self/task/<id>/stat; the second may hold blanks, in brackets.
std::int64_t faults_of(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string text;
  std::getline(file, text, ')');
  for (int word = 3; word < 10; ++word) file >> text;
  std::int64_t count = 0;
  file >> count;
  return count;
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  note();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note();
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  note();
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  note();
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
}

namespace zero::testing {

TrainingThread::TrainingThread() {
  state = State::kTraining;
  replace(0, gettid());
}

TrainingThread::~TrainingThread() {
  replace(gettid(), 0);
  state = State::kOther;
}

void enter_library() noexcept {
  faults_at_entry = faults_of_this_thread();
  state = State::kInLibrary;
}

void leave_library() noexcept {
  state = State::kTraining;
  faults.fetch_add(faults_of_this_thread() - faults_at_entry);
}

void excuse_functions(const char* prefix) {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs
  excused_prefix = prefix;
}

Costs take_costs() noexcept {
  return {allocations.exchange(0), excused.exchange(0), faults.exchange(0)};
}

std::int64_t faults_of_other_threads() {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (!is_training(std::stoi(task.path().filename().string()))) sum += faults_of(task.path());
  }
  return sum;
}

}  // namespace zero::testing
