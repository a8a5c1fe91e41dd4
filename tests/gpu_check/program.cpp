#include "tests/gpu_check/program.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "libzero/base/error.h"
#include "tests/gpu_check/child.h"
#include "tests/gpu_check/parts.h"
#include "tests/gpu_check/runner.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

using Body = std::function<void(const Machine&, const Settings&, Report&)>;

struct NamedPart {
  Part part;
  Body body;
};

/// What matters most comes first: time may end before the last one.
const std::vector<NamedPart>& all_parts() {
  static const std::vector<NamedPart> parts = {
      {{"machine", 150},  // the first one to read gigabytes of libraries
       [](const Machine& machine, const Settings&, Report& report) {
         report.note("machine", machine.description());
       }},
      {{"kernels", 60},
       [](const Machine& machine, const Settings& settings, Report& report) {
         check_kernels(machine.apis(), settings, report);
       }},
      {{"bits", 75}, &check_bits},
      {{"adamw", 40},
       [](const Machine& machine, const Settings& settings, Report& report) {
         check_adamw_rate(machine.apis(), settings, report);
       }},
      {{"update", 90}, &check_update},
      {{"checkpoint", 30}, &check_checkpoint},
      {{"offload", 60}, &check_offload},
      {{"memory", 40}, &check_memory},
      {{"gpt-bf16", 60},
       [](const Machine& machine, const Settings& settings, Report& report) {
         check_gpt(machine, settings, /*is_half=*/false, report);
       }},
      {{"gpt-fp16", 60},
       [](const Machine& machine, const Settings& settings, Report& report) {
         check_gpt(machine, settings, /*is_half=*/true, report);
       }},
      {{"collectives", 60},
       [](const Machine& machine, const Settings& settings, Report& report) {
         check_ranks(machine.apis(), settings, report);
       }},
  };
  return parts;
}

void say(const std::string& record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t bytes = ::write(kReportDescriptor, record.data() + done, record.size() - done);
    if (bytes <= 0) ::_exit(1);  // nobody listens
    done += static_cast<std::size_t>(bytes);
  }
}

/// In a process of its own. What it throws is a bad line.
int run_part(const std::string& name, const Settings& settings, const MakeMachine& make) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto found = std::find_if(all_parts().begin(), all_parts().end(),
                                  [&](const NamedPart& part) { return part.part.name == name; });
  if (found == all_parts().end()) return 1;
  try {
    const MachinePtr machine = make();
    Report report([](const Line& line) { say(record_of(line)); });
    found->body(*machine, settings, report);
    return 0;
  } catch (const Unavailable& error) {
    say(std::string(error.what()) + "\n");
    return kNothingToCheckOn;
  } catch (const std::exception& error) {
    say(words_of(error) + "\n");
    return 1;
  }
}

/// Parts named in `only`, or all; the first one always.
std::vector<Part> chosen(const std::vector<std::string>& only, double limit) {
  std::vector<Part> parts;
  for (const NamedPart& each : all_parts()) {
    Part part = each.part;
    if (limit > 0) part.seconds = limit;
    if (parts.empty() || only.empty() ||
        std::find(only.begin(), only.end(), part.name) != only.end())
      parts.push_back(part);
  }
  return parts;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const NamedPart& part : all_parts()) result.push_back(part.part.name);
  return result;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, Settings& settings, const MakeMachine& make) {
  double seconds = 450, limit = 0;
  std::string part;
  std::vector<std::string> only;
  bool is_quick = false;
  app.add_option("--parameters", settings.parameters, "Of the model beside torch's fused AdamW")
      ->check(CLI::PositiveNumber);
  app.add_flag("--quick", is_quick, "Smaller sizes; the step's speed decides nothing then");
  app.add_option("--only", only, "These parts only, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(names()));
  app.add_option("--seconds", seconds, "For all parts together")->check(CLI::PositiveNumber);
  app.add_option("--part-seconds", limit, "For each part, instead of its own limit");
  app.add_option("--elements", settings.elements, "Of arrays for rates of kernels and collectives")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds, "Of what is timed")->check(CLI::PositiveNumber);
  app.add_option("--devices", settings.devices, "GPUs for collectives; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--text", settings.text, "File that MiniGPT trains on")->check(CLI::ExistingFile);
  app.add_option("--part", part)->group("");  // for children
  CLI11_PARSE(app, argc, argv);
  if (is_quick) settings = quick(settings);
  if (!part.empty()) return run_part(part, settings, make);
  std::vector<std::string> command(argv, argv + argc);
  command.front() = "/proc/self/exe";
  return run({chosen(only, limit), seconds, command}, std::cout, std::cerr);
}

}  // namespace zero::gpu_check
