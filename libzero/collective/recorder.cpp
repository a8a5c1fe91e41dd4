#include "libzero/collective/recorder.h"

#include <chrono>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

using Outcome = CallLog::Outcome;

/// One call in the log: times what runs inside it and notes how it went.
class Call {
 public:
  Call(std::shared_ptr<CallLog> log, Operation operation, std::uint64_t ticket)
      : log_(std::move(log)), operation_(operation), ticket_(ticket) {}

  std::uint64_t ticket() const noexcept { return ticket_; }

  /// Runs `action`; a CommError gets the last calls appended.
  template <typename Action>
  auto run(Action action, Outcome when_done) {
    const Timer timer(*this);
    try {
      auto result = action();
      log_->end(ticket_, when_done);
      return result;
    } catch (const ContractError&) {
      log_->end(ticket_, Outcome::kRefused);
      throw;
    } catch (const CommError& error) {
      log_->end(ticket_, Outcome::kFailed);
      throw CommError(std::string(error.what()) + "; last calls: " + log_->last_calls());
    }
  }

 private:
  class Timer {
   public:
    explicit Timer(Call& call) : call_(call) {}
    ~Timer() {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
      call_.log_->add_seconds(call_.operation_, spent.count());
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    Call& call_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

  std::shared_ptr<CallLog> log_;
  Operation operation_;
  std::uint64_t ticket_;
};

class RecordedWork final : public Work {
 public:
  RecordedWork(WorkPtr inner, Call call) : inner_(std::move(inner)), call_(std::move(call)) {}

  bool test() noexcept override { return inner_->test(); }

  void wait() override {
    call_.run(
        [&] {
          inner_->wait();
          return 0;
        },
        Outcome::kOk);
  }

  bool lead_stream(void* stream) noexcept override { return inner_->lead_stream(stream); }

 private:
  const WorkPtr inner_;
  Call call_;
};

class Recorder final : public Collective {
 public:
  Recorder(std::shared_ptr<Collective> inner, std::shared_ptr<CallLog> log, std::string group)
      : inner_(std::move(inner)), log_(std::move(log)), group_(std::move(group)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  std::string_view backend() const noexcept override { return inner_->backend(); }
  bool takes_device_memory() const noexcept override { return inner_->takes_device_memory(); }
  void follow_stream(void* stream) noexcept override { inner_->follow_stream(stream); }
  std::shared_ptr<void> device_memory(std::int64_t bytes) override {
    return inner_->device_memory(bytes);
  }
  std::shared_ptr<void> register_memory(void* memory, std::int64_t bytes) override {
    return inner_->register_memory(memory, bytes);
  }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override {
    const CallHeader call =
        next_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
    return issue(call, [&] { return inner_->reduce_scatter(in, out, std::move(options)); });
  }

  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override {
    const CallHeader call = next_call(Operation::kAllGather, label, in.dtype, in.count);
    return issue(call, [&] { return inner_->all_gather(in, out, label); });
  }

  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override {
    CallHeader call = next_call(Operation::kAllReduce, label, data.dtype, data.count);
    call.reduce_op = static_cast<std::uint8_t>(op);
    return issue(call, [&] { return inner_->all_reduce(data, op, label); });
  }

  WorkPtr broadcast(Buffer data, int root, std::string_view label) override {
    CallHeader call = next_call(Operation::kBroadcast, label, data.dtype, data.count);
    call.root = root;
    return issue(call, [&] { return inner_->broadcast(data, root, label); });
  }

  WorkPtr barrier(std::string_view label) override {
    return issue(next_call(Operation::kBarrier, label), [&] { return inner_->barrier(label); });
  }

  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override {
    const CallHeader header = next_call(Operation::kSplit, "");
    ++calls_;
    auto child =
        begin(header).run([&] { return inner_->split(color, key, patience); }, Outcome::kOk);
    log_->count(header, rank(), size());
    if (!child) return nullptr;
    std::string group = group_.empty() ? "group " : group_ + "/";
    return std::make_shared<Recorder>(std::move(child), log_, group + std::to_string(color));
  }

  void abort(std::string_view why) noexcept override { inner_->abort(why); }

  void shutdown() override {
    const CallHeader header = next_call(Operation::kShutdown, "");
    ++calls_;
    begin(header).run(
        [&] {
          inner_->shutdown();
          return 0;
        },
        Outcome::kOk);
    log_->count(header, rank(), size());
  }

 private:
  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0) const {
    return make_call_header(operation, calls_ + 1, label, dtype, count);
  }

  Call begin(const CallHeader& call) {
    return Call(log_, call.operation, log_->begin(group_, call));
  }

  template <typename Action>
  WorkPtr issue(const CallHeader& header, Action action) {
    Call call = begin(header);
    WorkPtr work = call.run(action, Outcome::kIssued);
    ++calls_;  // a call that was refused at once has no number in the backend either
    log_->count(header, rank(), size());
    if (work == finished_work()) {
      log_->end(call.ticket(), Outcome::kOk);
      return work;
    }
    return std::make_shared<RecordedWork>(std::move(work), std::move(call));
  }

  const std::shared_ptr<Collective> inner_;
  const std::shared_ptr<CallLog> log_;
  const std::string group_;
  std::uint64_t calls_ = 0;
};

}  // namespace

Recorded record_calls(std::shared_ptr<Collective> inner) {
  ZERO_REQUIRE(inner != nullptr, "record_calls: inner must not be null");
  auto log = std::make_shared<CallLog>();
  return {std::make_shared<Recorder>(std::move(inner), log, ""), log};
}

}  // namespace zero
