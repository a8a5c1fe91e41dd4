#include "checkpoint/ranks/common_facts.h"

#include <bit>
#include <vector>

#include "libzero/base/fnv.h"
#include "libzero/base/number_text.h"

namespace zero::checkpoint {
namespace {

/// Visits the facts that a state consists of, in order: sink(hash, text), where text() makes the
/// words. Counts come before what they count, so that a difference in number is called that.
template <class Sink>
class Visit {
 public:
  explicit Visit(Sink& sink) : sink_(sink) {}

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
  Visit<Sink>(sink).visit(common);
}

std::string text_of_fact(const CommonState& common, std::size_t index) {
  std::size_t at = 0;
  std::string found = "nothing";
  visit(common, [&](std::uint64_t, const auto& make_text) {
    if (at++ == index) found = make_text();
  });
  return found;
}

}  // namespace

Facts facts_of(const CommonState& common) {
  Facts facts{{}, [&common](std::size_t index) { return text_of_fact(common, index); }};
  visit(common, [&](std::uint64_t hash, const auto&) { facts.hashes.push_back(hash); });
  return facts;
}

}  // namespace zero::checkpoint
