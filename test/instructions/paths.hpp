// What of the library is counted in instructions: each path is work, made ready and then done once.
#pragma once

#include <cstdint>
#include <functional>

namespace unity::test {

// Returns a number that depends on all that was computed, so that none of it is left out.
using work = std::function<std::uint64_t()>;

// Searches of substitutions.
work match_rules();
work price_candidates();
work canonical_fingerprints();
work expand_states();
work read_rules();
work evaluate_modulo_a_prime();
work enumerate_terms();

// Divisions of a training iteration.
work simulate_in_full();
work simulate_changes();
work propose_strategies();
work lower_a_plan();
work map_onto_meshes();
work plan_memory();

}  // namespace unity::test
