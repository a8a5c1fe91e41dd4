#include "checkpoint/tools/diff.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "checkpoint/tools/compare_common.h"
#include "checkpoint/tools/digest_builder.h"
#include "checkpoint/tools/element_difference.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

/// One checkpoint's side of a parameter.
struct Row {
  const Reader& reader;
  std::int32_t index;

  const ParameterSpec& spec() const {
    return reader.common().parameters[static_cast<std::size_t>(index)];
  }
  bool is_alias() const { return spec().alias_of != -1; }
  /// Empty unless an alias.
  std::string_view owner() const {
    if (!is_alias()) return {};
    return reader.common().parameters[static_cast<std::size_t>(spec().alias_of)].name;
  }
  std::uint64_t bytes() const {
    if (is_alias()) return 0;
    std::uint64_t bytes = 0;
    for (const std::string& state : reader.states(index)) bytes += bytes_of(state);
    return bytes;
  }
  std::uint64_t bytes_of(const std::string& state) const {
    return static_cast<std::uint64_t>(spec().numel() * size_of(reader.dtype(index, state)));
  }
};

class Comparison {
 public:
  Comparison(const Reader& a, const Reader& b, const Progress& progress)
      : a_(a), b_(b), meter_(progress, state_bytes(a), "diff") {}

  std::vector<Difference> run() {
    const auto rows_a = rows_by_name(a_);
    const auto rows_b = rows_by_name(b_);
    for (std::int32_t row = 0; row < count(a_); ++row) {
      const Row in_a{a_, row};
      const auto found = rows_b.find(in_a.spec().name);
      if (found == rows_b.end()) {
        add("parameter " + in_a.spec().name, "only in the first");
        meter_.advance(in_a.bytes());
      } else {
        compare(in_a, {b_, found->second});
      }
    }
    for (std::int32_t row = 0; row < count(b_); ++row) {
      const std::string& name = Row{b_, row}.spec().name;
      if (!rows_a.contains(name)) add("parameter " + name, "only in the second");
    }
    compare_common(a_.common(), b_.common(), differences_);
    return std::move(differences_);
  }

 private:
  using RowsByName = std::unordered_map<std::string_view, std::int32_t>;

  static std::int32_t count(const Reader& reader) {
    return static_cast<std::int32_t>(reader.common().parameters.size());
  }
  static RowsByName rows_by_name(const Reader& reader) {
    RowsByName rows;
    for (std::int32_t row = 0; row < count(reader); ++row) {
      rows.emplace(reader.common().parameters[static_cast<std::size_t>(row)].name, row);
    }
    return rows;
  }
  void add(std::string subject, std::string problem) {
    differences_.push_back({std::move(subject), std::move(problem), 0, 0});
  }

  void compare(const Row& a, const Row& b) {
    compare_parameters(a.spec(), a.owner(), b.spec(), b.owner(), differences_);
    if (a.is_alias() && a.owner() == b.owner()) return;  // The owners are compared.
    if (a.spec().shape != b.spec().shape) return meter_.advance(a.bytes());
    const std::vector<std::string> in_a = a.reader.states(a.index);
    const std::vector<std::string> in_b = b.reader.states(b.index);
    std::set<std::string> all(in_a.begin(), in_a.end());
    all.insert(in_b.begin(), in_b.end());
    for (const std::string& state : all) {
      const bool first = std::binary_search(in_a.begin(), in_a.end(), state);
      const bool second = std::binary_search(in_b.begin(), in_b.end(), state);
      const std::string subject = "parameter " + a.spec().name + ", " + state;
      if (first && second) {
        compare_state(a, b, state, subject);
      } else {
        add(subject, first ? "only in the first" : "only in the second");
        if (first) advance(a, a.bytes_of(state));
      }
    }
  }

  void compare_state(const Row& a, const Row& b, const std::string& state,
                     const std::string& subject) {
    const DType dtype = a.reader.dtype(a.index, state);
    if (const DType other = b.reader.dtype(b.index, state); other != dtype) {
      add(subject, "dtype " + std::string(name_of(dtype)) + " and " + std::string(name_of(other)));
      return advance(a, a.bytes_of(state));
    }
    const std::int64_t width = size_of(dtype);
    const std::int64_t numel = a.spec().numel();
    const std::int64_t step = static_cast<std::int64_t>(kPartBytes) / width;
    ElementDifference found;
    for (std::int64_t begin = 0; begin < numel; begin += step) {
      const std::int64_t end = std::min(numel, begin + step);
      part_a_.resize(static_cast<std::size_t>((end - begin) * width));
      part_b_.resize(part_a_.size());
      a.reader.read(a.index, state, begin, end, part_a_);
      b.reader.read(b.index, state, begin, end, part_b_);
      compare_elements(dtype, part_a_, part_b_, begin, found);
      advance(a, part_a_.size());
    }
    if (found.elements == 0) return;
    differences_.push_back(
        {subject, to_text(found, dtype, a.spec().shape), found.elements, found.largest});
  }

  /// An alias's bytes are its owner's, and counted there.
  void advance(const Row& row, std::uint64_t bytes) { meter_.advance(row.is_alias() ? 0 : bytes); }

  const Reader& a_;
  const Reader& b_;
  Meter meter_;
  std::vector<Difference> differences_;
  std::vector<std::byte> part_a_, part_b_;
};

}  // namespace

std::vector<Difference> diff(const Reader& a, const Reader& b, const Progress& progress) {
  return Comparison(a, b, progress).run();
}

}  // namespace zero::checkpoint
