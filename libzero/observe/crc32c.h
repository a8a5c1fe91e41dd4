#pragma once

#include <cstdint>
#include <string_view>

namespace zero::observe {

/// CRC-32C (Castagnoli, reflected 0x1EDC6F41), as in iSCSI and TFRecord.
std::uint32_t crc32c(std::string_view bytes) noexcept;

/// As TFRecord stores it: rotated and shifted, so that the CRC of data with CRCs in it is sound.
std::uint32_t masked_crc32c(std::string_view bytes) noexcept;

}  // namespace zero::observe
