#include "backends/rendezvous/wire.h"

#include <algorithm>

#include "backends/rendezvous/keyed_hash.h"
#include "libzero/base/error.h"

namespace zero::rendezvous::wire {
namespace {

constexpr std::string_view kMagic = "ZERO";

template <typename Integer>
void put(char* out, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) out[i] = static_cast<char>(value >> (8 * i));
}

template <typename Integer>
Integer take(const char* in) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<Integer>(static_cast<std::uint8_t>(in[i])) << (8 * i);
  }
  return value;
}

}  // namespace

HeaderBytes encode(const Header& header) {
  HeaderBytes bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  bytes[4] = static_cast<char>(kVersion);
  bytes[5] = static_cast<char>(header.kind);
  put(&bytes[8], header.id);
  put(&bytes[12], header.length);
  return bytes;
}

Header decode(const HeaderBytes& bytes, std::size_t max_payload) {
  if (std::string_view(bytes.data(), 4) != kMagic) {
    throw FormatError("the other side does not speak the protocol of a libzero store");
  }
  const int version = static_cast<std::uint8_t>(bytes[4]);
  if (version != kVersion) {
    throw FormatError(
        "the other side speaks another version of the store's protocol; use the same libzero on "
        "all "
        "ranks and in the launcher: theirs " +
        std::to_string(version) + ", ours " + std::to_string(kVersion));
  }
  Header header;
  header.kind = static_cast<Kind>(static_cast<std::uint8_t>(bytes[5]));
  header.id = take<std::uint32_t>(&bytes[8]);
  header.length = take<std::uint32_t>(&bytes[12]);
  if (header.length > max_payload) {
    throw FormatError("message longer than the protocol allows: " + std::to_string(header.length) +
                      " bytes, at most " + std::to_string(max_payload));
  }
  return header;
}

Writer& Writer::u32(std::uint32_t value) {
  bytes_.resize(bytes_.size() + 4);
  put(bytes_.data() + bytes_.size() - 4, value);
  return *this;
}

Writer& Writer::u64(std::uint64_t value) {
  bytes_.resize(bytes_.size() + 8);
  put(bytes_.data() + bytes_.size() - 8, value);
  return *this;
}

Writer& Writer::sized(std::string_view text) {
  return u32(static_cast<std::uint32_t>(text.size())).raw(text);
}

Writer& Writer::raw(std::string_view text) {
  bytes_.append(text);
  return *this;
}

std::string_view Reader::raw(std::size_t count) {
  if (count > left_.size()) throw FormatError("message shorter than its fields say");
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

std::uint32_t Reader::u32() {
  return take<std::uint32_t>(raw(4).data());
}
std::uint64_t Reader::u64() {
  return take<std::uint64_t>(raw(8).data());
}
std::string_view Reader::sized() {
  return raw(u32());
}
std::string_view Reader::rest() {
  return raw(left_.size());
}

void Reader::end() const {
  if (!left_.empty()) throw FormatError("message longer than its fields say");
}

std::string shown_key(std::string_view key) {
  constexpr std::size_t kShown = 80;
  std::string text = "'";
  for (const char c : key.substr(0, kShown)) {
    if (c < ' ' || c == '\x7f' || c == '\\' ||
        c == '\'') {  // also bytes from 0x80, where char is signed
      text += "\\x" + to_hex({&c, 1});
    } else {
      text.push_back(c);
    }
  }
  return text + (key.size() > kShown ? "...'" : "'");
}

}  // namespace zero::rendezvous::wire
