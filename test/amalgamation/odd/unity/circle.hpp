#pragma once
#include <unity/needed.hpp>
#include <unity/odd.hpp>

inline int circle() { return 2; }
