#include "libzero/optim/row_match.h"

#include <string_view>
#include <unordered_map>

#include "libzero/base/shape_text.h"

namespace zero {
namespace {

using Rows = std::span<const ParameterSpec>;
using Index = std::unordered_map<std::string_view, std::int32_t>;  // looked up, never iterated

const ParameterSpec& at(Rows rows, std::int32_t row) {
  return rows[static_cast<std::size_t>(row)];
}

std::int32_t owner_of(Rows rows, std::int32_t row) {
  return at(rows, row).alias_of >= 0 ? at(rows, row).alias_of : row;
}

Index index_of(Rows rows) {
  Index index;
  for (std::size_t i = 0; i < rows.size(); ++i)
    index.emplace(rows[i].name, static_cast<std::int32_t>(i));
  return index;
}

std::int32_t find(const Index& index, const std::string& name) {
  const auto found = index.find(name);
  return found == index.end() ? -1 : found->second;
}

bool is_buffer(const ParameterSpec& row) {
  return row.group < 0;
}

std::string kind_of(const ParameterSpec& row) {
  if (is_buffer(row)) return "a buffer";
  return row.trainable ? "trainable" : "frozen";
}

std::string item_of(const ParameterSpec& row) {
  return (is_buffer(row) ? "buffer " : "parameter ") + row.name;
}

class Matcher {
 public:
  Matcher(Rows saved, Rows live, const LoadOptions& options)
      : saved_(saved),
        live_(live),
        options_(options),
        saved_index_(index_of(saved)),
        live_index_(index_of(live)) {
    result_.sources.assign(live.size(), -1);
  }

  RowMatch run() {
    find_sources();
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (live_[i].alias_of < 0 && result_.sources[i] >= 0)
        compare(at(saved_, result_.sources[i]), live_[i]);
    }
    find_extra();
    return std::move(result_);
  }

 private:
  /// A class of tied rows takes its values from whichever of its names the checkpoint has.
  void find_sources() {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      const auto row = static_cast<std::int32_t>(i);
      const std::int32_t found = find(saved_index_, live_[i].name);
      if (found < 0) {
        missing_.push_back(row);
        continue;
      }
      auto& source = result_.sources[static_cast<std::size_t>(owner_of(live_, row))];
      if (source < 0) {
        source = owner_of(saved_, found);
      } else if (source != owner_of(saved_, found)) {
        differs(live_[i].name, "tied to '" + at(live_, owner_of(live_, row)).name +
                                   "' in the model, not in the checkpoint");
      }
    }
    for (const std::int32_t row : missing_) report_missing(row);
  }

  void report_missing(std::int32_t row) {
    const ParameterSpec& spec = at(live_, row);
    if (!options_.allow_missing()) {
      differs(spec.name, "not in the checkpoint (allow_missing): " + element_text(spec));
    } else if (result_.sources[static_cast<std::size_t>(owner_of(live_, row))] >= 0) {
      add(spec, Restored::kDefaulted, "not in the checkpoint; tied to one that is");
    } else {
      add(spec, Restored::kDefaulted,
          spec.trainable ? "not in the checkpoint: present value, moments 0"
                         : "not in the checkpoint: present value");
    }
  }

  void compare(const ParameterSpec& saved, const ParameterSpec& live) {
    if (kind_of(saved) != kind_of(live) && !compare_kinds(saved, live)) return;
    if (saved.shape != live.shape) {
      return differs(live.name, element_text(saved) + " in the checkpoint, " + element_text(live) +
                                    " in the model");
    }
    if (saved.dtype != live.dtype) compare_dtypes(saved, live);
    if (live.trainable && saved.trainable && saved.group != live.group && !options_.weights_only())
      compare_groups(saved, live);
  }

  /// Whether the one can become the other.
  bool compare_kinds(const ParameterSpec& saved, const ParameterSpec& live) {
    const std::string how =
        kind_of(saved) + " in the checkpoint, " + kind_of(live) + " in the model";
    if (is_buffer(saved) || is_buffer(live)) {
      differs(live.name, how);
    } else if (may_change_training(options_)) {
      add(live, Restored::kConverted,
          how + (live.trainable ? ": its value, moments 0" : ": its master's value"));
      return true;
    } else {
      differs(live.name, how + " (allow_changed_training)");
    }
    return false;
  }

  void compare_dtypes(const ParameterSpec& saved, const ParameterSpec& live) {
    const std::string from(name_of(saved.dtype)), to(name_of(live.dtype));
    const bool can_convert = is_floating(saved.dtype) && is_floating(live.dtype);
    if (can_convert && options_.allow_dtype_change()) {
      add(live, Restored::kConverted, from + " -> " + to);
    } else {
      differs(live.name, from + " in the checkpoint, " + to + " in the model" +
                             (can_convert ? " (allow_dtype_change)" : ""));
    }
  }

  void compare_groups(const ParameterSpec& saved, const ParameterSpec& live) {
    const std::string from = std::to_string(saved.group), to = std::to_string(live.group);
    result_.regrouped = true;
    if (options_.allow_regroup()) {
      add(live, Restored::kConverted, "group " + from + " -> group " + to);
    } else {
      differs(live.name, "group " + from + " in the checkpoint, group " + to +
                             " in the model (allow_regroup)");
    }
  }

  /// Also finds names that are tied in the checkpoint only.
  void find_extra() {
    std::vector<std::int32_t> live_owners(saved_.size(), -1);
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      const std::int32_t found = find(live_index_, saved_[i].name);
      const std::int32_t owner = owner_of(saved_, static_cast<std::int32_t>(i));
      if (found < 0) {
        report_extra(saved_[i]);
        continue;
      }
      auto& live_owner = live_owners[static_cast<std::size_t>(owner)];
      if (live_owner < 0) {
        live_owner = owner_of(live_, found);
      } else if (live_owner != owner_of(live_, found)) {
        compare_ties(saved_[i], at(live_, live_owner));
      }
    }
  }

  void compare_ties(const ParameterSpec& saved, const ParameterSpec& first) {
    const std::string how = "tied to '" + first.name + "' in the checkpoint, not in the model";
    if (options_.allow_changed_training()) {
      add(saved, Restored::kConverted, how + ": each takes the values and moments of both");
    } else {
      differs(saved.name, how + " (allow_changed_training)");
    }
  }

  void report_extra(const ParameterSpec& spec) {
    if (options_.allow_extra()) {
      add(spec, Restored::kDropped, "not in the model: " + element_text(spec));
    } else {
      differs(spec.name, "not in the model (allow_extra): " + element_text(spec));
    }
  }

  void differs(const std::string& name, const std::string& how) {
    result_.differences.push_back("'" + name + "': " + how);
  }
  void add(const ParameterSpec& row, Restored how, const std::string& detail) {
    result_.items.push_back({item_of(row), how, detail});
  }

  const Rows saved_, live_;
  const LoadOptions& options_;
  const Index saved_index_, live_index_;
  std::vector<std::int32_t> missing_;
  RowMatch result_;
};

}  // namespace

bool may_change_training(const LoadOptions& options) noexcept {
  return options.allow_changed_training() || options.weights_only();
}

const char* weights_of(const ParameterSpec& saved) noexcept {
  return saved.trainable ? "master" : "value";
}

std::string element_text(const ParameterSpec& row) {
  return std::string(name_of(row.dtype)) + " " + shape_text(row.shape);
}

RowMatch match_rows(std::span<const ParameterSpec> saved, std::span<const ParameterSpec> live,
                    const LoadOptions& options) {
  return Matcher(saved, live, options).run();
}

}  // namespace zero
