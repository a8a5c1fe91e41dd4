#include "checkpoint/tools/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/manifest.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kMaxRank = 64;  // Of any tensor of any framework.

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw FormatError("a safetensors file is damaged or foreign, get it again: " + what + ": " +
                    where);
}

/// Refuses everything; parsers allow what they know, where it may stand. Nothing is built in
/// memory but what they keep, and nothing recurses.
class Parser : public nlohmann::json_sax<Json> {
 public:
  explicit Parser(const std::string& where) : where_(where) {}

  void parse(std::string_view text) {
    Json::sax_parse(text.begin(), text.end(), this);  // Errors are thrown, not returned.
  }

  bool null() override { unexpected(); }
  bool boolean(bool) override { unexpected(); }
  bool number_integer(number_integer_t) override { unexpected(); }
  bool number_unsigned(number_unsigned_t) override { unexpected(); }
  bool number_float(number_float_t, const string_t&) override { unexpected(); }
  bool string(string_t&) override { unexpected(); }
  bool binary(binary_t&) override { unexpected(); }
  bool start_object(std::size_t) override { unexpected(); }
  bool key(string_t&) override { unexpected(); }
  bool end_object() override { unexpected(); }
  bool start_array(std::size_t) override { unexpected(); }
  bool end_array() override { unexpected(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    refuse_here("it is no JSON at byte " + std::to_string(position));
  }

 protected:
  [[noreturn]] void refuse_here(const std::string& what) const { refuse(what, where_); }
  [[noreturn]] void unexpected() const {
    refuse_here("a value of a kind that does not belong there");
  }

 private:
  const std::string& where_;
};

/// {"__metadata__": {text: text}, NAME: {"dtype": text, "shape": [n], "data_offsets": [n, n]}}
class HeaderParser : public Parser {
 public:
  using Parser::Parser;

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (depth_ == 2 || array_) unexpected();
    if (++depth_ == 2 && !in_metadata_) {
      header_.entries.emplace_back().name = std::move(name_);
      seen_ = {};
      offsets_.clear();
    }
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      in_metadata_ = text == kMetadata;
      if (in_metadata_ && std::exchange(has_metadata_, true)) refuse_here("it has metadata twice");
    } else if (!in_metadata_) {
      member_ = index_of(text);
      if (std::exchange(seen_[member_], true)) refuse_here("a member stands twice in a tensor");
    }
    name_ = std::move(text);
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ != 2 || array_) unexpected();
    if (in_metadata_) {
      if (!header_.metadata.emplace(std::move(name_), std::move(text)).second) {
        refuse_here("a key of its metadata stands there twice");
      }
    } else {
      if (member_ != kDType) unexpected();
      entry().dtype = std::move(text);
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || array_ || member_ == kDType) unexpected();
    return array_ = true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (!array_) unexpected();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse_here("a number is out of range in tensor " + shown(entry().name));
    }
    if (member_ == kShape) {
      entry().shape.push_back(static_cast<std::int64_t>(number));
    } else {
      offsets_.push_back(number);
    }
    if (entry().shape.size() > kMaxRank || offsets_.size() > 2) {
      refuse_here("too many numbers in tensor " + shown(entry().name));
    }
    return true;
  }

  bool end_array() override {
    array_ = false;
    return true;
  }

  bool end_object() override {
    if (depth_-- == 1 || in_metadata_) return true;
    if (!seen_[kDType] || !seen_[kShape] || offsets_.size() != 2) {
      refuse_here("a member is missing in tensor " + shown(entry().name));
    }
    entry().begin = offsets_[0];
    entry().end = offsets_[1];
    return true;
  }

 private:
  enum Member : std::size_t { kDType, kShape, kOffsets };

  Member index_of(const std::string& text) const {
    if (text == "dtype") return kDType;
    if (text == "shape") return kShape;
    if (text == "data_offsets") return kOffsets;
    refuse_here("a member is unknown in tensor " + shown(header_.entries.back().name));
  }
  SafetensorsEntry& entry() { return header_.entries.back(); }

  SafetensorsHeader header_;
  std::string name_;
  Member member_ = kDType;
  std::array<bool, 3> seen_{};
  std::vector<std::uint64_t> offsets_;
  int depth_ = 0;
  bool array_ = false;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
};

/// {"weight_map": {text: text}, ...}; whatever else is in it is skipped, but not its repetition.
class IndexParser : public Parser {
 public:
  using Parser::Parser;

  StringMap take() {
    if (!has_map_) refuse_here("it has no weight_map");
    return std::move(map_);
  }

  bool null() override { return skip(); }
  bool boolean(bool) override { return skip(); }
  bool number_integer(number_integer_t) override { return skip(); }
  bool number_unsigned(number_unsigned_t) override { return skip(); }
  bool number_float(number_float_t, const string_t&) override { return skip(); }
  bool start_array(std::size_t) override { return skip() && deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map_ && depth_ != 1) unexpected();
    return deeper();
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!members_.insert(text).second) refuse_here("a member stands there twice");
      in_map_ = text == "weight_map";
      has_map_ |= in_map_;
    }
    name_ = std::move(text);
    return true;
  }

  bool string(string_t& text) override {
    if (!in_map_) return skip();
    if (depth_ != 2) unexpected();
    if (!map_.emplace(std::move(name_), std::move(text)).second) {
      refuse_here("a tensor stands in its weight_map twice");
    }
    return true;
  }

 private:
  static constexpr int kMaxDepth = 8;

  bool skip() {
    if (depth_ == 0 || in_map_) unexpected();
    return true;
  }
  bool deeper() {
    if (++depth_ > kMaxDepth) refuse_here("it is nested too deeply");
    return true;
  }

  StringMap map_;
  std::set<std::string> members_;
  std::string name_;
  int depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
};

std::uint64_t bytes_of(const SafetensorsEntry& entry, const std::string& where) {
  const unsigned bits = safetensors_bits(entry.dtype);
  if (bits == 0) {
    refuse("dtype '" + shown(entry.dtype) + "' is unknown in tensor " + shown(entry.name), where);
  }
  const std::int64_t numel = checked_product(entry.shape);
  if (numel < 0 ||
      static_cast<std::uint64_t>(numel) > std::numeric_limits<std::uint64_t>::max() / bits) {
    refuse("the shape is too large in tensor " + shown(entry.name), where);
  }
  const std::uint64_t total = static_cast<std::uint64_t>(numel) * bits;
  if (total % 8 != 0) refuse("it does not end at a whole byte: tensor " + shown(entry.name), where);
  return total / 8;
}

/// Every byte of the data belongs to exactly one tensor.
void check_places(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes,
                  const std::string& where) {
  std::vector<const SafetensorsEntry*> by_place;
  for (const SafetensorsEntry& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const SafetensorsEntry* entry : by_place) {
    if (entry->begin != at) {
      refuse("bytes belong to no tensor or to two, before tensor " + shown(entry->name), where);
    }
    if (entry->end < entry->begin || entry->end - entry->begin != bytes_of(*entry, where)) {
      refuse("offsets, shape and dtype do not agree in tensor " + shown(entry->name), where);
    }
    at = entry->end;
  }
  if (at != data_bytes) {
    refuse(
        "its tensors need " + std::to_string(at) + " bytes, it has " + std::to_string(data_bytes),
        where);
  }
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.size() <= 255 && name.ends_with(kEnding) &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
         });
}

}  // namespace

std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  if (name.size() <= kLongest) return std::string(name);
  std::size_t size = kLongest;
  while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xc0u) == 0x80u) --size;
  return std::string(name.substr(0, size)) + "...";
}

unsigned safetensors_bits(std::string_view dtype) noexcept {
  static constexpr std::pair<std::string_view, unsigned> kBits[] = {
      {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},        {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8},
      {"I16", 16}, {"U16", 16},    {"F16", 16},    {"F8_E5M2FNUZ", 8}, {"BF16", 16},
      {"I32", 32}, {"U32", 32},    {"F32", 32},    {"C64", 64},        {"F64", 64},
      {"I64", 64}, {"U64", 64}};
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& where) {
  // Only spaces may follow, and nothing may come before: no file is two formats at once.
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  if (!text.starts_with('{') || !text.ends_with('}')) {
    refuse("its header is no JSON object with nothing but spaces behind", where);
  }
  HeaderParser parser(where);
  parser.parse(text);
  SafetensorsHeader header = parser.take();
  auto& entries = header.entries;
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != entries.end()) refuse("a tensor stands there twice: " + shown(twice->name), where);
  check_places(entries, data_bytes, where);
  return header;
}

StringMap parse_safetensors_index(std::string_view text, const std::string& where) {
  IndexParser parser(where);
  parser.parse(text);
  StringMap map = parser.take();
  for (const auto& [name, file] : map) {
    if (!is_plain_file_name(file)) {
      refuse("a part must be the plain name of a .safetensors file: '" + shown(file) + "'", where);
    }
  }
  return map;
}

std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                    const StringMap& metadata) {
  std::string text = "{\"" + std::string(kMetadata) + "\":" + Json(metadata).dump();
  for (const SafetensorsEntry& entry : entries) {
    // One by one: an object of the library would be sorted by name, not by place.
    text += "," + Json(entry.name).dump() + ":{\"dtype\":" + Json(entry.dtype).dump() +
            ",\"shape\":" + Json(entry.shape).dump() +
            ",\"data_offsets\":" + Json({entry.begin, entry.end}).dump() + "}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  ZERO_REQUIRE(
      text.size() <= kMaxSafetensorsHeader,
      "the names and shapes do not fit the 100 MB that safetensors allows a header, export "
      "in several files: " +
          std::to_string(text.size()) + " bytes");
  return text;
}

std::string safetensors_index_text(const StringMap& weight_map, std::uint64_t total_bytes) {
  const Json json = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  return json.dump(2) + "\n";
}

}  // namespace zero::checkpoint
