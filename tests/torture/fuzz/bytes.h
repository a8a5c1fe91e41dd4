#pragma once

/// An input as a source of choices, from front to back; zeros when it is used up.

#include <algorithm>
#include <cstring>
#include <string>

#include "fuzz_targets.h"

namespace zero::checkpoint::torture {

class Bytes {
 public:
  explicit Bytes(Input input) : input_(input) {}

  bool empty() const { return input_.empty(); }
  std::uint8_t byte() {
    const std::uint8_t value = input_.empty() ? std::uint8_t{0} : input_[0];
    if (!input_.empty()) input_ = input_.subspan(1);
    return value;
  }
  /// 0 to count - 1; 0 if there is nothing to choose from.
  std::size_t below(std::size_t count) {
    if (count < 2) return 0;
    const std::size_t low = byte();
    return (count <= 256 ? low : low | std::size_t{byte()} << 8) % count;
  }
  std::int64_t word() {
    std::uint8_t raw[8] = {};
    for (std::uint8_t& each : raw) each = byte();
    std::int64_t value = 0;
    std::memcpy(&value, raw, sizeof value);
    return value;
  }
  /// Often one of those at which something ends, otherwise anything.
  std::int64_t number() {
    static constexpr std::int64_t kEdges[] = {0,
                                              1,
                                              -1,
                                              2,
                                              3,
                                              8,
                                              35,
                                              64,
                                              255,
                                              65536,
                                              INT32_MAX,
                                              INT64_MAX,
                                              INT64_MIN,
                                              std::int64_t{1} << 62,
                                              std::int64_t{1} << 24,
                                              std::int64_t{1} << 32};
    const std::size_t choice = below(std::size(kEdges) + 8);
    if (choice < std::size(kEdges)) return kEdges[choice];
    return choice < std::size(kEdges) + 4 ? byte() : word();
  }
  std::string raw(std::size_t longest) {
    const std::size_t size = std::min(below(longest + 1), input_.size());
    std::string value(reinterpret_cast<const char*>(input_.data()), size);
    input_ = input_.subspan(size);
    return value;
  }
  std::string ascii(std::size_t longest) {
    std::string value = raw(longest);
    for (char& c : value) c = static_cast<char>(c & 0x7f);
    return value;
  }
  Input rest() const { return input_; }

 private:
  Input input_;
};

}  // namespace zero::checkpoint::torture
