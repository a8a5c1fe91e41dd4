#pragma once

#include <exception>
#include <string>

#include "libzero/base/error.h"

namespace minigpt {

/// What went wrong, in one line for people: LibTorch's own errors without their backtrace.
std::string text_of(const std::exception& error);

/// Runs `call`. What it throws about a file or a setting names the flag that led there; errors of
/// peers stay as they are.
template <typename Call>
decltype(auto) naming(const std::string& flag, Call call) {
  try {
    return call();
  } catch (const zero::ContractError& error) {
    throw zero::ContractError(flag + ": " + error.what());
  } catch (const zero::FormatError& error) {
    throw zero::FormatError(flag + ": " + error.what());
  } catch (const zero::IoError& error) {
    throw zero::IoError(flag + ": " + error.what());
  }
}

}  // namespace minigpt
