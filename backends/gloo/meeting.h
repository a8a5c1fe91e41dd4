#pragma once

#include <chrono>

#include "backends/gloo/links.h"
#include "backends/gloo/store.h"

namespace zero::gloo_backend {

/// Publishes this rank's addresses and connects both sets of links to every peer. Throws CommError
/// naming the ranks that did not come, or could not be reached, within `timeout`.
void meet(const Store& store, int rank, int size, std::chrono::milliseconds timeout, Links& control,
          Links& data);

}  // namespace zero::gloo_backend
