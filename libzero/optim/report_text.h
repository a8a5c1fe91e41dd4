#pragma once

/// Reports of what was loaded, for people and for other ranks.

#include <string>
#include <string_view>

#include "libzero/optim/load_parameters.h"

namespace zero {

/// Opaque bytes; unpacked_report() reads what packed() of this process' peers wrote.
std::string packed(const ParametersReport& report);
ParametersReport unpacked_report(std::string_view bytes);

}  // namespace zero
