#include "checkpoint/ranks/common_facts.h"

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/ranks/exchange.h"
#include "checkpoint/ranks/failure.h"
#include "libzero/base/fnv.h"
#include "libzero/base/number_text.h"

namespace zero::checkpoint {
namespace {

/// Visits the facts that a state consists of, in order: sink(hash, text), where text() makes the
/// words. Counts come before what they count, so that a difference in number is called that.
template <class Sink>
class Facts {
 public:
  explicit Facts(Sink& sink) : sink_(sink) {}

  void visit(const CommonState& common) {
    number("step", common.step);
    text("run", common.run_id);
    number("stage", common.stage);
    parameters(common);
    groups(common.groups);
    scaler(common.scaler);
    number("number of counters", static_cast<std::int64_t>(common.counters.size()));
    for (const auto& [name, value] : common.counters) number("counter " + name, value);
    number("number of shared blobs", static_cast<std::int64_t>(common.blobs.size()));
    for (const auto& [name, blob] : common.blobs) this->blob("shared blob " + name, blob);
    surplus_blobs(common);
  }

 private:
  template <class MakeText>
  void fact(const Fnv1a& hash, MakeText make_text) {
    sink_(hash.value(), make_text);
  }

  void number(const std::string& name, std::int64_t value) {
    Fnv1a hash;
    hash.add(std::string_view(name));
    hash.add(value);
    fact(hash, [&] { return name + ": " + std::to_string(value); });
  }
  void real(const std::string& name, double value) {
    Fnv1a hash;
    hash.add(std::string_view(name));
    hash.add(std::bit_cast<std::int64_t>(value));
    fact(hash, [&] { return name + ": " + number_text(value); });
  }
  void text(const std::string& name, const std::string& value) {
    Fnv1a hash;
    hash.add(std::string_view(name));
    hash.add(std::string_view(value));
    fact(hash, [&] { return name + ": " + value; });
  }
  void blob(const std::string& name, const Blob& value) {
    Fnv1a hash;
    hash.add(std::string_view(name));
    hash.add(std::string_view(reinterpret_cast<const char*>(value.data()), value.size()));
    fact(hash, [&] {
      return name + ": " + std::to_string(value.size()) + " bytes with hash " +
             std::to_string(hash.value());
    });
  }

  void parameters(const CommonState& common) {
    number("number of parameters", static_cast<std::int64_t>(common.parameters.size()));
    for (std::size_t row = 0; row < common.parameters.size(); ++row) {
      parameter(row, common.parameters[row]);
    }
    number("number of applied steps", static_cast<std::int64_t>(common.applied_steps.size()));
    for (std::size_t row = 0; row < common.applied_steps.size(); ++row) {
      Fnv1a hash;
      hash.add(common.applied_steps[row]);
      fact(hash, [&] {
        return "applied steps of parameter " + std::to_string(row) + ": " +
               std::to_string(common.applied_steps[row]);
      });
    }
  }
  void parameter(std::size_t row, const ParameterSpec& spec) {
    Fnv1a hash;
    hash.add(std::string_view(spec.name));
    hash.add_size(spec.shape.size());
    for (const std::int64_t size : spec.shape) hash.add(size);
    for (const std::int64_t value :
         {static_cast<std::int64_t>(spec.dtype), static_cast<std::int64_t>(spec.group),
          static_cast<std::int64_t>(spec.trainable), static_cast<std::int64_t>(spec.alias_of)}) {
      hash.add(value);
    }
    fact(hash, [&] { return "parameter " + std::to_string(row) + ": " + describe(spec); });
  }
  void groups(const std::vector<GroupOptions>& groups) {
    number("number of groups", static_cast<std::int64_t>(groups.size()));
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const std::string name = "group " + std::to_string(group) + ", ";
      number(name + "number of options", static_cast<std::int64_t>(groups[group].size()));
      for (const auto& [option, value] : groups[group]) real(name + option, value);
    }
  }
  void surplus_blobs(const CommonState& common) {
    number("number of surplus ranks", static_cast<std::int64_t>(common.surplus_rank_blobs.size()));
    for (const auto& [rank, blobs] : common.surplus_rank_blobs) {
      const std::string of = " of surplus rank " + std::to_string(rank);
      number("number of blobs" + of, static_cast<std::int64_t>(blobs.size()));
      for (const auto& [name, blob] : blobs) this->blob("blob " + name + of, blob);
    }
  }
  void scaler(const LossScalerState& scaler) {
    real("loss scale", scaler.scale);
    number("loss scaler's growth tracker", scaler.growth_tracker);
    number("loss scaler's hysteresis left", scaler.hysteresis_left);
    number("loss scaler's consecutive skips", scaler.consecutive_skips);
  }

  Sink& sink_;
};

template <class Sink>
void visit(const CommonState& common, Sink sink) {
  Facts<Sink>(sink).visit(common);
}

std::vector<std::uint64_t> hashes_of_facts(const CommonState& common) {
  std::vector<std::uint64_t> hashes;
  visit(common, [&](std::uint64_t hash, const auto&) { hashes.push_back(hash); });
  return hashes;
}

std::string text_of_fact(const CommonState& common, std::size_t index) {
  std::size_t at = 0;
  std::string found = "nothing";
  visit(common, [&](std::uint64_t, const auto& make_text) {
    if (at++ == index) found = make_text();
  });
  return found;
}

std::vector<std::uint64_t> hashes_of_rank_zero(const std::vector<std::uint64_t>& mine,
                                               Collective& comm) {
  std::string bytes;
  if (comm.rank() == 0) {
    bytes.assign(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t));
  }
  bytes = broadcast_message(std::move(bytes), comm, "rank 0's state, fact by fact");
  std::vector<std::uint64_t> hashes(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(hashes.data(), bytes.data(), hashes.size() * sizeof(std::uint64_t));
  return hashes;
}

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::size_t first_difference(const std::vector<std::uint64_t>& a,
                             const std::vector<std::uint64_t>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return i;
  }
  return a.size() == b.size() ? kNowhere : std::min(a.size(), b.size());
}

}  // namespace

std::uint64_t hash_of(const CommonState& common) {
  Fnv1a hash;
  visit(common,
        [&](std::uint64_t fact, const auto&) { hash.add(static_cast<std::int64_t>(fact)); });
  return hash.value();
}

std::string describe_disagreement(const CommonState& common, Collective& comm) {
  const std::vector<std::uint64_t> mine = hashes_of_facts(common);
  const std::size_t at = first_difference(mine, hashes_of_rank_zero(mine, comm));
  std::string message;
  if (at != kNowhere) {
    message = MessageWriter()
                  .add(static_cast<std::int64_t>(at))
                  .add(bounded_text(text_of_fact(common, at)))
                  .take();
  }
  const auto messages =
      gather_messages(message, Receivers::kEveryRank, comm, "first difference of the state");
  std::size_t first = kNowhere;
  std::string who, what;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    MessageReader in(messages[rank]);
    const auto index = static_cast<std::size_t>(in.number());
    if (index >= first) continue;
    first = index;
    who = "rank " + std::to_string(rank);
    what = in.text();
  }
  std::string reference;
  if (comm.rank() == 0) reference = bounded_text(text_of_fact(common, first));
  reference = broadcast_message(std::move(reference), comm, "rank 0's part of the difference");
  return who + " has '" + what + "' where rank 0 has '" + reference + "'";
}

}  // namespace zero::checkpoint
