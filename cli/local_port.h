#pragma once

namespace zero::cli {

/// A TCP port of 127.0.0.1 that was free a moment ago. Throws IoError.
int find_free_port();

}  // namespace zero::cli
