#pragma once

/// Exceptions on one side of plugin_abi.h, codes and messages on the other. Both sides of the
/// interface use these. Any thread.

#include <string_view>

#include "libzero/collective/plugin_abi.h"

namespace zero {

/// Copies as much of `text` as fits and terminates it. A null or empty buffer is left alone.
void write_message(zero_message message, std::string_view text) noexcept;

/// For catch (...) at the C boundary: writes the current exception's text and returns its code.
/// What is no zero::Error becomes ZERO_COMM_ERROR: nobody knows in which state it left the
/// communicator.
int report_current_exception(zero_message message) noexcept;

/// Throws the exception that `code` stands for; returns only for ZERO_OK. An unknown code is a
/// CommError that names it.
void throw_for_code(int code, std::string_view text);

}  // namespace zero
