// From the form of an axiom to its instances: matches of its trigger among known terms, conditions, attributes, types,
// and new terms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
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

// An axiom with known variables and operators, and the equalities that the instance depends on.
struct axiom_instance {
  std::uint32_t form = 0;
  std::vector<term_id> variables{};
  std::vector<operator_row> source{};  // the operators of its nodes
  std::vector<operator_row> target{};
  term_pairs premises{};
};

namespace detail {

// The environment that expressions of an axiom are evaluated in: a match in one world.
template <pattern_algebra Algebra>
class world_environment {
 public:
  world_environment(const world_tables<Algebra>& tables, const equality_graph<Algebra>& graph, const form_match& match,
                    std::size_t world)
      : tables_{tables}, graph_{graph}, match_{match}, world_{world} {}

  [[nodiscard]] const attribute& attribute_at(std::size_t slot) const {
    return tables_.attributes(match_.attributes[slot])[world_];
  }
  [[nodiscard]] std::size_t repetitions() const { return 1; }
  [[nodiscard]] std::optional<attribute> measure(int m, std::size_t slot, std::size_t,
                                                 const attribute& arguments) const {
    const auto& type = tables_.types(graph_.type(match_.variables[slot]))[world_];
    return tables_.algebra().measure(m, type, arguments);
  }

 private:
  const world_tables<Algebra>& tables_;
  const equality_graph<Algebra>& graph_;
  const form_match& match_;
  std::size_t world_;
};

// Checks one match, then builds the missing terms.
template <pattern_algebra Algebra>
class instantiator {
 public:
  instantiator(world_tables<Algebra>& tables, equality_graph<Algebra>& graph) : tables_{tables}, graph_{graph} {}

  // Whether the axiom holds here in every world, some root has the same type on both sides, and no new term has more
  // than `most_operators`. Does not change the graph.
  bool judge(const axiom_form& form, const prepared_form& prepared, const form_match& match,
             std::size_t most_operators) {
    form_ = &form;
    match_ = &match;
    most_ = most_operators;
    if (!attributes_agree(prepared) || !conditions_hold()) {
      return false;
    }
    return plan(form.equation.source, prepared.source_literals, match.nodes, source_) &&
           plan(form.equation.target, prepared.target_literals, {}, target_) && types_agree();
  }
  // Builds both sides of the judged match. root() then gives the pairs of terms that the axiom makes equal.
  axiom_instance build() {
    axiom_instance instance{match_->form, match_->variables, {}, {}, {}};
    add_matched_premises(instance.premises);
    construct(form_->equation.source, source_, instance.source, instance.premises);
    construct(form_->equation.target, target_, instance.target, instance.premises);
    return instance;
  }
  // After build: root r of the source and of the target.
  [[nodiscard]] std::pair<term_id, term_id> root(std::size_t r) const {
    return {term(form_->equation.source.roots[r], source_), term(form_->equation.target.roots[r], target_)};
  }

 private:
  // A node of a side: its operator and types, and the graph's node once known.
  struct planned {
    operator_row op{};
    std::vector<type_row> types{};
    node_id node{};
    std::uint32_t size = 0;  // of a node that will be built
  };

  bool attributes_agree(const prepared_form& prepared) {
    return std::all_of(prepared.later.begin(), prepared.later.end(), [&](const auto& c) {
      const auto value = row(form_->equation.source.nodes[c.node].attributes[c.position].value);
      return value && *value == tables_.attributes_of(graph_.op(match_->nodes[c.node]))[c.position];
    });
  }
  bool conditions_hold() {
    for (const auto& c : form_->equation.conditions) {
      for (std::size_t w = 0; w < tables_.worlds(); ++w) {
        const auto value = evaluate(c, world_environment<Algebra>{tables_, graph_, *match_, w});
        if (!value || !truth_of(*value)) {
          return false;
        }
      }
    }
    return true;
  }
  std::optional<attribute_row> row(const expression& e) {
    if (e.kind == expression::form::attribute_variable) {
      return match_->attributes[e.slot];
    }
    across_.resize(tables_.worlds());
    for (std::size_t w = 0; w < tables_.worlds(); ++w) {
      auto value = evaluate(e, world_environment<Algebra>{tables_, graph_, *match_, w});
      if (!value) {
        return std::nullopt;
      }
      across_[w] = *std::move(value);
    }
    return tables_.intern_attributes(across_);
  }

  [[nodiscard]] type_row type(const pattern_operand& o, const std::vector<planned>& side) const {
    return o.is_variable ? graph_.type(match_->variables[o.slot])
                         : side[o.slot].types[static_cast<std::size_t>(o.result)];
  }
  [[nodiscard]] term_id term(const pattern_operand& o, const std::vector<planned>& side) const {
    return o.is_variable ? match_->variables[o.slot]
                         : graph_.result(side[o.slot].node, static_cast<std::size_t>(o.result));
  }
  [[nodiscard]] bool has(const pattern_operand& o, const std::vector<planned>& side) const {
    return o.is_variable || static_cast<std::size_t>(o.result) < side[o.slot].types.size();
  }

  // Operators and types of one side, operands first. Nodes in `known` exist already.
  bool plan(const pattern& p, const std::vector<std::vector<attribute_row>>& literals, std::span<const node_id> known,
            std::vector<planned>& side) {
    side.resize(p.nodes.size());
    for (std::size_t slot = 0; slot < p.nodes.size(); ++slot) {
      auto& n = side[slot];
      n.node = slot < known.size() ? known[slot] : node_id{};
      if (n.node.valid()) {
        n.op = graph_.op(n.node);
        n.types.clear();
        for (std::size_t r = 0; r < graph_.result_count(n.node); ++r) {
          n.types.push_back(graph_.type(graph_.result(n.node, r)));
        }
      } else if (!plan_new(p.nodes[slot], literals[slot], side, n)) {
        return false;
      }
    }
    return std::all_of(p.roots.begin(), p.roots.end(), [&](const auto& o) { return has(o, side); });
  }
  bool plan_new(const pattern_node& p, const std::vector<attribute_row>& literals, const std::vector<planned>& side,
                planned& n) {
    attributes_.clear();
    for (std::size_t k = 0; k < p.attributes.size(); ++k) {
      const auto& a = p.attributes[k];
      const auto value = literals[k].valid()                       ? std::optional{literals[k]}
                         : a.kind == pattern_attribute::form::bind ? std::optional{match_->attributes[a.slot]}
                                                                   : row(a.value);
      if (!value) {
        return false;
      }
      attributes_.push_back(*value);
    }
    const auto op = tables_.make(p.kind, attributes_);
    types_.clear();
    for (const auto& o : p.operands) {
      if (!has(o, side)) {
        return false;
      }
      types_.push_back(type(o, side));
    }
    const auto results = op ? tables_.infer(*op, types_) : std::nullopt;
    if (!results) {
      return false;
    }
    n.op = *op;
    n.types.assign(results->begin(), results->end());
    return find_or_size(p, side, n);
  }
  // Looks up the node if its operands exist; otherwise it is new and must not be too large.
  bool find_or_size(const pattern_node& p, const std::vector<planned>& side, planned& n) {
    operands_.clear();
    std::uint32_t unknown = 0;  // size of the largest operand that does not exist yet
    for (const auto& o : p.operands) {
      if (o.is_variable || side[o.slot].node.valid()) {
        operands_.push_back(term(o, side));
      } else {
        unknown = std::max(unknown, side[o.slot].size);
      }
    }
    n.node = operands_.size() == p.operands.size() ? graph_.lookup(n.op, operands_) : node_id{};
    n.size = std::max(unknown + 1, graph_.size_of(operands_));
    return n.node.valid() || n.size <= most_;
  }
  // At least one root must agree: one part of a joint value may be constant and another not, while the whole is not.
  [[nodiscard]] bool types_agree() const {
    const auto& e = form_->equation;
    for (std::size_t r = 0; r < e.source.roots.size(); ++r) {
      if (type(e.source.roots[r], source_) == type(e.target.roots[r], target_)) {
        return true;
      }
    }
    return false;
  }

  // The terms that the trigger treated as equal.
  void add_matched_premises(term_pairs& premises) const {
    const auto& nodes = form_->equation.source.nodes;
    for (const auto& s : form_->steps) {
      const auto actual = graph_.operands(match_->nodes[s.node]);
      for (std::size_t k = 0; k < actual.size(); ++k) {
        const auto t = actual[match_->swapped[s.node] ? 1 - k : k];
        add_pair(premises, t, term(nodes[s.node].operands[k], source_));
      }
    }
  }
  static void add_pair(term_pairs& premises, term_id a, term_id b) {
    if (a != b) {
      premises.emplace_back(a, b);
    }
  }
  void construct(const pattern& p, std::vector<planned>& side, std::vector<operator_row>& ops, term_pairs& premises) {
    for (std::size_t slot = 0; slot < p.nodes.size(); ++slot) {
      auto& n = side[slot];
      ops.push_back(n.op);
      const bool matched = &side == &source_ && match_->nodes[slot].valid();
      if (matched) {
        continue;
      }
      operands_.clear();
      for (const auto& o : p.nodes[slot].operands) {
        operands_.push_back(term(o, side));
      }
      n.node = graph_.lookup(n.op, operands_);
      if (!n.node.valid()) {
        n.node = graph_.add(n.op, operands_, n.types);
        continue;
      }
      for (const auto& [a, b] : graph_.premises(n.node, operands_)) {
        add_pair(premises, a, b);
      }
    }
  }

  world_tables<Algebra>& tables_;
  equality_graph<Algebra>& graph_;
  const axiom_form* form_ = nullptr;
  const form_match* match_ = nullptr;
  std::size_t most_ = 0;
  std::vector<planned> source_;
  std::vector<planned> target_;
  std::vector<attribute_row> attributes_;
  std::vector<type_row> types_;
  std::vector<term_id> operands_;
  std::vector<attribute> across_;
};

}  // namespace detail

}  // namespace unity
