// From a match of an axiom's form to an instance of the axiom: conditions, attributes, types, and new terms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/verification/axiom_form.hpp>
#include <unity/rewrite/verification/equality_graph.hpp>
#include <unity/rewrite/verification/form_matcher.hpp>
#include <unity/rewrite/verification/worlds.hpp>

namespace unity {

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
        if (!value || !truth(*value)) {
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
