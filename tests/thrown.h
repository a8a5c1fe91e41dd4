#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace zero::testing {

/// Runs `function` and returns the message of the Expected that it must throw.
template <typename Expected, typename Function>
std::string thrown(Function function) {
  try {
    function();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace zero::testing
