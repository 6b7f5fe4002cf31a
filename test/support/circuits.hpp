// A small algebra without tensors: boolean circuits, whose meaning is a truth table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>

#include "unused_values.hpp"

namespace unity::test {

struct gate {
  enum class form : std::uint8_t { input, zero, one, negation, conjunction, disjunction, difference, half_adder };

  form kind = form::zero;
  attribute name{};  // an input's name

  friend bool operator==(const gate&, const gate&) = default;
};

struct bit {
  friend bool operator==(bit, bit) = default;
};

}  // namespace unity::test

template <>
struct std::hash<unity::test::gate> {
  std::size_t operator()(const unity::test::gate& g) const {
    return unity::hash_combine(static_cast<std::uint64_t>(g.kind), unity::hash_value(g.name));
  }
};
template <>
struct std::hash<unity::test::bit> {
  std::size_t operator()(unity::test::bit) const { return 1; }
};

namespace unity::test {

// Kinds in the order of gate::form; half_adder(x, y) has two results, sum and carry.
class circuits {
 public:
  using op_type = gate;
  using value_type = bit;

  [[nodiscard]] std::optional<std::vector<bit>> infer(const gate& g, std::span<const bit> inputs) const {
    const auto& s = signature(kind_of(g));
    if (!s.operands.accepts(inputs.size())) {
      return std::nullopt;
    }
    return std::vector<bit>(static_cast<std::size_t>(s.results));
  }
  [[nodiscard]] std::size_t kind_count() const { return signatures_.size(); }
  [[nodiscard]] std::optional<kind_id> find_kind(std::string_view name) const {
    for (std::size_t i = 0; i < signatures_.size(); ++i) {
      if (signatures_[i].name == name) {
        return kind_id{i};
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] const op_signature& signature(kind_id k) const { return signatures_[k.index()]; }
  [[nodiscard]] kind_id kind_of(const gate& g) const { return kind_id{static_cast<std::size_t>(g.kind)}; }
  [[nodiscard]] attribute_list attributes_of(const gate& g) const {
    return g.kind == gate::form::input ? attribute_list{g.name} : attribute_list{};
  }
  [[nodiscard]] std::optional<gate> make(kind_id k, std::span<const attribute> values) const {
    return gate{static_cast<gate::form>(k.index()), values.empty() ? attribute{} : values[0]};
  }
  [[nodiscard]] std::optional<int> find_measure(std::string_view) const { return std::nullopt; }
  [[nodiscard]] std::optional<attribute> measure(int, bit, std::span<const std::int64_t>) const { return std::nullopt; }

 private:
  std::vector<op_signature> signatures_{
      {"input", 0, 1, false, {{"name", attribute_form::word, {}, {}}}},
      {"zero", 0, 1, false, {}},
      {"one", 0, 1, false, {}},
      {"not", 1, 1, false, {}},
      {"and", 2, 1, true, {}},
      {"or", 2, 1, true, {}},
      {"xor", 2, 1, true, {}},
      {"half_adder", 2, 2, true, {}},
  };
};

using circuit = compact_graph<gate, bit>;

// Inputs and constants are free.
struct gate_count {
  using cost_type = std::int64_t;
  [[nodiscard]] std::int64_t node_cost(const gate& g, std::span<const bit>, std::span<const bit>) const {
    static constexpr std::array<std::int64_t, 8> weights{0, 0, 0, 2, 4, 4, 7, 10};
    return weights[static_cast<std::size_t>(g.kind)];
  }
  [[nodiscard]] std::int64_t objective(const std::int64_t& total) const { return total; }
};

// Builds circuits by name.
class circuit_builder {
 public:
  value_id input(char name) { return add({gate::form::input, attribute{name}}, {}); }
  value_id zero() { return add({gate::form::zero, {}}, {}); }
  value_id one() { return add({gate::form::one, {}}, {}); }
  value_id negation(value_id x) { return add({gate::form::negation, {}}, {x}); }
  value_id conjunction(value_id x, value_id y) { return add({gate::form::conjunction, {}}, {x, y}); }
  value_id disjunction(value_id x, value_id y) { return add({gate::form::disjunction, {}}, {x, y}); }
  value_id difference(value_id x, value_id y) { return add({gate::form::difference, {}}, {x, y}); }
  std::array<value_id, 2> half_adder(value_id x, value_id y) {
    const auto sum = add({gate::form::half_adder, {}}, {x, y});
    return {sum, value_id{sum.index() + 1}};
  }
  value_id add(const gate& g, std::initializer_list<value_id> operands) {
    const std::vector<bit> types(g.kind == gate::form::half_adder ? 2 : 1);
    return graph_.results(graph_.add_node(g, std::span{operands.begin(), operands.size()}, types))[0];
  }
  circuit build(std::span<const value_id> outputs) {
    graph_.set_outputs(outputs);
    return graph_;
  }
  circuit build(std::initializer_list<value_id> outputs) { return build({outputs.begin(), outputs.size()}); }

 private:
  circuit graph_;
};

// The truth tables of the outputs over all assignments of the inputs a to f.
inline std::vector<std::uint64_t> meaning(const circuit& g) {
  static constexpr std::array<std::uint64_t, 6> columns{0xaaaaaaaaaaaaaaaaU, 0xccccccccccccccccU, 0xf0f0f0f0f0f0f0f0U,
                                                        0xff00ff00ff00ff00U, 0xffff0000ffff0000U, 0xffffffff00000000U};
  std::vector<std::uint64_t> table(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto operand = [&](std::size_t k) { return table[g.operands(n)[k].index()]; };
    const auto result = g.results(n)[0].index();
    switch (g.operation(n).kind) {
      case gate::form::input: table[result] = columns.at(static_cast<std::size_t>(g.operation(n).name[0] - 'a')); break;
      case gate::form::zero: table[result] = 0; break;
      case gate::form::one: table[result] = ~std::uint64_t{0}; break;
      case gate::form::negation: table[result] = ~operand(0); break;
      case gate::form::conjunction: table[result] = operand(0) & operand(1); break;
      case gate::form::disjunction: table[result] = operand(0) | operand(1); break;
      case gate::form::difference: table[result] = operand(0) ^ operand(1); break;
      case gate::form::half_adder:
        table[result] = operand(0) ^ operand(1);
        table[result + 1] = operand(0) & operand(1);
        break;
    }
  }
  std::vector<std::uint64_t> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(table[v.index()]);
  }
  return outputs;
}

// `gates` gates over `inputs` inputs with random operands. Values that no gate reads are outputs.
inline circuit random_circuit(random_engine& random, std::size_t inputs, std::size_t gates) {
  circuit g;
  std::vector<value_id> values;
  const auto add = [&](const gate& what, std::span<const value_id> operands, std::size_t results) {
    const auto n = g.add_node(what, operands, std::vector<bit>(results));
    values.insert(values.end(), g.results(n).begin(), g.results(n).end());
  };
  for (std::size_t i = 0; i < inputs; ++i) {
    add({gate::form::input, attribute{static_cast<std::int64_t>('a' + i)}}, {}, 1);
  }
  for (std::size_t i = 0; i < gates; ++i) {
    static constexpr std::array<gate::form, 16> forms{
        gate::form::negation,    gate::form::negation,    gate::form::negation,    gate::form::negation,
        gate::form::conjunction, gate::form::conjunction, gate::form::conjunction, gate::form::conjunction,
        gate::form::disjunction, gate::form::disjunction, gate::form::disjunction, gate::form::disjunction,
        gate::form::difference,  gate::form::half_adder,  gate::form::zero,        gate::form::one};
    const auto form = forms[random.below(forms.size())];
    const auto arity = form == gate::form::zero || form == gate::form::one ? 0U
                       : form == gate::form::negation                      ? 1U
                                                                           : 2U;
    std::vector<value_id> operands;
    for (std::size_t k = 0; k < arity; ++k) {
      operands.push_back(values[random.below(values.size())]);
    }
    add({form, {}}, operands, form == gate::form::half_adder ? 2 : 1);
  }
  g.set_outputs(unused_values(g));
  return g;
}

// Rules that hold for all circuits. They cover every feature that boolean algebra allows: commutative matching,
// repeated variables, aliases, several roots, several results, and targets that contain the source.
inline constexpr std::string_view circuit_rules = R"(
rule double_negation   not(not(?x)) => ?x
rule and_idempotent    and(?x, ?x) => ?x
rule or_idempotent     or(?x, ?x) => ?x
rule and_associative   and(?x, and(?y, ?z)) => and(and(?x, ?y), ?z)
rule de_morgan         and(not(?x), not(?y)) == not(or(?x, ?y))
rule distributive      or(and(?x, ?y), and(?x, ?z)) == and(?x, or(?y, ?z))
rule absorption        or(?x, and(?x, ?y)) => ?x
rule contradiction     and(?x, not(?x)) => zero()
rule and_zero          and(?x, zero()) => zero()
rule and_one           and(?x, one()) => ?x
rule or_zero           or(?x, zero()) => ?x
rule not_zero          not(zero()) == one()
rule xor_by_others     xor(?x, ?y) == or(and(?x, not(?y)), and(not(?x), ?y))
rule add               (xor(?x, ?y), and(?x, ?y)) == half_adder(?x, ?y)
rule only_sum          half_adder(?x, ?y).0 => xor(?x, ?y)
rule only_carry        half_adder(?x, ?y).1 => and(?x, ?y)
rule share_negation    (not(?x), or(?x, ?y)) => (not(?x), or(not(not(?x)), ?y))
rule select            (and(?x, ?y), or(?x, and(?x, ?y))) => (and(?x, ?y), ?x)
rule negate_pair       (not(?x), not(?y)) => (xor(?x, one()), xor(?y, one()))
rule one_by_xor        xor(?x, one()) => not(?x)
)";

// Rules under which a circuit has finitely many equivalents.
inline constexpr std::string_view finite_circuit_rules = R"(
rule double_negation   not(not(?x)) => ?x
rule and_idempotent    and(?x, ?x) => ?x
rule or_idempotent     or(?x, ?x) => ?x
rule and_associative   and(?x, and(?y, ?z)) => and(and(?x, ?y), ?z)
rule de_morgan         and(not(?x), not(?y)) == not(or(?x, ?y))
rule distributive      or(and(?x, ?y), and(?x, ?z)) => and(?x, or(?y, ?z))
rule absorption        or(?x, and(?x, ?y)) => ?x
rule contradiction     and(?x, not(?x)) => zero()
rule and_zero          and(?x, zero()) => zero()
rule or_zero           or(?x, zero()) => ?x
rule not_zero          not(zero()) == one()
rule xor_by_others     xor(?x, ?y) => or(and(?x, not(?y)), and(not(?x), ?y))
rule add               (xor(?x, ?y), and(?x, ?y)) == half_adder(?x, ?y)
)";

}  // namespace unity::test
