// expect: (no match for|invalid operands to binary expression)
// A node's id and a value's id cannot be compared.
#include <unity/core/id.hpp>

bool same(unity::node_id n, unity::value_id v) { return n == v; }
