// The error for bad input. Broken preconditions are contracts (core/config.hpp), not errors.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace unity {

// Bad input: a model, rule, plan or file that cannot be used. what() is one line that names the place
// (file, position, node) and what was expected there.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  // Composes "where: found; expected expected_there".
  error(std::string_view where, std::string_view found, std::string_view expected)
      : std::runtime_error{fmt::format("{}: {}; expected {}", where, found, expected)} {}
};

}  // namespace unity
