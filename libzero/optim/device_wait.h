#pragma once

/// Waiting for an accelerator, with an end: one that hangs becomes an error.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <string_view>

namespace zero {

/// Returns when everything that came before the event's record() is done, at once where it was
/// never recorded. Looks again and again, the more seldom the longer it takes: what it adds to the
/// wait is about a 32nd of it, and at most a millisecond. Throws CommError, naming `what` it waited
/// for, once `limit` is over: nothing that the device still holds can be relied on then. Throws
/// what LibTorch throws where the device fails. Any thread; takes no memory unless it throws.
void wait_for(const c10::Event& event, std::chrono::milliseconds limit, std::string_view what);

/// The same for everything that the stream was given so far.
void wait_for(const c10::Stream& stream, std::chrono::milliseconds limit, std::string_view what);

/// The same for what this thread's present stream of `device` was given so far; nothing for a CPU.
void wait_for(c10::Device device, std::chrono::milliseconds limit, std::string_view what);

/// For destructors: true once the stream has nothing to do, or has failed, so that it touches no
/// memory any more; false where it has not come to that within `limit`.
bool comes_to_rest(const c10::Stream& stream, std::chrono::milliseconds limit) noexcept;

}  // namespace zero
