// expect: (no match for|invalid operands to binary expression)
// Bytes cannot be added to floating-point operations.
#include <unity/core/units.hpp>

auto sum(unity::bytes b, unity::flops f) { return b + f; }
