#pragma once

/// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104), and the random bytes that go with them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero::rendezvous {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view data);

/// Compares in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

/// Bytes from the kernel's generator. Throws IoError if it has none.
std::string random_bytes(std::size_t count);

/// Two lower-case hexadecimal digits a byte.
std::string to_hex(std::string_view bytes);

}  // namespace zero::rendezvous
