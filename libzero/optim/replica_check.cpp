#include "libzero/optim/replica_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "libzero/base/checksum.h"
#include "libzero/base/error.h"
#include "libzero/collective/messages.h"

namespace zero {
namespace {

std::uint64_t hash_of(const std::vector<std::uint64_t>& hashes) {
  return checksum(std::as_bytes(std::span(hashes)));
}

/// Of all ranks, one rank after the other.
std::vector<std::uint64_t> gather_hashes(const std::vector<std::uint64_t>& mine, Collective& comm) {
  const auto each = static_cast<std::int64_t>(mine.size());
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather({mine.data(), each, DType::kInt64},
                  {all.data(), each * comm.size(), DType::kInt64}, "hash of each parameter")
      ->wait();
  return all;
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// "ranks 0, 2 and 3 hold 00..1f, rank 1 holds 00..2a": in the order of the first rank that holds
/// each.
std::string holders(const std::vector<std::uint64_t>& of_ranks) {
  std::string text;
  for (std::size_t first = 0; first < of_ranks.size(); ++first) {
    const std::uint64_t value = of_ranks[first];
    const auto begin = of_ranks.begin();
    if (std::find(begin, begin + static_cast<std::ptrdiff_t>(first), value) !=
        begin + static_cast<std::ptrdiff_t>(first))
      continue;
    std::vector<std::string> ranks;
    for (std::size_t rank = first; rank < of_ranks.size(); ++rank) {
      if (of_ranks[rank] == value) ranks.push_back(std::to_string(rank));
    }
    if (!text.empty()) text += ", ";
    text += ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
      text += ranks[i];
    }
    text += (ranks.size() == 1 ? " holds " : " hold ") + hex(value);
  }
  return text;
}

}  // namespace

std::vector<std::uint64_t> hashes_of_parameters(const ParameterTable& table) {
  std::vector<std::uint64_t> hashes(table.specs.size());
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    if (table.specs[i].alias_of >= 0 || table.tensors[i].numel() == 0) continue;
    const at::Tensor whole = table.tensors[i].detach().to(at::kCPU).contiguous();
    hashes[i] = checksum({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
  }
  return hashes;
}

std::uint64_t hash_of_parameters(const ParameterTable& table) {
  return hash_of(hashes_of_parameters(table));
}

bool are_equal_on_ranks(std::uint64_t hash, Collective& comm) {
  std::uint64_t bounds[] = {hash, ~hash};
  comm.all_reduce({bounds, 2, DType::kInt64}, ReduceOp::kMax, "hash of the parameters")->wait();
  return bounds[0] == ~bounds[1];
}

std::string difference_on_ranks(const std::vector<std::uint64_t>& hashes,
                                const ParameterTable& table, Collective& comm) {
  if (are_equal_on_ranks(hash_of(hashes), comm)) return "";
  const std::vector<std::uint64_t> all = gather_hashes(hashes, comm);
  wait_until_all_know(comm, "which parameters differ");
  std::string text;
  int more = 0;
  for (std::size_t row = 0; row < hashes.size(); ++row) {
    std::vector<std::uint64_t> of_ranks;
    for (std::size_t at = row; at < all.size(); at += hashes.size()) of_ranks.push_back(all[at]);
    if (std::count(of_ranks.begin(), of_ranks.end(), of_ranks[0]) == comm.size()) continue;
    if (text.empty())
      text = "parameter " + table.specs[row].name + ": " + holders(of_ranks);
    else
      ++more;
  }
  if (more > 0) text += "; later parameters that differ: " + std::to_string(more);
  return text;
}

void ReplicaCheck::conclude(const std::string& difference, const std::string& when) {
  if (difference.empty()) return;
  fault_ =
      "the ranks hold different parameters, so that what they train is no longer one model; load a "
      "checkpoint that was saved before, on every rank (docs/determinism.md says how to look for "
      "the cause): " +
      when + ", " + difference;
  require_equal("step");
}

void ReplicaCheck::require_equal(const char* call) const {
  if (!fault_.empty()) throw Error(std::string(call) + ": " + fault_);
}

}  // namespace zero
