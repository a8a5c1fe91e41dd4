#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "benchmarks/common/report.h"
#include "cases.h"

namespace zero::checkpoint::benchmark {
namespace {

/// A new folder, removed with what is in it.
class Folder {
 public:
  explicit Folder(const std::string& parent)
      : path_(std::filesystem::path(parent) /
              ("checkpoint_benchmark." + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

int run(int argc, char** argv) {
  CLI::App app{
      "Compares saving and loading with the plain system calls for the same bytes.\n"
      "Example: checkpoint_benchmark --directory . --mib 256 --rounds 9 --output results.json"};
  std::vector<std::string> directories = {".", "/dev/shm"};
  std::string output;
  std::uint64_t mib = 256;
  int rounds = 9;
  app.add_option("--directory", directories, "where to write, each gives a row of figures")
      ->capture_default_str();
  app.add_option("--mib", mib, "bytes of training state")->capture_default_str();
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--output", output, "a JSON file; default: standard output");
  CLI11_PARSE(app, argc, argv);

  Model model(mib << 20);
  auto json = nlohmann::ordered_json::array();
  bool pass = true;
  for (const std::string& directory : directories) {
    const Folder folder(directory);
    const std::string place = directory.starts_with("/dev/shm") ? "tmpfs" : "disk";
    for (const Result& result : run_cases(model, folder.path(), place, rounds)) {
      json.push_back(zero::benchmark::to_json(result));
      pass = pass && result.pass();
    }
  }
  zero::benchmark::write_report(output, json);
  return pass ? 0 : 1;
}

}  // namespace
}  // namespace zero::checkpoint::benchmark

int main(int argc, char** argv) {
  try {
    return zero::checkpoint::benchmark::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "checkpoint_benchmark: " << error.what() << '\n';
    return 3;
  }
}
