#include <gtest/gtest.h>

#include <vector>

#include <rapidcheck/gtest.h>

#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"
#include "tests/rendezvous/raw_peer.h"

namespace zero::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::RawPeer;
using wire::Kind;

struct HostilePeer : ::testing::Test {
  StoreServer server{{.secret = "s"}};
  std::shared_ptr<KeyValueStore> friendly = connect_store("127.0.0.1", server.port(), "s", 20s);

  void expect_server_is_well() {
    static int round = 0;
    friendly->set("probe", std::to_string(++round));
    EXPECT_EQ(friendly->get("probe", 0ms), std::to_string(round));
  }
};

TEST_F(HostilePeer, AStrangerWithoutTheSecretReachesNoKey) {
  RawPeer stranger(server.port());
  stranger.receive_frame();
  stranger.send_frame(Kind::kSet, 1, wire::Writer().sized("stolen").raw("x").take());
  EXPECT_TRUE(stranger.is_closed_by_peer());
  EXPECT_THROW(friendly->get("stolen", 0ms), CommError);
}

TEST_F(HostilePeer, AProofCannotBeReplayedOnAnotherConnection) {
  const std::string nonce(wire::kNonceBytes, 'n');
  RawPeer first(server.port());
  const std::string proof = nonce + prove("s", "client", first.receive_frame().second, nonce);
  first.send_frame(Kind::kProof, 0, proof);
  EXPECT_EQ(first.receive_frame().first.kind, Kind::kWelcome);
  RawPeer second(server.port());
  second.receive_frame();
  second.send_frame(Kind::kProof, 0, proof);
  EXPECT_EQ(second.receive_frame().first.kind, Kind::kRefused);
  EXPECT_TRUE(second.is_closed_by_peer());
}

TEST_F(HostilePeer, GarbageCostsThatConnectionOnly) {
  RawPeer stranger(server.port());
  stranger.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(stranger.is_closed_by_peer());
  expect_server_is_well();
}

TEST_F(HostilePeer, OversizedLengthsAreRefusedBeforeAndAfterTheProof) {
  RawPeer stranger(server.port());
  stranger.send_frame(Kind::kProof, 0, "", wire::kMaxHandshakeBytes + 1);
  EXPECT_TRUE(stranger.is_closed_by_peer());
  RawPeer member(server.port());
  member.authenticate("s");
  member.send_frame(Kind::kSet, 1, "", 0xffffffffLL);
  EXPECT_TRUE(member.is_closed_by_peer());
  expect_server_is_well();
}

TEST_F(HostilePeer, FieldsThatPointBeyondTheMessageCloseTheConnection) {
  RawPeer member(server.port());
  member.authenticate("s");
  member.send_frame(Kind::kGet, 1, wire::Writer().u32(0xfffffff0u).raw("abc").take());
  EXPECT_TRUE(member.is_closed_by_peer());
  RawPeer other(server.port());
  other.authenticate("s");
  other.send_frame(static_cast<Kind>(200), 1, wire::Writer().sized("k").take());
  EXPECT_TRUE(other.is_closed_by_peer());
  expect_server_is_well();
}

TEST_F(HostilePeer, TooLongKeysAndValuesAreAnsweredWithAnError) {
  RawPeer member(server.port());
  member.authenticate("s");
  member.send_frame(Kind::kSet, 7, wire::Writer().sized(std::string(1025, 'k')).take());
  const auto [header, text] = member.receive_frame();
  EXPECT_EQ(header.kind, Kind::kContractError);
  EXPECT_EQ(header.id, 7u);
  member.send_frame(Kind::kSet, 8,
                    wire::Writer().sized("k").raw(std::string((1 << 20) + 1, 'v')).take());
  EXPECT_EQ(member.receive_frame().first.kind, Kind::kContractError);
}

TEST_F(HostilePeer, EndlessWaitsOfOneClientAreBounded) {
  RawPeer member(server.port());
  member.authenticate("s");
  const std::string get = wire::Writer().sized("never").u64(~0ull).take();
  for (std::uint32_t id = 0; id <= 1024; ++id) member.send_frame(Kind::kGet, id, get);
  const auto [header, text] = member.receive_frame();
  EXPECT_EQ(header.kind, Kind::kContractError);
  EXPECT_EQ(header.id, 1024u);
  expect_server_is_well();
}

TEST(HalfOpen, SilentAndHalfFinishedConnectionsAreDroppedAtTheDeadlineAndBlockNobody) {
  StoreServer server({.secret = "s", .handshake_timeout = 300ms});
  RawPeer silent(server.port());
  RawPeer half(server.port());
  half.send("ZERO");
  const auto friendly = connect_store("127.0.0.1", server.port(), "s", 20s);
  friendly->set("k", "v");
  EXPECT_TRUE(silent.is_closed_by_peer());
  EXPECT_TRUE(half.is_closed_by_peer());
  EXPECT_EQ(friendly->get("k", 0ms), "v");  // one that has proved itself may be silent for longer
}

TEST(ConnectionLimit, StrangersGiveWayAndMembersDoNot) {
  StoreServer server({.secret = "s", .handshake_timeout = 60s, .max_connections = 3});
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.push_back(std::make_unique<RawPeer>(server.port()));
    strangers.back()->receive_frame();
  }
  const auto a = connect_store("127.0.0.1", server.port(), "s", 20s);
  EXPECT_TRUE(strangers[0]->is_closed_by_peer());
  const auto b = connect_store("127.0.0.1", server.port(), "s", 20s);
  const auto c = connect_store("127.0.0.1", server.port(), "s", 20s);
  RawPeer late(server.port());
  EXPECT_TRUE(late.is_closed_by_peer());
  a->set("k", "v");
  EXPECT_EQ(b->get("k", 0ms), "v");
  EXPECT_EQ(c->get("k", 0ms), "v");
}

TEST_F(HostilePeer, ASlowReaderHoldsUpNobodyAndItsRequestsAreNotReadForEver) {
  friendly->set("big", std::string(1 << 20, 'x'));
  RawPeer slow(server.port());
  slow.authenticate("s");
  const std::string get = wire::Writer().sized("big").u64(0).take();
  for (std::uint32_t id = 0; id < 64; ++id) slow.send_frame(Kind::kGet, id, get);
  slow.send_frame(Kind::kSet, 64, wire::Writer().sized("marker").raw("read").take());
  for (int i = 0; i < 50; ++i) expect_server_is_well();
  // Most of 64 MiB cannot have left yet, so what came after them must still be unread.
  EXPECT_THROW(friendly->get("marker", 50ms), CommError);
  for (std::uint32_t id = 0; id < 64; ++id) {  // once it reads, it gets everything, in order
    const auto [header, payload] = slow.receive_frame();
    ASSERT_EQ(header.id, id);
    ASSERT_EQ(payload.size(), std::size_t{1} << 20);
  }
  EXPECT_EQ(friendly->get("marker", 20s), "read");
}

TEST(Fuzz, RandomBytesNeverHurtTheServer) {
  StoreServer server({.secret = "s"});
  const auto friendly = connect_store("127.0.0.1", server.port(), "s", 20s);
  EXPECT_TRUE(rc::check("strangers", [&](const std::string& bytes) {
    RawPeer(server.port()).send(bytes);
    friendly->set("k", "v");
  }));
  EXPECT_TRUE(rc::check("strangers with a header", [&](const std::string& bytes) {
    const auto kind = *rc::gen::arbitrary<std::uint8_t>();
    const auto length = *rc::gen::inRange<std::int64_t>(0, 400);
    RawPeer(server.port()).send_frame(static_cast<Kind>(kind), 0, bytes, length);
    friendly->set("k", "v");
  }));
  EXPECT_TRUE(rc::check("members", [&](const std::vector<std::string>& payloads) {
    RawPeer member(server.port());
    member.authenticate("s");
    for (const std::string& payload : payloads) {
      const auto kind = *rc::gen::weightedOneOf<std::uint8_t>(
          {{9, rc::gen::inRange<std::uint8_t>(16, 21)}, {1, rc::gen::arbitrary<std::uint8_t>()}});
      const bool keyed = *rc::gen::arbitrary<bool>();
      member.send_frame(static_cast<Kind>(kind), 0,
                        keyed ? wire::Writer().sized("fuzz/key").raw(payload).take() : payload);
    }
    friendly->set("k", "v");
  }));
  EXPECT_EQ(friendly->get("k", 0ms), "v");
}

}  // namespace
}  // namespace zero::rendezvous
