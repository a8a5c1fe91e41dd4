#pragma once

/// Where checkpoints live. `make_hdf5_store` and `make_memory_store` make one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/training_state.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {

/// What a checkpoint says of itself.
struct StepInfo {
  std::int64_t step = 0;
  std::string run_id;
  std::string attempt;  ///< Differs for every save, also of the same step.
  int world_size = 0;   ///< Ranks that saved.
  int stage = 0;
  std::uint64_t bytes = 0;  ///< Of all its files, or, in memory, of its states.
};

/// A checkpoint that cannot be loaded.
struct Damaged {
  std::string name;         ///< Of the directory.
  std::string problem;      ///< What is wrong and where.
  bool unreadable = false;  ///< The file system refused to show it: it may be whole.
};

/// What a root holds.
struct Listing {
  std::vector<StepInfo>
      steps;  ///< Committed and, as far as sizes and the manifest tell, whole; newest last.
  std::vector<Damaged>
      damaged;  ///< Have a final name, but are not whole. Nothing loads them by itself.
};

/// The save may have succeeded or not: the rename was done, but the disk did not confirm it. Old
/// checkpoints are untouched; list() tells after a restart.
class CommitUnknown : public IoError {
 public:
  using IoError::IoError;
};

/// What a commit() that succeeded has to tell.
struct CommitResult {
  /// The checkpoint is there; something less important failed (LATEST, cleaning up).
  std::vector<std::string> warnings;
};

/// One save. The one that begin() made commits; those that join() made, in other processes, only
/// put. The destructor aborts what was not committed, and never throws. A call that throws
/// ContractError counts as never made, but for commit() where elements are missing: that, and any
/// other error but accept()'s FormatError, also one that comes out of StateView::fill, makes the
/// save void: nothing can be committed. put(), accept() and commit() of a save that is void or
/// finished throw ContractError. put() may run in several threads at once, one for each rank;
/// everything else is for one thread, when no put() runs. May outlive its Store.
class Writer {
 public:
  virtual ~Writer() = default;

  /// For join() in other processes of the same save, with the same root: short text.
  virtual std::string ticket() const = 0;

  /// Writes one rank's part and returns a receipt: opaque bytes, which include the rank's blobs. On
  /// return the part is on the disk. REQUIRES 0 <= rank < world size, each rank once, and a state
  /// that passes validate(). Throws ContractError (nothing written), IoError, and what
  /// StateView::fill throws.
  virtual std::string put(int rank, const RankState& state) = 0;

  /// Takes the receipt of a put() of another process. REQUIRES a Writer that begin() made. Throws
  /// FormatError for what is no receipt of this save, which stays as it was, ContractError for a
  /// rank that has been put already.
  virtual void accept(std::string_view receipt) = 0;

  /// Makes the checkpoint exist, whole, at once. REQUIRES a Writer that begin() made; that every
  /// rank has been put here or accepted; that together they hold every element of every parameter
  /// that has a state exactly once, and that every parameter with elements that is no alias has a
  /// state (ContractError otherwise, naming the first gap). Throws IoError, FormatError (what was
  /// written cannot be read again): nothing has changed; CommitUnknown: see there. Afterwards the
  /// Writer is finished, either way, unless it refused because a rank was missing.
  virtual CommitResult commit() = 0;

  /// Removes everything that was written; one that join() made removes nothing. Does nothing after
  /// commit() or abort(). Throws IoError: some of it stays then.
  virtual void abort() = 0;
};

/// A committed checkpoint. Immutable; any number of threads may call it. May outlive its Store.
/// Parameters are rows of common().parameters; a row that does not exist is a ContractError.
class Reader {
 public:
  virtual ~Reader() = default;
  /// What list() says of it. References live as long as the Reader.
  virtual const StepInfo& info() const = 0;
  /// What begin() was given.
  virtual const CommonState& common() const = 0;
  /// What put() was given. Those of ranks that the world has no longer are in
  /// common().surplus_rank_blobs. Throws ContractError for a rank that is not 0 <= rank <
  /// info().world_size.
  virtual const std::map<std::string, Blob>& rank_blobs(int rank) const = 0;

  /// Names of the states that a parameter has, sorted. An alias has its owner's. A parameter
  /// without elements has none.
  virtual std::vector<std::string> states(std::int32_t parameter) const = 0;
  /// Of a state's elements. Throws ContractError if the parameter has no such state.
  virtual DType dtype(std::int32_t parameter, std::string_view state) const = 0;
  /// Who held what: the extents of a rank for a state, sorted by parameter, then begin; empty where
  /// it held none. Throws ContractError for a rank that is not 0 <= rank < info().world_size.
  virtual std::vector<Extent> extents(int rank, std::string_view state) const = 0;

  /// Elements [begin, end) of a parameter, in row-major order; an alias reads its owner's. Reads
  /// whole blocks and checks their hashes where it meets them for the first time, afterwards only
  /// what it needs. REQUIRES dst of exactly that size, (end - begin) * size_of(dtype) bytes, 0 <=
  /// begin <= end <= numel. Throws FormatError naming file, dataset and block that are damaged,
  /// IoError, ContractError for what is required and where the parameter has no such state; dst is
  /// undefined then.
  virtual void read(std::int32_t parameter, std::string_view state, std::int64_t begin,
                    std::int64_t end, std::span<std::byte> dst) const = 0;
};

/// Checkpoints of one root, by step. Any number of threads may call it; one save at a time.
class Store {
 public:
  virtual ~Store() = default;

  /// Looks at names, sizes and manifests, not at elements. A root that does not exist yet is empty.
  /// Throws IoError if the root cannot be read; what is wrong with one checkpoint is in the
  /// listing.
  virtual Listing list() = 0;

  /// Starts a save of common.step by world_size ranks; `common` is copied. The save is under way
  /// until the Writer commits, aborts or is destroyed. Throws ContractError if the step exists, if
  /// a save is under way, or for a state that breaks the rules (validate()); IoError.
  virtual std::unique_ptr<Writer> begin(const CommonState& common, int world_size) = 0;

  /// Takes part in a save that another process began. REQUIRES the same `common` and world size.
  /// Throws FormatError for what is no ticket, ContractError for a state that breaks the rules.
  virtual std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                                       int world_size) = 0;

  /// Throws ContractError if there is no such step, FormatError if it is damaged as far as all but
  /// the elements tells (those Reader::read checks), IoError.
  virtual std::unique_ptr<Reader> open(std::int64_t step) = 0;

  /// Removes a checkpoint: at once, as far as list() is concerned. A damaged one, too. Throws
  /// ContractError if there is no such step or a save is under way, IoError.
  virtual void remove(std::int64_t step) = 0;
};

}  // namespace zero::checkpoint
