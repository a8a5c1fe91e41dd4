#include "libzero/optim/weights_plan.h"

#include <map>
#include <set>

#include "libzero/optim/weight_types.h"

namespace zero {
namespace {

std::string text_of(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// One tensor of the model with all names that it may have in a file.
struct Wanted {
  std::int64_t target = 0;
  std::vector<std::string> names;
  at::Tensor tensor;
};

std::vector<Wanted> wanted_of(const ParameterTable& table,
                              const std::vector<NamedTensor>& buffers) {
  std::vector<Wanted> wanted;
  std::map<std::int32_t, std::size_t> of_owner;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const ParameterSpec& spec = table.specs[i];
    if (spec.alias_of >= 0) {
      wanted[of_owner.at(spec.alias_of)].names.push_back(spec.name);
      continue;
    }
    of_owner[static_cast<std::int32_t>(i)] = wanted.size();
    wanted.push_back({static_cast<std::int64_t>(i), {spec.name}, table.tensors[i]});
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    wanted.push_back(
        {static_cast<std::int64_t>(table.specs.size() + i), {buffers[i].name}, buffers[i].tensor});
  }
  return wanted;
}

class Planner {
 public:
  Planner(const WeightSource& source, const LoadParametersOptions& options) : options_(options) {
    for (WeightEntry& entry : source.entries()) entries_.emplace(entry.name, std::move(entry));
    aliases_ = source.aliases();
  }

  void add(const Wanted& wanted) {
    PlannedTensor planned{.target = wanted.target, .sources = sources_of(wanted)};
    if (planned.sources.empty()) return miss(wanted);
    bool fits = true;
    for (const WeightEntry& entry : planned.sources) fits &= check(wanted, entry);
    if (!fits) return;
    note(wanted, planned);
    plan_.tensors.push_back(std::move(planned));
  }

  WeightsPlan finish() {
    for (const auto& [name, entry] : entries_) {
      if (used_.count(name) > 0) continue;
      if (options_.allow_extra()) {
        plan_.items.push_back({name, Restored::kDropped, "the model has no tensor of this name"});
      } else {
        plan_.problems.push_back(
            "the model has no tensor of this name (allow_extra leaves it out): " + name + " " +
            entry.dtype + " " + text_of(entry.shape));
      }
    }
    for (const auto& [types, count] : converted_)
      plan_.items.push_back({types, Restored::kConverted, std::to_string(count)});
    if (as_they_are_ > 0)
      plan_.items.insert(plan_.items.begin(), {"parameters and buffers", Restored::kRestored,
                                               std::to_string(as_they_are_) + " tensors"});
    return std::move(plan_);
  }

 private:
  std::vector<WeightEntry> sources_of(const Wanted& wanted) {
    std::vector<WeightEntry> sources;
    std::set<std::string> seen;
    for (const std::string& name : wanted.names) {
      auto found = entries_.find(name);
      if (const auto alias = aliases_.find(name);
          found == entries_.end() && alias != aliases_.end())
        found = entries_.find(alias->second);
      if (found == entries_.end() || !seen.insert(found->first).second) continue;
      used_.insert(found->first);
      sources.push_back(found->second);
    }
    return sources;
  }

  void miss(const Wanted& wanted) {
    const std::string& name = wanted.names.front();
    if (options_.allow_missing()) {
      plan_.items.push_back({name, Restored::kDefaulted, "not in the file: its value stays"});
    } else {
      plan_.problems.push_back(
          "the file lacks it (allow_missing keeps its present value): " + name + " " +
          weight_type_of(wanted.tensor.scalar_type()) + " " + text_of(wanted.tensor.sizes()));
    }
  }

  bool check(const Wanted& wanted, const WeightEntry& entry) {
    const std::string type = weight_type_of(wanted.tensor.scalar_type());
    const std::string& name = wanted.names.front();
    const std::size_t before = plan_.problems.size();
    if (wanted.tensor.sizes() != at::IntArrayRef(entry.shape)) {
      plan_.problems.push_back("another shape: " + name + " is " + text_of(wanted.tensor.sizes()) +
                               " in the model and " + text_of(entry.shape) + " in the file");
    }
    const bool both_floating = is_floating_weight(type) && is_floating_weight(entry.dtype);
    if (type != entry.dtype && !(both_floating && options_.allow_dtype_change())) {
      plan_.problems.push_back((both_floating ? "another dtype (allow_dtype_change converts it): "
                                              : "another dtype, which cannot be converted: ") +
                               name + " is " + c10::toString(wanted.tensor.scalar_type()) +
                               " in the model and " + entry.dtype + " in the file");
    }
    if (!has_distinct_elements(wanted.tensor)) {
      plan_.problems.push_back(
          "its elements share memory (an expanded view?); give it memory of its own with "
          "clone(): " +
          name);
    }
    return plan_.problems.size() == before;
  }

  void note(const Wanted& wanted, const PlannedTensor& planned) {
    const WeightEntry& entry = planned.sources.front();
    const std::string type = weight_type_of(wanted.tensor.scalar_type());
    if (entry.dtype == type) {
      ++as_they_are_;
    } else {
      ++converted_["tensors of " + entry.dtype + " as " + type];
    }
    if (entry.name != wanted.names.front()) {
      plan_.items.push_back(
          {wanted.names.front(), Restored::kRestored, "from the name " + entry.name});
    }
  }

  const LoadParametersOptions& options_;
  std::map<std::string, WeightEntry> entries_;
  std::map<std::string, std::string> aliases_;
  std::set<std::string> used_;
  std::map<std::string, std::int64_t> converted_;
  std::int64_t as_they_are_ = 0;
  WeightsPlan plan_;
};

}  // namespace

WeightsPlan plan_weights(const ParameterTable& table, const std::vector<NamedTensor>& buffers,
                         const WeightSource& source, const LoadParametersOptions& options) {
  Planner planner(source, options);
  for (const Wanted& wanted : wanted_of(table, buffers)) planner.add(wanted);
  return planner.finish();
}

}  // namespace zero
