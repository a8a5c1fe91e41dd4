#pragma once

/// Reasons of failures on their way through the communicator that carries the words (the control).
/// It wraps what it is told and what it finds out itself into sentences about its own calls; these
/// functions take the reason out again. Pure functions; any thread.

#include <string>
#include <string_view>

#include "libzero/collective/call_header.h"

namespace zero::nccl {

/// Why everybody fails when somebody calls abort(): "rank 1 aborted: <why>".
std::string abort_reason(int rank, std::string_view why);
bool is_abort(std::string_view reason);

/// As an argument of the control's abort().
std::string marked(std::string_view reason);

/// What a CommError of the control says at its heart: a marked reason, or the control's own without
/// the description of its call.
std::string reason_of(std::string_view text);

/// A reason that speaks of the control's call, made to speak of `call`: "rank 1 did not come to
/// collective #2, barrier [step], within 400 ms".
std::string retold(const std::string& reason, const CallHeader& call);

}  // namespace zero::nccl
