#pragma once

/// The errors that libzero throws.
///
/// Messages put static text first, values last, name the parameter, rank or file, and say what to
/// do next. The library never prints and never exits.

#include <stdexcept>
#include <string>

namespace zero {

/// Anything that libzero throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller broke a rule. Nothing was changed; where several ranks are involved, every one of
/// them throws.
class ContractError : public Error {
 public:
  using Error::Error;
};

/// A peer died or fell silent, or the network failed. The communicator is dead: destroy it and
/// start again.
class CommError : public Error {
 public:
  using Error::Error;
};

/// Bytes are not what they claim to be.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// The operating system refused; the message holds errno's text and the path or address.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A part that is not in this build or not on this machine was asked for.
class Unavailable : public Error {
 public:
  using Error::Error;
};

/// Throws ContractError(message). Out of line so that checks in hot functions stay small.
[[noreturn]] void throw_contract_error(const std::string& message);

}  // namespace zero

/// Checks a rule that the caller must keep, in release builds too: throws ContractError(message) if
/// `condition` is false. `message` is evaluated only then.
#define ZERO_REQUIRE(condition, message)     \
  do {                                       \
    if (!(condition)) [[unlikely]]           \
      ::zero::throw_contract_error(message); \
  } while (false)
