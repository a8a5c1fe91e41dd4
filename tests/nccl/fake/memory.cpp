#include "tests/nccl/fake/memory.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {
namespace {

constexpr int kInvalidUsage = 5;

struct Told {
  const FakeComm* comm = nullptr;
  const char* begin = nullptr;
  std::size_t bytes = 0;
  int times = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<const char*, std::size_t> memory;
  std::vector<std::unique_ptr<Told>> told;  // never freed, so that a use after the end is seen
  std::map<std::int64_t, std::vector<Operation>> kernels;
  std::int64_t next_kernel = 0;

  static Registry& get() {
    static Registry& registry = *new Registry;
    return registry;
  }
};

/// The caller has the registry.
bool is_in_use(const Registry& registry, const char* begin, std::size_t bytes) {
  const auto lies_in = [&](const void* data) {
    const auto* const byte = static_cast<const char*>(data);
    return byte >= begin && byte < begin + bytes;
  };
  for (const auto& [id, operations] : registry.kernels) {
    for (const Operation& operation : operations) {
      if (lies_in(operation.in) || lies_in(operation.out)) return true;
    }
  }
  return false;
}

}  // namespace

int broken(const std::string& rule) {
  Weather::now().broke_rule(rule);
  return kInvalidUsage;
}

int fake_mem_alloc(void** memory, std::size_t bytes) {
  const int answer = Weather::now().call("ncclMemAlloc", current_device());
  if (answer != 0) return answer;
  if (const int error = fake_cuda().malloc(memory, bytes); error != 0) return error;
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.memory[static_cast<char*>(*memory)] = bytes;
  return 0;
}

int fake_mem_free(void* memory) {
  const int answer = Weather::now().call("ncclMemFree", current_device());
  if (answer != 0) return answer;
  {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.memory.find(static_cast<char*>(memory));
    if (found == registry.memory.end()) {
      return broken("ncclMemFree of memory that is not from ncclMemAlloc");
    }
    if (is_in_use(registry, found->first, found->second)) {
      return broken("ncclMemFree of memory that a kernel uses");
    }
    registry.memory.erase(found);
  }
  return fake_cuda().free(memory);
}

int tell(const FakeComm& comm, void* memory, std::size_t bytes, void** told) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  const auto* const begin = static_cast<const char*>(memory);
  const auto found = registry.memory.find(begin);
  if (found == registry.memory.end() || found->second != bytes) {
    return broken("register of what is not a whole memory from ncclMemAlloc");
  }
  for (const auto& old : registry.told) {
    if (old->times == 0 || old->comm != &comm || old->begin != begin) continue;
    ++old->times;
    *told = old.get();
    return 0;
  }
  registry.told.push_back(std::make_unique<Told>(Told{&comm, begin, bytes, 1}));
  *told = registry.told.back().get();
  return 0;
}

int untell(const FakeComm& comm, void* told) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  auto& entry = *static_cast<Told*>(told);
  if (entry.comm != &comm) return broken("deregister with another communicator");
  if (entry.times == 0) return broken("deregister once too often");
  --entry.times;
  return 0;
}

bool was_told(const FakeComm& comm, const void* data, std::size_t bytes) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  const auto* const begin = static_cast<const char*>(data);
  return std::any_of(registry.told.begin(), registry.told.end(), [&](const auto& told) {
    return told->times > 0 && told->comm == &comm && begin >= told->begin &&
           begin + bytes <= told->begin + told->bytes;
  });
}

void expect_nothing_told(const FakeComm& comm) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  for (const auto& told : registry.told) {
    if (told->comm != &comm || told->times == 0) continue;
    broken("a communicator ended that knew memory");
    told->times = 0;
  }
}

std::int64_t note_kernel(const std::vector<Operation>& operations) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.kernels[++registry.next_kernel] = operations;
  return registry.next_kernel;
}

void forget_kernel(std::int64_t id) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.kernels.erase(id);
}

bool is_registered(const void* memory) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  return std::any_of(registry.told.begin(), registry.told.end(),
                     [&](const auto& told) { return told->times > 0 && told->begin == memory; });
}

}  // namespace zero::nccl_test
