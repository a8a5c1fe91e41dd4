#include <functional>
#include <utility>

#include "libzero/collective/agreement.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/optim/checkpoint_rows.h"
#include "libzero/optim/checkpoints_on_disk.h"
#include "libzero/optim/fresh_state.h"
#include "libzero/optim/load_plan.h"
#include "libzero/optim/optimizer_impl.h"
#include "libzero/optim/random_plan.h"
#include "libzero/optim/random_state.h"
#include "libzero/optim/replica_check.h"
#include "libzero/optim/trainer_keys.h"

namespace zero {
namespace {

using checkpoint::Blob;
using checkpoint::Reader;

std::string text_of(const LoadOptions& options) {
  std::string text;
  const auto add = [&](const char* name, bool value) {
    if (value) text += std::string(name) + " ";
  };
  add("reshard_on_load", options.reshard_on_load());
  add("fall_back", options.fall_back());
  add("allow_missing", options.allow_missing());
  add("allow_extra", options.allow_extra());
  add("allow_regroup", options.allow_regroup());
  add("allow_dtype_change", options.allow_dtype_change());
  add("allow_changed_training", options.allow_changed_training());
  add("weights_only", options.weights_only());
  add("random_state", options.random_state());
  for (const std::string& name : options.keep_options()) text += "keep_options:" + name + " ";
  for (const std::string& name : options.required()) text += "required:" + name + " ";
  return text;
}

}  // namespace

/// Everything of a load before the optimizer is touched.
struct Optimizer::Impl::PreparedLoad {
  LoadPlan plan;
  std::vector<OptionValues> groups;
  std::optional<Blob> random;
  std::optional<Blob> device_random;  // where the model does not lie on the CPU
  std::optional<FreshState> fresh;
  LoadReport report;
};

LoadTarget Optimizer::Impl::load_target() {
  return {.layout = layout_,
          .table = table_,
          .buffers = buffers_,
          .states = states_,
          .distant = distant(),
          .offload = offload_.get()};
}

void Optimizer::Impl::require_ready_to_load(const PresentGroups& groups) const {
  ZERO_REQUIRE(groups.fault.empty(), groups.fault);
  ZERO_REQUIRE(calls_.empty(),
               "load: in the middle of a window; call step() or zero_grad() first: " +
                   std::to_string(calls_.size()) + " backward calls since the last step");
  require_same_shapes();
  const std::string refrozen = first_refrozen(model());
  ZERO_REQUIRE(refrozen.empty(), refrozen);
  for (const NamedTensor& buffer : buffers_) require_dense(buffer, "buffer", table_.device);
  if (image_) image_->download_changed();  // what the checkpoint does not name stays
}

void Optimizer::Impl::plan_load_of(const Reader& reader, const std::string& directory,
                                   const PresentGroups& groups, const LoadOptions& options,
                                   PreparedLoad& load) const {
  LiveTables live{.rows = checkpoint_rows(table_, buffers_),
                  .groups = {},
                  .rule = std::string(rule_->name()),
                  .moments = {},
                  .option_names = {rule_->option_names().begin(), rule_->option_names().end()},
                  .average = options_.ema() > 0,
                  .scaler = scaler_,
                  .fresh_scaler = scaler_.enabled() ? LossScaler(options_.loss_scaler()).state()
                                                    : LossScaler::disabled().state(),
                  .rank = comm_->rank(),
                  .world_size = comm_->size()};
  for (const OptionValues& group : groups.options)
    live.groups.push_back(named_options(*rule_, group));
  for (const StateKind moment : rule_->moments()) live.moments.emplace_back(name_of(moment));
  load.plan = plan_load(reader, live, options);
  load.random = plan_random_state(reader, options, comm_->rank(), load.plan);
  const c10::Device device = model().device;
  if (!device.is_cpu())
    load.device_random = plan_random_state(reader, options, comm_->rank(), load.plan, device);
  note_other_random_states(reader, comm_->rank(), device, load.plan);
  load.groups = groups.options;
  for (std::size_t i = 0; i < load.groups.size(); ++i)
    apply_named_options(*rule_, load.plan.groups[i], load.groups[i]);
  const std::string fault = fault_of(*rule_, load.groups, "options in the checkpoint");
  if (!fault.empty()) load.plan.differences.push_back(fault);
  ZERO_REQUIRE(load.plan.differences.empty(),
               refusal_of(load.plan, reader.info(), comm_->size(), directory));
  const bool is_saved_rank = comm_->rank() < reader.info().world_size;
  static const std::map<std::string, Blob> kNoBlobs;
  load.report.found = true;
  load.report.directory = directory;
  load.report.step = reader.common().step;
  load.report.saved_world_size = reader.info().world_size;
  load.report.trainer =
      trainer_part(reader.common(), is_saved_rank ? reader.rank_blobs(comm_->rank()) : kNoBlobs);
  load.report.items = load.plan.items;
}

Optimizer::Impl::PreparedLoad Optimizer::Impl::prepare_load(
    const std::function<std::unique_ptr<Reader>()>& open, const std::string& directory,
    const PresentGroups& groups, const LoadOptions& options) {
  PreparedLoad load;
  std::unique_ptr<Reader> reader;
  all_or_none(*checkpoint_comm_, "load: opening the checkpoint", [&] { reader = open(); });
  all_or_none(*checkpoint_comm_, "load: comparing the tables",
              [&] { plan_load_of(*reader, directory, groups, options, load); });
  all_or_none(*checkpoint_comm_, "load: reading this rank's share",
              [&] { load.fresh.emplace(*reader, load.plan, load_target()); });
  return load;
}

/// No FormatError is the end as long as there is another candidate.
Optimizer::Impl::PreparedLoad Optimizer::Impl::prepare_load_from(const std::string& from,
                                                                 const PresentGroups& groups,
                                                                 const LoadOptions& options) {
  Collective& comm = *checkpoint_comm_;
  require_same("load: the path", from, comm);
  ZERO_REQUIRE(!from.empty(), "load: the path must have a name");
  checkpoint::Candidates found = find_checkpoints(from, options.fall_back(), comm);
  std::vector<std::int64_t> damaged_steps;
  for (std::size_t i = 0; i < found.directories.size(); ++i) {
    const std::string& directory = found.directories[i];
    try {
      PreparedLoad load =
          prepare_load([&] { return open_checkpoint(directory); }, directory, groups, options);
      load.report.warnings = found.warnings;
      load.report.damaged_steps = damaged_steps;
      return load;
    } catch (const FormatError& error) {  // the same on every rank
      if (!options.fall_back() || i + 1 == found.directories.size()) throw;
      found.warnings.push_back(directory + ": " + error.what());
      if (const auto step = step_of_directory(directory)) damaged_steps.push_back(*step);
    }
  }
  PreparedLoad nothing;
  nothing.report.warnings = found.warnings;
  return nothing;
}

LoadReport Optimizer::Impl::load(Optimizer& face, const LoadSource& source,
                                 const LoadOptions& options) {
  checkpoint_comm();
  const PresentGroups groups = groups_of(face, "load");
  PreparedLoad load = checkpointing(kNothingChanged, [&] {
    all_or_none(*checkpoint_comm_, "load: who is ready", [&] { require_ready_to_load(groups); });
    require_same("load: the options", text_of(options), *checkpoint_comm_);
    if (source.store == nullptr) return prepare_load_from(source.from, groups, options);
    return prepare_load([&] { return source.store->open(source.step); }, "", groups, options);
  });
  if (load.report.found) put_in_place(face, load);
  for (const std::string& warning : load.report.warnings)
    say(LogLevel::kWarning, "load: " + warning);
  return std::move(load.report);
}

void Optimizer::Impl::put_in_place(Optimizer& face, PreparedLoad& load) {
  bool is_equal = false;
  try {
    discard_window();
    gradient_scale_ = 1;
    LoadTarget target = load_target();
    if (image_) image_->begin_update();  // what is still on its way up reads the images
    if (offload_) {
      settle_offload(kHalfLoaded, attempt([&] { load.fresh->put_in_place(target); }));
    } else {
      load.fresh->put_in_place(target);
    }
    load.fresh.reset();
    gather_parameters();
    if (load.plan.scaler) scaler_.set_state(*load.plan.scaler);
    windows_ended_ = load.plan.steps_taken;
    steps_applied_ = load.plan.steps_applied;
    set_begun(load.plan.begun);
    for (std::size_t i = 0; i < load.groups.size(); ++i)
      rule_->assign(load.groups[i], face.param_groups()[i].options());
    if (load.random) set_random_state(*load.random);
    if (load.device_random) set_random_state(*load.device_random, model().device);
    is_equal = are_equal_on_ranks(hash_of_parameters(table_), *checkpoint_comm_);
  } catch (const std::exception& error) {  // of whatever type: some of it is in place
    if (is_dead()) throw;
    die(kHalfLoaded, error.what());
  }
  if (!is_equal) die(kHalfLoaded, "load: the parameters differ between ranks afterwards");
  replicas_.forget();
}

void Optimizer::Impl::gather_parameters() {
  if (image_) image_->begin_update();
  parameter_update_->begin_gathers();
  for (std::size_t b = 0; options_.stage() > 0 && b < states_.size(); ++b) {
    submit_gather(static_cast<std::int32_t>(b));
  }
  const auto settle = [](void* self, std::int32_t) {
    static_cast<Impl*>(self)->parameter_update_->settle();
  };
  queue_.submit({settle, this});
  try {
    queue_.drain();
  } catch (...) {  // who writes the model next must wait for what is on its way already
    if (image_) image_->finish_update();
    parameter_update_->finish_gathers();
    throw;
  }
  parameter_update_->finish_gathers();
  for (std::size_t b = 0; options_.stage() == 0 && b < states_.size(); ++b) {
    upload(static_cast<std::int32_t>(b));
  }
  if (image_) image_->finish_update();
  mark_parameters_changed();
}

}  // namespace zero
