#pragma once

/// names -> flat order -> buckets -> shards. Pure 64-bit arithmetic; no LibTorch.
///
/// The order: trainable parameters in reverse registration order (about the order in which backward
/// finishes them), one flat sequence per dtype, cut into buckets. Elements count in row-major
/// logical order. The order of elements and the bounds of buckets depend on names, shapes, dtypes,
/// groups and options only, never on world size; world size decides only where a bucket is cut into
/// shards. Every rank computes the whole layout; nothing is gathered.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libzero/base/dtype.h"

namespace zero {

/// One row of the model, in registration order.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Empty for a scalar; any dimension may be 0.
  DType dtype = DType::kFloat32;
  std::int32_t group = 0;
  bool trainable = true;
  std::int32_t alias_of =
      -1;  ///< Tied weights: index of the first owner (which is no alias itself), otherwise -1.

  /// Elements: the product of the shape, 1 for a scalar. Throws ContractError, naming the
  /// parameter, on a negative dimension or beyond 2^62.
  std::int64_t numel() const;
};

/// How parameters are cut into buckets and buckets into shards. The same on every rank.
struct LayoutOptions {
  std::int64_t bucket_bytes = 25 << 20;  ///< Cap of a bucket, in bytes of the parameter's dtype.
  std::int64_t first_bucket_bytes =
      1 << 20;  ///< Cap of each dtype's first bucket: starts the overlap early.
  /// Shards begin at multiples of this many elements. Multiples of 64, the norm's block, give the
  /// same bits on every world size; less balances tiny models better and gives that up.
  std::int64_t shard_alignment = 4096;
};

/// Half-open range of flat positions inside one bucket.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// Elements.
  std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Elements [begin, end) of one parameter, in its row-major logical order.
struct Extent {
  std::int32_t parameter = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Where a parameter lies: elements [offset, offset + numel) of a bucket. Offset is a multiple of
/// kSlotAlignment.
struct Slot {
  std::int32_t bucket = -1;  ///< -1: not laid out (frozen, or an alias of a frozen parameter).
  std::int64_t offset = 0;
  std::int64_t numel = 0;
};

/// Parameters of one dtype that lie behind each other in the flat order and travel together.
struct Bucket {
  DType dtype = DType::kFloat32;
  std::int64_t numel = 0;  ///< Elements with alignment holes, without padding for shards.
  std::vector<std::int32_t> parameters;  ///< Indices of specs, in flat order.
};

/// A run of a shard that belongs to one parameter: the unit that the optimizer steps over.
struct Segment {
  std::int32_t parameter = 0;
  std::int64_t parameter_begin = 0;  ///< First element, in the parameter's own coordinates.
  std::int64_t bucket_begin = 0;     ///< The same element's flat position in the bucket.
  std::int64_t numel = 0;
};

/// Every parameter starts at a multiple of this many elements of the flat order; the holes hold
/// zeros.
inline constexpr std::int64_t kSlotAlignment = 64;

/// Larger alignments are refused, so that no product of alignment and world size overflows.
inline constexpr std::int64_t kMaxShardAlignment = std::int64_t{1} << 31;

/// Immutable after construction; any number of threads may read it.
class Layout {
 public:
  /// Throws ContractError for an empty or repeated name, a negative dimension, a parameter of more
  /// than 2^62 elements, an unknown dtype, a trainable parameter whose dtype is not floating, an
  /// alias_of that is out of range, refers to a later row or to another alias, an alias whose shape
  /// or dtype differs from its owner's, or options that are not positive (or an alignment beyond
  /// kMaxShardAlignment).
  Layout(std::vector<ParameterSpec> parameters, LayoutOptions options);

  /// As they were given. Spans and references live as long as the Layout.
  std::span<const ParameterSpec> parameters() const noexcept { return parameters_; }
  /// Those of all dtypes, the one with the latest registered parameter first.
  std::span<const Bucket> buckets() const noexcept { return buckets_; }
  /// As they were given.
  const LayoutOptions& options() const noexcept { return options_; }

  /// The slot of a parameter; an alias answers with its owner's. bucket is -1 for frozen
  /// parameters. Here and below an index, rank or world size out of range throws ContractError.
  Slot slot(std::int32_t parameter) const;

  /// Elements of every rank's slice of a bucket when it is padded for a collective: ceil(n / (A *
  /// N)) * A, with its numel n, the shard_alignment A and N ranks; at least A unless the bucket is
  /// empty.
  std::int64_t padded_shard_numel(std::int32_t bucket, int world_size) const;

  /// What `rank` owns of a bucket, in elements: [cut(r), cut(r + 1)) with cut(r) = min(n, r *
  /// padded_shard_numel). Empty for ranks behind the bucket's end.
  Interval shard(std::int32_t bucket, int rank, int world_size) const;

  /// The parts of parameters inside `interval` of a bucket, in flat order; holes are left out, as
  /// are empty parts. The interval may reach into the padding behind the bucket. Throws
  /// ContractError if it begins below 0 or ends before it begins.
  std::vector<Segment> segments(std::int32_t bucket, Interval interval) const;

  /// What `rank` owns, in the model's own coordinates, sorted by parameter, then begin: the common
  /// language of checkpoints, resharding and gather(). Together the ranks' extents tile every
  /// trainable parameter exactly once.
  std::vector<Extent> extents(int rank, int world_size) const;

  /// 64-bit FNV-1a hash (Fowler, Noll, Vo) of names, shapes, dtypes, groups, trainability, aliases,
  /// options and buckets; independent of world size, process, compiler and byte order. Finds
  /// mistakes, no malice.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  const Bucket& checked_bucket(std::int32_t bucket) const;

  std::vector<ParameterSpec> parameters_;
  LayoutOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;
  std::uint64_t fingerprint_ = 0;
};

/// One line that says all that must agree between ranks: "blocks.0.fc.weight float32 [512, 128]
/// group 0", followed by " frozen" and " alias of 3" where they apply.
std::string describe(const ParameterSpec& parameter);

}  // namespace zero
