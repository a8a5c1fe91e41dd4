#include "libzero/optim/bucket_reduction.h"

#include <algorithm>

namespace zero {
namespace {

std::string name_of_bucket(const Layout& layout, const ParameterTable& table, std::size_t bucket) {
  const std::vector<std::int32_t>& parameters = layout.buckets()[bucket].parameters;
  const auto name_of_parameter = [&](std::int32_t p) {
    return table.specs[static_cast<std::size_t>(p)].name;
  };
  return "bucket " + std::to_string(bucket) + " (" + name_of_parameter(parameters.front()) +
         " .. " + name_of_parameter(parameters.back()) + ")";
}

}  // namespace

BucketReduction::BucketReduction(const Layout& layout, const ParameterTable& table,
                                 const std::vector<BucketState>& states)
    : states_(states) {
  std::size_t longest = 0;
  for (std::size_t b = 0; b < states.size(); ++b) {
    names_.push_back(name_of_bucket(layout, table, b));
    longest = std::max(longest, names_.back().size());
  }
  label_ = Label(longest + 256);
}

std::string_view BucketReduction::label_of(std::int32_t bucket, const BucketPiece& piece,
                                           bool is_whole, const CallName& name) {
  label_.begin("backward call ").add(name.call).add(" of step ").add(name.step).add(", ");
  label_.add(names_[static_cast<std::size_t>(bucket)]);
  if (!is_whole) label_.add(" from element ").add(piece.begin);
  return label_.text();
}

}  // namespace zero
