// expect: satisf[a-z ]+[^a-z]+dataflow_graph
// expect: satisf[a-z ]+[^a-z]+has_outputs
// expect: outputs[(]g[)][^ ]* (is|would be) invalid
// The error for a type that does not model a concept names the missing requirement.
#include <array>
#include <cstddef>

#include <unity/graph/concepts.hpp>

struct no_outputs {
  std::size_t node_count() const;
  std::size_t value_count() const;
  int operation(unity::node_id) const;
  std::array<unity::value_id, 1> operands(unity::node_id) const;
  std::array<unity::value_id, 1> results(unity::node_id) const;
  int type(unity::value_id) const;
  unity::node_id producer(unity::value_id) const;
};

void optimize(unity::dataflow_graph auto const&) {}
void call(const no_outputs& g) { optimize(g); }
