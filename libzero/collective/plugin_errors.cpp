#include "libzero/collective/plugin_errors.h"

#include <algorithm>
#include <exception>
#include <string>

#include "libzero/base/error.h"

namespace zero {

void write_message(zero_message message, std::string_view text) noexcept {
  if (message.text == nullptr || message.size <= 0) return;
  const std::size_t length = std::min(text.size(), static_cast<std::size_t>(message.size - 1));
  std::copy_n(text.data(), length, message.text);
  message.text[length] = '\0';
}

int report_current_exception(zero_message message) noexcept {
  try {
    throw;
  } catch (const ContractError& error) {
    write_message(message, error.what());
    return ZERO_CONTRACT_ERROR;
  } catch (const Unavailable& error) {
    write_message(message, error.what());
    return ZERO_UNAVAILABLE;
  } catch (const std::exception& error) {
    write_message(message, error.what());
  } catch (...) {
    write_message(message, "an exception of unknown type");
  }
  return ZERO_COMM_ERROR;
}

void throw_for_code(int code, std::string_view text) {
  switch (code) {
    case ZERO_OK:
      return;
    case ZERO_CONTRACT_ERROR:
      throw ContractError(std::string(text));
    case ZERO_COMM_ERROR:
      throw CommError(std::string(text));
    case ZERO_UNAVAILABLE:
      throw Unavailable(std::string(text));
    default:
      throw CommError(
          "the backend's plug-in returned a code that libzero does not know; rebuild both "
          "together: code " +
          std::to_string(code) + ", message '" + std::string(text) + "'");
  }
}

}  // namespace zero
