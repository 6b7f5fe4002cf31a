#pragma once

#include <unity/a_forward.hpp>

namespace unity::breaches {

struct holder {
  announced held;
};

}  // namespace unity::breaches
