#pragma once

#include <unity/a_declares.hpp>

namespace unity::breaches {

struct whole {
  widget held;
  announced other;
};
[[nodiscard]] inline int all(const whole& w) { return weight_of("") + twice(w.held.weight) + BREACH_MACRO; }

}  // namespace unity::breaches
