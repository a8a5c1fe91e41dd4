#include "libzero/optim/build_plan.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/agreement.h"
#include "libzero/optim/device_lane.h"
#include "libzero/optim/model_sync.h"

namespace zero {
namespace {

bool has_float16(const Layout& layout) {
  return std::any_of(layout.buckets().begin(), layout.buckets().end(),
                     [](const Bucket& bucket) { return bucket.dtype == DType::kFloat16; });
}

LossScaler make_scaler(const Layout& layout, const LossScalerOptions& options) {
  LossScaler scaler(options);  // checks them, in use or not
  return has_float16(layout) ? scaler : LossScaler::disabled(options.max_consecutive_skips);
}

/// The kernels, where state is to lie on a GPU.
std::shared_ptr<const cuda::KernelApi> kernels_of_plan(const ParameterTable& table,
                                                       const Options& options) {
  if (table.device.is_cpu()) return nullptr;
  ZERO_REQUIRE(at::getAccelerator() == table.device.type(),
               "model: parameters lie on a device that cannot train; move the model to the CPU or "
               "a GPU: " +
                   table.specs.front().name + " is on " + table.device.str());
  if (options.offload().on_host() || options.offload().on_disk()) return nullptr;
  return kernels_for(table.device, options.device_kernels());
}

BuildPlan plan_alone(const std::vector<NamedTensor>& parameters,
                     const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                     const Options& options) {
  std::unique_ptr<UpdateRule> rule = make_update_rule(defaults, options.groups());
  require_valid(*rule, defaults, options);
  ParameterTable table = make_parameter_table(parameters, options.groups());
  std::shared_ptr<const cuda::KernelApi> kernels = kernels_of_plan(table, options);
  for (const NamedTensor& buffer : buffers) require_dense(buffer, "buffer", table.device);
  Layout layout(table.specs,
                {options.bucket_bytes(), options.first_bucket_bytes(), options.shard_alignment()});
  ZERO_REQUIRE(!layout.buckets().empty(),
               "optimizer: the model has no trainable parameter; set requires_grad on what is to "
               "be trained");
  LossScaler scaler = make_scaler(layout, options.loss_scaler());
  return {std::move(table), std::move(layout), std::move(scaler),
          std::move(rule),  defaults,          std::move(kernels),
          nullptr};
}

}  // namespace

BuildPlan agree_on_plan(const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                        const Options& options, Collective& comm) {
  std::optional<BuildPlan> plan;
  std::vector<std::string> facts;
  std::exception_ptr fault;
  try {
    plan = plan_alone(parameters, buffers, defaults, options);
    facts = model_facts(plan->layout, buffers, *plan->rule, defaults, options);
    facts.push_back(plan->kernels ? "state lies on a GPU" : "state does not lie on a GPU");
  } catch (const std::exception& error) {  // the others wait: tell them before leaving
    fault = std::current_exception();
    facts = {std::string("nothing that can be built: ") + error.what()};
  }
  try {
    require_agreement(comm, facts);
  } catch (const ContractError&) {
    if (fault) std::rethrow_exception(fault);
    throw;
  }
  if (fault) std::rethrow_exception(fault);  // the same on every rank
  return *std::move(plan);
}

BuildPlan make_build_plan(const std::vector<NamedTensor>& parameters,
                          const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                          const Options& options, Collective& comm) {
  const std::shared_ptr<Collective> own = comm.split(/*color=*/0, /*key=*/comm.rank());
  try {
    BuildPlan plan = agree_on_plan(parameters, buffers, defaults, options, *own);
    plan.comm = own;
    return plan;
  } catch (const CommError&) {
    throw;
  } catch (...) {  // on every rank
    own->shutdown();
    throw;
  }
}

}  // namespace zero
