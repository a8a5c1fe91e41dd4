#include "libzero/optim/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/fnv.h"

namespace zero {
namespace {

/// What one rank tells the others about its first fact that differs from rank 0's.
struct Difference {
  std::int64_t index = 0;  ///< Beyond the end: none.
  std::array<char, 504> fact{};
};
static_assert(sizeof(Difference) == 512);

std::uint64_t hash_of(const std::vector<std::string>& facts) {
  Fnv1a hash;
  for (const std::string& fact : facts) hash.add(fact);
  return hash.value();
}

/// Lists travel line by line.
std::string in_one_line(std::string fact) {
  std::replace(fact.begin(), fact.end(), '\n', ' ');
  return fact;
}

std::string joined(const std::vector<std::string>& facts) {
  std::string text;
  for (const std::string& fact : facts) text += fact + '\n';
  return text;
}

/// Rank 0's list, on every rank.
std::vector<std::string> reference_facts(Collective& comm, const std::vector<std::string>& facts) {
  std::string text = comm.rank() == 0 ? joined(facts) : std::string();
  auto size = static_cast<std::int64_t>(text.size());
  comm.broadcast({&size, 1, DType::kInt64}, 0, "size of rank 0's model table")->wait();
  text.resize(static_cast<std::size_t>(size));
  comm.broadcast({text.data(), size, DType::kUInt8}, 0, "rank 0's model table")->wait();
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    result.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

std::string fact_at(const std::vector<std::string>& facts, std::size_t index) {
  return index < facts.size() ? facts[index] : "nothing";
}

Difference first_difference(const std::vector<std::string>& mine,
                            const std::vector<std::string>& reference) {
  std::size_t index = 0;
  while (index < std::max(mine.size(), reference.size()) &&
         fact_at(mine, index) == fact_at(reference, index))
    ++index;
  Difference difference;
  difference.index = static_cast<std::int64_t>(index);
  const std::string fact = fact_at(mine, index);
  std::memcpy(difference.fact.data(), fact.data(),
              std::min(fact.size(), difference.fact.size() - 1));
  return difference;
}

[[noreturn]] void throw_disagreement(Collective& comm, const std::vector<std::string>& facts) {
  const std::vector<std::string> reference = reference_facts(comm, facts);
  const Difference mine = first_difference(facts, reference);
  std::vector<Difference> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(
          {&mine, sizeof(Difference), DType::kUInt8},
          {all.data(), static_cast<std::int64_t>(all.size() * sizeof(Difference)), DType::kUInt8},
          "first difference of the model tables")
      ->wait();
  std::size_t first = 0;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const bool agrees = all[rank].index >= static_cast<std::int64_t>(reference.size()) &&
                        std::string(all[rank].fact.data()) == "nothing";
    if (!agrees && (first == 0 || all[rank].index < all[first].index)) first = rank;
  }
  throw ContractError(
      "ranks disagree about the model or the options; build them alike on every rank: rank " +
      std::to_string(first) + " has '" + all[first].fact.data() + "' where rank 0 has '" +
      fact_at(reference, static_cast<std::size_t>(all[first].index)) + "'");
}

}  // namespace

void require_agreement(Collective& comm, std::vector<std::string> facts) {
  for (std::string& fact : facts) fact = in_one_line(std::move(fact));
  const std::uint64_t mine = hash_of(facts);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm.size()));
  comm.all_gather({&mine, 1, DType::kInt64}, {hashes.data(), comm.size(), DType::kInt64},
                  "model fingerprint")
      ->wait();
  for (const std::uint64_t hash : hashes) {
    if (hash != hashes.front()) throw_disagreement(comm, facts);
  }
}

}  // namespace zero
