// A small job that saves checkpoints, to be killed, starved and cut off; and the judge of what it
// left.
//
//   save ROOT STEP    saves, then removes all but the newest two; prints "saved STEP"
//   check ROOT        verifies whatever has a final name; prints the newest step and what LATEST
//   says recover ROOT STEP check, save, check: what the next job would find and do hold ROOT STEP
//   begins a save, prints "held", and waits for the end of its input
//
// Exit codes: 0; 1: something torn, or no checkpoint at all; 2: usage; 3: an error, which is
// printed.

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "hooked_file_system.h"
#include "judge.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

struct Arguments {
  std::string root;
  std::int64_t step = 0;
  int world_size = 3;
  std::size_t keep = 2;
  std::size_t blob_bytes = 0;
  std::size_t longest_write = 4096;
  bool no_file_fsync = false;
  bool no_directory_fsync = false;
  bool fork = false;
  bool finish = false;
  int cut_at = 0;
  std::string cut_command;
  std::string created;
};

/// Whoever counts the calls of this process counts from here on: what came before is the loader's.
void mark_begin() {
  static_cast<void>(::access("/checkpoint_victim_begins", F_OK));
}

/// The power goes: what the command sees is what is left.
[[noreturn]] void cut(const std::string& command) {
  const int status = std::system(command.c_str());
  ::_exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 99);
}

/// The disk, with its fsync switched off or its power cut if the arguments say so.
class Disk {
 public:
  explicit Disk(const Arguments& arguments) {
    auto faulty = std::make_shared<testing::FaultyFileSystem>(on_disk());
    faulty->set_lying_fsync(arguments.no_file_fsync, arguments.no_directory_fsync);
    faulty->set_longest_transfer(arguments.longest_write);
    files = torture::with_hook(faulty, [this, &arguments](const char*, const std::string&) {
      if (++changes == arguments.cut_at) cut(arguments.cut_command);
    });
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  std::shared_ptr<FileSystem> files;
  int changes = 0;
};

std::unique_ptr<Store> store_on(const Disk& disk, const Arguments& arguments) {
  Hdf5StoreOptions options;
  options.block_bytes = 64;
  options.created = arguments.created;
  options.new_attempt = [step = arguments.step] {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(step));
    return std::string(digits);
  };
  return make_hdf5_store(disk.files, arguments.root, options);
}

void warn(const std::string& text) {
  std::printf("warning: %s\n", text.c_str());
}

/// Old checkpoints that stay are a waste, not a failure.
void remove_old(Store& store, std::size_t keep) {
  try {
    const Listing listing = store.list();
    for (const Damaged& damaged : listing.damaged) warn(damaged.name + ": " + damaged.problem);
    const std::vector<StepInfo>& steps = listing.steps;
    for (std::size_t i = 0; i + keep < steps.size(); ++i) store.remove(steps[i].step);
  } catch (const Error& error) {
    warn(std::string("an old checkpoint could not be removed: ") + error.what());
  }
}

void save_and_retain(const Arguments& arguments) {
  Disk disk(arguments);
  const auto store = store_on(disk, arguments);
  const Sample sample =
      torture::sample_with_blob(arguments.step, arguments.world_size, arguments.blob_bytes);
  for (const std::string& warning : save(*store, sample).warnings) warn(warning);
  remove_old(*store, arguments.keep);
  std::printf("saved %lld\nchanges %d\n", static_cast<long long>(arguments.step), disk.changes);
  if (arguments.cut_at > disk.changes) {
    std::fflush(stdout);
    cut(arguments.cut_command);
  }
}

bool check(const Arguments& arguments, const char* when) {
  Disk disk(arguments);
  return torture::judge(*disk.files, *store_on(disk, arguments), arguments.root, when);
}

void wait_for_end_of_input() {
  while (std::getchar() != EOF) {
  }
}

void say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

/// Finishes the save only if told so. With a child the parent does not wait: the child does.
void hold(const Arguments& arguments) {
  Disk disk(arguments);
  const auto store = store_on(disk, arguments);
  const Sample sample(arguments.step, arguments.world_size);
  const auto writer = store->begin(sample.common(), sample.world_size());
  writer->put(0, sample.rank(0));
  const pid_t child = arguments.fork ? ::fork() : -1;
  if (child == 0) {
    wait_for_end_of_input();
    ::_exit(0);
  }
  say("held");
  if (child == -1) wait_for_end_of_input();
  if (!arguments.fork && !arguments.finish) return;
  for (int rank = 1; rank < sample.world_size(); ++rank) writer->put(rank, sample.rank(rank));
  writer->commit();
  say(("saved " + std::to_string(arguments.step)).c_str());
}

int run(const std::string& command, const Arguments& arguments) {
  if (command == "save") {
    save_and_retain(arguments);
  } else if (command == "hold") {
    hold(arguments);
  } else if (command == "check") {
    return check(arguments, "found") ? 0 : 1;
  } else {
    const bool before = check(arguments, "found");
    save_and_retain(arguments);
    return check(arguments, "then") && before ? 0 : 1;
  }
  return 0;
}

void add_options(CLI::App& command, Arguments& arguments, bool has_step) {
  command.add_option("root", arguments.root)->required();
  if (has_step) command.add_option("step", arguments.step)->required();
  command.add_option("--world", arguments.world_size, "number of ranks");
  command.add_option("--keep", arguments.keep, "newest checkpoints to keep");
  command.add_option("--blob", arguments.blob_bytes, "bytes of one more blob");
  command.add_option("--longest-write", arguments.longest_write, "bytes of one pwrite");
  command.add_option("--created", arguments.created, "the text that says when");
  command.add_flag("--no-file-fsync", arguments.no_file_fsync, "fsync of files does nothing");
  command.add_flag("--no-directory-fsync", arguments.no_directory_fsync,
                   "fsync of directories does nothing");
  command.add_flag("--fork", arguments.fork, "hold: finish while a child waits");
  command.add_flag("--finish", arguments.finish, "hold: finish in the end");
  command.add_option("--cut-at", arguments.cut_at, "the change before which the power goes");
  command.add_option("--cut-command", arguments.cut_command, "what is run then");
}

}  // namespace
}  // namespace zero::checkpoint

int main(int argc, char** argv) {
  zero::checkpoint::Arguments arguments;
  CLI::App app("A job that saves checkpoints, to be killed");
  app.require_subcommand(1);
  for (const char* name : {"save", "hold", "recover", "check"}) {
    add_options(*app.add_subcommand(name), arguments, std::string(name) != "check");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::string command = app.get_subcommands()[0]->get_name();
  zero::checkpoint::mark_begin();
  try {
    const int code = zero::checkpoint::run(command, arguments);
    if (std::fflush(stdout) != 0) return 3;
    return code;
  } catch (const std::exception& error) {
    std::printf("error: %s of step %lld failed: %s\n", command.c_str(),
                static_cast<long long>(arguments.step), error.what());
    std::fflush(stdout);
    return 3;
  }
}
