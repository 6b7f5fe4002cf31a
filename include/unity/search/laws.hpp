// Checks of what a user brings, for tests: whether an algebra obeys the laws that rewriting relies on, whether a search
// space obeys those that searches rely on, and whether rules keep what a graph computes.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

// An operator, and types of operands that it may accept or refuse.
template <algebra A>
struct operator_sample {
  typename A::op_type op;
  std::vector<typename A::value_type> inputs{};
};

namespace detail {

template <pattern_algebra A>
[[nodiscard]] std::optional<error> broken_signature(const A& a) {
  for (std::size_t k = 0; k < a.kind_count(); ++k) {
    const op_signature& s = a.signature(kind_id{k});
    const auto where = fmt::format("kind {} ('{}')", k, s.name);
    if (a.find_kind(s.name) != std::optional{kind_id{k}}) {
      return error{where, "find_kind() of its name is another", "names of their own"};
    }
    if (s.commutative && s.operands != 2) {
      return error{where, fmt::format("commutative, of {} operands", to_string(s.operands)), "two"};
    }
    for (const auto& field : s.attributes) {
      const auto same = [&](const attribute_signature& other) { return other.name == field.name; };
      if (std::count_if(s.attributes.begin(), s.attributes.end(), same) != 1) {
        return error{where, fmt::format("two attributes '{}'", field.name), "names of their own"};
      }
    }
  }
  return std::nullopt;
}

template <pattern_algebra A>
[[nodiscard]] std::optional<error> broken_by(const A& a, const operator_sample<A>& sample, std::size_t number) {
  const auto& op = sample.op;
  const kind_id kind = a.kind_of(op);
  const auto unnamed = fmt::format("sample {}", number);
  if (!kind.valid() || kind.index() >= a.kind_count()) {
    return error{unnamed, "kind_of() is not a kind", fmt::format("one of {}", a.kind_count())};
  }
  const op_signature& s = a.signature(kind);
  const auto where = fmt::format("{} ('{}')", unnamed, s.name);
  const auto attributes = a.attributes_of(op);
  if (attributes.size() != s.attributes.size()) {
    return error{where, fmt::format("{} attributes", attributes.size()),
                 fmt::format("{}, as its signature has", s.attributes.size())};
  }
  const std::optional<typename A::op_type> again = a.make(kind, attributes);
  if (again != std::optional{op}) {
    return error{where,
                 again ? "make() of its kind and attributes is another operator" : "make() refuses its attributes",
                 "the operator itself"};
  }
  const std::hash<typename A::op_type> hash;
  if (hash(*again) != hash(op)) {
    return error{where, "an equal operator with another hash", "equal hashes"};
  }
  const auto results = a.infer(op, sample.inputs);
  if (results != a.infer(op, sample.inputs)) {
    return error{where, "infer() gives something else the second time", "a pure function"};
  }
  if (!results) {
    return std::nullopt;
  }
  if (!s.operands.accepts(sample.inputs.size())) {
    return error{where, fmt::format("infer() takes {} operands", sample.inputs.size()),
                 fmt::format("{}, as its signature has", to_string(s.operands))};
  }
  if (s.results != op_signature::any && static_cast<std::size_t>(s.results) != results->size()) {
    return error{where, fmt::format("infer() gives {} results", results->size()),
                 fmt::format("{}, as its signature has", s.results)};
  }
  if (s.commutative) {
    auto exchanged = sample.inputs;
    std::reverse(exchanged.begin(), exchanged.end());
    if (a.infer(op, exchanged) != results) {
      return error{where, "infer() gives something else for operands in the other order",
                   "the same: it is commutative"};
    }
  }
  return std::nullopt;
}

}  // namespace detail

// Returns the first violated law, of signatures or for a sample; nothing if all hold. Laws: names are unique;
// make(kind_of(op), attributes_of(op)) == op, with the same hash; the number of attributes, operands and results agrees
// with the signature; infer() is a pure function, and independent of operand order for commutative kinds; equal samples
// have equal hashes. Does not check what samples compute: see test_rules (search/laws.hpp).
// Complexity: quadratic in the samples.
template <pattern_algebra A>
[[nodiscard]] std::optional<error> check_algebra(const A& a, const std::vector<operator_sample<A>>& samples) {
  if (auto broken = detail::broken_signature(a)) {
    return broken;
  }
  const std::hash<typename A::op_type> hash;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (auto broken = detail::broken_by(a, samples[i], i)) {
      return broken;
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (samples[k].op == samples[i].op && hash(samples[k].op) != hash(samples[i].op)) {
        return error{fmt::format("samples {} and {}", k, i), "equal operators with different hashes", "equal hashes"};
      }
    }
  }
  return std::nullopt;
}

struct walk_options {
  std::uint64_t seed = 0;
  std::size_t steps = 100;
  std::size_t moves = 64;   // per state, to price and apply
  std::size_t threads = 1;  // more: they also price the moves of a state at the same time
};

namespace detail {

template <search_space Space>
class law_check {
 public:
  using state = typename Space::state_type;
  using move = typename Space::move_type;
  using scratch = typename Space::scratch_type;

  law_check(Space& space, const walk_options& options)
      : space_{space}, options_{options}, random_{options.seed}, pool_{options.threads} {}

  [[nodiscard]] std::optional<error> run() {
    auto here = space_.initial();
    if (const auto again = space_.initial(); !is_same(here, again)) {
      return broken("initial() gives another state the second time", "the same one");
    }
    for (step_ = 0; step_ < options_.steps; ++step_) {
      const auto listed = moves_of(here);
      if (listed != moves_of(here)) {
        return broken("moves() gives something else the second time", "the same list");
      }
      auto tried = listed;
      if (listed.size() > options_.moves) {
        tried.resize(options_.moves);
        std::generate(tried.begin(), tried.end(), [&] { return listed[random_.below(listed.size())]; });
      }
      if (pool_.size() > 1 && !is_same_from_threads(here, tried)) {
        return broken("price() from several threads differs from that of one", "the same for any number of threads");
      }
      std::optional<state> next;
      for (const auto m : tried) {
        if (auto wrong = check(here, m, listed, next)) {
          return wrong;
        }
      }
      if (!next) {
        return std::nullopt;
      }
      here = *std::move(next);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] error broken(std::string_view found, std::string_view expected) const {
    return {fmt::format("search space, step {} of seed {}", step_, options_.seed), found, expected};
  }
  [[nodiscard]] std::vector<move> moves_of(const state& s) {
    const std::span<const move> all = space_.moves(s);
    return {all.begin(), all.end()};
  }
  [[nodiscard]] bool is_same(const state& a, const state& b) {
    return space_.cost(a) == space_.cost(b) && space_.fingerprint_of(a) == space_.fingerprint_of(b);
  }
  [[nodiscard]] std::optional<candidate> price(const state& s, move m, scratch& with) {
    space_.prepare(s, with);
    return space_.price(s, m, with);
  }

  // Prices each move twice, so that threads also meet at one.
  [[nodiscard]] bool is_same_from_threads(const state& here, const std::vector<move>& tried) {
    std::vector<std::optional<candidate>> found(2 * tried.size());
    std::vector<scratch> scratches(pool_.size());
    pool_.parallel_for(found.size(), 1, [&](std::size_t worker, std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto& s = std::as_const(space_);
        s.prepare(here, scratches[worker]);
        found[i] = s.price(here, tried[i / 2], scratches[worker]);
      }
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!is_equal(found[i], price(here, tried[i / 2], used_))) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] static bool is_equal(const std::optional<candidate>& a, const std::optional<candidate>& b) {
    return a.has_value() == b.has_value() && (!a || (a->cost == b->cost && a->fingerprint == b->fingerprint));
  }

  // Checks one move of `here`; if it applies, the resulting state may become the next one.
  [[nodiscard]] std::optional<error> check(const state& here, move m, const std::vector<move>& listed,
                                           std::optional<state>& next) {
    const auto priced = price(here, m, used_);
    scratch fresh;
    if (!is_equal(priced, price(here, m, fresh))) {
      return broken("price() depends on what its scratch was used for", "the same for every scratch");
    }
    if (!priced) {
      return std::nullopt;
    }
    space_.prepare(here, used_);
    auto there = space_.apply(here, m, used_, other_);
    if (space_.cost(there) != priced->cost) {
      return broken(
          fmt::format("a move is priced {}, and leads to a state of cost {}", priced->cost, space_.cost(there)),
          "equal costs");
    }
    if (space_.fingerprint_of(there) != priced->fingerprint) {
      return broken("the fingerprint of a priced move is not that of the state it leads to", "equal fingerprints");
    }
    if (auto wrong = check_inherited(listed, moves_of(there))) {
      return wrong;
    }
    if constexpr (bounded_space<Space>) {
      if (space_.lower_bound(here) > space_.cost(there) || space_.lower_bound(here) > space_.lower_bound(there)) {
        return broken("a lower bound above what a move leads to", "at most the cost of all states behind");
      }
    }
    if constexpr (commuting_space<Space>) {
      const auto other = listed[random_.below(listed.size())];
      if (space_.independent(m, other) != space_.independent(other, m)) {
        return broken("a move is independent of another, and that one not of it", "both or neither");
      }
    }
    if (!next || random_.below(4) == 0) {
      next = std::move(there);
    }
    return std::nullopt;
  }

  // Moves inherited from the parent must come first, in the parent's order.
  [[nodiscard]] std::optional<error> check_inherited(const std::vector<move>& before, const std::vector<move>& after) {
    std::size_t at = 0;
    bool is_new = false;
    for (const auto m : after) {
      const auto found = std::find(before.begin() + static_cast<std::ptrdiff_t>(at), before.end(), m);
      if (found == before.end()) {
        if (std::find(before.begin(), before.end(), m) != before.end()) {
          return broken("moves of a parent in another order, or twice", "the parent's order");
        }
        is_new = true;
      } else if (is_new) {
        return broken("a move of the parent behind one that is new", "those of the parent first");
      } else {
        at = static_cast<std::size_t>(found - before.begin()) + 1;
      }
    }
    return std::nullopt;
  }

  Space& space_;
  walk_options options_;
  random_engine random_;
  thread_pool pool_;
  std::size_t step_ = 0;
  scratch used_{};  // reused for everything, so that effects of earlier uses would show
  scratch other_{};
};

}  // namespace detail

// The first law of search_space, bounded_space or commuting_space that is broken along a random walk from the initial
// state, with its step and seed; nothing if all hold. Does not check that independent moves lead to the same state:
// that need only hold nearly always, since a violation only costs a missed state.
// Complexity: steps x moves prices and applications.
template <search_space Space>
[[nodiscard]] std::optional<error> broken_law(Space& space, const walk_options& options = {}) {
  return detail::law_check<Space>{space, options}.run();
}

struct rule_test_options {
  std::uint64_t seed = 0;
  std::size_t graphs = 100;
  std::size_t steps = 8;  // consecutive rewrites of each graph, so that rules meet results of rules
};

struct tested_rule {
  std::string name{};
  std::size_t applications = 0;            // applications compared; 0: the rule was not tested
  std::optional<std::uint64_t> counter{};  // seed of a graph for which the rewritten graph computes something else
};

namespace detail {

struct no_costs {
  using cost_type = std::int64_t;
  [[nodiscard]] std::int64_t node_cost(const auto&, const auto&, const auto&) const { return 0; }
  [[nodiscard]] std::int64_t objective(const std::int64_t& total) const { return total; }
};

}  // namespace detail

// Makes graphs by random(engine), rewrites them wherever a rule applies, and compares evaluate(graph) before and after.
// One result per rule, in their order; the last one is for common subexpressions, which follow from equality in the
// algebra.
// Complexity: one evaluation per application.
// Throws: unity::error if a graph does not fit the algebra, or the algebra breaks its laws on it.
template <pattern_algebra A, class Evaluate, std::invocable<random_engine&> Random>
[[nodiscard]] std::vector<tested_rule> test_rules(const A& a, const rule_set& rules, Evaluate&& evaluate,
                                                  Random&& random, const rule_test_options& options = {}) {
  using space_type = rewrite_space<A, detail::no_costs>;
  std::vector<tested_rule> all;
  for (const auto& s : rules) {
    all.push_back({s.name, 0, {}});
  }
  all.push_back({"common_subexpression", 0, {}});
  for (std::uint64_t seed = options.seed; seed < options.seed + options.graphs; ++seed) {
    random_engine engine{seed};
    space_type space{a, detail::no_costs{}, rules, random(engine)};
    typename space_type::scratch_type from;
    typename space_type::scratch_type to;
    auto here = space.initial();
    const auto expected = evaluate(space.graph(here));
    for (std::size_t step = 0; step < options.steps && !space.moves(here).empty(); ++step) {
      auto next = here;
      const std::vector<match_id> moves(space.moves(here).begin(), space.moves(here).end());
      const auto chosen = engine.below(moves.size());
      for (std::size_t i = 0; i < moves.size(); ++i) {
        space.prepare(here, from);
        if (!space.price(here, moves[i], from)) {
          continue;
        }
        auto after = space.apply(here, moves[i], from, to);
        auto& rule = all[space.rule_number(moves[i])];
        ++rule.applications;
        if (const bool equal = evaluate(space.graph(after)) == expected; !equal) {
          rule.counter = rule.counter ? rule.counter : std::optional{seed};
        } else if (i == chosen) {
          next = std::move(after);
        }
      }
      here = std::move(next);
    }
  }
  return all;
}

}  // namespace unity
