#include "cli/estimate_command.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>

#include "cli/estimate_report.h"
#include "cli/exit_code.h"
#include "cli/model_file.h"
#include "cli/output.h"
#include "cli/world_list.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {
    "estimate", "Say how much memory training will need, and what fits.",
    "[OPTIONS] (--model FILE|DIR | --params N | --layers L --hidden H ...)", R"(
Examples:
  zero estimate --params 7B --world 8..512 --stage all --precision bf16 --gpu-memory 80G
  zero estimate --model runs/a --world 1..8 --optimizer sgd --momentum
  zero estimate --layers 12 --hidden 768 --heads 12 --vocabulary 50257 --context 1024 --world 1..8

FILE is a model in JSON (docs/memory.md), DIR a checkpoint or a root of several, which says itself
whose moments it holds, and whether an average of the weights. What the optimizer holds is exact;
gradients that wait are a bound; activations go by the formulas for a decoder in the shape of GPT-2.
Neither LibTorch itself, nor a GPU's context, nor the communication's buffers are in it. Sizes count
1024, --params counts 1000.

Exit code: 0 shown; 1 nothing fits in --gpu-memory, or the model's description is damaged; 2 wrong
usage; 3 a file cannot be read.)"};

struct EstimateOptions {
  std::string model;
  std::string count;
  std::string worlds = "1..8";
  std::string stage = "all";
  std::string precision;
  std::string wire;
  std::string optimizer;  // empty: the checkpoint's, or AdamW
  bool momentum = false;
  bool ema = false;
  std::string offload = "none";
  std::uint64_t limit = 0;
  Transformer shape;
  ActivationOptions activations;
  std::string recompute = "none";
  bool no_dropout = false;
  bool json = false;
};

const std::map<std::string, DType> kPrecisions = {
    {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};

/// What the file says of the shape, unless the command line says otherwise.
void complete(Transformer& shape, const Transformer& from_file) {
  for (const auto member : {&Transformer::layers, &Transformer::hidden, &Transformer::heads,
                            &Transformer::vocabulary, &Transformer::context}) {
    if (shape.*member == 0) shape.*member = from_file.*member;
  }
}

Model model_of(const EstimateOptions& options) {
  ZERO_REQUIRE(options.model.empty() || options.count.empty(),
               "--model and --params contradict each other; choose one");
  Model model;
  if (std::filesystem::is_directory(options.model)) {
    model = model_of_checkpoint(options.model);
  } else if (!options.model.empty()) {
    model = read_model_file(options.model);
  }
  Transformer shape = options.shape;
  complete(shape, model.shape);
  model.shape = shape;
  if (!options.count.empty()) {
    const auto count = parse_count(options.count);
    ZERO_REQUIRE(count, "--params is no number of parameters; write 124M, 7B or 1.5B: '" +
                            options.count + "'");
    model.parameters = anonymous_parameters(*count, DType::kFloat32);
  }
  if (model.parameters.empty()) {
    ZERO_REQUIRE(shape.layers > 0,
                 "there is no model: give --model, --params, or --layers, --hidden, --vocabulary "
                 "and --context");
    model.parameters = transformer_parameters(shape, DType::kFloat32);
  }
  return model;
}

/// The command line's rule replaces the checkpoint's; an average is kept if either says so.
KeptState kept_of(const EstimateOptions& options, const Model& model) {
  KeptState kept = model.kept.value_or(KeptState{});
  if (!options.optimizer.empty()) {
    kept.rule = options.optimizer == "sgd" ? "SGD" : "AdamW";
    kept.momentum = false;
  }
  kept.momentum = kept.momentum || options.momentum;
  kept.ema = kept.ema || options.ema;
  return kept;
}

void convert(std::vector<ParameterSpec>& rows, const std::string& precision) {
  if (precision.empty()) return;
  for (ParameterSpec& row : rows) {
    if (is_floating(row.dtype)) row.dtype = kPrecisions.at(precision);
  }
}

void describe_model(const std::vector<ParameterSpec>& rows, EstimateReport& report,
                    std::int64_t& element_bytes) {
  std::set<DType> types;
  for (const ParameterSpec& row : rows) {
    if (!row.trainable || row.alias_of >= 0) continue;
    report.elements += row.numel();
    types.insert(row.dtype);
  }
  ZERO_REQUIRE(!types.empty(),
               "the model has no trainable parameter, there is nothing to estimate");
  element_bytes = 0;
  for (const DType dtype : types) {
    report.precision += (report.precision.empty() ? "" : ", ") + std::string(name_of(dtype));
    element_bytes = std::max(element_bytes, size_of(dtype));
  }
}

bool has_shape(const Transformer& shape, const ActivationOptions& options) {
  return shape.layers > 0 && shape.hidden > 0 && shape.heads > 0 &&
         (shape.context > 0 || options.sequence > 0);
}

void require_sequence_fits(const Transformer& shape, const ActivationOptions& options) {
  ZERO_REQUIRE(shape.context == 0 || options.sequence <= shape.context,
               "--sequence must not be longer than the model's context, its --context: " +
                   std::to_string(options.sequence) + " and " + std::to_string(shape.context));
}

std::optional<ActivationMemory> activations_of(const EstimateOptions& options,
                                               const Transformer& shape,
                                               std::int64_t element_bytes) {
  require_sequence_fits(shape, options.activations);
  ActivationOptions activations = options.activations;
  activations.element_bytes = element_bytes;
  activations.dropout = !options.no_dropout;
  activations.recompute = options.recompute == "layers"      ? Recompute::kLayers
                          : options.recompute == "attention" ? Recompute::kAttention
                                                             : Recompute::kNone;
  if (!has_shape(shape, activations)) return std::nullopt;
  return estimate_activations(shape, activations);
}

std::vector<int> stages_of(const std::string& text) {
  return text == "all" ? std::vector<int>{0, 1, 2} : std::vector<int>{text[0] - '0'};
}

EstimateReport report_of(const EstimateOptions& options) {
  Model model = model_of(options);
  convert(model.parameters, options.precision);
  const auto worlds = parse_worlds(options.worlds);
  ZERO_REQUIRE(worlds, "--world must be 1 to 65536: 8, 2,4,6 or 8..512, which doubles: '" +
                           options.worlds + "'");
  EstimateReport report;
  std::int64_t element_bytes = 0;
  describe_model(model.parameters, report, element_bytes);
  report.activations = activations_of(options, model.shape, element_bytes);
  report.kept = kept_of(options, model);
  if (options.limit > 0) {
    report.limit = static_cast<std::int64_t>(std::min(options.limit, std::uint64_t{1} << 62));
  }
  report.state = options.offload == "none" ? "beside" : options.offload;
  MemoryOptions memory;
  memory.kept = report.kept.kinds();
  memory.state = options.offload == "disk"   ? StatePlace::kDisk
                 : options.offload == "host" ? StatePlace::kHost
                                             : StatePlace::kBeside;
  if (!options.wire.empty()) memory.wire = kPrecisions.at(options.wire);
  const Layout layout(std::move(model.parameters), {});
  for (const int stage : stages_of(options.stage)) {
    for (const int world : *worlds) {
      memory.stage = stage;
      memory.world_size = world;
      report.rows.push_back({stage, world, estimate_memory(layout, memory)});
    }
  }
  return report;
}

int estimate(const EstimateOptions& options) {
  const EstimateReport report = report_of(options);
  print(options.json ? estimate_json(report) : estimate_text(report, width_of_output()));
  return report.any_fits() ? kOk : kNo;
}

void add_model_options(CLI::App& parser, EstimateOptions& options) {
  parser.add_option("--model", options.model, "A model in JSON, or a checkpoint")
      ->type_name("FILE|DIR")
      ->check(not_empty());
  parser.add_option("--params", options.count, "Trainable parameters, of any model")
      ->type_name("N")
      ->check(not_empty());
  const auto measure = [&](const char* name, std::int64_t& value, const char* description) {
    parser.add_option(name, value, description)->type_name("N")->check(in_range(1, 1 << 28));
  };
  measure("--layers", options.shape.layers, "Of a decoder in the shape of GPT-2");
  measure("--hidden", options.shape.hidden, "Width of its residual stream");
  measure("--heads", options.shape.heads, "Of its attention");
  measure("--vocabulary", options.shape.vocabulary, "Its tokens");
  measure("--context", options.shape.context, "Tokens of its longest sequence");
  measure("--micro-batch", options.activations.micro_batch,
          "Sequences a backward call (default 1)");
  measure("--sequence", options.activations.sequence, "Tokens of each (default: the context)");
}

}  // namespace

Command add_estimate_command(CLI::App& app) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App* parser = add_command(app, kTexts);
  add_model_options(*parser, *options);
  const auto choice = [&](const char* name, std::string& value, std::vector<std::string> of,
                          const char* description) {
    parser->add_option(name, value, description)->type_name("WHICH")->check(one_of(std::move(of)));
  };
  parser->add_option("--world", options->worlds, "Ranks: 8, 2,4,6 or 8..512 (default 1..8)")
      ->type_name("N");
  choice("--stage", options->stage, {"0", "1", "2", "all"}, "ZeRO stage: 0, 1, 2, all (default)");
  choice("--precision", options->precision, {"fp32", "bf16", "fp16"},
         "Of parameters: fp32, bf16, fp16 (default: the model's, fp32)");
  choice("--wire", options->wire, {"fp32", "bf16"},
         "Of gradients between ranks: fp32, bf16 (default: the parameters')");
  choice("--optimizer", options->optimizer, {"adamw", "sgd"},
         "Whose moments: adamw, sgd (default: the checkpoint's, adamw)");
  parser->add_flag("--momentum", options->momentum, "SGD keeps a momentum buffer");
  parser->add_flag("--ema", options->ema, "An average of the weights is kept");
  choice("--offload", options->offload, {"none", "host", "disk"},
         "Where masters and moments lie: none (default), host (of a GPU), disk");
  choice("--recompute", options->recompute, {"none", "attention", "layers"},
         "What backward computes once more: none (default), attention, layers");
  parser->add_flag("--fused-attention", options->activations.fused_attention,
                   "Attention keeps no scores (scaled_dot_product_attention)");
  parser->add_flag("--no-dropout", options->no_dropout, "No masks are kept");
  parser->add_option("--gpu-memory", options->limit, "Bytes that a rank has; say what fits")
      ->type_name("BYTES")
      ->transform(as_bytes())
      ->check([](const std::string& bytes) {
        return bytes == "0" ? "nothing fits in no memory; leave it out for no limit" : "";
      });
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return estimate(*options); }};
}

}  // namespace zero::cli
