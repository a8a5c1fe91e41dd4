#pragma once

/// Arrays of any element type, and the naive sums that backends are compared with.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero::testing {

inline constexpr DType kFloatingTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
inline constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                      DType::kInt64, DType::kUInt8};

/// "Float32", "BFloat16", ...: for test names.
std::string title_of(DType dtype);

class Array {
 public:
  /// All bytes 0xa5: what nobody wrote is seen.
  Array(DType dtype, std::int64_t count);

  DType dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }

  Buffer buffer() { return {bytes_.data(), count_, dtype_}; }
  ConstBuffer view() const { return {bytes_.data(), count_, dtype_}; }
  ConstBuffer slice(std::int64_t begin, std::int64_t count) const;

  /// Floating types only; set() rounds to the element type.
  float at(std::int64_t index) const;
  void set(std::int64_t index, float value);
  std::int64_t int_at(std::int64_t index) const;
  void set_int(std::int64_t index, std::int64_t value);

  /// Copies elements [begin, begin + part.count()).
  void write_slice(std::int64_t begin, const Array& part);

  bool operator==(const Array&) const = default;  ///< Bits.

 private:
  DType dtype_;
  std::int64_t count_;
  std::vector<std::byte> bytes_;
};

/// Elements [first, first + count) of a pseudo-random sequence that depends on dtype and seed only:
/// floating types get both signs and magnitudes that differ by 2^20, so that another order of
/// additions gives other bits; the others get any bits.
Array pattern(DType dtype, std::int64_t count, int seed, std::int64_t first = 0);

/// The contract, word by word: ((start + parts[0][i]) + parts[1][i]) + ... in fp32.
float sum_in_rank_order(const std::vector<Array>& parts, std::int64_t index, float start = 0.0f);

/// pattern() for seeds base, base + 1, ...: what ranks 0, 1, ... contribute.
std::vector<Array> rank_patterns(DType dtype, std::int64_t count, int ranks, int base,
                                 std::int64_t first = 0);

}  // namespace zero::testing
