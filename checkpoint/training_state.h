#pragma once

/// What a checkpoint is made of. Whoever trains fills these structs from its own memory; the
/// checkpoint knows nothing else of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libzero/base/loss_scaler_state.h"
#include "libzero/layout/layout.h"

namespace zero::checkpoint {

using Blob = std::vector<std::byte>;

/// The part of one state that a rank holds: elements of parameters, in the model's own coordinates.
/// Nothing is copied when one is made; the memory must stay and keep its content until the call
/// that was given it returns. The elements are given by `pieces` or by `fill`, never by both.
struct StateView {
  std::string name;  ///< "master", "exp_avg", "exp_avg_sq", "value", ...: 1-64 of a-z 0-9 _.
  DType dtype = DType::kFloat32;
  std::vector<Extent> extents;  ///< Sorted by parameter, then begin; disjoint; none empty.
  std::vector<std::span<const std::byte>>
      pieces;  ///< One for each extent: its elements, row-major.
  /// For what lies in no memory: puts the elements of `part`, a part of one extent, into dst, which
  /// has their size, at most kMaxPartBytes. The parts come in the order of the extents and of their
  /// elements, each once, on the thread that called. What it throws comes out of that call.
  std::function<void(const Extent& part, std::span<std::byte> dst)> fill = {};
};

inline constexpr std::size_t kMaxPartBytes = std::size_t{256} << 10;

/// What one rank hands in.
struct RankState {
  std::vector<StateView> states;      ///< Any order; each (name, dtype) once.
  std::map<std::string, Blob> blobs;  ///< Opaque: random state, sampler position, ...
};

/// Every option of a parameter group under its name: lr, beta1, ... Flags are 0 and 1.
using GroupOptions = std::map<std::string, double>;

/// What is the same on every rank.
struct CommonState {
  std::int64_t step = 0;  ///< Names the checkpoint: 0 to kMaxStep.
  std::string run_id = "run";
  int stage = 0;
  /// The whole model. Buffers are rows with trainable = false and group = -1.
  std::vector<ParameterSpec> parameters;
  std::vector<std::int64_t> applied_steps;  ///< One for each parameter, or empty.
  std::vector<GroupOptions> groups;         ///< The same names in each.
  LossScalerState scaler;
  std::map<std::string, std::int64_t> counters;  ///< applied_steps, samples_seen, ...
  std::map<std::string, Blob> blobs;             ///< Opaque: schedule, ...
  /// Blobs of ranks that the world has no longer, since it was resharded to fewer; by rank, which
  /// is not below the world size. Kept for the day on which there are more again. None is empty.
  std::map<int, std::map<std::string, Blob>> surplus_rank_blobs = {};
};

inline constexpr std::int64_t kMaxStep = 999'999'999'999;
inline constexpr int kMaxWorldSize = 65536;
inline constexpr std::size_t kMaxParameters = std::size_t{1} << 24;
inline constexpr std::size_t kMaxGroups = 65536;
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::size_t kMaxNameBytes = 1024;

/// Throws ContractError, naming what breaks the rules of docs/checkpoint_format.md ("The common
/// file", "Limits"): ranges, names, shapes, aliases, groups without the same options.
void validate(const CommonState& state);

/// The same for a state that world_size ranks share: the world size, 1 to kMaxWorldSize, and whose
/// blobs are surplus.
void validate(const CommonState& state, int world_size);

/// What a rank hands in for parameters that are valid themselves: names, extents (in range, sorted,
/// disjoint, none empty, none of an alias), memory of their size in bytes, no state twice. Reads no
/// element. Throws ContractError, naming state and parameter, and `rank`, which is not judged.
void validate(const RankState& state, std::span<const ParameterSpec> parameters, int rank);

/// Names of options, counters, blobs and runs: 1-64 of A-Z a-z 0-9 _ . -, the first no dot.
bool is_key(std::string_view text) noexcept;
/// Names of states: 1-64 of a-z 0-9 _.
bool is_state_name(std::string_view text) noexcept;
/// 1 to kMaxNameBytes bytes of UTF-8 without the control characters of ASCII.
bool is_parameter_name(std::string_view text) noexcept;

/// "w[2:5)": for messages. Survives an index that is out of range.
std::string describe(const Extent& extent, std::span<const ParameterSpec> parameters);

}  // namespace zero::checkpoint
