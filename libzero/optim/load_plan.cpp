#include "libzero/optim/load_plan.h"

#include <algorithm>
#include <set>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/row_match.h"
#include "libzero/optim/state_kind.h"
#include "libzero/optim/trainer_keys.h"

namespace zero {
namespace {

using checkpoint::CommonState;
using checkpoint::Reader;

class Planner {
 public:
  Planner(const Reader& reader, const LiveTables& live, const LoadOptions& options)
      : reader_(reader), common_(reader.common()), live_(live), options_(options) {}

  LoadPlan run() {
    plan_.moments = !options_.weights_only();
    plan_.groups.resize(live_.groups.size());
    plan_.average = live_.average && plan_.moments;
    plan_.begun.assign(live_.rows.size(), 0);
    plan_world();
    plan_steps();
    plan_rows();
    plan_begun();
    const bool is_own_rule = plan_rule();
    if (is_own_rule) plan_states();
    plan_scaler();
    if (is_own_rule) plan_groups();
    plan_blobs();
    return std::move(plan_);
  }

 private:
  bool resharded() const { return reader_.info().world_size != live_.world_size; }

  void plan_world() {
    if (!resharded() || options_.reshard_on_load() || options_.weights_only()) return;
    plan_.wrong_world = true;
    differs("world size: " + std::to_string(reader_.info().world_size) +
            " ranks in the checkpoint, " + std::to_string(live_.world_size) +
            " here (reshard_on_load)");
  }

  void plan_steps() {
    if (options_.weights_only())
      return add("steps", Restored::kDefaulted, "weights_only: 0 taken, 0 applied");
    plan_.steps_taken = common_.step;
    const std::optional<std::int64_t> applied = applied_steps();
    if (!applied) return;
    plan_.steps_applied = *applied;
    if (*applied < 0 || *applied > common_.step) {
      return differs("counter applied_steps: " + std::to_string(*applied) +
                     " does not lie between 0 and the step, " + std::to_string(common_.step));
    }
    add("steps", Restored::kRestored,
        std::to_string(common_.step) + " taken, " + std::to_string(*applied) + " applied");
  }

  /// Of the optimizer; without a counter, of those parameters that took part in most.
  std::optional<std::int64_t> applied_steps() {
    const auto found = common_.counters.find(std::string(kAppliedSteps));
    if (found != common_.counters.end()) return found->second;
    if (common_.applied_steps.empty()) {
      differs("counter applied_steps: not in the checkpoint");
      return std::nullopt;
    }
    std::int64_t most = 0;
    for (std::size_t i = 0; i < common_.parameters.size(); ++i) {
      const ParameterSpec& row = common_.parameters[i];
      if (row.trainable && row.alias_of < 0) most = std::max(most, common_.applied_steps[i]);
    }
    return most;
  }

  /// Moments that begin at 0 begin with a count of 0.
  void plan_begun() {
    for (std::size_t i = 0; i < live_.rows.size(); ++i) {
      if (!live_.rows[i].trainable || live_.rows[i].alias_of >= 0) continue;
      const std::int32_t source = plan_.sources[i];
      if (source < 0 || !saved_row(i).trainable || !plan_.moments) {
        plan_.begun[i] = plan_.steps_applied;
      } else if (!common_.applied_steps.empty()) {
        plan_begun_of(i, common_.applied_steps[static_cast<std::size_t>(source)]);
      }
    }
  }

  void plan_begun_of(std::size_t row, std::int64_t applied) {
    if (applied >= 0 && applied <= plan_.steps_applied) {
      plan_.begun[row] = plan_.steps_applied - applied;
      return;
    }
    differs("'" + live_.rows[row].name + "': " + std::to_string(applied) +
            " steps were applied to it, of " + std::to_string(plan_.steps_applied) +
            " that the optimizer made");
  }

  /// Whether it makes sense to compare what the rule brings with it.
  bool plan_rule() {
    const std::string saved = rule_of(common_);
    if (saved == live_.rule || options_.weights_only()) return true;
    differs("update rule: " + saved + " in the checkpoint, " + live_.rule + " here (weights_only)");
    return false;
  }

  void plan_rows() {
    RowMatch match = match_rows(common_.parameters, live_.rows, options_);
    plan_.sources = std::move(match.sources);
    regrouped_ = match.regrouped;
    plan_.differences.insert(plan_.differences.end(), match.differences.begin(),
                             match.differences.end());
    count_rows();
    plan_.items.insert(plan_.items.end(), match.items.begin(), match.items.end());
  }

  void count_rows() {
    std::size_t trainable = 0, thawed = 0, frozen = 0, buffers = 0;
    for (std::size_t i = 0; i < live_.rows.size(); ++i) {
      if (plan_.sources[i] < 0) continue;
      const ParameterSpec& row = live_.rows[i];
      ++(row.trainable ? trainable : row.group < 0 ? buffers : frozen);
      thawed += row.trainable && !saved_row(i).trainable ? 1 : 0;
    }
    const std::string ranks =
        resharded() ? " from " + std::to_string(reader_.info().world_size) + " ranks" : "";
    const Restored how = resharded() ? Restored::kResharded : Restored::kRestored;
    add("masters", how, std::to_string(trainable) + " parameters" + ranks);
    for (const std::string& item : live_.moments) {
      if (plan_.moments) {
        add(item, how, std::to_string(trainable - thawed) + " parameters" + ranks);
      } else {
        add(item, Restored::kDefaulted, "weights_only: 0");
      }
    }
    if (frozen > 0) add("frozen parameters", how, std::to_string(frozen) + " parameters" + ranks);
    if (buffers > 0) add("buffers", Restored::kRestored, std::to_string(buffers) + " buffers");
  }

  /// REQUIRES that the model's row has a source.
  const ParameterSpec& saved_row(std::size_t row) const {
    return common_.parameters[static_cast<std::size_t>(plan_.sources[row])];
  }

  void plan_states() {
    std::set<std::string> unknown;
    for (std::size_t i = 0; i < live_.rows.size(); ++i) {
      if (plan_.sources[i] >= 0 && live_.rows[i].numel() > 0) plan_states_of(i, unknown);
    }
    plan_average();
    for (const std::string& state : unknown) {
      if (options_.allow_extra() || options_.weights_only()) {
        add("state " + state, Restored::kDropped, "this optimizer has no such state");
      } else {
        differs("state '" + state + "': this optimizer has no such state (allow_extra)");
      }
    }
  }

  void plan_average() {
    if (!live_.average) return;
    const std::string item = name_of(StateKind::kEma);
    if (options_.weights_only())
      return add(item, Restored::kDefaulted, "weights_only: begins at the masters");
    if (plan_.average) {
      return add(item, resharded() ? Restored::kResharded : Restored::kRestored, "");
    }
    if (!options_.allow_missing())
      return differs("state '" + item + "': not in the checkpoint (allow_missing)");
    add(item, Restored::kDefaulted, "not in the checkpoint: begins at the masters");
  }

  /// `states`: of a parameter.
  void plan_average_of(const ParameterSpec& row, std::int32_t source, bool is_trained,
                       std::set<std::string>& states) {
    const std::string state = name_of(StateKind::kEma);
    if (is_trained && plan_.moments && states.contains(state)) {
      take_state(row, source, state, DType::kFloat32, states);
    } else {
      if (is_trained) plan_.average = false;
      states.erase(state);
    }
  }

  void plan_states_of(std::size_t index, std::set<std::string>& unknown) {
    const ParameterSpec& row = live_.rows[index];
    const ParameterSpec& saved = saved_row(index);
    const std::int32_t source = plan_.sources[index];
    if (saved.trainable != row.trainable && !may_change_training(options_)) return;  // said already
    std::set<std::string> states;
    for (std::string& state : reader_.states(source)) states.insert(std::move(state));
    take_state(row, source, weights_of(saved), saved.trainable ? DType::kFloat32 : saved.dtype,
               states);
    for (const std::string& state : live_.moments) {
      if (saved.trainable && row.trainable && plan_.moments) {
        take_state(row, source, state, DType::kFloat32, states);
      } else if (saved.trainable) {
        states.erase(state);
      }
    }
    if (live_.average && saved.trainable) plan_average_of(row, source, row.trainable, states);
    unknown.merge(states);
  }

  /// Removes `state` from `states`.
  void take_state(const ParameterSpec& row, std::int32_t source, const std::string& state,
                  DType dtype, std::set<std::string>& states) {
    if (states.erase(state) == 0)
      return differs("'" + row.name + "': the checkpoint has no state '" + state + "' of it");
    const DType saved = reader_.dtype(source, state);
    if (saved == dtype) return;
    const bool can_convert = is_floating(saved) && is_floating(dtype);
    const std::string is(name_of(saved)), should_be(name_of(dtype));
    if (can_convert && options_.allow_dtype_change()) {
      add(state + " of " + row.name, Restored::kConverted, is + " -> " + should_be);
    } else {
      differs("'" + row.name + "': state '" + state + "' is " + is + " instead of " + should_be +
              (can_convert ? " (allow_dtype_change)" : ""));
    }
  }

  void plan_scaler() {
    if (options_.weights_only()) {
      plan_.scaler = live_.fresh_scaler;
      return add("loss scale", Restored::kDefaulted,
                 "weights_only: scale " + number_text(live_.fresh_scaler.scale));
    }
    const LossScalerState& saved = common_.scaler;
    const auto is_float16 = [](const ParameterSpec& row) {
      return row.trainable && row.dtype == DType::kFloat16;
    };
    const bool was_enabled =
        std::any_of(common_.parameters.begin(), common_.parameters.end(), is_float16);
    if (saved.growth_tracker > common_.step || saved.consecutive_skips > common_.step) {
      return differs("loss scale: more steps were counted than there were: growth_tracker " +
                     std::to_string(saved.growth_tracker) + ", consecutive_skips " +
                     std::to_string(saved.consecutive_skips) + ", step " +
                     std::to_string(common_.step));
    }
    if (was_enabled != live_.scaler.enabled()) {
      return add("loss scale", was_enabled ? Restored::kDropped : Restored::kDefaulted,
                 was_enabled ? "there is no scaling now"
                             : "there was no scaling when it was saved: scale " +
                                   number_text(live_.scaler.scale()));
    }
    LossScaler trial = live_.scaler;
    try {
      trial.set_state(saved);
    } catch (const ContractError& error) {
      return differs("loss scale: " + std::string(error.what()));
    }
    plan_.scaler = saved;
    add("loss scale", Restored::kRestored, "scale " + number_text(saved.scale));
  }

  bool is_group_option(const std::string& name) const {
    const std::vector<std::string>& names = live_.option_names;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  void plan_groups() {
    for (const std::string& name : options_.keep_options()) {
      if (!is_group_option(name))
        differs("keep_options: no group has an option of this name: '" + name + "'");
    }
    const std::size_t saved = common_.groups.size(), live = live_.groups.size();
    if (options_.weights_only())
      return add("options of groups", Restored::kKept, "weights_only: present values");
    if (saved != live && !options_.allow_regroup()) {
      return differs("groups: " + std::to_string(saved) + " in the checkpoint, " +
                     std::to_string(live) + " in the model (allow_regroup)");
    }
    if (saved != live || regrouped_)
      return add("options of groups", Restored::kKept, "parameters have moved to other groups");
    std::set<std::string> names(live_.option_names.begin(), live_.option_names.end());
    for (const auto& [name, value] : common_.groups[0]) names.insert(name);
    for (const std::string& name : names) plan_option(name);
  }

  void plan_option(const std::string& name) {
    const std::string item = "option " + name;
    if (!is_group_option(name)) {
      if (!options_.allow_extra())
        return differs(item + ": this optimizer has no such option of groups (allow_extra)");
      return add(item, Restored::kDropped, "this optimizer has no such option");
    }
    if (options_.keep_options().contains(name))
      return add(item, Restored::kKept, values_of(name, live_.groups));
    if (!common_.groups[0].contains(name)) {
      if (!options_.allow_missing())
        return differs(item + ": not in the checkpoint (allow_missing)");
      return add(item, Restored::kDefaulted, values_of(name, live_.groups));
    }
    for (std::size_t i = 0; i < plan_.groups.size(); ++i)
      plan_.groups[i][name] = common_.groups[i].at(name);
    add(item, Restored::kRestored, values_of(name, common_.groups));
  }

  static std::string values_of(const std::string& name,
                               const std::vector<checkpoint::GroupOptions>& groups) {
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(groups.size(), kMost); ++i)
      text += (i > 0 ? ", " : "") + number_text(groups[i].at(name));
    return groups.size() > kMost ? text + ", ..." : text;
  }

  void plan_blobs() {
    const int saved_world = reader_.info().world_size;
    const bool is_new = live_.rank >= saved_world;
    const auto& of_rank = reader_.rank_blobs(is_new ? 0 : live_.rank);
    for (const std::string& key : options_.required()) {
      if (!common_.counters.contains(key) && !common_.blobs.contains(key) && !of_rank.contains(key))
        differs("'" + key + "': required, and the checkpoint has no counter or blob of this name");
    }
    for (const auto& [key, value] : common_.counters) {
      if (!is_libzero_key(key)) add("counter " + key, Restored::kRestored, std::to_string(value));
    }
    for (const auto& [key, blob] : common_.blobs) {
      if (!is_libzero_key(key))
        add("blob " + key, Restored::kRestored, std::to_string(blob.size()) + " bytes");
    }
    for (const auto& [key, blob] : of_rank) {
      if (is_libzero_key(key)) continue;
      add("rank blob " + key, is_new ? Restored::kDefaulted : Restored::kRestored,
          is_new ? "rank " + std::to_string(live_.rank) + " is new: nothing"
                 : std::to_string(blob.size()) + " bytes");
    }
    for (int rank = live_.world_size; rank < saved_world; ++rank) {
      if (!reader_.rank_blobs(rank).empty())
        add("blobs of rank " + std::to_string(rank), Restored::kDropped, "there is no such rank");
    }
  }

  void differs(std::string line) { plan_.differences.push_back(std::move(line)); }
  void add(std::string item, Restored how, std::string detail) {
    plan_.items.push_back({std::move(item), how, std::move(detail)});
  }

  const Reader& reader_;
  const CommonState& common_;
  const LiveTables& live_;
  const LoadOptions& options_;
  bool regrouped_ = false;
  LoadPlan plan_;
};

}  // namespace

LoadPlan plan_load(const checkpoint::Reader& reader, const LiveTables& live,
                   const LoadOptions& options) {
  return Planner(reader, live, options).run();
}

}  // namespace zero
