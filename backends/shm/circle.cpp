#include "backends/shm/circle.h"

#include <algorithm>
#include <utility>

#include "libzero/base/error.h"

namespace zero::shm {
namespace {

std::string name_of_rank(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

Circle::Circle(Board board, std::shared_ptr<Family> family, std::vector<int> processes,
               std::chrono::milliseconds timeout)
    : board_(std::move(board)),
      family_(std::move(family)),
      processes_(std::move(processes)),
      timeout_(timeout),
      fate_(board_),
      waiter_(board_, fate_, timeout_, family_->may_spin),
      roll_call_(board_, waiter_),
      rows_(board_, fate_, waiter_) {
  watcher_ = family_->guard->watch([this](int process) { note_death(process); });
}

Circle::~Circle() {
  family_->guard->forget(watcher_);
  if (!shut_down_) fate_.fail(name_of_rank(rank()) + " left without shutdown()");
}

void Circle::note_death(int process) {
  for (int rank = 0; rank < size(); ++rank) {
    if (process_of(rank) != process) continue;
    // After shutdown() too, when nobody waits any more: all ranks had come to it.
    fate_.fail(name_of_rank(rank) + " died (its process ended without a word)");
  }
}

CallHeader Circle::next_call(Operation operation, std::string_view label, DType dtype,
                             std::int64_t count) const {
  const CallHeader call = make_call_header(operation, sequence_ + 1, label, dtype, count);
  if (const auto reason = fate_.reason()) throw CommError(describe_failure(call, rank(), *reason));
  return call;
}

void Circle::run(const CallHeader& call, std::span<const std::byte> inline_payload, Body body) {
  call_ = call;
  ++sequence_;
  waiter_.start();
  roll_called_ = false;
  try {
    exchange(call, inline_payload);
    roll_called_ = true;
    body(rows_, roll_call_);
  } catch (const Stopped& stopped) {
    give_up(call, stopped.expired ? why_expired(call) : "");
  } catch (const ContractError& error) {
    if (!roll_called_) throw;
    give_up(call, name_of_rank(rank()) + " gave up: " + error.what());
  } catch (const std::exception& error) {
    give_up(call, name_of_rank(rank()) + " gave up: " + error.what());
  } catch (...) {
    give_up(call, name_of_rank(rank()) + " gave up: an exception of unknown type");
  }
}

void Circle::exchange(const CallHeader& call, std::span<const std::byte> inline_payload) {
  roll_call_.exchange(call, inline_payload);
  const CallVerdict verdict = compare_calls(roll_call_.headers());
  if (verdict.kind == CallVerdict::Kind::kContract) throw ContractError(verdict.text);
  if (verdict.kind == CallVerdict::Kind::kProtocol) throw CommError(verdict.text);
}

std::vector<std::string> Circle::exchange_texts(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  CallHeader call = call_;
  call.label_length = 0;
  call.count = static_cast<std::int64_t>(text.size());
  roll_call_.exchange(call, bytes);
  std::vector<std::string> texts;
  for (int rank = 0; rank < size(); ++rank) {
    const std::int64_t length = roll_call_.headers()[static_cast<std::size_t>(rank)].count;
    const auto most = static_cast<std::int64_t>(Message::kInlineBytes);
    texts.emplace_back(reinterpret_cast<const char*>(roll_call_.payload(rank)),
                       static_cast<std::size_t>(std::clamp(length, std::int64_t{0}, most)));
  }
  return texts;
}

std::string Circle::why_expired(const CallHeader& call) const {
  const auto milliseconds = timeout_.count();
  const std::vector<int> missing = roll_call_.missing();
  if (!roll_called_ && !missing.empty()) {
    return describe_absence(call, find_silent(board_, missing), milliseconds);
  }
  const std::vector<int> silent = find_silent(board_, {waiter_.awaited()});
  return list_ranks(silent) + " fell silent in the middle of collective #" +
         std::to_string(call.sequence) + ", " + describe(call) + ", which took longer than " +
         std::to_string(milliseconds) + " ms";
}

void Circle::give_up(const CallHeader& call, const std::string& reason) {
  if (!reason.empty()) fate_.fail(reason);
  throw CommError(describe_failure(call, rank(), fate_.reason().value_or(reason)));
}

void Circle::shut_down(const CallHeader& call) {
  run(call, {}, [](Rows&, const RollCall&) {});
  shut_down_ = true;
}

}  // namespace zero::shm
