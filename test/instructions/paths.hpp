// Code paths of the library whose instructions are counted: each is prepared first and then run once.
#pragma once

#include <cstdint>
#include <functional>

namespace unity::test {

// Returns a number that depends on the whole computation, so that the compiler removes none of it.
using work = std::function<std::uint64_t()>;

// Searches for substitutions.
work match_rules();
work price_candidates();
work canonical_fingerprints();
work expand_states();
work read_rules();
work evaluate_modulo_a_prime();
work enumerate_terms();

// Searches for strategies of a training iteration.
work simulate_in_full();
work simulate_changes();
work propose_strategies();
work lower_a_plan();
work map_onto_meshes();
work plan_memory();

}  // namespace unity::test
