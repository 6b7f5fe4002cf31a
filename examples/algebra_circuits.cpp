// Boolean circuits: an algebra in fifty lines, then the same search that optimizes neural networks.
//
// The textbook form of a full adder, a sum of products, becomes the form that hardware uses, two xor and three nand:
// a third of the transistors. Truth tables prove that both compute the same function.
//
// run:
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/search.hpp>
#include <unity/search/laws.hpp>

using namespace unity;

// An operator: its kind and, for an input, the number of the input.
struct gate {
  kind_id kind{};
  std::int64_t input = 0;
  friend bool operator==(const gate&, const gate&) = default;
};
template <>
struct std::hash<gate> {
  std::size_t operator()(const gate& g) const {
    return hash_combine(g.kind.index(), static_cast<std::uint64_t>(g.input));
  }
};

using wire = std::monostate;  // there is one type of value: a bit
enum : unsigned { input_gate, not_gate, and_gate, or_gate, xor_gate, nand_gate };
const std::vector<op_signature> signatures{{"input", 0, 1, false, {{"number"}}},
                                           {"not", 1},
                                           {"and", 2, 1, true},
                                           {"or", 2, 1, true},
                                           {"xor", 2, 1, true},
                                           {"nand", 2, 1, true}};

struct circuits {
  using op_type = gate;
  using value_type = wire;

  std::optional<std::vector<wire>> infer(const gate& g, std::span<const wire> operands) const {
    const bool fits = signature(g.kind).operands.accepts(operands.size());
    return fits ? std::optional{std::vector<wire>(1)} : std::nullopt;
  }

  std::size_t kind_count() const { return signatures.size(); }
  const op_signature& signature(kind_id kind) const { return signatures[kind.index()]; }
  std::optional<kind_id> find_kind(std::string_view name) const {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(signatures, name, &op_signature::name) - signatures.begin());
    return at < kind_count() ? std::optional{kind_id{at}} : std::nullopt;
  }
  kind_id kind_of(const gate& g) const { return g.kind; }
  attribute_list attributes_of(const gate& g) const {
    return g.kind.index() == input_gate ? attribute_list{{g.input}} : attribute_list{};
  }
  std::optional<gate> make(kind_id kind, std::span<const attribute> attributes) const {
    return gate{kind, attributes.empty() ? 0 : attributes[0][0]};
  }
  std::optional<int> find_measure(std::string_view) const { return std::nullopt; }  // rules need none
  std::optional<attribute> measure(int, wire, std::span<const std::int64_t>) const { return std::nullopt; }
};
static_assert(pattern_algebra<circuits>);

// Transistors of static CMOS cells: inverting gates are the cheapest.
struct transistors {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const gate& g, std::span<const wire>, std::span<const wire>) const {
    return std::array{0, 2, 6, 6, 10, 4}[g.kind.index()];
  }
  cost_value objective(std::int64_t total) const { return total; }
};

constexpr auto laws = R"(
  rule involution    not(not(?x)) => ?x
  rule nand          and(?x, ?y) == not(nand(?x, ?y))
  rule de_morgan     or(not(?x), not(?y)) == nand(?x, ?y)
  rule distribution  or(and(?x, ?y), and(?x, ?z)) == and(?x, or(?y, ?z))
  rule difference    or(and(?x, not(?y)), and(not(?x), ?y)) => xor(?x, ?y)
  rule equivalence   or(and(?x, ?y), and(not(?x), not(?y))) => not(xor(?x, ?y))
  rule overlap       or(and(?x, ?y), and(?z, or(?x, ?y))) == or(and(?x, ?y), and(?z, xor(?x, ?y)))
)";

using netlist = compact_graph<gate, wire>;

// a' b' c + a' b c' + a b' c' + a b c   and   a b + a c + b c
netlist textbook_full_adder() {
  netlist g;
  const auto gate_of = [&](unsigned kind, std::vector<value_id> operands, std::int64_t number = 0) {
    return g.results(g.add_node({kind_id{kind}, number}, operands, std::vector<wire>(1)))[0];
  };
  const auto both = [&](auto x, auto y) { return gate_of(and_gate, {x, y}); };
  const auto either = [&](auto x, auto y) { return gate_of(or_gate, {x, y}); };
  const auto a = gate_of(input_gate, {}, 0), b = gate_of(input_gate, {}, 1), c = gate_of(input_gate, {}, 2);
  const auto na = gate_of(not_gate, {a}), nb = gate_of(not_gate, {b}), nc = gate_of(not_gate, {c});
  const auto sum =
      either(either(both(na, both(nb, c)), both(na, both(b, nc))), either(both(a, both(nb, nc)), both(a, both(b, c))));
  const auto carry = either(either(both(a, b), both(a, c)), both(b, c));
  g.set_outputs(std::array{sum, carry});
  return g;
}

// Bit i of a table is the value if the inputs are the binary digits of i: up to six inputs, all cases at once.
std::vector<std::uint64_t> truth_tables(const netlist& g) {
  constexpr std::array<std::uint64_t, 6> inputs{0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
                                                0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000};
  std::vector<std::uint64_t> tables;  // nodes come in order, with one result each
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    const auto operands = g.operands(n);
    const auto x = operands.empty() ? inputs.at(static_cast<std::size_t>(op.input)) : tables[operands[0].index()];
    const auto y = operands.size() < 2 ? 0 : tables[operands[1].index()];
    tables.push_back(std::array{x, ~x, x & y, x | y, x ^ y, ~(x & y)}[op.kind.index()]);
  }
  std::vector<std::uint64_t> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(tables[v.index()]);
  }
  return outputs;
}

// The first law that the algebra breaks, or a wrong rule; empty if there is none.
std::string fault(const rule_set& rules) {
  const std::vector<operator_sample<circuits>> samples{
      {{kind_id{and_gate}}, {wire{}, wire{}}}, {{kind_id{not_gate}}, {wire{}}}, {{kind_id{input_gate}, 2}, {}}};
  if (const auto broken = check_algebra(circuits{}, samples)) {
    return broken->what();
  }
  const auto adder = [](random_engine&) { return textbook_full_adder(); };
  for (const auto& r : test_rules(circuits{}, rules, truth_tables, adder, {.graphs = 3})) {
    if (r.counter) {
      return fmt::format("rule {}: another truth table, seed {}", r.name, *r.counter);
    }
  }
  return {};
}

int main() {
  const auto before = textbook_full_adder();
  const auto rules = compile_rules(circuits{}, parse_rules(laws));
  if (const auto what = fault(rules); !what.empty()) {
    fmt::print("{}\n", what);
    return 1;
  }
  rewrite_space space{circuits{}, transistors{}, rules, before};
  backtracking_options options;
  options.alpha = 1.3;
  const auto found = backtracking(space, options);
  const auto after = space.graph(found.best);

  fmt::print("transistors: {}\n", space.cost(space.initial()));
  for (const auto& [move, cost] : found.path) {
    fmt::print("  after {}: {}\n", space.rule_of(move).name, cost);
  }
  const bool equal = truth_tables(before) == truth_tables(after);
  fmt::print("{}", equal ? "every row of the truth tables agrees\n" : "the circuits differ\n");
  return equal && 2 * found.cost < space.cost(space.initial()) ? 0 : 1;
}
