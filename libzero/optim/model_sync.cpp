#include "libzero/optim/model_sync.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/group_options.h"

namespace zero {
namespace {

template <typename T>
std::string text(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return number_text(value);
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    std::ostringstream out;
    out << value;
    return out.str();
  }
}

/// Without the repetitions that expand() makes in `strides`: what there is to write.
at::Tensor without_repeats(at::Tensor tensor, at::IntArrayRef strides) {
  for (std::size_t d = 0; d < strides.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    if (strides[d] == 0 && tensor.size(dimension) > 1) tensor = tensor.narrow(dimension, 0, 1);
  }
  return tensor;
}

void add_scaler_facts(const LossScalerOptions& scaler, std::vector<std::string>& facts) {
  facts.push_back("option loss_scaler initial_scale " + text(scaler.initial_scale));
  facts.push_back("option loss_scaler growth_factor " + text(scaler.growth_factor));
  facts.push_back("option loss_scaler backoff_factor " + text(scaler.backoff_factor));
  facts.push_back("option loss_scaler growth_interval " + text(scaler.growth_interval));
  facts.push_back("option loss_scaler hysteresis " + text(scaler.hysteresis));
  facts.push_back("option loss_scaler min_scale " + text(scaler.min_scale));
  facts.push_back("option loss_scaler max_consecutive_skips " + text(scaler.max_consecutive_skips));
}

void require_valid_clipping(const Options& options) {
  const auto require_limit = [](double limit, const std::string& name) {
    ZERO_REQUIRE(std::isfinite(limit) && limit >= 0,
                 "optimizer: " + name +
                     " must be finite and at least 0 (0 turns clipping off): " + text(limit));
  };
  require_limit(options.clip_norm(), "clip_norm");
  require_limit(options.clip_value(), "clip_value");
  bool clips_norm = options.clip_norm() > 0;
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    require_limit(options.groups()[i].clip_norm, "clip_norm of group " + text(i + 1));
    clips_norm = clips_norm || options.groups()[i].clip_norm > 0;
  }
  if (options.clip_value() == 0) return;
  ZERO_REQUIRE(
      options.clip_value() >= std::numeric_limits<float>::min() &&
          options.clip_value() <= std::numeric_limits<float>::max(),
      "optimizer: clip_value must be a normal number as a float32: " + text(options.clip_value()));
  ZERO_REQUIRE(!clips_norm,
               "optimizer: clip_value together with a clip_norm is not defined; leave one of them "
               "at 0: clip_value " +
                   text(options.clip_value()));
}

void require_valid_group(const UpdateRule& rule, const RuleOptions& options,
                         const std::string& group) {
  const std::string fault = rule.fault_of(rule.values_of(base_of(options)).value());
  ZERO_REQUIRE(fault.empty(), "optimizer: group " + group + ": " + fault);
}

}  // namespace

std::vector<std::string> model_facts(const Layout& layout, const std::vector<NamedTensor>& buffers,
                                     const UpdateRule& rule, const RuleOptions& defaults,
                                     const Options& options) {
  const auto text_of = [&](const RuleOptions& group) {
    return zero::describe(rule, rule.values_of(base_of(group)).value());
  };
  std::vector<std::string> facts;
  for (const ParameterSpec& parameter : layout.parameters())
    facts.push_back("parameter " + zero::describe(parameter));
  for (const NamedTensor& buffer : buffers) {
    facts.push_back("buffer " + buffer.name + " " + c10::toString(buffer.tensor.scalar_type()) +
                    " " + text(buffer.tensor.sizes()));
  }
  facts.push_back("update rule " + std::string(rule.name()));
  facts.push_back("group 0: " + text_of(defaults));
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    facts.push_back("group " + text(i + 1) + ": " + text_of(options.groups()[i].options) +
                    " clip_norm " + text(options.groups()[i].clip_norm));
  }
  facts.push_back("option stage " + text(options.stage()));
  facts.push_back("option clip_norm " + text(options.clip_norm()));
  facts.push_back("option clip_value " + text(options.clip_value()));
  facts.push_back("option group_norms " + text(static_cast<int>(options.group_norms())));
  facts.push_back(std::string("option wire ") +
                  (options.wire() ? c10::toString(*options.wire()) : "of the parameter"));
  facts.push_back("option ema " + text(options.ema()));
  facts.push_back("option unused " + text(static_cast<int>(options.unused())));
  facts.push_back("option deterministic " + text(static_cast<int>(options.deterministic())));
  facts.push_back("option bucket_bytes " + text(options.bucket_bytes()));
  facts.push_back("option first_bucket_bytes " + text(options.first_bucket_bytes()));
  facts.push_back("option shard_alignment " + text(options.shard_alignment()));
  facts.push_back("option checksum_every " + text(options.checksum_every()));
  facts.push_back(std::string("option offload ") +
                  (options.offload().on_disk() ? "to disk" : "not to disk"));
  facts.push_back("option checkpoint_timeout " + text(options.checkpoint_timeout().count()) +
                  " ms");
  facts.push_back("option device_timeout " + text(options.device_timeout().count()) + " ms");
  add_scaler_facts(options.loss_scaler(), facts);
  facts.push_back("layout " + text(layout.fingerprint()));
  return facts;
}

void broadcast_from_rank_0(Collective& comm, const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& item : tensors) {
    if (item.tensor.numel() == 0) continue;
    const at::Tensor target = without_repeats(item.tensor.detach(), item.tensor.strides());
    at::Tensor contiguous = target.to(at::kCPU).contiguous();
    comm.broadcast(
            {contiguous.data_ptr(), static_cast<std::int64_t>(contiguous.nbytes()), DType::kUInt8},
            0, "initial value of " + item.name)
        ->wait();
    if (contiguous.data_ptr() != target.data_ptr()) target.copy_(contiguous);
  }
}

void copy_into(const at::Tensor& tensor, const at::Tensor& contiguous) {
  const at::NoGradGuard no_grad;
  without_repeats(tensor.detach(), tensor.strides())
      .copy_(without_repeats(contiguous, tensor.strides()));
}

void require_valid(const UpdateRule& rule, const RuleOptions& defaults, const Options& options) {
  require_valid_group(rule, defaults, "0");
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    ZERO_REQUIRE(options.groups()[i].predicate != nullptr,
                 "optimizer: group has no predicate: " + text(i + 1));
    require_valid_group(rule, options.groups()[i].options, text(i + 1));
  }
  ZERO_REQUIRE(options.stage() >= 0 && options.stage() <= 2,
               "optimizer: stage must be 0, 1 or 2: " + text(options.stage()));
  ZERO_REQUIRE(
      options.ema() >= 0 && static_cast<float>(options.ema()) < 1.0f,
      "optimizer: ema, the decay of the average, must lie in [0, 1) as float32 (0 turns it "
      "off): " +
          text(options.ema()));
  ZERO_REQUIRE(options.checksum_every() >= 0,
               "optimizer: checksum_every must be at least 0 (0 turns it off): " +
                   text(options.checksum_every()));
  const OffloadSize& size = options.offload().size();
  ZERO_REQUIRE(
      size.block_elements > 0 && size.block_elements <= (std::int64_t{1} << 30) &&
          size.blocks > 0 && size.blocks <= 4096 && size.threads > 0 && size.threads <= 256,
      "optimizer: an offload needs 1 to 2^30 elements a block, 1 to 4096 blocks and 1 to "
      "256 threads: " +
          text(size.block_elements) + ", " + text(size.blocks) + ", " + text(size.threads));
  ZERO_REQUIRE(!options.offload().on_disk() || !options.offload().folder().empty(),
               "optimizer: offload to disk needs the name of a folder: Offload::kDisk(folder)");
  ZERO_REQUIRE(options.checkpoint_timeout().count() > 0,
               "optimizer: checkpoint_timeout must be longer than nothing: " +
                   text(options.checkpoint_timeout().count()) + " ms");
  ZERO_REQUIRE(options.device_timeout().count() > 0,
               "optimizer: device_timeout must be longer than nothing: " +
                   text(options.device_timeout().count()) + " ms");
  require_valid_clipping(options);
  ZERO_REQUIRE(!options.wire() || *options.wire() == at::kFloat || *options.wire() == at::kBFloat16,
               std::string("optimizer: wire must be torch::kFloat or torch::kBFloat16: ") +
                   c10::toString(options.wire().value_or(at::kFloat)));
}

}  // namespace zero
