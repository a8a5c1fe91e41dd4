#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>

#include "checkpoint/tools/export.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/long_work.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

using checkpoint::ExportFormat;

constexpr CommandTexts kTexts = {"export", kExport, "[OPTIONS] DIR OUT", R"(
Examples:
  zero export runs/a model.safetensors --dtype bf16
  zero export runs/a average.h5 --ema

DIR is a checkpoint's directory, or a root, whose newest checkpoint is meant. OUT is a new file:
nothing is overwritten. It is HDF5 if its name ends in .h5 or .hdf5, otherwise safetensors.
Parameters and buffers are written whole, under their names, in their own dtypes unless --dtype says
otherwise. With --ema trainable ones are the average of the weights that training kept. With several
files, OUT model.safetensors becomes model-00001-of-00003.safetensors and so on, and
model.safetensors.index.json.

Exit code: 0 done; 1 the checkpoint is damaged, or has no average; 2 wrong usage, or OUT exists; 3 there is no
checkpoint, or files cannot be read or written; 128 + signal when stopped: there is no OUT then.)"};

struct Options {
  std::string path;
  std::string out;
  std::string format;  // empty: as the name of `out` says
  std::string dtype;
  std::uint64_t max_shard = std::uint64_t{5} << 30;
  bool ema = false;
  bool json = false;
};

/// The format that the ending of a file's name promises.
std::optional<ExportFormat> format_of_name(std::string_view name) {
  if (name.ends_with(".h5") || name.ends_with(".hdf5")) return ExportFormat::kHdf5;
  if (name.ends_with(".safetensors")) return ExportFormat::kSafetensors;
  return std::nullopt;
}

const char* name_of(ExportFormat format) {
  return format == ExportFormat::kHdf5 ? "h5" : "safetensors";
}

ExportFormat format_of(const Options& options) {
  const std::optional<ExportFormat> promised = format_of_name(options.out);
  if (options.format.empty()) return promised.value_or(ExportFormat::kSafetensors);
  const ExportFormat asked =
      options.format == "h5" ? ExportFormat::kHdf5 : ExportFormat::kSafetensors;
  ZERO_REQUIRE(promised.value_or(asked) == asked,
               "the name of OUT is that of another format, change it or leave --format out: " +
                   options.format + " and '" + options.out + "'");
  return asked;
}

checkpoint::ExportOptions library_options(const Options& options) {
  static const std::map<std::string, DType> kDTypes = {
      {"f32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"f16", DType::kFloat16}};
  checkpoint::ExportOptions result;
  result.format = format_of(options);
  if (options.ema) result.weights = checkpoint::ExportWeights::kAverage;
  if (!options.dtype.empty()) result.dtype = kDTypes.at(options.dtype);
  result.max_shard = options.max_shard;
  return result;
}

std::string json_of(const std::string& directory, const checkpoint::ExportOptions& how,
                    const checkpoint::ExportResult& result) {
  const bool is_average = how.weights == checkpoint::ExportWeights::kAverage;
  return to_text(Json{{"directory", directory},
                      {"format", name_of(how.format)},
                      {"weights", is_average ? "ema" : "master"},
                      {"files", result.files},
                      {"bytes", result.bytes},
                      {"aliases", result.aliases},
                      {"warnings", result.warnings}});
}

std::string text_of(const checkpoint::ExportOptions& how, const checkpoint::ExportResult& result) {
  std::string text;
  for (const std::string& file : result.files) text += printable(file) + "\n";
  text += bytes_text(result.bytes) + " in " + count_text(result.files.size(), "file") + ", " +
          name_of(how.format);
  if (!result.aliases.empty()) text += ", " + std::to_string(result.aliases.size()) + " tied";
  return text + "\n";
}

int export_parameters(const Options& options) {
  checkpoint::ExportOptions how = library_options(options);
  const auto files = checkpoint::on_disk();
  const std::string directory = find_checkpoint(*files, options.path);
  const auto reader = open_place(files, directory);
  checkpoint::ExportResult result;
  run_long_work("export", [&](const checkpoint::Progress& progress) {
    how.progress = progress;
    result = checkpoint::export_parameters(*reader, *files, options.out, how);
  });
  print(options.json ? json_of(directory, how, result) : text_of(how, result));
  for (const std::string& warning : result.warnings) complain("warning: " + warning);
  return kOk;
}

}  // namespace

Command add_export_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("DIR", options->path, "A checkpoint's directory, or a root")
      ->required()
      ->type_name("");
  parser->add_option("OUT", options->out, "The file to write")
      ->required()
      ->type_name("")
      ->check(not_empty());
  parser->add_option("--format", options->format, "safetensors or h5 (default: as OUT's name ends)")
      ->type_name("NAME")
      ->check(one_of({"safetensors", "h5"}));
  parser->add_option("--dtype", options->dtype, "Of floating parameters: f32, bf16 or f16")
      ->type_name("NAME")
      ->check(one_of({"f32", "bf16", "f16"}));
  parser
      ->add_option("--max-shard", options->max_shard,
                   "Most bytes of data in one safetensors file (default 5G); 0: one file")
      ->type_name("SIZE")
      ->transform(as_bytes());
  parser->add_flag("--ema", options->ema, "The average of the weights instead of the weights");
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return export_parameters(*options); }};
}

}  // namespace zero::cli
