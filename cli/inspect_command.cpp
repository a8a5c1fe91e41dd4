#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/inspect.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/inspect_report.h"
#include "cli/output.h"
#include "cli/place.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {"inspect", kInspect, "[OPTIONS] DIR", R"(
Example:
  zero inspect runs/a --parameter blocks.0.attn.weight

DIR is a checkpoint's directory, or a root, whose newest checkpoint is meant. No data are read:
tables and sizes are checked, hashes of data are not (zero verify does that).

Exit code: 0 shown; 1 the checkpoint is damaged, or has no such parameter; 2 wrong usage; 3 there is
no checkpoint, or it cannot be read.)"};

struct InspectOptions {
  std::string path;
  std::string parameter;
  bool json = false;
};

/// -1 if there is none.
std::int32_t find_parameter(const checkpoint::Inspection& what, const std::string& name) {
  const auto& parameters = what.common.parameters;
  const auto found = std::ranges::find(parameters, name, &ParameterSpec::name);
  return found == parameters.end() ? -1 : static_cast<std::int32_t>(found - parameters.begin());
}

int inspect(const InspectOptions& options) {
  const auto files = checkpoint::on_disk();
  const std::string directory = find_checkpoint(*files, options.path);
  const checkpoint::Inspection what = checkpoint::inspect(*files, directory);
  require_name_of_step(directory, what.manifest.step);
  if (options.parameter.empty()) {
    print(options.json ? inspection_json(directory, what)
                       : inspection_text(directory, what, width_of_output()));
    return kOk;
  }
  const std::int32_t parameter = find_parameter(what, options.parameter);
  if (parameter < 0) {
    complain("the checkpoint has no such parameter, zero inspect lists them all: '" +
             options.parameter + "'");
    return kNo;
  }
  print(options.json ? parameter_json(directory, what, parameter)
                     : parameter_text(what, parameter, width_of_output()));
  return kOk;
}

}  // namespace

Command add_inspect_command(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("DIR", options->path, "A checkpoint's directory, or a root")
      ->required()
      ->type_name("");
  parser->add_option("--parameter", options->parameter, "Show one parameter, and where it lies")
      ->type_name("NAME")
      ->check(not_empty());
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return inspect(*options); }};
}

}  // namespace zero::cli
