#pragma once

#include <exception>
#include <string>

namespace resnet {

/// What went wrong, in one line for people: LibTorch's own errors without their backtrace.
std::string text_of(const std::exception& error);

}  // namespace resnet
