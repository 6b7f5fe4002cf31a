#pragma once

#include <unity/a_forward.hpp>

namespace unity::breaches {

[[nodiscard]] inline int of(const announced& a) { return a.size; }

}  // namespace unity::breaches
