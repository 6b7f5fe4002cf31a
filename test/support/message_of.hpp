// The error message of an action.
#pragma once

#include <string>

#include <unity/core/error.hpp>

namespace unity::test {

// Returns the message of the unity::error that the action throws; "" if it throws none.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

}  // namespace unity::test
