// Checks whether properties of operators contradict each other, and whether one follows from the others.
// Source: Jia's dissertation (TASO, 2020), section 2.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/derivation.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/completions.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>
#include <unity/tensor/verification/validate.hpp>

namespace unity::tensor {

struct axiom_check_options {
  world_options worlds{.instances = 60, .attempts = 20000, .varied = 1, .collapsed = 1, .worlds = 3, .seed = 1};
  entailment_limits limits{};
  // if a property seems to follow: all instances within these bounds
  std::vector<instance_bounds> small = small_ladder();
  std::size_t effort = 20'000;  // operators to fill in before narrower bounds are used
};

// A result about a property, and the properties from which it was proved.
struct axiom_finding {
  std::string name{};
  std::vector<std::string> from{};  // ascending
  std::string instance{};           // the instance of the proof, if it concerns a single one

  friend bool operator==(const axiom_finding&, const axiom_finding&) = default;
};

namespace detail {

class axiom_checker {
 public:
  axiom_checker(const algebra& a, std::span<const syntax::rule> axioms, const axiom_check_options& o)
      : algebra_{a}, axioms_{axioms}, options_{o}, theory_{a, axioms}, ask_{a, theory_, o.limits} {}

  // How the axiom follows from the others, if it does: in all sampled cases and at all small sizes.
  [[nodiscard]] std::optional<axiom_finding> redundancy(std::uint32_t axiom);

  // How two different variables of the axiom are proved equal, if they are.
  [[nodiscard]] std::optional<axiom_finding> contradiction(std::uint32_t axiom);

 private:
  // Asks about worlds first .. last-1 in one question, or in two if that has no proof.
  bool follows(const rule_case& c, std::size_t first, std::size_t last);
  // Checks instances at all small sizes, because samples cover few of the ways to broadcast.
  bool follows_at_small_sizes(std::uint32_t axiom);
  bool note(const std::optional<derivation>& proof);
  [[nodiscard]] std::vector<rule_case> cases_of(std::uint32_t axiom) const {
    return rule_cases(algebra_, compile_rule(algebra_, axioms_[axiom]).front(), options_.worlds);
  }
  // Instances first .. last-1, repeated if a question needs more.
  [[nodiscard]] std::vector<tensor_graph> worlds_from(const rule_case& c, std::size_t first, std::size_t last) const;
  void add_names(const derivation& d, std::set<std::string>& names) const;
  [[nodiscard]] std::optional<axiom_finding> equate(std::uint32_t axiom, const rule_instance& instance,
                                                    const std::vector<tensor_graph>& worlds, std::size_t i,
                                                    std::size_t j);

  const algebra& algebra_;
  std::span<const syntax::rule> axioms_;
  const axiom_check_options& options_;
  theory theory_;
  entailment<algebra> ask_;
  std::set<std::string> from_{};  // properties from which the current axiom follows
  std::size_t steps_ = 0;
};

}  // namespace detail

// The properties that follow from all others, each with those that it follows from. If several follow from each other,
// all are reported. The result depends on the limits of entailment; properties that are not reported may also be
// redundant.
// Complexity: per property, a question for every few sampled instances and, if all of these are proved, one for every
// instance of small sizes.
// Throws: unity::error if a property does not fit the algebra.
[[nodiscard]] std::vector<axiom_finding> redundant_axioms(const algebra& a, std::span<const syntax::rule> axioms,
                                                          const axiom_check_options& options = {});

// A proof of false: two variables of the same type that are proved equal for all values. Nothing if none was found
// within the limits from the terms of any property.
// Throws: unity::error if a property does not fit the algebra.
[[nodiscard]] std::optional<axiom_finding> contradiction(const algebra& a, std::span<const syntax::rule> axioms,
                                                         const axiom_check_options& options = {});

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_AXIOM_CHECKS)

#include <algorithm>

#include <unity/core/id.hpp>
#include <unity/tensor/rules/bounded_instances.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<axiom_finding> axiom_checker::redundancy(std::uint32_t axiom) {
  ask_.leave_out(axiom);
  from_.clear();
  steps_ = 0;
  for (const auto& c : cases_of(axiom)) {
    for (std::size_t first = 0; first < c.size(); first += options_.worlds.worlds) {
      if (!follows(c, first, std::min(first + options_.worlds.worlds, c.size()))) {
        return std::nullopt;
      }
    }
  }
  // A property that follows without a step states that an operator commutes. It justifies that the definition of the
  // operator declares this, so it is not redundant.
  const bool found = steps_ > 0 && follows_at_small_sizes(axiom);
  return found ? std::optional{axiom_finding{axioms_[axiom].name, {from_.begin(), from_.end()}, {}}} : std::nullopt;
}

UNITY_INLINE std::optional<axiom_finding> axiom_checker::contradiction(std::uint32_t axiom) {
  ask_.leave_out(std::nullopt);
  for (const auto& c : cases_of(axiom)) {
    std::size_t variables = 0;
    for (const auto& types : c[0].instance.values) {
      variables += types.size();
    }
    const auto worlds = worlds_from(c, 0, std::min(options_.worlds.worlds, c.size()));
    for (std::size_t i = 0; i < variables; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (auto found = equate(axiom, c[0].instance, worlds, i, j)) {
          return found;
        }
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE bool axiom_checker::follows(const rule_case& c, std::size_t first, std::size_t last) {
  const auto worlds = worlds_from(c, first, last);
  if (note(ask_.prove_outputs(std::span<const tensor_graph>{worlds}))) {
    return true;
  }
  const auto middle = first + (last - first) / 2;
  return last - first > 1 && follows(c, first, middle) && follows(c, middle, last);
}

UNITY_INLINE bool axiom_checker::follows_at_small_sizes(std::uint32_t axiom) {
  const auto directions = compile_rule(algebra_, axioms_[axiom]);
  bool all = true;
  const auto rung =
      for_each_instance(algebra_, {&directions.front(), 1}, options_.small, options_.effort,
                        [&](const substitution& s, const rule_instance& instance) {
                          const auto graph = joined_sides(algebra_, s, instance);
                          all = !graph || note(ask_.prove_outputs(std::span<const tensor_graph>{&*graph, 1}));
                          return all;
                        });
  return rung && all;
}

UNITY_INLINE bool axiom_checker::note(const std::optional<derivation>& proof) {
  if (proof) {
    add_names(*proof, from_);
    steps_ += proof->steps.size();
  }
  return proof.has_value();
}

UNITY_INLINE std::vector<tensor_graph> axiom_checker::worlds_from(const rule_case& c, std::size_t first,
                                                                  std::size_t last) const {
  std::vector<tensor_graph> worlds;
  for (std::size_t k = 0; k < options_.worlds.worlds; ++k) {
    worlds.push_back(c[first + k % (last - first)].graph);
  }
  return worlds;
}

UNITY_INLINE void axiom_checker::add_names(const derivation& d, std::set<std::string>& names) const {
  for (const auto a : d.axioms()) {
    names.insert(axioms_[a].name);
  }
}

UNITY_INLINE std::optional<axiom_finding> axiom_checker::equate(std::uint32_t axiom, const rule_instance& instance,
                                                                const std::vector<tensor_graph>& worlds, std::size_t i,
                                                                std::size_t j) {
  const auto x = worlds[0].results(node_id{i})[0];
  const auto y = worlds[0].results(node_id{j})[0];
  const bool same = std::all_of(worlds.begin(), worlds.end(), [&](const auto& g) { return g.type(x) == g.type(y); });
  const auto proof = same ? ask_.prove(std::span<const tensor_graph>{worlds}, {{x, y}}) : std::nullopt;
  if (!proof) {
    return std::nullopt;
  }
  std::set<std::string> from;
  add_names(*proof, from);
  const auto s = compile_rule(algebra_, axioms_[axiom]).front();
  return axiom_finding{axioms_[axiom].name, {from.begin(), from.end()}, to_string(algebra_, s, instance)};
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<axiom_finding> redundant_axioms(const algebra& a, std::span<const syntax::rule> axioms,
                                                         const axiom_check_options& options) {
  detail::axiom_checker check{a, axioms, options};
  std::vector<axiom_finding> all;
  for (std::uint32_t i = 0; i < axioms.size(); ++i) {
    if (auto found = check.redundancy(i)) {
      all.push_back(*std::move(found));
    }
  }
  return all;
}

UNITY_INLINE std::optional<axiom_finding> contradiction(const algebra& a, std::span<const syntax::rule> axioms,
                                                        const axiom_check_options& options) {
  detail::axiom_checker check{a, axioms, options};
  for (std::uint32_t i = 0; i < axioms.size(); ++i) {
    if (auto found = check.contradiction(i)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor

#endif
