// Applies a match: evaluates conditions and attribute expressions, and builds the target node by node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/substitution.hpp>

namespace unity::detail {

// The environment that expressions of a rule are evaluated in: one match.
template <class Store>
class match_environment {
 public:
  match_environment(const Store& store, const substitution& s, const bindings& b) : store_{store}, s_{s}, b_{b} {}
  [[nodiscard]] const attribute& attribute_at(std::size_t slot) const { return store_.value(b_.attributes[slot]); }
  [[nodiscard]] std::size_t repetitions() const { return b_.repetitions; }
  [[nodiscard]] std::optional<attribute> measure(int m, std::size_t slot, std::size_t index,
                                                 const attribute& arguments) const {
    const auto v = b_.value(slot, s_.indexed_variables[slot] ? index : 0);
    return store_.algebra().measure(m, store_.type(v), arguments);
  }

 private:
  const Store& store_;
  const substitution& s_;
  const bindings& b_;
};

// Builds the target of one match in a store.
template <class Store>
class target_builder {
 public:
  // `choice` numbers the combinations of variants of the target's inner operators in mixed radix, first node first; 0
  // is as written.
  target_builder(Store& store, const prepared_rule& rule, const bindings& b, std::size_t choice)
      : store_{store},
        s_{*rule.rule},
        b_{b},
        env_{store, s_, b},
        times_{std::max<std::size_t>(1, b.repetitions)},
        choice_{choice} {}

  bool build() {
    collect_replaced();
    if (!replaces_each_once() || !conditions_hold() || !sources_hold()) {
      return false;
    }
    made_.assign(s_.target.nodes.size() * times_, node_id{});
    map_outputs();
    for (std::size_t slot = 0; slot < s_.target.nodes.size(); ++slot) {
      for (std::size_t i = 0; i < (s_.target.nodes[slot].indexed ? times_ : 1); ++i) {
        if (!make(slot, i)) {
          return false;
        }
      }
    }
    return finish();
  }

  [[nodiscard]] std::span<const node_id> matched() const { return matched_; }
  [[nodiscard]] std::span<const value_id> bound() const { return bound_; }
  [[nodiscard]] std::span<const value_id> replaced() const { return replaced_; }
  [[nodiscard]] std::span<const node_id> defining() const { return defining_; }
  [[nodiscard]] std::span<const std::pair<value_id, value_id>> aliases() const { return aliases_; }
  [[nodiscard]] bool several() const { return several_; }

 private:
  struct output {
    pattern_operand root;  // of the target
    std::size_t index;
    value_id replaced;
  };

  // Collects the value of each source root, in order.
  void collect_replaced() {
    for (const auto n : b_.nodes) {
      if (n.valid() && std::find(matched_.begin(), matched_.end(), n) == matched_.end()) {
        matched_.push_back(n);
      }
    }
    std::sort(matched_.begin(), matched_.end());
    std::vector<node_id> roots;
    for (const auto& [root, i, target] : root_pairs()) {
      const auto n = b_.node(root.slot, s_.source.nodes[root.slot].indexed ? i : 0);
      const auto result = root.result == pattern_operand::each ? i : static_cast<std::size_t>(root.result);
      outputs_.push_back({target, i, store_.results(n)[result]});
      replaced_.push_back(outputs_.back().replaced);
      if (std::find(roots.begin(), roots.end(), n) == roots.end()) {
        roots.push_back(n);
      }
    }
    several_ = roots.size() > 1;
    for (const auto v : b_.values) {
      if (v.valid()) {
        bound_.push_back(v);
      }
    }
    for (const auto n : matched_) {
      for (const auto v : store_.results(n)) {
        bound_.push_back(v);
      }
    }
  }
  struct root_pair {
    pattern_operand source;
    std::size_t index;
    pattern_operand target;
  };
  [[nodiscard]] std::vector<root_pair> root_pairs() const {
    std::vector<root_pair> all;
    for (std::size_t r = 0; r < s_.source.roots.size(); ++r) {
      for (std::size_t i = 0; i < (s_.source.roots[r].repeated ? times_ : 1); ++i) {
        all.push_back({s_.source.roots[r], i, s_.target.roots[r]});
      }
    }
    return all;
  }

  // Two roots on one value would define it twice.
  [[nodiscard]] bool replaces_each_once() const {
    auto sorted = replaced_;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }

  [[nodiscard]] bool conditions_hold() const {
    for (const auto& c : s_.conditions) {
      for (std::size_t i = 0; i < (c.indexed ? times_ : 1); ++i) {
        const auto value = evaluate(c, env_, i);
        if (!value || !truth_of(*value)) {
          return false;
        }
      }
    }
    // If a variable were bound to an output, the target would read itself.
    return std::none_of(b_.values.begin(), b_.values.end(), [&](value_id v) {
      return v.valid() && std::find(replaced_.begin(), replaced_.end(), v) != replaced_.end();
    });
  }

  // Checks source attributes that are expressions: they can only be evaluated now that everything is bound.
  [[nodiscard]] bool sources_hold() const {
    for (std::size_t slot = 0; slot < s_.source.nodes.size(); ++slot) {
      const auto& p = s_.source.nodes[slot];
      for (std::size_t i = 0; i < (p.indexed ? times_ : 1); ++i) {
        const auto actual = store_.attributes(store_.op(b_.node(slot, i)));
        for (std::size_t a = 0; a < p.attributes.size(); ++a) {
          const auto& wanted = p.attributes[a];
          const bool late =
              wanted.kind == pattern_attribute::form::value && wanted.value.kind != compiled_expression::form::literal;
          if (late && evaluate(wanted.value, env_, i) != std::optional{store_.value(actual[a])}) {
            return false;
          }
        }
      }
    }
    return true;
  }

  // Determines which results of which target nodes define which replaced values.
  void map_outputs() {
    for (const auto& o : outputs_) {
      if (o.root.is_variable) {
        const bool indexed = s_.indexed_variables[o.root.slot];
        aliases_.emplace_back(o.replaced, b_.value(o.root.slot, indexed ? o.index : 0));
      }
    }
  }
  [[nodiscard]] std::size_t at(const pattern_operand& o, std::size_t i) const {
    return o.slot * times_ + (s_.target.nodes[o.slot].indexed ? i : 0);
  }
  [[nodiscard]] static std::size_t result_of(const pattern_operand& o, std::size_t i) {
    return o.result == pattern_operand::each ? i : static_cast<std::size_t>(o.result);
  }

  [[nodiscard]] std::optional<value_id> operand(const pattern_operand& o, std::size_t i) const {
    if (o.is_variable) {
      return b_.value(o.slot, s_.indexed_variables[o.slot] ? i : 0);
    }
    const auto results = store_.results(made_[at(o, i)]);
    const auto result = result_of(o, i);
    return result < results.size() ? std::optional{results[result]} : std::nullopt;
  }

  bool make(std::size_t slot, std::size_t i) {
    const auto& p = s_.target.nodes[slot];
    const auto& fields = store_.algebra().signature(p.kind).attributes;
    attribute_list attributes;
    for (std::size_t k = 0; k < p.attributes.size(); ++k) {
      auto value = evaluate(p.attributes[k].value, env_, i);
      // Expressions only produce lists of numbers; make() requires a list of one if the attribute is a scalar.
      if (!value || (is_single(fields[k].form) && value->size() != 1)) {
        return false;
      }
      attributes.push_back(*std::move(value));
    }
    small_vector<value_id, 8> operands;
    for (const auto& o : p.operands) {
      for (std::size_t k = 0; k < (o.repeated ? times_ : 1); ++k) {
        const auto v = operand(o, o.repeated ? k : i);
        if (!v) {
          return false;
        }
        operands.push_back(*v);
      }
    }
    const auto op = store_.algebra().make(p.kind, attributes);
    return op && place(slot, i, *op, operands);
  }

  // Interns the node: as the definition of the outputs that it yields, or as an inner node.
  bool place(std::size_t slot, std::size_t i, const typename Store::op_type& op, std::span<const value_id> operands) {
    auto& made = made_[slot * times_ + i];
    const bool yields =
        std::any_of(outputs_.begin(), outputs_.end(), [&](const output& o) { return is_of(o, slot, i); });
    if (yields) {
      return define(slot, i, store_.intern(op), operands) || define_as_variant(slot, i, op, operands);
    }
    const auto n = store_.cons(store_.intern(choose(op, operands)), operands);
    made = n.value_or(node_id{});
    return n.has_value();
  }
  // Consumes the digit of this node from the choice.
  typename Store::op_type choose(const typename Store::op_type& op, std::span<const value_id> operands) {
    if constexpr (variant_algebra<typename Store::algebra_type>) {
      if (choice_ != 0) {
        const auto others = store_.algebra().variants(op, store_.types(operands));
        const auto digit = choice_ % (others.size() + 1);
        choice_ /= others.size() + 1;
        return digit == 0 ? op : others[digit - 1];
      }
    }
    return op;
  }
  // An output keeps its type, so its operator must be the variant with that type.
  bool define_as_variant(std::size_t slot, std::size_t i, const typename Store::op_type& op,
                         std::span<const value_id> operands) {
    if constexpr (variant_algebra<typename Store::algebra_type>) {
      for (const auto& other : store_.algebra().variants(op, store_.types(operands))) {
        if (define(slot, i, store_.intern(other), operands)) {
          return true;
        }
      }
    }
    return false;
  }
  bool define(std::size_t slot, std::size_t i, operator_id op, std::span<const value_id> operands) {
    auto& made = made_[slot * times_ + i];
    const auto types = store_.infer(op, operands);
    if (!types) {
      return false;
    }
    const auto aliases_before = aliases_.size();
    small_vector<value_id, 4> results(types->size(), value_id{});
    for (const auto& o : outputs_) {
      if (is_of(o, slot, i) && !yield(o, *types, results)) {
        aliases_.resize(aliases_before);
        return false;
      }
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (!results[r].valid()) {
        results[r] = store_.new_value((*types)[r]);
      }
    }
    made = store_.define(op, operands, results);
    defining_.push_back(made);
    return true;
  }
  [[nodiscard]] bool is_of(const output& o, std::size_t slot, std::size_t i) const {
    return !o.root.is_variable && o.root.slot == slot && (!s_.target.nodes[slot].indexed || o.index == i);
  }
  bool yield(const output& o, const std::vector<typename Store::value_type>& types,
             small_vector<value_id, 4>& results) {
    const auto r = result_of(o.root, o.index);
    if (r >= results.size() || types[r] != store_.type(o.replaced)) {
      return false;
    }
    if (results[r].valid()) {
      aliases_.emplace_back(o.replaced, results[r]);
    } else {
      results[r] = o.replaced;
    }
    return true;
  }

  // Rejects a rewrite that changes nothing or changes a type.
  bool finish() {
    for (const auto& [from, to] : aliases_) {
      if (from == to || store_.type(from) != store_.type(to)) {
        return false;
      }
    }
    const bool same = aliases_.empty() && std::all_of(defining_.begin(), defining_.end(), [&](node_id n) {
                        return std::find(matched_.begin(), matched_.end(), n) != matched_.end();
                      });
    return !same && choice_ == 0;  // a remainder means that there is no such combination
  }

  Store& store_;
  const substitution& s_;
  const bindings& b_;
  match_environment<Store> env_;
  std::size_t times_;
  std::size_t choice_;
  std::vector<output> outputs_;
  std::vector<node_id> matched_;
  std::vector<value_id> bound_;
  std::vector<value_id> replaced_;
  std::vector<node_id> made_;
  std::vector<node_id> defining_;
  std::vector<std::pair<value_id, value_id>> aliases_;
  bool several_ = false;
};

}  // namespace unity::detail
