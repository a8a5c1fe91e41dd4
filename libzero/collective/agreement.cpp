#include "libzero/collective/agreement.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "libzero/base/error.h"
#include "libzero/base/fnv.h"
#include "libzero/collective/failure.h"
#include "libzero/collective/messages.h"

namespace zero {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::vector<std::uint64_t> hashes_of_rank_zero(const std::vector<std::uint64_t>& mine,
                                               Collective& comm) {
  std::string bytes;
  if (comm.rank() == 0) {
    bytes.assign(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t));
  }
  bytes = broadcast_message(std::move(bytes), comm, "rank 0's beliefs, one by one");
  std::vector<std::uint64_t> hashes(bytes.size() / sizeof(std::uint64_t));
  if (!hashes.empty()) std::memcpy(hashes.data(), bytes.data(), bytes.size());
  return hashes;
}

std::size_t first_difference(const std::vector<std::uint64_t>& a,
                             const std::vector<std::uint64_t>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return i;
  }
  return a.size() == b.size() ? kNowhere : std::min(a.size(), b.size());
}

std::string text_at(const Facts& facts, std::size_t index) {
  return bounded_text(index < facts.hashes.size() ? facts.text_of(index) : "nothing");
}

/// What one rank tells the others about its first fact that differs from rank 0's.
struct Difference {
  std::size_t index = kNowhere;
  std::size_t rank = 0;
  std::string text;
};

/// The first in the list; of the first rank, where several differ there.
Difference first_of_all(const Facts& facts, Collective& comm) {
  const std::size_t at = first_difference(facts.hashes, hashes_of_rank_zero(facts.hashes, comm));
  std::string message;
  if (at != kNowhere) {
    message = MessageWriter().add(static_cast<std::int64_t>(at)).add(text_at(facts, at)).take();
  }
  const auto messages =
      gather_messages(message, Receivers::kEveryRank, comm, "first difference from rank 0");
  Difference first;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    MessageReader in(messages[rank]);
    const auto index = static_cast<std::size_t>(in.number());
    if (index < first.index) first = {index, rank, in.text()};
  }
  return first;
}

Facts facts_of(const std::vector<std::string>& texts) {
  Facts facts{{}, [&texts](std::size_t index) { return texts[index]; }};
  for (const std::string& text : texts) {
    Fnv1a hash;
    hash.add(std::string_view(text));
    facts.hashes.push_back(hash.value());
  }
  return facts;
}

bool is_equal_everywhere(const Facts& facts, Collective& comm) {
  const std::uint64_t mine = hash_of(facts);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm.size()));
  comm.all_gather({&mine, 1, DType::kInt64}, {hashes.data(), comm.size(), DType::kInt64},
                  "model fingerprint")
      ->wait();
  return std::all_of(hashes.begin(), hashes.end(),
                     [&](std::uint64_t hash) { return hash == hashes.front(); });
}

}  // namespace

std::uint64_t hash_of(const Facts& facts) {
  Fnv1a hash;
  for (const std::uint64_t fact : facts.hashes) hash.add(static_cast<std::int64_t>(fact));
  return hash.value();
}

std::string describe_disagreement(const Facts& facts, Collective& comm) {
  return together(comm, "finding out what ranks disagree about", [&] {
    const Difference first = first_of_all(facts, comm);
    std::string reference;
    if (comm.rank() == 0) reference = text_at(facts, first.index);
    reference = broadcast_message(std::move(reference), comm, "rank 0's part of the difference");
    wait_until_all_know(comm, "the difference");
    return "rank " + std::to_string(first.rank) + " has '" + first.text + "' where rank 0 has '" +
           reference + "'";
  });
}

void require_agreement(Collective& comm, const std::vector<std::string>& texts) {
  const Facts facts = facts_of(texts);
  if (is_equal_everywhere(facts, comm)) return;
  throw ContractError(
      "ranks disagree about the model or the options; build them alike on every rank: " +
      describe_disagreement(facts, comm));
}

void require_same(const std::string& what, const std::string& text, Collective& comm) {
  together(comm, what, [&] {
    const auto all = gather_messages(text, Receivers::kEveryRank, comm, what);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      wait_until_all_know(comm, what);
      throw ContractError(what + " must be the same on every rank: rank 0 has '" + all[0] +
                          "', rank " + std::to_string(rank) + " has '" + all[rank] + "'");
    }
  });
}

}  // namespace zero
