// Static tests: the smallest graph that the concepts accept, and graphs that each lack one requirement.
#include <array>
#include <concepts>
#include <cstddef>
#include <forward_list>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/graph/concepts.hpp>

using unity::node_id;
using unity::value_id;

namespace archetype {

struct an_operation {
  an_operation() = delete;
  an_operation(const an_operation&) = delete;
};
struct a_type {
  a_type() = delete;
  a_type(const a_type&) = delete;
};

// Neither copyable nor default-constructible; every range has only the category that the concept requires.
struct graph {
  graph() = delete;
  graph(const graph&) = delete;

  unsigned char node_count() const;
  unsigned char value_count() const;
  const an_operation& operation(node_id) const;
  std::forward_list<value_id> operands(node_id) const;
  std::forward_list<value_id> results(node_id) const;
  const a_type& type(value_id) const;
  node_id producer(value_id) const;
  std::forward_list<value_id> outputs() const;
};

}  // namespace archetype

static_assert(unity::dataflow_graph<archetype::graph>);
static_assert(std::same_as<unity::operation_t<archetype::graph>, archetype::an_operation>);
static_assert(std::same_as<unity::type_t<archetype::graph>, archetype::a_type>);
static_assert(!unity::mutable_dataflow_graph<archetype::graph>);

namespace near_miss {

using archetype::graph;

struct without_node_count : graph {
  void node_count() const = delete;
};
struct without_value_count : graph {
  void value_count() const = delete;
};
struct count_in_words : graph {
  std::string node_count() const;
};
struct without_operations : graph {
  void operation(node_id) const = delete;
};
struct operations_by_index : graph {
  const archetype::an_operation& operation(std::string) const;
};
struct without_operands : graph {
  void operands(node_id) const = delete;
};
struct operands_are_nodes : graph {  // an edge does not say which result it carries
  std::vector<node_id> operands(node_id) const;
};
struct operands_read_once : graph {
  std::ranges::basic_istream_view<int, char> operands(node_id) const;
};
struct without_results : graph {
  void results(node_id) const = delete;
};
struct without_producers : graph {
  void producer(value_id) const = delete;
};
struct producer_is_a_number : graph {
  std::size_t producer(value_id) const;
};
struct without_types : graph {
  void type(value_id) const = delete;
};
struct without_outputs : graph {
  void outputs() const = delete;
};
struct outputs_change_the_graph : graph {
  std::vector<value_id> outputs();
};

}  // namespace near_miss

// Each near miss fails exactly the requirement that it lacks.
template <class G>
inline constexpr std::array pieces{unity::has_counts<G>,  unity::has_operations<G>, unity::has_operands<G>,
                                   unity::has_results<G>, unity::has_types<G>,      unity::has_outputs<G>};
template <class G>
constexpr bool lacks_only(std::size_t missing) {
  for (std::size_t i = 0; i < pieces<G>.size(); ++i) {
    if (pieces<G>[i] == (i == missing)) {
      return false;
    }
  }
  return !unity::dataflow_graph<G>;
}
static_assert(lacks_only<near_miss::without_node_count>(0));
static_assert(lacks_only<near_miss::without_value_count>(0));
static_assert(lacks_only<near_miss::count_in_words>(0));
static_assert(lacks_only<near_miss::without_operations>(1));
static_assert(lacks_only<near_miss::operations_by_index>(1));
static_assert(lacks_only<near_miss::without_operands>(2));
static_assert(lacks_only<near_miss::operands_are_nodes>(2));
static_assert(lacks_only<near_miss::operands_read_once>(2));
static_assert(lacks_only<near_miss::without_results>(3));
static_assert(lacks_only<near_miss::without_producers>(3));
static_assert(lacks_only<near_miss::producer_is_a_number>(3));
static_assert(lacks_only<near_miss::without_types>(4));
static_assert(lacks_only<near_miss::without_outputs>(5));
static_assert(lacks_only<near_miss::outputs_change_the_graph>(5));

static_assert(!unity::dataflow_graph<int> && !unity::dataflow_graph<std::vector<std::pair<int, int>>>);

static_assert(unity::value_range<std::span<const value_id>> && unity::value_range<const std::vector<value_id>&>);
static_assert(!unity::value_range<std::vector<node_id>> && !unity::value_range<std::ranges::istream_view<int>>);

// Building: what mutable graphs need beyond reading.
struct buildable : archetype::graph {
  using op = archetype::an_operation;
  node_id add_node(const op&, std::span<const value_id>, std::span<const archetype::a_type>);
  void set_outputs(std::span<const value_id>);
};
struct nodes_without_ids : buildable {
  void add_node(const op&, std::span<const value_id>, std::span<const archetype::a_type>);
};
struct outputs_fixed : buildable {
  void set_outputs(std::span<const value_id>) = delete;
};
static_assert(unity::mutable_dataflow_graph<buildable>);
static_assert(unity::dataflow_graph<nodes_without_ids> && !unity::mutable_dataflow_graph<nodes_without_ids>);
static_assert(unity::dataflow_graph<outputs_fixed> && !unity::mutable_dataflow_graph<outputs_fixed>);

// A third-party graph type, adapted by a specialization of the traits: a chain of `length` nodes.
struct foreign_chain {
  std::size_t length;
};

template <>
struct unity::graph_traits<foreign_chain> {
  using values = std::vector<value_id>;
  static std::size_t node_count(const foreign_chain& g) { return g.length; }
  static std::size_t value_count(const foreign_chain& g) { return g.length; }
  static int operation(const foreign_chain&, node_id n) { return static_cast<int>(n.index()); }
  static values operands(const foreign_chain&, node_id n) {
    return n.index() == 0 ? values{} : values{value_id{n.index() - 1}};
  }
  static values results(const foreign_chain&, node_id n) { return {value_id{n.index()}}; }
  static bool type(const foreign_chain&, value_id) { return true; }
  static node_id producer(const foreign_chain&, value_id v) { return node_id{v.index()}; }
  static values outputs(const foreign_chain& g) { return {value_id{g.length - 1}}; }
};

static_assert(unity::dataflow_graph<foreign_chain>);
static_assert(std::same_as<unity::operation_t<foreign_chain>, int>);

TEST_CASE("specialized graph_traits list each value among the results of its producer") {
  using traits = unity::graph_traits<foreign_chain>;
  const foreign_chain g{4};
  for (std::size_t v = 0; v < traits::value_count(g); ++v) {
    CHECK(traits::results(g, traits::producer(g, value_id{v})) == traits::values{value_id{v}});
  }
}
