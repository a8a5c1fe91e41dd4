#include "backends/rendezvous/wire.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "libzero/base/error.h"

namespace zero::rendezvous::wire {
namespace {

RC_GTEST_PROP(Wire, HeadersSurviveTheTrip, (std::uint32_t id)) {
  const auto length = *rc::gen::inRange<std::uint32_t>(0, kMaxPayloadBytes + 1);
  const Header back = decode(encode({Kind::kGet, id, length}), kMaxPayloadBytes);
  RC_ASSERT(back.kind == Kind::kGet);
  RC_ASSERT(back.id == id);
  RC_ASSERT(back.length == length);
}

RC_GTEST_PROP(Wire, FieldsSurviveTheTrip,
              (std::uint32_t a, std::uint64_t b, const std::string& c, const std::string& d)) {
  const std::string payload = Writer().u32(a).u64(b).sized(c).raw(d).take();
  Reader reader(payload);
  RC_ASSERT(reader.u32() == a);
  RC_ASSERT(reader.u64() == b);
  RC_ASSERT(reader.sized() == c);
  RC_ASSERT(reader.rest() == d);
  reader.end();
}

RC_GTEST_PROP(Wire, RandomBytesAreReadWithinBoundsOrRefused, (const std::string& bytes)) {
  Reader reader(bytes);
  try {
    reader.sized();
    reader.u64();
    reader.end();
  } catch (const FormatError&) {
  }
}

TEST(Wire, RefusesForeignMagicOtherVersionsAndOversizedPayloads) {
  HeaderBytes bytes = encode({Kind::kGet, 1, 10});
  EXPECT_NO_THROW(decode(bytes, 10));
  EXPECT_THROW(decode(bytes, 9), FormatError);
  bytes[4] = 2;
  EXPECT_THROW(decode(bytes, 10), FormatError);
  bytes = encode({Kind::kGet, 1, 10});
  bytes[0] = 'G';
  EXPECT_THROW(decode(bytes, 10), FormatError);
}

TEST(Wire, LengthsBeyondThePayloadAreRefused) {
  const std::string payload = Writer().u32(0xffffffffu).raw("abc").take();
  EXPECT_THROW(Reader(payload).sized(), FormatError);
}

TEST(Wire, QuotedKeysHoldNoControlCharacters) {
  EXPECT_EQ(shown_key(std::string("a\0b\nc'\xff", 7)), "'a\\x00b\\x0ac\\x27\\xff'");
  EXPECT_EQ(shown_key(std::string(100, 'k')), "'" + std::string(80, 'k') + "...'");
}

}  // namespace
}  // namespace zero::rendezvous::wire
