#pragma once

/// The hash by which ranks notice that they built different models.

#include <cstdint>
#include <span>

#include "libzero/layout/layout.h"

namespace zero::layout_detail {

/// 64-bit FNV-1a over a fixed serialisation: every integer as 8 bytes, least significant first; a
/// list and a string led by their length. Order: options, parameters (name, shape, dtype, group,
/// trainable, alias_of), buckets (dtype, numel, parameters), slots (bucket, offset). Ranks of one
/// run compare it; it is no guard against malice.
std::uint64_t fingerprint(std::span<const ParameterSpec> parameters, const LayoutOptions& options,
                          std::span<const Bucket> buckets, std::span<const Slot> slots);

}  // namespace zero::layout_detail
