#pragma once

/// What went wrong on one rank, in a form that travels to the others and is thrown there again.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "libzero/collective/messages.h"

namespace zero {

struct Failure {
  enum class Kind : std::int64_t {
    kContract = 1,
    kFormat = 2,
    kIo = 3,
    kUnavailable = 4,
    kOther = 5,  ///< Becomes Error itself.
  };
  Kind kind = Kind::kOther;
  std::string text;  ///< At most kMaxFailureText bytes.
};

inline constexpr std::size_t kMaxFailureText = std::size_t{64} << 10;

/// Cut, with a mark, if it is longer than kMaxFailureText.
std::string bounded_text(std::string text);

Failure failure_of(const std::exception& error);

/// Throws the kind of error that `failure` is, with another text.
[[noreturn]] void throw_failure(Failure::Kind kind, const std::string& text);

/// Empty for none.
std::string to_message(const std::optional<Failure>& failure);
/// Throws LocalFailure for what to_message did not make.
std::optional<Failure> parse_failure(std::string_view message);

/// Runs `function`; what it throws does not get away. CommError does: nobody could be told.
template <class Function>
std::optional<Failure> attempt(Function function) {
  try {
    function();
    return std::nullopt;
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    return failure_of(error);
  }
}

}  // namespace zero
