#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "benchmarks/common/program.h"
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
  std::uint64_t mib = 256;
  zero::benchmark::RunFlags flags{9, ""};
  app.add_option("--directory", directories, "where to write, each gives a row of figures")
      ->capture_default_str();
  app.add_option("--mib", mib, "bytes of training state")->capture_default_str();
  flags.add_to(app);
  CLI11_PARSE(app, argc, argv);

  Model model(mib << 20);
  zero::benchmark::Figures figures;
  for (const std::string& directory : directories) {
    const Folder folder(directory);
    const std::string place = directory.starts_with("/dev/shm") ? "tmpfs" : "disk";
    for (const Result& result : run_cases(model, folder.path(), place, flags.rounds)) {
      figures.add(result);
    }
  }
  figures.write(flags.output);
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::checkpoint::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("checkpoint_benchmark", argc, argv,
                                      zero::checkpoint::benchmark::run);
}
