// Includes what is needed below whatever is wished for, which must not be there only where it is; and itself.
#pragma once
#include <algorithm>

#include <unity/wished.hpp>
#include "needed.hpp"

inline int wished() { return std::max(needed(), 2); }
