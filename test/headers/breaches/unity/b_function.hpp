#pragma once

#include <string>

namespace unity::breaches {

[[nodiscard]] inline int of(const std::string& s) { return weight_of(s); }

}  // namespace unity::breaches
