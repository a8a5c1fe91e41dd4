#include "libzero/collective/call_log.h"

#include <algorithm>

namespace zero {
namespace {

std::string_view outcome_text(CallLog::Outcome outcome) {
  switch (outcome) {
    case CallLog::Outcome::kIssued:
      return "not waited for yet";
    case CallLog::Outcome::kOk:
      return "ok";
    case CallLog::Outcome::kRefused:
      return "refused";
    case CallLog::Outcome::kFailed:
      return "failed";
  }
  return "";
}

bool holds_slices(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllGather;
}

}  // namespace

std::int64_t payload_bytes(const CallHeader& call, int rank, int size) {
  const std::int64_t others = size - 1;
  switch (call.operation) {
    case Operation::kReduceScatter:
    case Operation::kAllGather:
      return others * call.count * size_of(call.dtype);
    case Operation::kAllReduce:
      return 2 * others * call.count * size_of(call.dtype) / size;
    case Operation::kBroadcast:
      return rank == call.root ? others * call.count * size_of(call.dtype) : 0;
    case Operation::kBarrier:
    case Operation::kSplit:
    case Operation::kShutdown:
      break;
  }
  return 0;
}

std::size_t CallLog::index_of(Operation operation) {
  return std::min<std::size_t>(static_cast<std::size_t>(operation), 7);
}

OperationCounters CallLog::of(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counters_[index_of(operation)];
}

OperationCounters CallLog::total() const {
  const std::lock_guard lock(mutex_);
  OperationCounters total;
  for (const OperationCounters& counters : counters_) {
    total.calls += counters.calls;
    total.elements += counters.elements;
    total.bytes += counters.bytes;
    total.seconds += counters.seconds;
  }
  return total;
}

std::vector<std::string> CallLog::history() const {
  const std::lock_guard lock(mutex_);
  return history_locked();
}

std::vector<std::string> CallLog::history_locked() const {
  std::vector<std::string> lines;
  const std::uint64_t forgotten = tickets_ > kKept ? tickets_ - kKept : 0;
  for (std::uint64_t ticket = forgotten + 1; ticket <= tickets_; ++ticket) {
    const Entry& entry = entries_[ticket % kKept];
    std::string line = entry.group.empty() ? "" : entry.group + " ";
    line.append("#").append(std::to_string(entry.call.sequence)).append(" ");
    line.append(describe(entry.call)).append(" ").append(outcome_text(entry.outcome));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string CallLog::last_calls(std::size_t most) const {
  const std::lock_guard lock(mutex_);
  const auto lines = history_locked();
  std::string text;
  for (std::size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i) {
    if (!text.empty()) text += ", ";
    text += lines[i];
  }
  return text;
}

std::uint64_t CallLog::begin(const std::string& group, const CallHeader& call) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t ticket = ++tickets_;
  Entry& entry = entries_[ticket % kKept];
  entry.ticket = ticket;
  entry.group = group;
  entry.call = call;
  entry.outcome = Outcome::kIssued;
  return ticket;
}

void CallLog::count(const CallHeader& call, int rank, int size) {
  const std::lock_guard lock(mutex_);
  OperationCounters& counters = counters_[index_of(call.operation)];
  ++counters.calls;
  counters.elements += call.count * (holds_slices(call.operation) ? size : 1);
  counters.bytes += payload_bytes(call, rank, size);
}

void CallLog::end(std::uint64_t ticket, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[ticket % kKept];
  if (entry.ticket == ticket) entry.outcome = outcome;
}

void CallLog::add_seconds(Operation operation, double seconds) {
  const std::lock_guard lock(mutex_);
  counters_[index_of(operation)].seconds += seconds;
}

}  // namespace zero
