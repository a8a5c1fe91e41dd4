#pragma once

#include <string>

namespace zero::cli {

/// "2026-01-31T23:59:59Z"
std::string current_time();

}  // namespace zero::cli
