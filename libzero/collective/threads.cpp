#include "libzero/collective/threads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/call_header.h"
#include "libzero/collective/check_calls.h"
#include "libzero/collective/ordered_sum.h"
#include "libzero/collective/threads_hub.h"

namespace zero {
namespace {

using threads::Hub;
using threads::Membership;
using threads::Round;

// Between pieces a rank looks whether somebody has aborted. A multiple of kEpilogueBlock.
constexpr std::int64_t kPiece = 16 * kEpilogueBlock;

/// Calls work(begin, count) for consecutive pieces of [0, count). False if the hub failed in
/// between.
template <typename PieceWork>
bool in_pieces(const Hub& hub, std::int64_t count, PieceWork work) {
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    if (hub.failed()) return false;
    work(begin, std::min(kPiece, count - begin));
  }
  return true;
}

template <typename Byte, typename Void>
Byte* at(Void* data, std::int64_t element, std::int64_t element_size) {
  return static_cast<Byte*>(data) + element * element_size;
}

bool copy_in_pieces(const Hub& hub, const void* from, void* to, std::int64_t count, DType dtype) {
  if (from == to) return true;
  const std::int64_t size = size_of(dtype);
  return in_pieces(hub, count, [&](std::int64_t begin, std::int64_t piece) {
    std::memcpy(at<std::byte>(to, begin, size), at<const std::byte>(from, begin, size),
                static_cast<std::size_t>(piece * size));
  });
}

class ThreadsCollective final : public Collective {
 public:
  ThreadsCollective(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)),
        rank_(rank),
        parts_(static_cast<std::size_t>(hub_->size())),
        outs_(parts_.size()) {}

  ~ThreadsCollective() override {
    if (shut_down_) return;
    hub_->fail("rank " + std::to_string(rank_) +
               " left without shutdown(): its Collective was destroyed");
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return hub_->size(); }
  std::string_view backend() const noexcept override { return "threads"; }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override;
  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override;
  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override;
  WorkPtr broadcast(Buffer data, int root, std::string_view label) override;
  WorkPtr barrier(std::string_view label) override;
  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override;

  void abort(std::string_view why) noexcept override {
    hub_->fail(std::string(why) + " (abort() on rank " + std::to_string(rank_) + ")");
  }

  void shutdown() override;

 private:
  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0);

  /// Meets the other ranks and does this rank's part; `part(round)` returns false if it stopped
  /// early.
  template <typename Part>
  WorkPtr meet(const CallHeader& call, const void* in, void* out, Part part);

  /// This rank's part when it threw: nobody else can finish without it.
  void fail_with(const std::exception_ptr& error);

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  std::vector<const void*> parts_;  // of the call that runs: where each rank's piece lies
  std::vector<void*> outs_;
  std::uint64_t sequence_ = 0;
  bool shut_down_ = false;
};

CallHeader ThreadsCollective::next_call(Operation operation, std::string_view label, DType dtype,
                                        std::int64_t count) {
  const CallHeader call = make_call_header(operation, sequence_ + 1, label, dtype, count);
  hub_->check_alive(rank_, call);
  ++sequence_;
  return call;
}

template <typename Part>
WorkPtr ThreadsCollective::meet(const CallHeader& call, const void* in, void* out, Part part) {
  try {
    Round& round = hub_->arrive(rank_, call, in, out);
    bool whole = false;
    std::exception_ptr error;
    try {
      whole = part(round);
    } catch (...) {  // an epilogue that throws
      error = std::current_exception();
      fail_with(error);
    }
    hub_->depart(rank_, round, whole);
    return finished_work();
  } catch (...) {
    return failed_work(std::current_exception());
  }
}

void ThreadsCollective::fail_with(const std::exception_ptr& error) {
  std::string what = "an exception of unknown type";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
  }
  hub_->fail("the epilogue of rank " + std::to_string(rank_) + " threw: " + what);
}

WorkPtr ThreadsCollective::reduce_scatter(ConstBuffer in, Buffer out,
                                          ReduceScatterOptions options) {
  check_not_shut_down(shut_down_, "reduce_scatter", options.label);
  check_reduce_scatter(in, out, options.label, size());
  const CallHeader call = next_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
  return meet(call, in.data, out.data, [&](const Round& round) {
    const std::int64_t element = size_of(in.dtype);
    return in_pieces(*hub_, out.count, [&](std::int64_t begin, std::int64_t count) {
      for (std::size_t r = 0; r < parts_.size(); ++r) {
        parts_[r] = at<const std::byte>(round.seats[r].in, rank_ * out.count + begin, element);
      }
      ordered_sum(parts_, in.dtype, static_cast<float*>(out.data) + begin, count,
                  options.accumulate, options.epilogue, begin, options.block_squares);
    });
  });
}

WorkPtr ThreadsCollective::all_gather(ConstBuffer in, Buffer out, std::string_view label) {
  check_not_shut_down(shut_down_, "all_gather", label);
  check_all_gather(in, out, label, rank_, size());
  const CallHeader call = next_call(Operation::kAllGather, label, in.dtype, in.count);
  return meet(call, in.data, out.data, [&](const Round& round) {
    for (std::size_t r = 0; r < round.seats.size() && in.count > 0; ++r) {
      void* slice =
          at<std::byte>(out.data, static_cast<std::int64_t>(r) * in.count, size_of(in.dtype));
      if (!copy_in_pieces(*hub_, round.seats[r].in, slice, in.count, in.dtype)) return false;
    }
    return true;
  });
}

WorkPtr ThreadsCollective::all_reduce(Buffer data, ReduceOp op, std::string_view label) {
  check_not_shut_down(shut_down_, "all_reduce", label);
  check_all_reduce(data, op, label);
  CallHeader call = next_call(Operation::kAllReduce, label, data.dtype, data.count);
  call.reduce_op = static_cast<std::uint8_t>(op);
  return meet(call, data.data, data.data, [&](const Round& round) {
    // Rank r reduces slice r of all ranks' data and writes it to all of them: nobody else touches
    // that slice.
    const std::int64_t slice = (data.count + size() - 1) / size();
    const std::int64_t first = std::min(data.count, rank_ * slice);
    const std::int64_t length = std::min(slice, data.count - first);
    return in_pieces(*hub_, length, [&](std::int64_t begin, std::int64_t count) {
      for (std::size_t r = 0; r < parts_.size(); ++r) {
        outs_[r] = at<std::byte>(round.seats[r].out, first + begin, size_of(data.dtype));
        parts_[r] = outs_[r];
      }
      ordered_reduce(parts_, data.dtype, op, outs_, count);
    });
  });
}

WorkPtr ThreadsCollective::broadcast(Buffer data, int root, std::string_view label) {
  check_not_shut_down(shut_down_, "broadcast", label);
  check_broadcast(data, root, label, size());
  CallHeader call = next_call(Operation::kBroadcast, label, data.dtype, data.count);
  call.root = root;
  return meet(call, data.data, data.data, [&](const Round& round) {
    return copy_in_pieces(*hub_, round.seats[static_cast<std::size_t>(root)].in, data.data,
                          data.count, data.dtype);
  });
}

WorkPtr ThreadsCollective::barrier(std::string_view label) {
  check_not_shut_down(shut_down_, "barrier", label);
  return meet(next_call(Operation::kBarrier, label), nullptr, nullptr,
              [](const Round&) { return true; });
}

std::shared_ptr<Collective> ThreadsCollective::split(int color, int key,
                                                     std::chrono::milliseconds patience) {
  check_not_shut_down(shut_down_, "split", "");
  CallHeader call = next_call(Operation::kSplit, "");
  call.color = color;
  call.key = key;
  Membership child;
  meet(call, &patience, nullptr, [&](const Round& round) {
    child = round.children[static_cast<std::size_t>(rank_)];
    return true;
  })->wait();
  if (!child.hub) return nullptr;
  return std::make_shared<ThreadsCollective>(std::move(child.hub), child.rank);
}

void ThreadsCollective::shutdown() {
  if (shut_down_) return;
  if (hub_->failed()) {
    shut_down_ = true;
    return;
  }
  try {
    meet(next_call(Operation::kShutdown, ""), nullptr, nullptr, [](const Round&) {
      return true;
    })->wait();
  } catch (const CommError&) {
    shut_down_ = true;
    throw;
  }
  shut_down_ = true;
}

}  // namespace

std::vector<std::shared_ptr<Collective>> make_threads(int world_size,
                                                      std::chrono::milliseconds timeout) {
  ZERO_REQUIRE(world_size >= 1,
               "make_threads: world_size must be at least 1: " + std::to_string(world_size));
  ZERO_REQUIRE(timeout.count() > 0, "make_threads: timeout must be positive: " +
                                        std::to_string(timeout.count()) + " ms");
  const auto hub = std::make_shared<Hub>(world_size, timeout);
  std::vector<std::shared_ptr<Collective>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(std::make_shared<ThreadsCollective>(hub, rank));
  }
  return ranks;
}

}  // namespace zero
