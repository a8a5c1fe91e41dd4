#include "checkpoint/hdf5_store.h"

#include <bit>
#include <cerrno>
#include <tuple>

#include "checkpoint/directories.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_reader.h"
#include "checkpoint/hdf5_writer.h"
#include "checkpoint/locks.h"
#include "checkpoint/names.h"
#include "checkpoint/place.h"

namespace zero::checkpoint {
namespace {

class Hdf5Store : public Store {
 public:
  Hdf5Store(std::shared_ptr<FileSystem> files, std::string root, Hdf5StoreOptions options)
      : files_(std::move(files)), root_(std::move(root)), options_(std::move(options)) {}

  Listing list() override {
    Listing listing;
    if (files_->status(root_).kind == FileKind::kMissing) return listing;
    for (const std::string& name : files_->list(root_)) {
      const auto step = parse_step_name(name);
      if (!step) continue;
      try {
        const Manifest manifest = checked_manifest(*step);
        const std::string problem = problem_of_sizes(*files_, path(*step), manifest);
        if (!problem.empty()) throw FormatError(problem);
        listing.steps.push_back(info_from(manifest));
      } catch (const FormatError& error) {
        listing.damaged.push_back({name, error.what(), false});
      } catch (const IoError& error) {
        listing.damaged.push_back({name, error.what(), true});
      }
    }
    return listing;  // Names have a fixed number of digits: their order is the steps'.
  }

  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    validate(common, world_size);
    ensure_root(*files_, root_);
    std::unique_ptr<FileLock> lock;
    if (options_.lock) lock = lock_root(*files_, root_, RootLock::kSave, options_.lock_wait);
    require_missing(common.step);
    std::vector<std::string> warnings;
    if (lock) warnings = remove_leftovers(*files_, root_);
    const std::string attempt = options_.new_attempt ? options_.new_attempt() : random_attempt();
    ZERO_REQUIRE(is_attempt(attempt),
                 "an attempt must be 16 lowercase hexadecimal digits: '" + attempt + "'");
    files_->make_directory(join_path(root_, temporary_name(common.step, attempt)));
    return std::make_unique<Hdf5Writer>(files_, root_, options_, common, world_size, attempt, true,
                                        std::move(lock), std::move(warnings));
  }

  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    validate(common, world_size);
    if (!is_attempt(ticket)) {
      throw FormatError("this is no ticket, pass on what Writer::ticket() returned: '" +
                        std::string(ticket.substr(0, 32)) + "'");
    }
    return std::make_unique<Hdf5Writer>(files_, root_, options_, common, world_size,
                                        std::string(ticket), false, nullptr,
                                        std::vector<std::string>());
  }

  std::unique_ptr<Reader> open(std::int64_t step) override {
    require_present(step);
    checked_manifest(step);
    return open_checkpoint(files_, path(step));
  }

  void remove(std::int64_t step) override {
    require_present(step);
    std::unique_ptr<FileLock> lock;
    if (options_.lock) lock = lock_root(*files_, root_, RootLock::kSave, options_.lock_wait);
    const std::string doomed = join_path(root_, doomed_name(step, random_attempt()));
    files_->rename_new(path(step), doomed);
    files_->fsync_directory(root_);
    remove_checkpoint_directory(*files_, doomed);
  }

 private:
  std::string path(std::int64_t step) const { return join_path(root_, step_name(step)); }

  Manifest checked_manifest(std::int64_t step) const {
    Manifest manifest = read_manifest(*files_, path(step));
    const std::string problem = problem_of_name(path(step), manifest.step);
    if (!problem.empty()) throw FormatError(problem);
    return manifest;
  }

  void require_missing(std::int64_t step) const {
    ZERO_REQUIRE(
        files_->status(path(step)).kind == FileKind::kMissing,
        "this step has a checkpoint already, remove it or save another step: " + path(step));
  }
  void require_present(std::int64_t step) const {
    ZERO_REQUIRE(
        step >= 0 && step <= kMaxStep && files_->status(path(step)).kind != FileKind::kMissing,
        "there is no checkpoint of this step: " + path(step));
  }

  const std::shared_ptr<FileSystem> files_;
  const std::string root_;
  const Hdf5StoreOptions options_;
};

}  // namespace

std::unique_ptr<Store> make_hdf5_store(std::shared_ptr<FileSystem> files, std::string root,
                                       Hdf5StoreOptions options) {
  ZERO_REQUIRE(!root.empty(), "a root must have a name");
  ZERO_REQUIRE(
      std::has_single_bit(options.block_bytes) && options.block_bytes >= 64 &&
          options.block_bytes <= (std::uint64_t{1} << 30),
      "block_bytes must be a power of two, 64 to 2^30: " + std::to_string(options.block_bytes));
  for (const auto& [name, text, longest] :
       {std::tuple("created", options.created, 64u), std::tuple("writer", options.writer, 256u)}) {
    ZERO_REQUIRE(text.empty() || (is_parameter_name(text) && text.size() <= longest),
                 "a text for the manifest must be UTF-8 without control characters, of at most " +
                     std::to_string(longest) + " bytes: option '" + name + "'");
  }
  return std::make_unique<Hdf5Store>(std::move(files), std::move(root), std::move(options));
}

}  // namespace zero::checkpoint
