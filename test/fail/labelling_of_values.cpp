// expect: satisf[a-z ]+[^a-z]+node_labelling
// A labelling must label nodes, not values.
#include <cstdint>

#include <unity/graph/canonical.hpp>
#include <unity/graph/compact_graph.hpp>

std::uint64_t of_value(unity::value_id);

auto name(const unity::compact_graph<int, int>& g) { return unity::canonical_fingerprint(g, of_value); }
