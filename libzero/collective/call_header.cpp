#include "libzero/collective/call_header.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

namespace zero {
namespace {

// Texts stay readable, and inside a plug-in's message buffer, however many ranks disagree.
constexpr std::size_t kMostGroups = 8;

std::string label_text(const CallHeader& call) {
  const std::size_t length = std::min<std::size_t>(call.label_length, CallHeader::kLabelBytes);
  std::string text(call.label, length);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

bool has_payload(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllGather ||
         operation == Operation::kAllReduce || operation == Operation::kBroadcast;
}

std::string reduction_text(std::uint8_t op) {
  if (op == static_cast<std::uint8_t>(ReduceOp::kSum)) return " (sum)";
  if (op == static_cast<std::uint8_t>(ReduceOp::kMax)) return " (max)";
  return " (unknown reduction " + std::to_string(op) + ")";
}

bool same_call(const CallHeader& a, const CallHeader& b) {
  return a.sequence == b.sequence && a.operation == b.operation && a.dtype == b.dtype &&
         a.count == b.count && a.root == b.root && a.reduce_op == b.reduce_op &&
         a.any_order == b.any_order;
}

std::optional<std::string> protocol_problem(const CallHeader& call, std::size_t rank) {
  const std::string who = "rank " + std::to_string(rank);
  if (call.magic != CallHeader::kMagic) {
    char found[16];
    std::snprintf(found, sizeof found, "0x%08x", call.magic);
    return who + " sent bytes that are no libzero call (magic " + found +
           "); check that every rank runs the same libzero on the same byte order";
  }
  if (call.version != CallHeader::kVersion) {
    return who + " speaks another version of the protocol (" + std::to_string(call.version) +
           ", here " + std::to_string(CallHeader::kVersion) +
           "); run the same libzero on every rank";
  }
  return std::nullopt;
}

struct Group {
  const CallHeader* call;
  std::vector<int> ranks;
};

std::vector<Group> group_equal(std::span<const CallHeader> by_rank) {
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto same = [&](const Group& group) { return same_call(*group.call, by_rank[rank]); };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), {&by_rank[rank], {}});
    group->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

std::string mismatch_text(const std::vector<Group>& groups) {
  const std::uint64_t sequence = groups.front().call->sequence;
  const bool one_sequence = std::all_of(groups.begin(), groups.end(), [&](const Group& group) {
    return group.call->sequence == sequence;
  });
  std::string text = "collective #" + std::to_string(sequence) + " does not match: ";
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
    text += list_ranks(groups[i].ranks) + ": ";
    if (!one_sequence)
      text.append("#").append(std::to_string(groups[i].call->sequence)).append(" ");
    text += describe(*groups[i].call) + "; ";
  }
  if (groups.size() > kMostGroups) {
    text += std::to_string(groups.size() - kMostGroups) + " more kinds of call on other ranks; ";
  }
  return text + "nothing was written; make every rank issue the same calls in the same order";
}

}  // namespace

std::string_view name_of(Operation operation) noexcept {
  switch (operation) {
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kSplit:
      return "split";
    case Operation::kShutdown:
      return "shutdown";
  }
  return "unknown operation";
}

CallHeader make_call_header(Operation operation, std::uint64_t sequence, std::string_view label,
                            DType dtype, std::int64_t count) {
  CallHeader call;
  call.operation = operation;
  call.dtype = dtype;
  call.sequence = sequence;
  call.count = count;
  const std::size_t length = std::min(label.size(), CallHeader::kLabelBytes);
  call.label_length = static_cast<std::uint16_t>(length);
  std::copy_n(label.data(), length, call.label);
  return call;
}

std::string describe(const CallHeader& call) {
  std::string text(name_of(call.operation));
  if (call.operation == Operation::kAllReduce) text += reduction_text(call.reduce_op);
  if (has_payload(call.operation)) {
    text += " of " + std::to_string(call.count) + " " + std::string(name_of(call.dtype));
  }
  if (call.any_order != 0) text += " in any order";
  if (call.operation == Operation::kBroadcast) text += " from rank " + std::to_string(call.root);
  if (call.label_length > 0) text += " [" + label_text(call) + "]";
  return text;
}

std::string describe_failure(const CallHeader& call, int rank, std::string_view reason) {
  return std::string(reason) + ": collective #" + std::to_string(call.sequence) + ", " +
         describe(call) + ", failed on rank " + std::to_string(rank) +
         "; this communicator is dead: destroy it and start the ranks again";
}

std::string describe_absence(const CallHeader& call, std::span<const int> missing_ranks,
                             std::int64_t timeout_ms) {
  return list_ranks(missing_ranks) + " did not come to collective #" +
         std::to_string(call.sequence) + ", " + describe(call) + ", within " +
         std::to_string(timeout_ms) + " ms";
}

std::string list_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text.append(last == i + 1 ? ", " : "-").append(std::to_string(ranks[last]));
    i = last + 1;
  }
  return text;
}

CallVerdict compare_calls(std::span<const CallHeader> by_rank) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (auto problem = protocol_problem(by_rank[rank], rank)) {
      return {CallVerdict::Kind::kProtocol, *std::move(problem)};
    }
  }
  const auto as_first = [&](const CallHeader& call) { return same_call(call, by_rank.front()); };
  if (std::all_of(by_rank.begin(), by_rank.end(), as_first)) return {};
  return {CallVerdict::Kind::kContract, mismatch_text(group_equal(by_rank))};
}

std::vector<int> members_of_color(std::span<const CallHeader> by_rank, int color) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r].color == color) ranks.push_back(static_cast<int>(r));
  }
  const auto key_of = [&](int rank) { return by_rank[static_cast<std::size_t>(rank)].key; };
  // Stable: equal keys keep the order of ranks.
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  return ranks;
}

}  // namespace zero
