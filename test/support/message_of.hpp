// What an action complains of.
#pragma once

#include <string>

#include <unity/core/error.hpp>

namespace unity::test {

// Nothing where it does not throw unity::error.
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
