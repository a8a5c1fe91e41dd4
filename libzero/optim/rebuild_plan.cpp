#include "libzero/optim/rebuild_plan.h"

#include <string>
#include <string_view>
#include <unordered_map>

#include "libzero/base/error.h"
#include "libzero/optim/row_match.h"

namespace zero {
namespace {

using Rows = std::span<const ParameterSpec>;
using Index = std::unordered_map<std::string_view, std::int32_t>;  // looked up, never iterated

std::int32_t owner_of(Rows rows, std::int32_t row) {
  const ParameterSpec& spec = rows[static_cast<std::size_t>(row)];
  return spec.alias_of >= 0 ? spec.alias_of : row;
}

Index index_of(Rows rows) {
  Index index;
  for (std::size_t i = 0; i < rows.size(); ++i)
    index.emplace(rows[i].name, static_cast<std::int32_t>(i));
  return index;
}

class Planner {
 public:
  Planner(Rows before, const std::vector<bool>& lost, Rows after, const RebuildOptions& options)
      : before_(before),
        lost_(lost),
        after_(after),
        before_index_(index_of(before)),
        after_index_(index_of(after)),
        origins_(after.size(), -1),
        named_(after.size(), false),
        went_on_(before.size(), false) {
    plan_.sources.assign(after.size(), -1);
    find_named(options);
    find_origins();
  }

  RebuildPlan run() {
    for (std::size_t i = 0; i < after_.size(); ++i) {
      if (after_[i].trainable && after_[i].alias_of < 0) plan_row(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (before_[i].trainable && before_[i].alias_of < 0 && !went_on_[i])
        drop(static_cast<std::int32_t>(i));
    }
    return std::move(plan_);
  }

 private:
  static const ParameterSpec& at(Rows rows, std::int32_t row) {
    return rows[static_cast<std::size_t>(row)];
  }

  void find_named(const RebuildOptions& options) {
    for (const std::string& name : options.fresh()) {
      const auto found = after_index_.find(name);
      ZERO_REQUIRE(found != after_index_.end() && at(after_, found->second).trainable,
                   "rebuild: RebuildOptions::fresh names what is no trainable parameter of the "
                   "model; take it out: " +
                       name);
      named_[static_cast<std::size_t>(owner_of(after_, found->second))] = true;
    }
  }

  /// Which parameter of before each owner of now is, under whatever name.
  void find_origins() {
    for (std::size_t i = 0; i < after_.size(); ++i) {
      const auto found = before_index_.find(after_[i].name);
      if (found == before_index_.end()) continue;
      const std::int32_t owner = owner_of(after_, static_cast<std::int32_t>(i));
      std::int32_t& origin = origins_[static_cast<std::size_t>(owner)];
      const std::int32_t theirs = owner_of(before_, found->second);
      ZERO_REQUIRE(origin < 0 || origin == theirs || named_[static_cast<std::size_t>(owner)],
                   "rebuild: two names are tied now and were parameters of their own before; say "
                   "with RebuildOptions::fresh that the tied one starts fresh: " +
                       at(after_, owner).name + " and " + after_[i].name);
      if (origin < 0) origin = theirs;
    }
  }

  void plan_row(std::int32_t row) {
    const ParameterSpec& now = at(after_, row);
    const std::int32_t origin = origins_[static_cast<std::size_t>(row)];
    const std::string why = origin < 0 ? "added" : why_fresh(at(before_, origin), origin, row);
    if (origin >= 0 && at(before_, origin).trainable)
      went_on_[static_cast<std::size_t>(origin)] = true;
    if (!why.empty()) {
      plan_.report.fresh.push_back({now.name, why});
      return;
    }
    plan_.sources[static_cast<std::size_t>(row)] = origin;
    plan_.report.kept.push_back({now.name, changes(at(before_, origin), now)});
  }

  /// Empty: it keeps its state.
  std::string why_fresh(const ParameterSpec& was, std::int32_t origin, std::int32_t row) const {
    const ParameterSpec& now = at(after_, row);
    if (named_[static_cast<std::size_t>(row)]) return "asked for";
    if (!was.trainable) return "unfrozen";
    if (was.shape != now.shape) return "resized: " + element_text(was) + " -> " + element_text(now);
    if (lost_[static_cast<std::size_t>(origin)])
      return "the tensor that it was has another shape, dtype or device now, its values are gone";
    return "";
  }

  static std::string changes(const ParameterSpec& was, const ParameterSpec& now) {
    std::string text;
    if (was.dtype != now.dtype)
      text = std::string(name_of(was.dtype)) + " -> " + std::string(name_of(now.dtype));
    if (was.group != now.group) {
      text += (text.empty() ? "" : ", ") + ("group " + std::to_string(was.group)) + " -> group " +
              std::to_string(now.group);
    }
    return text;
  }

  /// It may live on under another of its names.
  void drop(std::int32_t row) {
    const char* why = "not in the model";
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (owner_of(before_, static_cast<std::int32_t>(i)) != row) continue;
      const auto now = after_index_.find(before_[i].name);
      if (now == after_index_.end()) continue;
      const bool is_trained = at(after_, owner_of(after_, now->second)).trainable;
      why = is_trained ? "tied to another now" : "frozen";
    }
    plan_.report.dropped.push_back({at(before_, row).name, why});
  }

  const Rows before_;
  const std::vector<bool>& lost_;
  const Rows after_;
  const Index before_index_, after_index_;
  std::vector<std::int32_t> origins_;  // by row of now
  std::vector<bool> named_;            // by row of now: starts fresh because the caller says so
  std::vector<bool> went_on_;          // by row of before
  RebuildPlan plan_;
};

void add_lines(const char* what, const std::vector<RebuiltParameter>& parameters,
               std::string& text) {
  for (const RebuiltParameter& one : parameters) {
    if (!one.why.empty()) text += std::string("  ") + what + " " + one.name + ": " + one.why + "\n";
  }
}

}  // namespace

RebuildPlan plan_rebuild(std::span<const ParameterSpec> before, const std::vector<bool>& lost,
                         std::span<const ParameterSpec> after, const RebuildOptions& options) {
  return Planner(before, lost, after, options).run();
}

std::string to_text(const RebuildReport& report) {
  std::string text = "rebuilt: " + std::to_string(report.kept.size()) + " parameters kept, " +
                     std::to_string(report.fresh.size()) + " fresh, " +
                     std::to_string(report.dropped.size()) + " dropped\n";
  add_lines("kept", report.kept, text);
  add_lines("fresh", report.fresh, text);
  add_lines("dropped", report.dropped, text);
  return text;
}

}  // namespace zero
