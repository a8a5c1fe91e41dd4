#include "tests/nccl/fake/world.h"

#include <algorithm>
#include <cstring>

#include "backends/nccl/nccl_api.h"
#include "libzero/base/float16.h"
#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {
namespace {

/// a + b, rounded to the type: what NCCL does, unlike libzero's sums.
void add_rounded(void* a, const void* b, std::size_t count, int dtype) {
  auto* const wide = static_cast<float*>(a);
  auto* const narrow = static_cast<std::uint16_t*>(a);
  const auto* const more_wide = static_cast<const float*>(b);
  const auto* const more_narrow = static_cast<const std::uint16_t*>(b);
  for (std::size_t i = 0; i < count; ++i) {
    if (dtype == nccl::kNcclFloat32) {
      wide[i] += more_wide[i];
    } else if (dtype == nccl::kNcclBfloat16) {
      narrow[i] =
          bfloat16_from_float(float_from_bfloat16(narrow[i]) + float_from_bfloat16(more_narrow[i]));
    } else {
      narrow[i] =
          float16_from_float(float_from_float16(narrow[i]) + float_from_float16(more_narrow[i]));
    }
  }
}

/// One kernel: everything is sent first, then received.
class Kernel {
 public:
  Kernel(FakeComm& comm, std::int64_t number) : comm_(comm), number_(number) {}

  void run(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) send(operation);
    // Peers in any order, but one after the other what comes from one.
    const std::size_t first = Weather::now().random(operations.size());
    bool fine = true;
    for (int peer = 0; peer < size() && fine; ++peer) {
      const int from = (peer + static_cast<int>(first)) % size();
      for (const Operation& operation : operations) {
        fine = fine && receive(operation, from);
      }
    }
    for (const Operation& operation : operations) {
      if (fine && operation.kind == Operation::Kind::kReduceScatter) fine = add(operation);
    }
    comm_.world->all_taken(comm_.rank, taken_, comm_.aborted);
  }

 private:
  int size() const { return comm_.world->size(); }
  std::size_t bytes_of(const Operation& operation) const {
    return operation.count * size_of_nccl(operation.dtype);
  }
  std::string name(const Operation& operation, const char* what) const {
    return std::string(what) + " " + std::to_string(number_) + " " +
           std::to_string(operation.dtype) + in_words(operation.in_is_registered) +
           in_words(operation.out_is_registered);
  }
  static const char* in_words(bool is_registered) {
    return is_registered ? " (registered)" : " (not registered)";
  }
  static std::string sending(bool is_registered) {
    return std::string("send") + in_words(is_registered);
  }
  static const char* at(const void* data, std::size_t bytes) {
    return static_cast<const char*>(data) + bytes;
  }
  static char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }

  void post(int to, const std::string& what, const void* data, std::size_t bytes) {
    taken_.push_back(false);
    comm_.world->send(comm_.rank, to, {what, data, bytes, &taken_.back()});
  }

  bool fetch(int from, const std::string& what, void* data, std::size_t bytes) {
    Weather::now().pause();
    return comm_.world->receive(from, comm_.rank, what, data, bytes, comm_.aborted);
  }

  void send(const Operation& operation) {
    const std::size_t bytes = bytes_of(operation);
    if (operation.kind == Operation::Kind::kSend) {
      return post(operation.peer, sending(operation.in_is_registered), operation.in, bytes);
    }
    for (int to = 0; to < size(); ++to) {
      const std::size_t slice = static_cast<std::size_t>(to) * bytes;
      if (to == comm_.rank) continue;
      if (operation.kind == Operation::Kind::kAllGather) {
        post(to, name(operation, "all_gather"), operation.in, bytes);
      } else if (operation.kind == Operation::Kind::kReduceScatter) {
        post(to, name(operation, "reduce_scatter"), at(operation.in, slice), bytes);
      } else if (operation.kind == Operation::Kind::kBroadcast && operation.peer == comm_.rank) {
        post(to, name(operation, "broadcast"), operation.in, bytes);
      }
    }
  }

  bool receive(const Operation& operation, int from) {
    const std::size_t bytes = bytes_of(operation);
    const bool own = from == comm_.rank;
    if (operation.kind == Operation::Kind::kRecv && operation.peer == from) {
      return fetch(from, sending(operation.out_is_registered), operation.out, bytes);
    }
    if (operation.kind == Operation::Kind::kBroadcast && operation.peer == from && !own) {
      return fetch(from, name(operation, "broadcast"), operation.out, bytes);
    }
    if (operation.kind != Operation::Kind::kAllGather) return true;
    char* const slice = at(operation.out, static_cast<std::size_t>(from) * bytes);
    if (!own) return fetch(from, name(operation, "all_gather"), slice, bytes);
    if (slice != operation.in) std::memcpy(slice, operation.in, bytes);
    return true;
  }

  /// Begins with the neighbour's part, as a ring would.
  bool add(const Operation& operation) {
    const std::size_t bytes = bytes_of(operation);
    std::vector<char> part(bytes);
    for (int step = 1; step <= size(); ++step) {
      const int from = (comm_.rank + step) % size();
      if (from != comm_.rank) {
        if (!fetch(from, name(operation, "reduce_scatter"), part.data(), bytes)) return false;
      } else {
        std::memcpy(part.data(), at(operation.in, static_cast<std::size_t>(from) * bytes), bytes);
      }
      if (step == 1) {
        std::memcpy(operation.out, part.data(), bytes);
      } else {
        add_rounded(operation.out, part.data(), operation.count, operation.dtype);
      }
    }
    return true;
  }

  FakeComm& comm_;
  const std::int64_t number_;
  std::deque<bool> taken_;  // addresses stay
};

/// Until somebody aborts.
void hang(FakeComm& comm) {
  std::unique_lock lock(comm.mutex);
  comm.changed.wait(lock, [&] { return comm.aborted.load(); });
}

}  // namespace

std::size_t size_of_nccl(int dtype) {
  if (dtype == nccl::kNcclUint8) return 1;
  return dtype == nccl::kNcclFloat32 ? 4 : 2;
}

void World::send(int from, int to, const Parcel& parcel) {
  const std::lock_guard lock(mutex_);
  mail_[{from, to}].push_back(parcel);
  changed_.notify_all();
}

bool World::receive(int from, int to, const std::string& what, void* data, std::size_t bytes,
                    const std::atomic<bool>& aborted) {
  std::unique_lock lock(mutex_);
  auto& box = mail_[{from, to}];
  changed_.wait(lock, [&] { return !box.empty() || aborted; });
  if (aborted) return false;
  const Parcel parcel = box.front();
  box.pop_front();
  if (parcel.what != what || parcel.bytes != bytes) {
    Weather::now().broke_rule("rank " + std::to_string(to) + " expected " + what + " of " +
                              std::to_string(bytes) + " bytes, rank " + std::to_string(from) +
                              " sent " + parcel.what + " of " + std::to_string(parcel.bytes));
    bytes = std::min(bytes, parcel.bytes);
  }
  std::memcpy(data, parcel.data, bytes);
  *parcel.taken = true;
  changed_.notify_all();
  return true;
}

bool World::all_taken(int from, const std::deque<bool>& taken, const std::atomic<bool>& aborted) {
  std::unique_lock lock(mutex_);
  const auto done = [&] {
    return std::all_of(taken.begin(), taken.end(), [](bool t) { return t; });
  };
  changed_.wait(lock, [&] { return done() || aborted; });
  if (done()) return true;
  for (auto& [pair, box] : mail_) {
    if (pair.first == from) box.clear();
  }
  return false;
}

void World::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void run_kernel(FakeComm& comm, const std::vector<Operation>& operations, std::int64_t number) {
  if (!comm.aborted) {
    const int trouble = Weather::now().kernel(comm.rank, number);
    if (trouble > 0) {
      const std::lock_guard lock(comm.mutex);
      comm.error = trouble;
    }
    if (trouble != 0) {
      hang(comm);
    } else {
      Kernel(comm, number).run(operations);
    }
  }
  const std::lock_guard lock(comm.mutex);
  --comm.running;
  comm.changed.notify_all();
}

}  // namespace zero::nccl_test
