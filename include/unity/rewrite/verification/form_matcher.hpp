// Finds matches for the trigger of an axiom's form among known terms, modulo known equalities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/attribute_check.hpp>
#include <unity/rewrite/verification/axiom_form.hpp>
#include <unity/rewrite/verification/equality_graph.hpp>
#include <unity/rewrite/verification/worlds.hpp>

namespace unity {

// The bindings of a form's trigger. Null for slots that it does not bind.
struct form_match {
  std::uint32_t form = 0;
  std::vector<term_id> variables{};
  std::vector<attribute_row> attributes{};
  std::vector<node_id> nodes{};  // by source node
  std::vector<bool> swapped{};   // by source node: operands of a commutative node were matched in the other order

  friend bool operator==(const form_match&, const form_match&) = default;
};

// A form with its literals interned.
struct prepared_form {
  struct computed {
    std::uint32_t node;
    std::size_t position;
  };

  std::vector<std::vector<attribute_check<attribute_row>>> checks{};  // by source node
  std::vector<computed> later{};  // attributes that are expressions over bound variables
  // By node and attribute of each side: the literal to build it with, or null.
  std::vector<std::vector<attribute_row>> source_literals{};
  std::vector<std::vector<attribute_row>> target_literals{};

  template <pattern_algebra Algebra>
  prepared_form(const axiom_form& f, world_tables<Algebra>& tables) {
    const auto& nodes = f.equation.source.nodes;
    checks.resize(nodes.size());
    for (const auto& s : f.steps) {
      for (std::uint32_t k = 0; k < nodes[s.node].attributes.size(); ++k) {
        const auto& a = nodes[s.node].attributes[k];
        if (a.kind == pattern_attribute::form::bind) {
          checks[s.node].push_back({k, true, static_cast<std::uint32_t>(a.slot), {}});
        } else if (a.kind == pattern_attribute::form::value && a.value.kind == expression::form::literal) {
          checks[s.node].push_back({k, false, 0, tables.intern_literal(a.value.literal)});
        } else if (a.kind == pattern_attribute::form::value) {
          later.push_back({s.node, k});
        }
      }
    }
    source_literals = literals(f.equation.source, tables);
    target_literals = literals(f.equation.target, tables);
  }

 private:
  template <pattern_algebra Algebra>
  static std::vector<std::vector<attribute_row>> literals(const pattern& p, world_tables<Algebra>& tables) {
    std::vector<std::vector<attribute_row>> all;
    for (const auto& n : p.nodes) {
      auto& mine = all.emplace_back();
      for (const auto& a : n.attributes) {
        const bool literal = a.kind == pattern_attribute::form::value && a.value.kind == expression::form::literal;
        mine.push_back(literal ? tables.intern_literal(a.value.literal) : attribute_row{});
      }
    }
    return all;
  }
};

// Backtracks over the steps of one form.
template <pattern_algebra Algebra>
class form_matcher {
 public:
  using graph_type = equality_graph<Algebra>;

  form_matcher(const graph_type& graph, const world_tables<Algebra>& tables) : graph_{&graph}, tables_{&tables} {}

  // Reports each match whose first step takes `anchor` as sink(form_match), which must not change the graph and returns
  // whether to continue. Several equal roots match different nodes, in the order of their numbers.
  template <class Sink>
  void match(std::uint32_t number, const axiom_form& form, const prepared_form& prepared, node_id anchor, Sink&& sink) {
    form_ = &form;
    prepared_ = &prepared;
    found_.form = number;
    found_.variables.assign(form.equation.variables, term_id{});
    found_.attributes.assign(form.equation.attribute_variables, attribute_row{});
    found_.nodes.assign(form.equation.source.nodes.size(), node_id{});
    found_.swapped.assign(form.equation.source.nodes.size(), false);
    stopped_ = false;
    take(0, anchor, sink);
  }

 private:
  [[nodiscard]] const pattern_node& node(std::uint32_t slot) const { return form_->equation.source.nodes[slot]; }
  // The actual operand for the pattern's operand k.
  [[nodiscard]] term_id operand(std::uint32_t slot, std::uint32_t k) const {
    return graph_->operands(found_.nodes[slot])[found_.swapped[slot] ? 1 - k : k];
  }

  template <class Sink>
  void step(std::size_t at, Sink& sink) {
    if (at == form_->steps.size()) {
      stopped_ = stopped_ || !sink(found_);
      return;
    }
    const auto& s = form_->steps[at];
    const auto kind = node(s.node).kind;
    if (s.parent != axiom_form::none) {
      const auto first = operand(s.parent, s.operand);
      auto t = first;
      do {
        const auto n = graph_->producer(t);
        if (graph_->kind(n) == kind && graph_->result_index(t) == s.result) {
          take(at, n, sink);
        }
        t = graph_->next(t);
      } while (t != first);
    } else if (s.user_of != axiom_form::none) {
      for (const auto n : graph_->users(found_.variables[s.user_of])) {
        if (graph_->kind(n) == kind) {
          take(at, n, sink);
        }
      }
    } else {
      for (const auto n : graph_->nodes_of(kind)) {
        take(at, n, sink);
      }
    }
  }

  template <class Sink>
  void take(std::size_t at, node_id n, Sink& sink) {
    const auto slot = form_->steps[at].node;
    const auto& p = node(slot);
    const bool right_count = form_->results[slot] == 0 || graph_->result_count(n) == form_->results[slot];
    if (stopped_ || graph_->redundant(n) || graph_->operands(n).size() != p.operands.size() || !right_count) {
      return;
    }
    const auto twin = form_->steps[at].after;
    if (twin != axiom_form::none && !(found_.nodes[twin] < n)) {
      return;
    }
    small_vector<std::uint32_t, 8> bound_attributes;
    if (take_attributes(prepared_->checks[slot], tables_->attributes_of(graph_->op(n)), found_.attributes,
                        bound_attributes)) {
      found_.nodes[slot] = n;
      found_.swapped[slot] = false;
      take_operands(at, slot, sink);
      if (p.commutative && p.operands.size() == 2 && !graph_->equal(graph_->operands(n)[0], graph_->operands(n)[1])) {
        found_.swapped[slot] = true;
        take_operands(at, slot, sink);
      }
      found_.swapped[slot] = false;
      found_.nodes[slot] = node_id{};
    }
    for (const auto a : bound_attributes) {
      found_.attributes[a] = attribute_row{};
    }
  }
  // Binds variables among the operands, compares those that are already bound, and continues with the next step.
  template <class Sink>
  void take_operands(std::size_t at, std::uint32_t slot, Sink& sink) {
    small_vector<std::uint32_t, 8> bound;
    const auto& p = node(slot);
    bool fits = true;
    for (std::uint32_t k = 0; fits && k < p.operands.size(); ++k) {
      const auto& o = p.operands[k];
      const auto actual = operand(slot, k);
      if (o.is_variable) {
        auto& variable = found_.variables[o.slot];
        if (!variable.valid()) {
          variable = actual;
          bound.push_back(o.slot);
        } else {
          fits = graph_->equal(variable, actual);
        }
      } else if (found_.nodes[o.slot].valid()) {
        fits = reads(actual, o.slot, static_cast<std::uint32_t>(o.result));
      }
    }
    for (const auto& r : form_->references[slot]) {
      fits = fits && (!found_.nodes[r.parent].valid() || reads(operand(r.parent, r.operand), slot, r.result));
    }
    if (fits) {
      step(at + 1, sink);
    }
    for (const auto v : bound) {
      found_.variables[v] = term_id{};
    }
  }
  [[nodiscard]] bool reads(term_id t, std::uint32_t slot, std::uint32_t result) const {
    const auto n = found_.nodes[slot];
    return result < graph_->result_count(n) && graph_->equal(t, graph_->result(n, result));
  }

  const graph_type* graph_;
  const world_tables<Algebra>* tables_;
  const axiom_form* form_ = nullptr;
  const prepared_form* prepared_ = nullptr;
  form_match found_;
  bool stopped_ = false;
};

}  // namespace unity
