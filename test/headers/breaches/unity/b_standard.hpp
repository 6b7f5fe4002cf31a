#pragma once

namespace unity::breaches {

inline const std::string text{};

}  // namespace unity::breaches
