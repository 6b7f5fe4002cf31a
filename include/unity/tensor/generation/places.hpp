// Places of literal attributes in a rule, and replacing them by variables or expressions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::tensor::detail {

struct place {
  bool in_target = false;
  std::size_t node = 0;
  std::size_t attribute = 0;
};

[[nodiscard]] inline syntax::attribute_binding& at(rule_graph& r, const place& p) {
  return (p.in_target ? r.target : r.source).nodes[p.node].attributes[p.attribute];
}

[[nodiscard]] inline const syntax::attribute_binding& at(const rule_graph& r, const place& p) {
  return (p.in_target ? r.target : r.source).nodes[p.node].attributes[p.attribute];
}

// The places where one attribute has the same value.
struct place_group {
  std::string attribute;
  syntax::expression value;
  std::vector<place> source{};
  std::vector<place> target{};
};

// The groups of literal attributes accepted by `wanted(attribute name)`, in order of first appearance.
template <class Wanted>
[[nodiscard]] std::vector<place_group> literal_groups(const rule_graph& r, const Wanted& wanted) {
  std::vector<place_group> all;
  for (const bool in_target : {false, true}) {
    const auto& nodes = (in_target ? r.target : r.source).nodes;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (std::size_t a = 0; a < nodes[n].attributes.size(); ++a) {
        const auto& binding = nodes[n].attributes[a];
        if (!wanted(binding.name) || !syntax::is_literal(binding.value)) {
          continue;
        }
        const auto same = [&](const auto& g) { return g.attribute == binding.name && g.value == binding.value; };
        auto group = std::find_if(all.begin(), all.end(), same);
        if (group == all.end()) {
          group = all.insert(all.end(), {binding.name, binding.value});
        }
        (in_target ? group->target : group->source).push_back({in_target, n, a});
      }
    }
  }
  return all;
}

void put(rule_graph& r, const std::vector<place>& places, const syntax::expression& e);

// Whether the expression depends on the match and is not just a variable.
[[nodiscard]] inline bool is_computed(const syntax::expression& e) {
  return !syntax::is_literal(e) && e.kind != syntax::expression::form::variable;
}

// All subsets of `all`, larger ones first. Complexity: 2^n subsets.
template <class T>
[[nodiscard]] std::vector<std::vector<T>> subsets(const std::vector<T>& all) {
  std::vector<std::vector<T>> found;
  for (std::size_t size = all.size() + 1; size-- > 0;) {
    for (std::size_t chosen = 0; chosen < (std::size_t{1} << all.size()); ++chosen) {
      std::vector<T> subset;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((chosen >> i & 1U) != 0) {
          subset.push_back(all[i]);
        }
      }
      if (subset.size() == size) {
        found.push_back(std::move(subset));
      }
    }
  }
  return found;
}

// Attributes whose meaning depends on the rank of an operand.
[[nodiscard]] inline bool depends_on_rank(std::string_view attribute) {
  return attribute == "axis" || attribute == "permutation" || attribute == "axes";
}

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_PLACES)

namespace unity::tensor::detail {

UNITY_INLINE void put(rule_graph& r, const std::vector<place>& places, const syntax::expression& e) {
  for (const auto& p : places) {
    at(r, p).value = e;
  }
}

}  // namespace unity::tensor::detail

#endif
