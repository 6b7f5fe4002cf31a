#pragma once

#include <unity/a_forward.hpp>

namespace unity::breaches {

[[nodiscard]] inline bool less(const widget& a, const widget& b) { return a < b; }

}  // namespace unity::breaches
