#include "checkpoint/tools/compare_common.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "checkpoint/tools/element_difference.h"
#include "libzero/base/number_text.h"
#include "libzero/base/shape_text.h"

namespace zero::checkpoint {
namespace {

class Findings {
 public:
  explicit Findings(std::vector<Difference>& out) : out_(out) {}

  void add(std::string subject, std::string problem) {
    out_.push_back({std::move(subject), std::move(problem), 0, 0});
  }
  void add_pair(std::string subject, const std::string& a, const std::string& b,
                const std::string& what = {}) {
    add(std::move(subject), what + (what.empty() ? "" : " ") + a + " and " + b);
  }

  /// Values under names: `same` tells whether two are equal, `report` adds what differs.
  template <class Map, class Same, class Report>
  void compare_maps(const Map& a, const Map& b, const std::string& subject, Same same,
                    Report report) {
    std::set<std::string> names;
    for (const Map* map : {&a, &b}) {
      for (const auto& [name, value] : *map) names.insert(name);
    }
    for (const std::string& name : names) {
      const auto in_a = a.find(name);
      const auto in_b = b.find(name);
      if (in_a == a.end()) {
        add(subject + name, "only in the second");
      } else if (in_b == b.end()) {
        add(subject + name, "only in the first");
      } else if (!same(in_a->second, in_b->second)) {
        report(subject + name, in_a->second, in_b->second);
      }
    }
  }

 private:
  std::vector<Difference>& out_;
};

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::string alias_text(std::string_view owner) {
  return owner.empty() ? "no alias" : "an alias of " + std::string(owner);
}

void compare_groups(const std::vector<GroupOptions>& a, const std::vector<GroupOptions>& b,
                    Findings& out) {
  if (a.size() != b.size()) {
    out.add_pair("groups", std::to_string(a.size()), std::to_string(b.size()), "there are");
  }
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    out.compare_maps(a[i], b[i], "group " + std::to_string(i) + ", ", same_bits,
                     [&](const std::string& subject, double x, double y) {
                       out.add_pair(subject, number_text(x), number_text(y));
                     });
  }
}

void compare_scalers(const LossScalerState& a, const LossScalerState& b, Findings& out) {
  if (!same_bits(a.scale, b.scale)) {
    out.add_pair("scaler", number_text(a.scale), number_text(b.scale), "scale");
  }
  const auto compare = [&](const char* name, std::int64_t x, std::int64_t y) {
    if (x != y) out.add_pair("scaler", std::to_string(x), std::to_string(y), name);
  };
  compare("growth tracker", a.growth_tracker, b.growth_tracker);
  compare("hysteresis left", a.hysteresis_left, b.hysteresis_left);
  compare("consecutive skips", a.consecutive_skips, b.consecutive_skips);
}

/// Of a state that may hold one for each parameter, or one counter for all.
std::optional<std::int64_t> applied_steps(const CommonState& state, std::size_t row) {
  if (!state.applied_steps.empty()) return state.applied_steps[row];
  const auto found = state.counters.find("applied_steps");
  if (found == state.counters.end()) return std::nullopt;
  return found->second;
}

void compare_applied_steps(const CommonState& a, const CommonState& b, Findings& out) {
  if (a.applied_steps.empty() && b.applied_steps.empty()) return;  // The counters tell.
  std::map<std::string_view, std::size_t> rows;
  for (std::size_t row = 0; row < b.parameters.size(); ++row) rows[b.parameters[row].name] = row;
  const auto text = [](const std::optional<std::int64_t>& steps) {
    return steps ? std::to_string(*steps) : "unknown";
  };
  for (std::size_t row = 0; row < a.parameters.size(); ++row) {
    const ParameterSpec& spec = a.parameters[row];
    const auto found = rows.find(spec.name);
    if (!spec.trainable || spec.alias_of != -1 || found == rows.end()) continue;
    const auto in_a = applied_steps(a, row);
    const auto in_b = applied_steps(b, found->second);
    if (in_a != in_b) {
      out.add_pair("parameter " + spec.name + ", applied steps", text(in_a), text(in_b));
    }
  }
}

std::map<std::string, std::int64_t> counters_without_layout(const CommonState& state) {
  auto counters = state.counters;
  std::erase_if(counters, [](const auto& entry) { return entry.first.starts_with("layout."); });
  return counters;
}

void report_blobs(const std::string& subject, const Blob& a, const Blob& b, Findings& out) {
  if (a.size() != b.size()) {
    out.add_pair(subject, std::to_string(a.size()), std::to_string(b.size()) + " bytes", "it has");
    return;
  }
  const auto [first, other] = std::mismatch(a.begin(), a.end(), b.begin());
  out.add(subject, "its " + std::to_string(a.size()) + " bytes differ, the first at " +
                       std::to_string(first - a.begin()));
}

}  // namespace

void compare_parameters(const ParameterSpec& a, std::string_view owner_a, const ParameterSpec& b,
                        std::string_view owner_b, std::vector<Difference>& differences) {
  Findings out(differences);
  const std::string subject = "parameter " + a.name;
  if (a.shape != b.shape) {
    out.add_pair(subject, shape_text(a.shape), shape_text(b.shape), "shape");
  }
  if (a.dtype != b.dtype) {
    out.add_pair(subject, std::string(name_of(a.dtype)), std::string(name_of(b.dtype)), "dtype");
  }
  if (a.group != b.group) {
    out.add_pair(subject, std::to_string(a.group), std::to_string(b.group), "group");
  }
  if (a.trainable != b.trainable) {
    out.add(subject, a.trainable ? "trainable in the first, frozen in the second"
                                 : "frozen in the first, trainable in the second");
  }
  if (owner_a != owner_b) {
    out.add(subject,
            alias_text(owner_a) + " in the first, " + alias_text(owner_b) + " in the second");
  }
}

void compare_common(const CommonState& a, const CommonState& b,
                    std::vector<Difference>& differences) {
  Findings out(differences);
  compare_applied_steps(a, b, out);
  compare_groups(a.groups, b.groups, out);
  compare_scalers(a.scaler, b.scaler, out);
  if (a.step != b.step) out.add_pair("step", std::to_string(a.step), std::to_string(b.step));
  out.compare_maps(counters_without_layout(a), counters_without_layout(b), "counter ",
                   std::equal_to<>(),
                   [&](const std::string& subject, std::int64_t x, std::int64_t y) {
                     out.add_pair(subject, std::to_string(x), std::to_string(y));
                   });
  out.compare_maps(a.blobs, b.blobs, "blob ", std::equal_to<>(),
                   [&](const std::string& subject, const Blob& x, const Blob& y) {
                     report_blobs(subject, x, y, out);
                   });
}

}  // namespace zero::checkpoint
