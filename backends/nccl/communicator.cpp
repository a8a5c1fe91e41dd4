#include "backends/nccl/communicator.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "backends/nccl/reasons.h"
#include "libzero/base/error.h"
#include "libzero/collective/check_calls.h"

namespace zero::nccl {
namespace {

using std::chrono::milliseconds;

// How long a rank that gives up waits for the GPU to stop writing, at most.
constexpr milliseconds kSettlePatience{5000};

milliseconds settle_patience(milliseconds timeout) {
  return std::min(timeout, kSettlePatience);
}

ConstBuffer constant(const Buffer& buffer) {
  return {buffer.data, buffer.count, buffer.dtype};
}

/// What ended a wait, told to the fate; the one place where exceptions of Link become reasons.
/// Rethrows what is being handled, for use in a catch block. Afterwards nobody writes to the
/// caller's memory any more, unless the GPU hangs for good.
[[noreturn]] void end_with_current_exception(Fate& fate, Link& link, const Silence& silence,
                                             const CallHeader& call, std::int64_t progress,
                                             milliseconds timeout) {
  const std::string who = "rank " + std::to_string(link.rank());
  try {
    throw;
  } catch (const Stopped&) {  // the fate knows
  } catch (const Expired&) {
    fate.fail(silence.explain(call, progress));
  } catch (const Broken& error) {
    fate.fail(who + " failed: " + error.what());
  } catch (const std::exception& error) {
    fate.fail(who + " gave up: " + error.what());
  } catch (...) {
    fate.fail(who + " gave up without saying why");
  }
  if (!link.settled(settle_patience(timeout))) {
    throw CommError(describe_failure(call, link.rank(),
                                     fate.reason() + " (and the GPU of this rank hangs: it may "
                                                     "still write to the buffers)"));
  }
  throw CommError(describe_failure(call, link.rank(), fate.reason()));
}

}  // namespace

/// Work on the stream. Everything it needs it keeps alive itself.
class Communicator::DeviceWork final : public Work {
 public:
  DeviceWork(const Communicator& parent, const CallHeader& call)
      : call_(call),
        progress_(parent.payload_->launches()),
        timeout_(parent.options_.timeout),
        fate_(parent.fate_),
        link_(parent.link_),
        silence_(parent.silence_),
        landings_(parent.payload_->take_landings()) {
    event_.emplace(link_->apis());
    event_->record(link_->stream());
  }

  ~DeviceWork() override {
    try {
      const OnDevice here(*link_->apis(), link_->device());
      event_.reset();
    } catch (const Broken&) {  // a device that has failed
    }
  }

  bool test() noexcept override {
    try {
      if (ended_ || fate_->failed()) return true;
      const OnDevice here(*link_->apis(), link_->device());
      return event_->done();
    } catch (const Broken&) {
      return true;  // wait() says why
    }
  }

  void wait() override {
    if (ended_) return;
    try {
      link_->await(*event_, Clock::now() + timeout_);
    } catch (...) {
      end_with_current_exception(*fate_, *link_, *silence_, call_, progress_, timeout_);
    }
    for (const Landing& landing : landings_) landing.finish();
    landings_.clear();
    ended_ = true;
  }

  bool lead_stream(void* stream) noexcept override {
    try {
      const OnDevice here(*link_->apis(), link_->device());
      if (!landings_.empty() || fate_->failed()) return ended_;
      event_->make_wait(stream);
      return true;
    } catch (const Broken&) {
      return false;  // wait() says why
    }
  }

 private:
  const CallHeader call_;
  const std::int64_t progress_;
  const milliseconds timeout_;
  const std::shared_ptr<Fate> fate_;
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Silence> silence_;
  std::vector<Landing> landings_;
  std::optional<Event> event_;
  std::atomic<bool> ended_ = false;  // well
};

Communicator::Communicator(Options options, milliseconds join_timeout,
                           std::shared_ptr<Allocations> allocations)
    : options_(std::move(options)),
      allocations_(allocations ? std::move(allocations) : std::make_shared<Allocations>()),
      talk_(options_.control, *fate_) {
  fate_->tell([this](const std::string& reason) { talk_.abort(reason); });
  try {
    meet(join_timeout);
  } catch (const ContractError&) {
    leave();
    throw;
  } catch (const std::exception& error) {
    fate_->fail(rank_text() + " could not join: " + reason_of(error.what()));
    leave();
    throw CommError("The ranks could not meet over NCCL; start them again: " + fate_->reason());
  }
}

Communicator::~Communicator() {
  if (!shut_down_) fate_->fail(rank_text() + " left without shutdown(): it was destroyed");
  leave();
}

/// From the first failure on nothing here is collective.
void Communicator::meet(milliseconds join_timeout) {
  agree_on_options();
  vigil_ = std::make_unique<Vigil>(talk_.control(), *fate_);
  fate_->tell([this](const std::string& reason) { vigil_->abort(reason); });
  if (fate_->failed()) throw CommError(fate_->reason());
  silence_ = std::make_shared<Silence>(with_prefix(options_.store, "nccl/"), rank(), size(),
                                       options_.timeout);
  connect(join_timeout);
  try {
    talk_.control().barrier("all have joined")->wait();
  } catch (const CommError& error) {
    // Whoever is through may use its communicator, and may abort it: only the next call fails then.
    fate_->fail(reason_of(error.what()));
    if (!is_abort(fate_->reason())) throw;
  }
}

void Communicator::agree_on_options() {
  struct Terms {
    std::int64_t version, scratch, timeout;
  };
  const Terms mine{options_.apis->nccl_version, options_.scratch_bytes, options_.timeout.count()};
  std::vector<Terms> all(static_cast<std::size_t>(size()));
  const auto bytes = static_cast<std::int64_t>(sizeof(Terms));
  talk_.control()
      .all_gather({&mine, bytes, DType::kUInt8}, {all.data(), bytes * size(), DType::kUInt8},
                  "options of NCCL")
      ->wait();
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Terms& a = all[0];
    const Terms& b = all[r];
    options_.timeout = std::max(options_.timeout, milliseconds(b.timeout));
    if (a.version == b.version && a.scratch == b.scratch) continue;
    const auto text = [](const Terms& t) {
      return "NCCL " + std::to_string(t.version) + ", scratch_bytes " + std::to_string(t.scratch);
    };
    throw ContractError(
        "nccl: ranks have different versions or options; give all of them the same: rank 0 has " +
        text(a) + "; rank " + std::to_string(r) + " has " + text(b));
  }
}

void Communicator::connect(milliseconds join_timeout) {
  const auto deadline = Clock::now() + join_timeout;
  const OnDevice here(*options_.apis, options_.device);
  link_ =
      std::make_shared<Link>(Link::Options{options_.apis, options_.device, rank(), size(), fate_});
  fate_->tell([link = link_](const std::string&) { link->kill(); });
  payload_ = std::make_unique<Payload>(*link_, options_.scratch_bytes);
  check_cuda(*options_.apis, options_.apis->kernels.load(), "Loading libzero's kernels");
  NcclUniqueId id;
  if (rank() == 0) id = link_->unique_id();
  talk_.control()
      .broadcast({id.internal, sizeof id.internal, DType::kUInt8}, 0, "NCCL's id")
      ->wait();
  try {
    link_->connect(id, deadline);
  } catch (const Stopped&) {
    throw CommError(fate_->reason());
  } catch (const Expired&) {
    throw CommError("NCCL did not connect within " + std::to_string(join_timeout.count()) + " ms");
  }
}

CallHeader Communicator::next_call(Operation operation, std::string_view label, DType dtype,
                                   std::int64_t count) {
  const CallHeader call = make_call_header(operation, sequence_ + 1, label, dtype, count);
  if (fate_->failed()) talk_.throw_failure(call);
  ++sequence_;
  return call;
}

WorkPtr Communicator::run(const CallHeader& call, Memory memory, const HostPart& host,
                          const DevicePart& device) {
  try {
    talk_.agree(call, memory);
    if (memory == Memory::kHost) talk_.run(call, host);
    if (memory == Memory::kHost || memory == Memory::kNone) return finished_work();
    return on_device(call, device);
  } catch (...) {
    return failed_work(std::current_exception());
  }
}

WorkPtr Communicator::on_device(const CallHeader& call, const DevicePart& device) {
  try {
    const OnDevice here(*options_.apis, options_.device);
    follow_caller();
    device([this] { return Clock::now() + options_.timeout; });
    return std::make_shared<DeviceWork>(*this, call);
  } catch (...) {
    fail(call);
  }
}

/// The stream goes on when the caller's has done what it was given so far.
void Communicator::follow_caller() {
  Event given(options_.apis);
  given.record(caller_stream_);
  given.make_wait(link_->stream());
}

void Communicator::fail(const CallHeader& call) {
  end_with_current_exception(*fate_, *link_, *silence_, call, payload_->launches(),
                             options_.timeout);
}

WorkPtr Communicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) {
  check_not_shut_down(shut_down_, "reduce_scatter", options.label);
  check_reduce_scatter(in, out, options.label, size());
  // NCCL does not see the output.
  const Memory memory =
      one_kind(memory_of(in, "the input of reduce_scatter"),
               memory_of(constant(out), "the output of reduce_scatter"), options.label)
          .first;
  CallHeader call = next_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
  call.any_order = options.any_order ? 1 : 0;
  return run(
      call, memory, [&](Collective& control) { control.reduce_scatter(in, out, options)->wait(); },
      [&](const Payload::Deadline& deadline) {
        payload_->reduce_scatter(in, out, options, deadline);
      });
}

WorkPtr Communicator::all_gather(ConstBuffer in, Buffer out, std::string_view label) {
  check_not_shut_down(shut_down_, "all_gather", label);
  check_all_gather(in, out, label, rank(), size());
  const auto [input, output] =
      one_kind(memory_of(in, "the input of all_gather"),
               memory_of(constant(out), "the output of all_gather"), label);
  Memory memory = output;
  if (input != output) {
    memory = input == Memory::kRegistered ? Memory::kRegisteredInput : Memory::kRegisteredOutput;
  }
  const CallHeader call = next_call(Operation::kAllGather, label, in.dtype, in.count);
  return run(
      call, memory, [&](Collective& control) { control.all_gather(in, out, label)->wait(); },
      [&](const Payload::Deadline& deadline) { payload_->all_gather(in, out, deadline); });
}

WorkPtr Communicator::all_reduce(Buffer data, ReduceOp op, std::string_view label) {
  check_not_shut_down(shut_down_, "all_reduce", label);
  check_all_reduce(data, op, label);
  const Memory memory = memory_of(constant(data), "the data of all_reduce");
  CallHeader call = next_call(Operation::kAllReduce, label, data.dtype, data.count);
  call.reduce_op = static_cast<std::uint8_t>(op);
  return run(
      call, memory, [&](Collective& control) { control.all_reduce(data, op, label)->wait(); },
      [&](const Payload::Deadline& deadline) { payload_->all_reduce(data, op, deadline); });
}

WorkPtr Communicator::broadcast(Buffer data, int root, std::string_view label) {
  check_not_shut_down(shut_down_, "broadcast", label);
  check_broadcast(data, root, label, size());
  const Memory memory = memory_of(constant(data), "the data of broadcast");
  CallHeader call = next_call(Operation::kBroadcast, label, data.dtype, data.count);
  call.root = root;
  return run(
      call, memory, [&](Collective& control) { control.broadcast(data, root, label)->wait(); },
      [&](const Payload::Deadline& deadline) { payload_->broadcast(data, root, deadline); });
}

WorkPtr Communicator::barrier(std::string_view label) {
  check_not_shut_down(shut_down_, "barrier", label);
  return run(next_call(Operation::kBarrier, label), Memory::kNone, {}, {});
}

std::shared_ptr<Collective> Communicator::split(int color, int key, milliseconds patience) {
  check_not_shut_down(shut_down_, "split", "");
  CallHeader call = next_call(Operation::kSplit, "");
  call.color = color;
  call.key = key;
  talk_.agree(call, Memory::kNone);
  Options child = options_;
  talk_.run(call,
            [&](Collective& control) { child.control = control.split(color, key, patience); });
  if (child.control == nullptr) return nullptr;
  child.timeout = std::max(options_.timeout, patience);
  child.store = with_prefix(options_.store, "nccl/split-" + std::to_string(call.sequence) + "-" +
                                                std::to_string(color) + "/");
  try {
    return std::make_shared<Communicator>(std::move(child), options_.timeout, allocations_);
  } catch (const CommError& error) {
    fate_->fail(error.what());
    throw;
  }
}

void Communicator::abort(std::string_view why) noexcept {
  fate_->fail(abort_reason(rank(), why));
}

void Communicator::shutdown() {
  if (shut_down_) return;
  if (fate_->failed()) {
    leave();
    shut_down_ = true;
    return;
  }
  const CallHeader call = next_call(Operation::kShutdown, "");
  try {
    talk_.agree(call, Memory::kNone);
    try {
      link_->finish(Clock::now() + options_.timeout);
    } catch (...) {
      fail(call);
    }
    talk_.run(call, [&](Collective& control) {
      control.barrier("NCCL has ended everywhere")->wait();  // as long as failures are heard of
      vigil_->end();
      control.shutdown();
    });
  } catch (const CommError&) {
    leave();
    shut_down_ = true;
    throw;
  }
  leave();
  shut_down_ = true;
}

/// Frees everything but the control; called once more it does nothing.
void Communicator::leave() noexcept {
  fate_->forget_listeners();
  vigil_.reset();
  if (!link_) return;
  std::optional<OnDevice> here;
  try {
    here.emplace(*options_.apis, options_.device);
  } catch (const Broken&) {  // a device that has failed: freeing says so, and nobody listens
  }
  const bool idle = link_->close(settle_patience(options_.timeout));
  if (payload_ && !idle) payload_->abandon();
  payload_.reset();
  link_.reset();
}

std::shared_ptr<Collective> join(Options options) {
  ZERO_REQUIRE(options.apis && options.control && options.store,
               "nccl::join: apis, control and store must not be null");
  ZERO_REQUIRE(options.timeout.count() > 0, "nccl::join: timeout must be positive: " +
                                                std::to_string(options.timeout.count()) + " ms");
  ZERO_REQUIRE(options.scratch_bytes >= 0, "nccl::join: scratch_bytes must not be negative: " +
                                               std::to_string(options.scratch_bytes));
  const milliseconds timeout = options.timeout;
  return std::make_shared<Communicator>(std::move(options), timeout);
}

}  // namespace zero::nccl
