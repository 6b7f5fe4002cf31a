#pragma once

namespace unity::breaches {

inline constexpr int macro = BREACH_MACRO;

}  // namespace unity::breaches
