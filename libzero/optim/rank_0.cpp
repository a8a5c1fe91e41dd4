#include "libzero/optim/rank_0.h"

#include <exception>

#include "libzero/base/error.h"

namespace zero {
namespace {

enum Kind : std::int64_t { kNone, kContract, kFormat, kIo, kUnavailable, kOther };

[[noreturn]] void throw_as(std::int64_t kind, const std::string& text) {
  switch (kind) {
    case kContract:
      throw ContractError(text);
    case kFormat:
      throw FormatError(text);
    case kIo:
      throw IoError(text);
    case kUnavailable:
      throw Unavailable(text);
    default:
      throw Error(text);
  }
}

Kind kind_of(const std::exception& error) {
  if (dynamic_cast<const ContractError*>(&error) != nullptr) return kContract;
  if (dynamic_cast<const FormatError*>(&error) != nullptr) return kFormat;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return kIo;
  if (dynamic_cast<const Unavailable*>(&error) != nullptr) return kUnavailable;
  return kOther;
}

}  // namespace

TravellingError TravellingError::of(const std::function<void()>& function) {
  TravellingError result;
  try {
    function();
  } catch (const std::exception& error) {
    result.kind_ = kind_of(error);
    result.text_ = error.what();
  }
  return result;
}

void TravellingError::throw_from_rank_0(Collective& comm, std::string_view label) const {
  std::int64_t kind = kind_;
  comm.broadcast({&kind, 1, DType::kInt64}, 0, label)->wait();
  if (kind == kNone) return;
  throw_as(kind, text_from_rank_0(text_, comm, label));
}

std::string text_from_rank_0(std::string text, Collective& comm, std::string_view label) {
  auto size = static_cast<std::int64_t>(text.size());
  comm.broadcast({&size, 1, DType::kInt64}, 0, label)->wait();
  text.resize(static_cast<std::size_t>(size));
  comm.broadcast({text.data(), size, DType::kUInt8}, 0, label)->wait();
  return text;
}

std::vector<std::int64_t> numbers_from_rank_0(std::vector<std::int64_t> numbers, Collective& comm,
                                              std::string_view label) {
  auto size = static_cast<std::int64_t>(numbers.size());
  comm.broadcast({&size, 1, DType::kInt64}, 0, label)->wait();
  numbers.resize(static_cast<std::size_t>(size));
  comm.broadcast({numbers.data(), size, DType::kInt64}, 0, label)->wait();
  return numbers;
}

}  // namespace zero
