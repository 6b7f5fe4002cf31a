// Spaces of the rewrites of a random circuit, for the tests of algorithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/circuits.hpp"

namespace unity::test {

using circuit_space = rewrite_space<circuits, gate_count>;

inline circuit_space random_circuit_space(std::uint64_t seed, std::size_t gates,
                                          std::string_view rules = circuit_rules) {
  random_engine random{seed};
  return {circuits{}, gate_count{}, compile_rules(circuits{}, parse_rules(rules)), random_circuit(random, 4, gates)};
}

}  // namespace unity::test
