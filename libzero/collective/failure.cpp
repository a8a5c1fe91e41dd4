#include "libzero/collective/failure.h"

namespace zero {

std::string bounded_text(std::string text) {
  if (text.size() > kMaxFailureText) {
    text.resize(kMaxFailureText - 3);
    text += "...";
  }
  return text;
}

Failure failure_of(const std::exception& error) {
  const auto is = [&]<class Type>(const Type*) {
    return dynamic_cast<const Type*>(&error) != nullptr;
  };
  using Kind = Failure::Kind;
  Kind kind = Kind::kOther;
  if (is(static_cast<ContractError*>(nullptr))) kind = Kind::kContract;
  if (is(static_cast<FormatError*>(nullptr))) kind = Kind::kFormat;
  if (is(static_cast<IoError*>(nullptr))) kind = Kind::kIo;
  if (is(static_cast<Unavailable*>(nullptr))) kind = Kind::kUnavailable;
  return {kind, bounded_text(error.what())};
}

void throw_failure(Failure::Kind kind, const std::string& text) {
  switch (kind) {
    case Failure::Kind::kContract:
      throw ContractError(text);
    case Failure::Kind::kFormat:
      throw FormatError(text);
    case Failure::Kind::kIo:
      throw IoError(text);
    case Failure::Kind::kUnavailable:
      throw Unavailable(text);
    case Failure::Kind::kOther:
      break;
  }
  throw Error(text);
}

std::string to_message(const std::optional<Failure>& failure) {
  if (!failure) return {};
  return MessageWriter().add(static_cast<std::int64_t>(failure->kind)).add(failure->text).take();
}

std::optional<Failure> parse_failure(std::string_view message) {
  if (message.empty()) return std::nullopt;
  MessageReader in(message);
  const std::int64_t kind = in.number();
  if (kind < static_cast<std::int64_t>(Failure::Kind::kContract) ||
      kind > static_cast<std::int64_t>(Failure::Kind::kOther)) {
    throw LocalFailure("another rank's error arrived damaged");
  }
  return Failure{static_cast<Failure::Kind>(kind), in.text()};
}

}  // namespace zero
