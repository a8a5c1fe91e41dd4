#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "examples/minigpt/model.h"
#include "examples/minigpt/text_data.h"
#include "libzero/collective/collective.h"

namespace minigpt {

/// Where the model lies.
torch::Device device_of(MiniGpt& model);

/// int64 [indices.size(), context + 1].
torch::Tensor batch_of(const Windows& windows, std::span<const std::int64_t> indices,
                       torch::Device device);

/// Collective: mean loss over all windows, in nats per byte. Ranks share the work; the sum runs in
/// window order, so that the bits do not depend on world size.
double evaluate(MiniGpt& model, const Windows& windows, zero::Collective& comm);

/// `count` characters that the model continues a newline with; the same for the same seed and
/// weights.
std::string generate(MiniGpt& model, std::int64_t count, std::int64_t context, std::uint64_t seed);

}  // namespace minigpt
