// From equalities of terms to a small set of general rules: what follows from the rules before it is left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/canonical_rule.hpp>
#include <unity/rewrite/print.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/generalize.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/rule_question.hpp>
#include <unity/tensor/generation/specific_rule.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>

namespace unity::tensor {

struct collection_options {
  std::size_t most_steps = 6;  // what follows by so many rewrites is left out
  std::size_t sizes_tried = 4;  // readings of the sizes that attributes depend on, before an equality is given up
  entailment_limits derivation{.rounds = 4, .joint_rounds = 0, .nodes = 400, .matches = 4000, .extra_operators = 2};
  entailment_limits joint_derivation{.rounds = 4, .joint_rounds = 2, .nodes = 400, .matches = 4000, .extra_operators = 2};
  generalize_options general{};
  world_options worlds{.instances = 12, .attempts = 5000, .varied = 1};  // of general rules that may follow from others
};

// Takes equalities in the order in which general ones come first. Rules of several outputs are kept apart: they follow
// from the others only by steps that no search takes, since a search cannot join what no rule joins.
class rule_collection {
 public:
  rule_collection(term_language& language, collection_options options = {})
      : language_{language},
        options_{options},
        ask_{language.operators(), single_, options.derivation},
        ask_joint_{language.operators(), joint_, options.joint_derivation} {}

  // Adds left == right, or => where only that can be read, unless it follows from what was added before.
  void add(const written_side& left, const written_side& right) {
    if (follows(left, right)) {
      ++derived_;
      return;
    }
    for (auto& r : generalized(left, right)) {
      accept(std::move(r), left.size() > 1);
    }
  }
  // Effects: leaves out every rule that follows from the others, those with variables that repeat first: they were found
  // early, being small, and are instances of ones found later.
  void reduce();

  [[nodiscard]] std::size_t derived() const noexcept { return derived_; }
  // Equalities that hold at the sizes where they were found, and of which no rule passes the tests.
  [[nodiscard]] const std::vector<std::string>& refused() const noexcept { return refused_; }
  [[nodiscard]] const std::vector<syntax::rule>& rules() const noexcept { return rules_; }

 private:
  [[nodiscard]] bool follows(const written_side& left, const written_side& right) {
    const auto worlds = rule_question(language_, left, right);
    const auto found = (left.size() > 1 ? ask_joint_ : ask_).prove_outputs(std::span<const tensor_graph>{worlds});
    return found && found->steps.size() <= options_.most_steps;
  }
  [[nodiscard]] bool follows_from(const theory& others, const syntax::rule& r) const;
  [[nodiscard]] std::vector<syntax::rule> generalized(const written_side& left, const written_side& right) {
    std::string first_text;
    for (std::size_t attempt = 0; attempt < options_.sizes_tried; ++attempt) {
      auto r = specific_rule(language_, left, right, attempt);
      if (!r) {
        break;
      }
      r->both_ways = reads_back(left, right);
      first_text = attempt == 0 ? to_text(*r) : first_text;
      auto general = generalize(language_.operators(), *r, options_.general);
      if (!general.empty()) {
        return general;
      }
    }
    refused_.push_back(first_text);
    return {};
  }
  // Whether the right side can be a source: it has all variables, and none alone is a root.
  [[nodiscard]] static bool reads_back(const written_side& left, const written_side& right) {
    const auto variables = [](const written_side& side) {
      std::set<std::pair<std::uint16_t, std::uint16_t>> all;
      for (const auto& t : side) {
        for (const auto& n : t) {
          if (n.op == term_node::variable) {
            all.emplace(n.sort, n.number);
          }
        }
      }
      return all;
    };
    return variables(left) == variables(right) &&
           std::none_of(right.begin(), right.end(), [](const auto& t) { return t.back().op == term_node::variable; });
  }
  void accept(syntax::rule r, bool joint) {
    if (!texts_.insert(statement_text(r)).second) {
      return;
    }
    r.name = named(r);
    (joint ? joint_ : single_).add(language_.operators(), r);
    rules_.push_back(std::move(r));
  }
  // After the operators of the source, outer ones first: concat_of_relu, relu_and_relu.
  [[nodiscard]] std::string named(const syntax::rule& r) {
    std::string name;
    for (const auto& t : r.source) {
      name += (name.empty() ? "" : "_and_") + t.name;
    }
    std::string inner;
    for (const auto& o : r.source[0].operands) {
      const bool new_one = o.kind == syntax::term::form::application && inner.find(o.name) == std::string::npos;
      inner += new_one ? (inner.empty() ? "_of_" : "_") + o.name : "";
    }
    name += r.source.size() == 1 ? inner : "";
    const auto number = ++names_[name];
    return number == 1 ? name : name + "_" + std::to_string(number);
  }

  term_language& language_;
  collection_options options_;
  theory single_;
  theory joint_;
  entailment<algebra> ask_;
  entailment<algebra> ask_joint_;
  std::vector<syntax::rule> rules_;
  std::set<std::string> texts_;
  std::map<std::string, std::size_t> names_;
  std::vector<std::string> refused_;
  std::size_t derived_ = 0;
};

namespace detail {

// How special a rule is: how often its variables repeat, then how long it is.
[[nodiscard]] inline std::pair<std::size_t, std::size_t> specialty(const syntax::rule& r) {
  std::map<std::string, std::size_t> seen;
  std::size_t repeats = 0;
  const auto count = [&](const auto& self, const syntax::term& t) -> void {
    if (t.kind != syntax::term::form::application) {
      repeats += seen[t.name]++ > 0 ? 1U : 0U;
    }
    for (const auto& o : t.operands) {
      self(self, o);
    }
  };
  for (const auto* side : {&r.source, &r.target}) {
    seen.clear();
    for (const auto& t : *side) {
      count(count, t);
    }
  }
  return {repeats, to_text(r).size()};
}

}  // namespace detail

inline void rule_collection::reduce() {
  std::vector<std::size_t> order(rules_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto x = detail::specialty(rules_[a]);
    const auto y = detail::specialty(rules_[b]);
    return x != y ? x > y : a > b;
  });
  std::vector<bool> gone(rules_.size());
  for (const auto i : order) {
    theory others;
    for (std::size_t k = 0; k < rules_.size(); ++k) {
      if (k != i && !gone[k] && (rules_[k].source.size() > 1) == (rules_[i].source.size() > 1)) {
        others.add(language_.operators(), rules_[k]);
      }
    }
    gone[i] = follows_from(others, rules_[i]);
  }
  std::vector<syntax::rule> kept;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!gone[i]) {
      kept.push_back(std::move(rules_[i]));
    }
  }
  derived_ += rules_.size() - kept.size();
  rules_ = std::move(kept);
}

inline bool rule_collection::follows_from(const theory& others, const syntax::rule& r) const {
  const bool joint = r.source.size() > 1;
  entailment<algebra> ask{language_.operators(), others, joint ? options_.joint_derivation : options_.derivation};
  const auto cases = rule_cases(language_.operators(), compile_rule(language_.operators(), r).front(), options_.worlds);
  for (const auto& c : cases) {
    std::vector<tensor_graph> worlds;
    for (std::size_t k = 0; k < std::min(c.size(), options_.worlds.worlds); ++k) {
      worlds.push_back(c[k].graph);
    }
    const auto found = ask.prove_outputs(std::span<const tensor_graph>{worlds});
    if (!found || found->steps.size() > options_.most_steps) {
      return false;
    }
  }
  return !cases.empty();
}

}  // namespace unity::tensor
