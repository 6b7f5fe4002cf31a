// Rules about circuits, and a way to decide whether they are true.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

#include "circuits.hpp"

namespace unity::test {

// Both sides in one circuit on shared inputs: first the outputs of the source, then those of the target.
inline circuit circuit_question(const syntax::rule& r) {
  circuit_builder builder;
  std::map<std::string, value_id> inputs;
  std::vector<value_id> outputs;
  auto rule = to_graph(circuits{}, r);
  spread_outputs(rule);
  const auto variable = [&](const std::string& name) {
    const auto known = inputs.find(name);
    const auto letter = static_cast<char>('a' + inputs.size());
    return known != inputs.end() ? known->second : inputs.emplace(name, builder.input(letter)).first->second;
  };
  circuit made;
  for (const auto* side : {&rule.source, &rule.target}) {
    std::vector<value_id> first;
    const auto value = [&](const graph_operand& o) {
      return o.is_node() ? value_id{first[o.node].index() + static_cast<std::size_t>(std::max(0, o.selector))}
                         : variable(o.variable);
    };
    for (const auto& n : side->nodes) {
      const gate g{static_cast<gate::form>(circuits{}.find_kind(n.name)->index()), {}};
      first.push_back(n.operands.empty()       ? builder.add(g, {})
                      : n.operands.size() == 1 ? builder.add(g, {value(n.operands[0])})
                                               : builder.add(g, {value(n.operands[0]), value(n.operands[1])}));
    }
    for (const auto& root : side->roots) {
      outputs.push_back(value(root));
    }
    if (rule.source.roots.size() == 1 && rule.source.roots[0].selector == syntax::term::whole &&
        rule.source.roots[0].is_node() && rule.source.nodes[rule.source.roots[0].node].name == "half_adder") {
      outputs.push_back(value_id{outputs.back().index() + 1});
    }
  }
  made = builder.build({});
  made.set_outputs(outputs);
  return made;
}

// Whether both sides have equal truth tables. Precondition: at most six variables.
inline bool is_true(const syntax::rule& r) {
  const auto values = meaning(circuit_question(r));
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  return std::equal(values.begin(), values.begin() + half, values.begin() + half);
}

inline std::set<std::string> variables_of(const syntax::term& t) {
  std::set<std::string> all;
  if (t.kind == syntax::term::form::variable) {
    all.insert(t.name);
  }
  for (const auto& o : t.operands) {
    all.merge(variables_of(o));
  }
  return all;
}

// All true rules whose source has up to `gates` gates over three variables and whose target is the first term with the
// same truth table.
inline std::vector<syntax::rule> small_circuit_rules(std::size_t gates) {
  std::vector<std::vector<syntax::term>> terms(1);
  for (const auto* name : {"x", "y", "z"}) {
    syntax::term t;
    t.kind = syntax::term::form::variable;
    t.name = name;
    terms[0].push_back(std::move(t));
  }
  const auto apply = [](const char* gate, std::vector<syntax::term> operands) {
    syntax::term t;
    t.name = gate;
    t.operands = std::move(operands);
    return t;
  };
  for (std::size_t size = 1; size <= gates; ++size) {
    auto& made = terms.emplace_back();
    for (const auto& x : terms[size - 1]) {
      made.push_back(apply("not", {x}));
    }
    for (const auto* gate : {"and", "or", "xor"}) {
      for (std::size_t left = 0; left < size; ++left) {
        for (const auto& x : terms[left]) {
          for (const auto& y : terms[size - 1 - left]) {
            made.push_back(apply(gate, {x, y}));
          }
        }
      }
    }
  }
  std::vector<syntax::rule> rules;
  std::map<std::uint64_t, syntax::term> first;
  for (const auto& level : terms) {
    for (const auto& t : level) {
      syntax::rule r;
      r.name = "r" + std::to_string(rules.size());
      // A fixed prefix that reads all three variables in order, so that inputs have the same order for every term.
      r.source = {apply("and", {apply("and", {terms[0][0], terms[0][1]}), terms[0][2]}), t};
      r.target = r.source;
      const auto [known, is_new] = first.emplace(meaning(circuit_question(r))[1], t);
      r.source = {t};
      r.target = {known->second};
      const auto bound = variables_of(t);
      const auto needed = variables_of(known->second);
      if (!is_new && std::includes(bound.begin(), bound.end(), needed.begin(), needed.end())) {
        rules.push_back(std::move(r));
      }
    }
  }
  return rules;
}

}  // namespace unity::test
