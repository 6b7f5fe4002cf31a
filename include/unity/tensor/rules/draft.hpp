// One attempt at an instance of a substitution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/rules/proposals.hpp>

namespace unity::tensor {

namespace detail {

// The numbers in an expression that can only be reals: as bits, small integers are denormal.
inline void collect_reals(const expression& e, std::vector<double>& reals) {
  if (e.kind == expression::form::literal && e.literal.size() == 1 && std::isnormal(to_real(e.literal[0]))) {
    reals.push_back(to_real(e.literal[0]));
  }
  for (const auto& a : e.arguments) {
    collect_reals(a, reals);
  }
}

// One attempt: walks the source from its variables up, and guesses what each operator leaves open.
class instance_draft {
 public:
  instance_draft(const algebra& a, const substitution& s, random_engine& random, std::span<const double> reals)
      : algebra_{a}, s_{s}, random_{random}, proposer_{random, reals} {}

  // Nothing where the guesses do not fit together.
  std::optional<rule_instance> make() {
    begin();
    for (std::size_t slot = 0; slot < s_.source.nodes.size(); ++slot) {
      for (std::size_t i = 0; i < (s_.source.nodes[slot].indexed ? made_.repetitions : 1); ++i) {
        if (!apply(slot, i)) {
          return std::nullopt;
        }
      }
    }
    for (std::size_t slot = 0; slot < attributes_.size(); ++slot) {
      if (!attributes_[slot]) {
        return std::nullopt;
      }
      made_.attributes.push_back(*attributes_[slot]);
    }
    const bool complete = fill_unused() && conditions_hold(algebra_, s_, made_);
    return complete ? std::optional{std::move(made_)} : std::nullopt;
  }

 private:
  void begin() {
    const auto& roots = s_.source.roots;
    const bool siblings = roots.size() == 1 && roots[0].repeated && s_.source.nodes[roots[0].slot].indexed;
    made_ = {};
    made_.repetitions =
        s_.repeats() || roots[0].repeated ? static_cast<std::size_t>(random_.between(siblings ? 2 : 1, 4)) : 1;
    made_.values.resize(s_.variables);
    known_.assign(s_.variables, {});
    for (std::size_t v = 0; v < s_.variables; ++v) {
      known_[v].resize(s_.indexed_variables[v] ? made_.repetitions : 1);
    }
    attributes_.assign(s_.attribute_variables, std::nullopt);
    made_.source.resize(s_.source.nodes.size());
    results_.assign(s_.source.nodes.size(), {});
    constant_percent_ = random_.between(0, 2) * 45 + 5;
  }

  // The type of an operand: of a variable, if it has one yet, or of a node's result.
  [[nodiscard]] std::optional<tensor_type>* variable(const pattern_operand& o, std::size_t i) {
    return o.is_variable ? &known_[o.slot][s_.indexed_variables[o.slot] ? i : 0] : nullptr;
  }
  [[nodiscard]] std::optional<tensor_type> result(const pattern_operand& o, std::size_t i) const {
    const auto& all = results_[o.slot][s_.source.nodes[o.slot].indexed ? i : 0];
    const auto r = o.result == pattern_operand::each ? i : static_cast<std::size_t>(o.result);
    return r < all.size() ? std::optional{all[r]} : std::nullopt;
  }

  bool apply(std::size_t slot, std::size_t i) {
    const auto& n = s_.source.nodes[slot];
    proposal p{algebra_.signature(n.kind).name,
               algebra_.definition_of(n.kind).fields,
               known_attributes(n, i),
               {},
               {},
               used_results(slot)};
    std::vector<std::optional<tensor_type>*> open;
    std::vector<tensor_type> types;
    for (const auto& o : n.operands) {
      for (std::size_t k = 0; k < (o.repeated ? made_.repetitions : 1); ++k) {
        auto* const v = variable(o, o.repeated ? k : i);
        const auto type = v != nullptr ? *v : result(o, o.repeated ? k : i);
        if (v == nullptr && !type) {
          return false;
        }
        open.push_back(type ? nullptr : v);
        types.push_back(type.value_or(tensor_type{}));
        p.operands.push_back(type ? std::optional{type->dims} : std::nullopt);
      }
    }
    p.elements.assign(p.operands.size(), dtype::float32);
    proposer_.fill_in(p);
    for (std::size_t k = 0; k < open.size(); ++k) {
      if (open[k] != nullptr && !*open[k]) {
        *open[k] =
            tensor_type{p.elements[k], layout::row_major, random_.between(1, 100) <= constant_percent_, *p.operands[k]};
      }
      types[k] = open[k] != nullptr ? **open[k] : types[k];
    }
    return conclude(slot, p, types);
  }
  bool conclude(std::size_t slot, const proposal& p, std::span<const tensor_type> types) {
    const auto& n = s_.source.nodes[slot];
    attribute_list values;
    for (std::size_t k = 0; k < p.attributes.size(); ++k) {
      values.push_back(*p.attributes[k]);
      if (n.attributes[k].kind == pattern_attribute::form::bind) {
        attributes_[n.attributes[k].slot] = values.back();
      }
    }
    auto op = algebra_.make(n.kind, values);
    auto results = op ? algebra_.infer(*op, types) : std::nullopt;
    if (!results) {
      return false;
    }
    made_.source[slot].push_back(*std::move(op));
    results_[slot].push_back(*std::move(results));
    return true;
  }

  [[nodiscard]] std::vector<std::optional<attribute>> known_attributes(const pattern_node& n, std::size_t i) {
    sync();
    const instance_environment env{algebra_, made_};
    std::vector<std::optional<attribute>> all;
    for (const auto& a : n.attributes) {
      switch (a.kind) {
        case pattern_attribute::form::any: all.emplace_back(); break;
        case pattern_attribute::form::bind: all.push_back(attributes_[a.slot]); break;
        case pattern_attribute::form::value:
          all.push_back(ready(a.value) ? evaluate(a.value, env, i) : std::nullopt);
          break;
      }
    }
    return all;
  }
  // Hands what is known so far to the environment that expressions see.
  void sync() {
    for (std::size_t v = 0; v < known_.size(); ++v) {
      made_.values[v].clear();
      for (const auto& t : known_[v]) {
        if (t) {
          made_.values[v].push_back(*t);
        }
      }
    }
    made_.attributes.clear();
    for (const auto& a : attributes_) {
      made_.attributes.push_back(a.value_or(attribute{}));
    }
  }
  // Whether all that an expression refers to is known.
  [[nodiscard]] bool ready(const expression& e) const {
    if (e.kind == expression::form::attribute_variable && !attributes_[e.slot]) {
      return false;
    }
    if (e.kind == expression::form::measure && made_.values[e.slot].size() < known_[e.slot].size()) {
      return false;
    }
    return std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return ready(a); });
  }

  // How many results of a node the source mentions.
  [[nodiscard]] std::size_t used_results(std::size_t slot) const {
    std::size_t count = 1;
    const auto note = [&](const pattern_operand& o) {
      if (!o.is_variable && o.slot == slot) {
        count = std::max(
            count, o.result == pattern_operand::each ? made_.repetitions : static_cast<std::size_t>(o.result) + 1);
      }
    };
    for (const auto& n : s_.source.nodes) {
      std::for_each(n.operands.begin(), n.operands.end(), note);
    }
    std::for_each(s_.source.roots.begin(), s_.source.roots.end(), note);
    return count;
  }
  bool fill_unused() {
    sync();
    for (std::size_t v = 0; v < known_.size(); ++v) {
      if (made_.values[v].size() != known_[v].size()) {
        return false;
      }
    }
    return true;
  }

  const algebra& algebra_;
  const substitution& s_;
  random_engine& random_;
  proposer proposer_;
  rule_instance made_;
  std::vector<std::vector<std::optional<tensor_type>>> known_;  // by variable and repetition
  std::vector<std::optional<attribute>> attributes_;
  std::vector<std::vector<std::vector<tensor_type>>> results_;  // by node, repetition and result
  std::int64_t constant_percent_ = 50;
};

}  // namespace detail

}  // namespace unity::tensor
