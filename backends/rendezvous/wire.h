#pragma once

/// The store's protocol.
///
/// Every message is a frame: 16 bytes of header (magic "ZERO", version, kind, two zero bytes,
/// request id, payload length; integers little-endian) and the payload. Both sides bound the length
/// before they allocate.
///
///   server -> client   kChallenge   nonce of the server (16 bytes)
///   client -> server   kProof       nonce of the client (16), HMAC(secret, "client" server-nonce
///                                   client-nonce) (32)
///   server -> client   kWelcome     HMAC(secret, "server" server-nonce client-nonce) (32), or
///                                   kRefused with a reason
///   client -> server   kSet, kGet, kAdd, kCompareAndSet, kRemove, kLeaveBehind
///                                   any number, answered in any order by id
///   server -> client   kOk, kTimedOut, kContractError
///
/// What this protects against: somebody who can reach the port but does not know the secret can
/// neither read nor write a key, cannot pose as the store, and cannot learn the secret from what he
/// hears unless it is weak enough to guess. What it does not: frames are neither encrypted nor
/// signed, so somebody who can read or change the traffic between two machines can read the keys
/// and take over a connection that was let in. Run it on a network that you trust.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero::rendezvous::wire {

enum class Kind : std::uint8_t {
  kChallenge = 1,
  kProof = 2,
  kWelcome = 3,
  kRefused = 4,
  kSet = 16,            ///< key, value (the rest)
  kGet = 17,            ///< key, milliseconds to wait (8 bytes)
  kAdd = 18,            ///< key, delta (8 bytes)
  kCompareAndSet = 19,  ///< key, expected, desired (the rest)
  kRemove = 20,         ///< key
  kLeaveBehind = 21,  ///< key, value (the rest): set when the connection ends, unless there is one
  kOk = 32,           ///< the value, or the counter (8 bytes), or one byte: existed
  kTimedOut = 33,
  kContractError = 34,  ///< a message
};

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kMaxHandshakeBytes =
    256;  ///< Payload before the peer has proved itself.
/// Key, two values and their lengths.
inline constexpr std::size_t kMaxPayloadBytes = 1024 + 2 * (std::size_t{1} << 20) + 64;

struct Header {
  Kind kind = Kind::kRefused;
  std::uint32_t id = 0;
  std::uint32_t length = 0;
};

using HeaderBytes = std::array<char, kHeaderBytes>;

HeaderBytes encode(const Header& header);

/// Throws FormatError: no libzero store, another version, or a payload longer than `max_payload`.
Header decode(const HeaderBytes& bytes, std::size_t max_payload);

/// Builds a payload.
class Writer {
 public:
  Writer& u32(std::uint32_t value);
  Writer& u64(std::uint64_t value);
  Writer& sized(std::string_view text);  ///< Its length (4 bytes), then itself.
  Writer& raw(std::string_view text);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes a payload apart; the views live as long as the payload. Every call throws FormatError
/// where bytes are missing.
class Reader {
 public:
  explicit Reader(std::string_view payload) : left_(payload) {}
  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view sized();
  std::string_view raw(std::size_t count);
  std::string_view rest();
  void end() const;  ///< Throws FormatError if bytes are left over.

 private:
  std::string_view left_;
};

/// A key as error messages show it: in quotes, unprintable bytes as \xNN, cut after 80 bytes.
std::string shown_key(std::string_view key);

}  // namespace zero::rendezvous::wire
