// Searching a plain boost::adjacency_list: a polynomial as a Boost graph goes in, a cheaper equal one comes out as a
// Boost graph, and Boost's own topological sort evaluates both.
//
// run:
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>

#include <unity/graph/boost_graph.hpp>
#include <unity/search.hpp>

// An ordinary Boost graph. Its only adaptation to unity: each edge has the position of its source among the operands.
enum class kinds : std::uint32_t { input, sum, product };
struct vertex {
  kinds kind = kinds::input;
  std::int64_t number = 0;  // of an input
  std::monostate type{};    // of its value; all are integers
  friend bool operator==(const vertex&, const vertex&) = default;
};
struct edge {
  int position = 0;
};
using polynomial = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, vertex, edge>;
static_assert(unity::dataflow_graph<polynomial>);

template <>
struct std::hash<vertex> {
  std::size_t operator()(const vertex& v) const {
    return unity::hash_combine(static_cast<std::uint64_t>(v.kind), static_cast<std::uint64_t>(v.number));
  }
};

// The operators of the vertices.
const std::vector<unity::op_signature> signatures{
    {"input", 0, 1, false, {{"number"}}}, {"sum", 2, 1, true}, {"product", 2, 1, true}};
struct arithmetic {
  using op_type = vertex;
  using value_type = std::monostate;

  std::optional<std::vector<value_type>> infer(const vertex& v, std::span<const value_type> operands) const {
    const bool fits = signature(kind_of(v)).operands.accepts(operands.size());
    return fits ? std::optional{std::vector<value_type>(1)} : std::nullopt;
  }
  std::size_t kind_count() const { return signatures.size(); }
  const unity::op_signature& signature(unity::kind_id kind) const { return signatures[kind.index()]; }
  std::optional<unity::kind_id> find_kind(std::string_view name) const {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(signatures, name, &unity::op_signature::name) - signatures.begin());
    return at < kind_count() ? std::optional{unity::kind_id{at}} : std::nullopt;
  }
  unity::kind_id kind_of(const vertex& v) const { return unity::kind_id{static_cast<std::uint32_t>(v.kind)}; }
  unity::attribute_list attributes_of(const vertex& v) const {
    return v.kind == kinds::input ? unity::attribute_list{{v.number}} : unity::attribute_list{};
  }
  std::optional<vertex> make(unity::kind_id kind, std::span<const unity::attribute> attributes) const {
    return vertex{static_cast<kinds>(kind.index()), attributes.empty() ? 0 : attributes[0][0]};
  }
  std::optional<int> find_measure(std::string_view) const { return std::nullopt; }
  std::optional<unity::attribute> measure(int, value_type, std::span<const std::int64_t>) const { return std::nullopt; }
};

struct multiplications_first {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const vertex& v, std::span<const std::monostate>, std::span<const std::monostate>) const {
    return std::array{0, 1, 4}[static_cast<std::size_t>(v.kind)];
  }
  unity::cost_value objective(std::int64_t total) const { return total; }
};

constexpr auto laws = R"(
  rule associative_sum      sum(?x, sum(?y, ?z)) == sum(sum(?x, ?y), ?z)
  rule associative_product  product(?x, product(?y, ?z)) == product(product(?x, ?y), ?z)
  rule distributive         sum(product(?x, ?y), product(?x, ?z)) == product(?x, sum(?y, ?z))
)";

// c0 + c1 x + c2 x x + c3 x x x, with every power computed separately. Input 0 is x.
polynomial naive_cubic() {
  polynomial p;
  const auto add = [&](vertex v, std::initializer_list<std::size_t> operands) {
    const auto made = add_vertex(v, p);
    int position = 0;
    for (const auto operand : operands) {
      add_edge(operand, made, edge{position++}, p);
    }
    return made;
  };
  const auto x = add({kinds::input, 0}, {});
  auto all = add({kinds::input, 1}, {});
  for (int power = 1; power <= 3; ++power) {
    auto monomial = add({kinds::input, power + 1}, {});
    for (int i = 0; i < power; ++i) {
      monomial = add({kinds::product}, {x, monomial});
    }
    all = add({kinds::sum}, {all, monomial});
  }
  return p;
}

// The last value in topological order, modulo 2^64.
std::uint64_t evaluate(const polynomial& p, std::span<const std::uint64_t> inputs) {
  std::vector<std::size_t> order;
  topological_sort(p, std::back_inserter(order));  // the last first
  std::vector<std::uint64_t> values(num_vertices(p));
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    std::uint64_t sum = 0;
    std::uint64_t product = 1;
    for (auto [e, end] = in_edges(*v, p); e != end; ++e) {
      sum += values[source(*e, p)];
      product *= values[source(*e, p)];
    }
    const auto& [kind, number, type] = p[*v];
    values[*v] = kind == kinds::sum ? sum : kind == kinds::product ? product : inputs[static_cast<std::size_t>(number)];
  }
  return values[order.front()];
}

int main() {
  const auto before = naive_cubic();
  unity::rewrite_space space{arithmetic{}, multiplications_first{},
                             unity::compile_rules(arithmetic{}, unity::parse_rules(laws)), before};
  unity::backtracking_options options;
  options.alpha = 1.2;
  options.limits.expansions = 2000;
  const auto found = unity::backtracking(space, options);

  unity::boost_dataflow<polynomial, std::monostate> copy;
  const auto best = space.graph(found.best);
  for (const auto n : unity::node_ids(best)) {
    copy.add_node(best.operation(n), best.operands(n), std::array<std::monostate, 1>{});
  }
  const polynomial after = std::move(copy).list();

  fmt::print("cost: {} -> {}, vertices: {} -> {}\n", space.cost(space.initial()), found.cost, num_vertices(before),
             num_vertices(after));
  unity::random_engine random{1};
  bool equal = true;
  for (int trial = 0; trial < 100; ++trial) {
    const std::array inputs{random(), random(), random(), random(), random()};
    equal = equal && evaluate(before, inputs) == evaluate(after, inputs);
  }
  fmt::print("{}", equal ? "equal at 100 random points\n" : "the polynomials differ\n");
  return equal && found.cost == 15 ? 0 : 1;  // Horner's rule: three sums and three products
}
