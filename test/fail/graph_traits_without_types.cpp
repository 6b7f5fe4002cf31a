// expect: satisf[a-z ]+[^a-z]+dataflow_graph
// expect: satisf[a-z ]+[^a-z]+has_types
// expect: type[(]g, v[)][^ ]* (is|would be) invalid
// A third-party graph whose graph_traits specialization lacks the types of values.
#include <array>
#include <cstddef>

#include <unity/graph/topological_order.hpp>

struct foreign_graph {};

template <>
struct unity::graph_traits<foreign_graph> {
  static std::size_t node_count(const foreign_graph&);
  static std::size_t value_count(const foreign_graph&);
  static int operation(const foreign_graph&, node_id);
  static std::array<value_id, 1> operands(const foreign_graph&, node_id);
  static std::array<value_id, 1> results(const foreign_graph&, node_id);
  static node_id producer(const foreign_graph&, value_id);
  static std::array<value_id, 1> outputs(const foreign_graph&);
};

auto order(const foreign_graph& g) { return unity::topological_order(g); }
