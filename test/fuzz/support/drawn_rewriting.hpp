// A graph and rules decoded from bytes, and the check that rewriting one by the others is correct.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/validate.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>

#include "../../soak/evaluated_graphs.hpp"
#include "../../soak/random_prices.hpp"
#include "../../support/space_laws.hpp"
#include "byte_source.hpp"
#include "drawn_graph.hpp"
#include "varied_rule.hpp"

namespace unity::test {

// Describes the first node whose result types differ from the inferred ones; empty if there is none.
[[nodiscard]] inline std::string type_fault(const tensor::algebra& a, const tensor::tensor_graph& g) {
  for (const auto n : node_ids(g)) {
    const auto types = [&](std::span<const value_id> values) {
      std::vector<tensor::tensor_type> all;
      for (const auto v : values) {
        all.push_back(g.type(v));
      }
      return all;
    };
    if (a.infer(g.operation(n), types(g.operands(n))) != std::optional{types(g.results(n))}) {
      return "node " + std::to_string(n.index()) + " (" + a.signature(g.operation(n).kind).name + ") has other types";
    }
  }
  return {};
}

// Draws graphs in which rules match. The algebra and the rules must outlive this object.
class rewriting_drawer {
 public:
  rewriting_drawer(const tensor::algebra& a, const rule_set& rules) : algebra_{a}, rules_{rules} {}

  // Decodes a graph and rules, rewrites, and describes the first fault; empty if there is none.
  [[nodiscard]] std::string fault(std::span<const std::uint8_t> bytes) {
    byte_source in{bytes};
    const auto first = in.below(rules_.size());
    auto graph = drawn_graph(in, first);
    auto rules = drawn_rules(in, first);
    if (rules.empty()) {
      return {};
    }
    const auto allowed = in.below(8) == 1 ? variants::searched : variants::kept;
    evaluated_graphs evaluated{algebra_, 1};
    const auto expected = evaluated.outputs(graph);
    rewrite_space space{algebra_, random_prices{in.below(4), true}, std::move(rules), graph, allowed};
    const auto fault_of = [&](const auto& s, const candidate& priced) -> std::string {
      if (auto fault = structural_fault(space, s); !fault.empty()) {
        return fault;
      }
      if (const auto again = recomputed(space, s);
          again.cost != priced.cost || again.fingerprint != priced.fingerprint) {
        return "a price or fingerprint that is not that of the graph";
      }
      const auto g = space.graph(s);
      if (const auto defect = find_defect(g)) {
        return defect->what();
      }
      if (auto fault = type_fault(algebra_, g); !fault.empty()) {
        return fault;
      }
      return !all_hold_ || evaluated.outputs(g) == expected ? "" : "another result";
    };
    return walk(space, in, fault_of);
  }

 private:
  // Applies a bounded number of moves to the initial state and to some of its successors.
  template <class Space, class Fault>
  [[nodiscard]] static std::string walk(Space& space, byte_source& in, const Fault& fault_of) {
    constexpr std::size_t most_moves = 8;
    typename Space::scratch_type from;
    typename Space::scratch_type to;
    auto s = space.initial();
    for (std::size_t depth = 1 + in.below(3); depth > 0; --depth) {
      const std::vector<match_id> moves{space.moves(s).begin(), space.moves(s).end()};
      const auto start = moves.empty() ? 0 : in.below(moves.size());
      std::optional<typename Space::state_type> next;
      for (std::size_t i = 0; i < std::min(most_moves, moves.size()); ++i) {
        const auto m = moves[(start + i) % moves.size()];
        space.prepare(s, from);
        const auto priced = space.price(s, m, from);
        if (!priced) {
          continue;
        }
        auto child = space.apply(s, m, from, to);
        if (auto fault = fault_of(child, *priced); !fault.empty()) {
          return "rule " + space.rule_of(m).name + ": " + fault;
        }
        if (!next) {
          next = std::move(child);
        }
      }
      if (!next) {
        break;
      }
      s = *std::move(next);
    }
    return {};
  }

  // An example of the rule, or only sources; then more operators on top.
  [[nodiscard]] tensor::tensor_graph drawn_graph(byte_source& in, std::size_t rule) {
    const auto seed = in.below(8);
    graph_drawer g{algebra_, in, in.below(8) == 7 ? tensor::tensor_graph{} : example(rule, seed)};
    g.add(24);
    return std::move(g).finish();
  }
  // One side of an instance of the rule; the same for equal arguments.
  [[nodiscard]] tensor::tensor_graph example(std::size_t rule, std::size_t seed) {
    auto [at, is_new] = examples_.try_emplace({rule, seed});
    if (is_new) {
      const auto& s = rules_[rule];
      if (const auto i = tensor::instance_generator{algebra_, s, seed, true}.next(500)) {
        auto side = seed % 2 == 0 ? tensor::source_graph(algebra_, s, *i) : tensor::target_graph(algebra_, s, *i);
        at->second = side ? *std::move(side) : tensor::tensor_graph{};
      }
    }
    return at->second;
  }
  // The rule or a variation of it, and up to three other rules.
  [[nodiscard]] rule_set drawn_rules(byte_source& in, std::size_t rule) {
    const auto varied = vary(algebra_, rules_[rule].rule, in);
    all_hold_ = varied.holds;
    rule_set rules;
    try {
      rules = varied.is_changed ? compile_rule(algebra_, varied.rule) : rule_set{rules_[rule]};
    } catch (const error&) {
      return {};  // the variation is not a valid rule
    }
    for (auto more = in.below(4); more > 0; --more) {
      rules.push_back(rules_[in.below(rules_.size())]);
    }
    return rules;
  }

  const tensor::algebra& algebra_;
  const rule_set& rules_;
  std::map<std::pair<std::size_t, std::size_t>, tensor::tensor_graph> examples_{};
  bool all_hold_ = true;
};

}  // namespace unity::test
