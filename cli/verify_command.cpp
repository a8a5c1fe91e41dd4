#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/verify.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/long_work.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {"verify", kVerify, "[OPTIONS] DIR", R"(
Example:
  zero verify runs/a/step_000000000400

DIR is a checkpoint's directory, or a root, whose newest checkpoint is meant. Every byte is read:
hashes of files, datasets and blocks, tables, extents and the HDF5 structure. Each finding names
file, dataset and block (of the size that zero inspect shows; 8 MiB unless the writer chose otherwise).
The HDF5 structure is left to the HDF5 library, which is not made for hostile bytes: with --untrusted
it never sees the files, all else is checked.

Exit code: 0 whole; 1 damaged; 2 wrong usage; 3 there is no checkpoint, or it cannot be read; 128 +
signal when stopped.)"};

struct VerifyOptions {
  std::string path;
  bool quick = false;
  bool untrusted = false;
  bool json = false;
};

/// What was looked at, of a checkpoint without findings.
std::string praise(const checkpoint::Verification& found, const VerifyOptions& options) {
  if (options.quick) return "names, sizes and tables are right; data were not read\n";
  const std::string whole = "whole, " + bytes_text(found.bytes) + " read";
  return whole + (options.untrusted ? "; the HDF5 structure was not looked at\n" : "\n");
}

std::string text_of(const std::string& directory, const checkpoint::Verification& found,
                    const VerifyOptions& options) {
  std::string text;
  for (const checkpoint::Finding& finding : found.findings) {
    text += printable(checkpoint::to_text(finding)) + "\n";
  }
  text += printable(directory) + ": ";
  if (!found.findings.empty()) {
    return text + "damaged, " + count_text(found.findings.size(), "finding") + "\n";
  }
  return text + praise(found, options);
}

std::string json_of(const std::string& directory, const checkpoint::Verification& found,
                    const VerifyOptions& options) {
  Json findings = Json::array();
  for (const checkpoint::Finding& finding : found.findings) {
    findings.push_back({{"file", finding.file},
                        {"dataset", finding.dataset},
                        {"block", nullptr},
                        {"problem", finding.problem}});
    if (finding.block >= 0) findings.back()["block"] = finding.block;
  }
  return to_text(Json{{"directory", directory},
                      {"whole", found.findings.empty()},
                      {"quick", options.quick},
                      {"untrusted", options.untrusted},
                      {"bytes", found.bytes},
                      {"findings", findings}});
}

int verify(const VerifyOptions& options) {
  const auto files = checkpoint::on_disk();
  const std::string directory = find_checkpoint(*files, options.path);
  checkpoint::Verification found;
  run_long_work("verify", [&](const checkpoint::Progress& progress) {
    found = checkpoint::verify(*files, directory, {options.quick, progress, !options.untrusted});
    if (found.stopped) throw checkpoint::Cancelled("verify was stopped");
  });
  print(options.json ? json_of(directory, found, options) : text_of(directory, found, options));
  return found.findings.empty() ? kOk : kNo;
}

}  // namespace

Command add_verify_command(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("DIR", options->path, "A checkpoint's directory, or a root")
      ->required()
      ->type_name("");
  parser->add_flag("--quick", options->quick, "Do not read the data: names, sizes, tables only");
  parser->add_flag("--untrusted", options->untrusted,
                   "For files from strangers: the HDF5 library never sees them");
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return verify(*options); }};
}

}  // namespace zero::cli
