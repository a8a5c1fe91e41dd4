#include "checkpoint/hdf5_writer.h"

#include "checkpoint/common_file.h"
#include "checkpoint/directories.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"
#include "checkpoint/view_file.h"

namespace zero::checkpoint {

Hdf5Writer::Hdf5Writer(std::shared_ptr<FileSystem> files, std::string root,
                       Hdf5StoreOptions options, CommonState common, int world_size,
                       std::string attempt, bool commits, std::unique_ptr<FileLock> lock,
                       std::vector<std::string> warnings)
    : files_(std::move(files)),
      root_(std::move(root)),
      options_(std::move(options)),
      common_(std::move(common)),
      world_size_(world_size),
      attempt_(std::move(attempt)),
      temporary_(join_path(root_, temporary_name(common_.step, attempt_))),
      commits_(commits),
      lock_(std::move(lock)),
      warnings_(std::move(warnings)),
      claimed_(static_cast<std::size_t>(world_size)) {}

Hdf5Writer::~Hdf5Writer() {
  try {
    abort();
  } catch (...) {  // What stays is a leftover, and the next save removes it.
  }
}

std::string Hdf5Writer::ticket() const {
  return attempt_;
}

void Hdf5Writer::claim(int rank) {
  const std::lock_guard guard(mutex_);
  ZERO_REQUIRE(phase_ == Phase::kOpen,
               "this save has failed or is finished, begin another one: rank " +
                   std::to_string(rank) + ", step " + std::to_string(common_.step));
  ZERO_REQUIRE(rank >= 0 && rank < world_size_, "a rank must be 0 to world size - 1: rank " +
                                                    std::to_string(rank) + " of " +
                                                    std::to_string(world_size_));
  ZERO_REQUIRE(!claimed_[static_cast<std::size_t>(rank)],
               "a rank was put twice: rank " + std::to_string(rank));
  claimed_[static_cast<std::size_t>(rank)] = true;
}

void Hdf5Writer::keep(int rank, Receipt receipt) {
  const std::lock_guard guard(mutex_);
  receipts_.emplace(rank, std::move(receipt));
}

std::string Hdf5Writer::put(int rank, const RankState& state) {
  validate(state, common_.parameters, rank);
  claim(rank);
  try {
    const ShardContent shard = encode_shard(state, common_, rank, world_size_);
    Receipt receipt{attempt_,
                    write_hdf5_file(*files_, temporary_, shard.content, options_.block_bytes),
                    state.blobs};
    std::string bytes = to_bytes(receipt);
    keep(rank, std::move(receipt));
    return bytes;
  } catch (...) {
    const std::lock_guard guard(mutex_);
    phase_ = Phase::kVoid;
    throw;
  }
}

void Hdf5Writer::accept(std::string_view bytes) {
  ZERO_REQUIRE(commits_, "only the writer that began a save accepts receipts");
  Receipt receipt = parse_receipt(bytes);
  const int rank = receipt.file.rank;
  if (receipt.attempt != attempt_ || rank < 0 || rank >= world_size_ ||
      receipt.file.name != shard_name(rank, world_size_)) {
    throw FormatError("a receipt is of another save: attempt " + receipt.attempt + ", file " +
                      receipt.file.name + ", expected attempt " + attempt_);
  }
  claim(rank);
  keep(rank, std::move(receipt));
}

Manifest Hdf5Writer::manifest() const {
  Manifest manifest;
  manifest.attempt = attempt_;
  manifest.created = options_.created;
  manifest.run_id = common_.run_id;
  manifest.writer = options_.writer;
  manifest.step = common_.step;
  manifest.world_size = world_size_;
  manifest.stage = common_.stage;
  manifest.parameters = static_cast<std::int64_t>(common_.parameters.size());
  manifest.groups = static_cast<std::int64_t>(common_.groups.size());
  manifest.block_bytes = options_.block_bytes;
  return manifest;
}

/// Everything before the rename: the directory is whole and on the disk.
void Hdf5Writer::prepare() {
  Manifest made = manifest();
  std::vector<Blobs> blobs;
  for (const auto& [rank, receipt] : receipts_) blobs.push_back(receipt.blobs);
  const CommonContent common = encode_common(common_, blobs);
  made.files.push_back(write_hdf5_file(*files_, temporary_, common.content, options_.block_bytes));
  for (const auto& [rank, receipt] : receipts_) made.files.push_back(receipt.file);
  const std::string problem = problem_of_sizes(*files_, temporary_, made);
  if (!problem.empty()) {
    throw IoError(
        "the ranks' files are not where this process looks, use a file system that all "
        "of them share: " +
        problem);
  }
  ShardIndex index;
  for (std::size_t i = 1; i < made.files.size(); ++i) {
    const std::string path = join_path(temporary_, made.files[i].name);
    add_shard(index, *files_->open(path), path, made, i, common_.parameters);
  }
  const std::string gap = problem_of_tiling(index, common_.parameters);
  ZERO_REQUIRE(gap.empty(),
               "the ranks must hold every element exactly once, nothing was saved: " + gap);
  if (options_.view) write_view(made, index);
  const std::string text = to_text(made);
  parse_manifest(text);  // What this process could not read again must not be committed.
  write_text_file(*files_, join_path(temporary_, kManifestName), text);
  files_->fsync_directory(temporary_);
}

void Hdf5Writer::write_view(Manifest& made, ShardIndex& index) {
  sort_segments(index);
  const std::optional<View> view = make_view(made, index, common_.parameters);
  if (!view) {
    warnings_.push_back(
        "the checkpoint is whole, but has no view.h5, which nothing needs to load: it has more "
        "than " +
        std::to_string(kMaxViewDatasets) + " states of parameters or " +
        std::to_string(kMaxViewMappings) +
        " pieces of them; set Hdf5StoreOptions::view to false to save without this warning");
    return;
  }
  if (!view->left_out.empty()) {
    warnings_.push_back("view.h5 leaves out parameters for whose names HDF5 has no place: " +
                        std::to_string(view->left_out.size()) + ", the first is '" +
                        view->left_out[0] + "'");
  }
  made.files.push_back(write_hdf5_file(*files_, temporary_, view->content, options_.block_bytes));
  made.files.back().hdf5_version = hdf5::library_version();
}

void Hdf5Writer::publish() {
  try {
    files_->fsync_directory(root_);
  } catch (const FileError& error) {
    throw CommitUnknown(
        std::string("the checkpoint has its name, but the disk did not confirm it; list the "
                    "checkpoints after a restart before relying on it: ") +
        error.what());
  }
  try {
    write_latest(*files_, root_, step_name(common_.step));
  } catch (const std::exception& error) {
    warnings_.push_back(
        std::string("the checkpoint is safe, but the hint LATEST could not be written: ") +
        error.what());
  }
}

void Hdf5Writer::finish() noexcept {
  phase_ = Phase::kFinished;
  lock_.reset();
}

CommitResult Hdf5Writer::commit() {
  const std::lock_guard guard(mutex_);
  ZERO_REQUIRE(commits_, "only the writer that began a save commits it");
  ZERO_REQUIRE(phase_ == Phase::kOpen,
               "this save has failed or is finished, begin another one: step " +
                   std::to_string(common_.step));
  for (int rank = 0; rank < world_size_; ++rank) {
    ZERO_REQUIRE(receipts_.contains(rank),
                 "commit came before every rank was put or accepted: rank " + std::to_string(rank) +
                     " of " + std::to_string(world_size_));
  }
  try {
    prepare();
    files_->rename_new(temporary_, join_path(root_, step_name(common_.step)));
  } catch (...) {
    phase_ = Phase::kVoid;
    try {
      remove_checkpoint_directory(*files_, temporary_);
    } catch (...) {  // The first error is the one to report; the next save removes the rest.
    }
    finish();
    throw;
  }
  phase_ = Phase::kFinished;
  try {
    publish();
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return {std::move(warnings_)};
}

void Hdf5Writer::abort() {
  const std::lock_guard guard(mutex_);
  if (phase_ == Phase::kFinished) return;
  phase_ = Phase::kFinished;
  if (!commits_) return;
  const std::unique_ptr<FileLock> lock = std::move(lock_);  // Released after the removal.
  remove_checkpoint_directory(*files_, temporary_);
}

}  // namespace zero::checkpoint
