#pragma once

/// What a rank is about to do, in a fixed number of bytes: ranks exchange and compare these before
/// any payload moves. Pure functions; any thread. The bytes may come from anywhere: nothing in a
/// header is trusted.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero {

/// Sent over the wire: never renumber, never reuse.
enum class Operation : std::uint8_t {
  kReduceScatter = 1,
  kAllGather = 2,
  kAllReduce = 3,
  kBroadcast = 4,
  kBarrier = 5,
  kSplit = 6,
  kShutdown = 7,
};

/// "reduce_scatter", "all_gather", ...; "unknown operation" for a value outside the enumeration.
std::string_view name_of(Operation operation) noexcept;

/// In the sender's byte order: a peer with another one fails the check of `magic`.
struct CallHeader {
  static constexpr std::uint32_t kMagic = 0x6f72657au;  ///< "zero"
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kLabelBytes = 200;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kUInt8;  ///< Of what travels: reduce_scatter's input.
  std::uint64_t sequence = 0;   ///< The first call of a communicator is number 1.
  std::int64_t count = 0;  ///< Elements; of one rank's slice for reduce_scatter and all_gather.
  std::int32_t root = 0;
  std::int32_t color = 0;  ///< split() only; not compared, like key and label.
  std::int32_t key = 0;
  std::uint8_t reduce_op = 0;  ///< zero::ReduceOp for all_reduce, otherwise 0.
  std::uint8_t any_order = 0;  ///< 1: see ReduceScatterOptions::any_order; otherwise 0.
  std::uint16_t label_length = 0;
  char label[kLabelBytes] = {};  ///< Longer labels are cut.
};
static_assert(sizeof(CallHeader) == 240, "the header travels as bytes: no padding");

/// Describes one call. reduce_op and root keep their defaults where the operation has none.
CallHeader make_call_header(Operation operation, std::uint64_t sequence, std::string_view label,
                            DType dtype = DType::kUInt8, std::int64_t count = 0);

/// "reduce_scatter of 8192 float32 [bucket 0]". Unprintable bytes of the label appear as '?'.
std::string describe(const CallHeader& call);

/// What a CommError says: "collective #41, all_gather of 12 int64 [step vote], failed on rank 1:
/// <reason>; ..." and what to do next.
std::string describe_failure(const CallHeader& call, int rank, std::string_view reason);

/// The reason of a timeout: "rank 2 did not come to collective #41, all_gather ... , within 500
/// ms".
std::string describe_absence(const CallHeader& call, std::span<const int> missing_ranks,
                             std::int64_t timeout_ms);

/// "rank 3", "ranks 0, 2-5": ascending ranks in few characters.
std::string list_ranks(std::span<const int> ranks);

struct CallVerdict {
  enum class Kind {
    kMatch,
    kContract,  ///< Ranks ask for different things: ContractError(text) on every rank, which stays
                ///< usable.
    kProtocol,  ///< Not a header of this version: CommError, `text` is the reason.
  };
  Kind kind = Kind::kMatch;
  std::string text;
};

/// Compares the headers of all ranks, in rank order. A pure function of its argument, so that every
/// rank that holds the same headers comes to the same verdict and the same text.
CallVerdict compare_calls(std::span<const CallHeader> by_rank);

/// The ranks whose split() asked for `color`, in the order of their new numbers: by (key, rank).
std::vector<int> members_of_color(std::span<const CallHeader> by_rank, int color);

}  // namespace zero
