// Unity's plans, against parallel computation graphs that backtracking reaches by the rules that divide operators.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/shared_memo.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
#include <unity/simulate/full.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>

#include "../parallel/rewritten.hpp"
#include "../support/operators.hpp"
#include "shipped_rules.hpp"
#include "training_graphs.hpp"

namespace tests_of_unity_dividing_rules {

namespace {

using namespace unity;
using unity::test::training::operators;

const parallel::pcg_algebra& parallel_operators() {
  static const parallel::pcg_algebra a{operators()};
  return a;
}

bool any_term(const syntax::term& t, const std::set<std::string>& names) {
  return (t.kind == syntax::term::form::application && names.contains(t.name)) ||
         std::any_of(t.operands.begin(), t.operands.end(), [&](const auto& o) { return any_term(o, names); });
}
bool has_any(const syntax::rule& r, const std::set<std::string>& names) {
  const auto in = [&](const auto& side) {
    return std::any_of(side.begin(), side.end(), [&](const auto& t) { return any_term(t, names); });
  };
  return in(r.source) || in(r.target);
}

// The shipped parallel rules, except those that plans cannot express: steps, and sums and blocks of several tensors.
const std::vector<syntax::rule>& shipped() {
  static const auto all = [] {
    auto rules = parse_rules(std::string{parallel::parallel_rules}, "parallel_rules");
    std::erase_if(rules, [](const auto& r) { return has_any(r, {"pipeline", "batch", "terms", "blocks"}); });
    return rules;
  }();
  return all;
}

// The rules of one operator, or of chains if there is no name, with every degree up to the number of devices.
const rule_set& rules_of(const std::string& name, std::size_t devices) {
  static std::map<std::pair<std::string, std::size_t>, rule_set> known;
  const auto [at, is_new] = known.try_emplace({name, devices});
  const std::vector<std::int64_t> degrees =
      devices == 2 ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{2, 4};
  for (const auto& r : is_new ? shipped() : std::vector<syntax::rule>{}) {
    const auto& root = r.source[0].name;
    const bool is_chain = parallel_operators().is_parallel(parallel_operators().find_kind(root).value());
    if (name.empty() ? is_chain : root == name) {
      for (const auto& one : parallel::with_all_values(r, degrees, 4)) {
        std::ranges::move(compile_rule(parallel_operators(), one), std::back_inserter(at->second));
      }
    }
  }
  return at->second;
}

// A parallel computation graph as a plan: each operator's tasks are on the first devices, in grid order.
struct divided_plan {
  tensor::tensor_graph graph{};
  std::vector<parallel::operator_grid> grids{};  // by node
  unity::fingerprint fingerprint{};              // of operators and grids only, independent of chains
};

divided_plan plan_of(const parallel::pcg& g) {
  auto erased = parallel::erase_values(parallel_operators(), g);
  divided_plan p{std::move(erased.graph), {}, {}};
  p.grids.resize(p.graph.node_count());
  std::vector<std::uint64_t> hashes(p.graph.value_count());
  std::vector<std::uint64_t> nodes;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (parallel_operators().is_parallel(op.kind)) {
      continue;
    }
    std::vector<parallel::parallel_type> types;
    std::vector<std::uint64_t> operands;
    for (const auto v : g.operands(n)) {
      types.push_back(g.type(v));
      operands.push_back(hashes[erased.values[v.index()].index()]);
    }
    if (parallel_operators().signature(op.kind).commutative) {
      std::sort(operands.begin(), operands.end());  // chains decide which of them comes first
    }
    auto h = std::uint64_t{std::hash<tensor::operation>{}(op)};
    for (const auto operand : operands) {
      h = hash_combine(h, operand);
    }
    if (!types.empty()) {
      const auto grid = parallel_operators().grid(op, types).value();
      for (const auto* degrees : {&grid.indices, &grid.partials}) {
        for (const auto d : *degrees) {
          h = hash_combine(h, static_cast<std::uint64_t>(d));
        }
      }
      h = hash_combine(h, static_cast<std::uint64_t>(grid.copies));
      p.grids[p.graph.producer(erased.values[g.results(n)[0].index()]).index()] = grid;
    }
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      hashes[erased.values[g.results(n)[r].index()].index()] = hash_combine(h, r);
    }
    nodes.push_back(h);
  }
  std::sort(nodes.begin(), nodes.end());
  for (const auto h : nodes) {
    p.fingerprint.low = hash_combine(p.fingerprint.low, h);
    p.fingerprint.high = hash_combine(p.fingerprint.high, ~h);
  }
  return p;
}

// Returns nothing if plans cannot express the division, if it needs more devices, or if an output is left as partial
// sums.
std::optional<parallel::strategy> strategy_of(const parallel::lowering& lowering, const divided_plan& p,
                                              std::size_t devices) {
  parallel::strategy s(p.graph.node_count());
  std::vector<bool> is_output(p.graph.node_count());
  for (const auto v : p.graph.outputs()) {
    is_output[p.graph.producer(v).index()] = true;
  }
  for (const auto n : node_ids(p.graph)) {
    if (p.graph.operands(n).empty()) {
      continue;
    }
    const auto& o = lowering.dimensions()[n];
    const auto& grid = p.grids[n.index()];
    const auto tasks = static_cast<std::size_t>(parallel::task_count(grid));
    if (tasks > devices || !parallel::why_no_configuration(o, grid).empty()) {
      return std::nullopt;
    }
    std::vector<hardware::device_id> list;
    for (std::size_t t = 0; t < tasks; ++t) {
      list.emplace_back(t);
    }
    s[n.index()] = parallel::configuration_of(o, grid, list);
    const auto terms = parallel::product(s[n.index()].reductions) * parallel::product(s[n.index()].partials);
    if ((is_output[n.index()] && terms > 1) || !parallel::why_not(o, s[n.index()], devices).empty()) {
      return std::nullopt;
    }
  }
  return s;
}

// A search space whose moves are applications of the rules, and whose cost is the simulated time of a graph's plan.
// Graphs with the same plan are one state. Models search_space.
class divided_space {
 public:
  using inner_space = rewrite_space<parallel::pcg_algebra, parallel::test::no_cost>;
  using move_type = inner_space::move_type;
  using scratch_type = inner_space::scratch_type;

  struct state_type {
    inner_space::state_type at{};
    candidate priced{};
  };

  divided_space(const parallel::pcg& g, rule_set rules, const hardware::machine& m)
      : machine_{m}, inner_{parallel_operators(), parallel::test::no_cost{}, std::move(rules), g} {}

  [[nodiscard]] state_type initial() {
    auto at = inner_.initial();
    auto priced = price_of(inner_.graph(at)).value();
    return {std::move(at), priced};
  }
  [[nodiscard]] static cost_value cost(const state_type& s) { return s.priced.cost; }
  [[nodiscard]] static fingerprint fingerprint_of(const state_type& s) { return s.priced.fingerprint; }
  [[nodiscard]] std::span<const move_type> moves(const state_type& s) const { return inner_.moves(s.at); }
  void prepare(const state_type& s, scratch_type& scratch) const { inner_.prepare(s.at, scratch); }
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const {
    return inner_.price(s.at, m, scratch) ? price_of(inner_.graph_after(s.at, scratch)) : std::nullopt;
  }
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to) {
    auto at = inner_.apply(s.at, m, from, to);
    auto priced = price_of(inner_.graph(at)).value();
    return {std::move(at), priced};
  }
  [[nodiscard]] parallel::pcg graph(const state_type& s) const { return inner_.graph(s.at); }
  [[nodiscard]] std::size_t plans() const { return prices_.size(); }

 private:
  [[nodiscard]] std::optional<candidate> price_of(const parallel::pcg& g) const {
    const auto p = plan_of(g);
    const auto cost = prices_.get(p.fingerprint, [&] { return std::optional{simulated(p)}; });
    return *cost ? std::optional{candidate{**cost, p.fingerprint}} : std::nullopt;
  }
  // Returns nothing if the plan cannot run.
  [[nodiscard]] std::optional<cost_value> simulated(const divided_plan& p) const {
    parallel::lowering lowering{operators(), p.graph, machine_};
    const auto strategy = strategy_of(lowering, p, machine_.network.device_count());
    return strategy ? std::optional<cost_value>{simulate::full_simulation{}.run(lowering.run(*strategy)).count()}
                    : std::nullopt;
  }

  const hardware::machine& machine_;
  inner_space inner_;
  mutable shared_memo<fingerprint, std::optional<cost_value>> prices_{};
};

struct comparison {
  cost_value undivided = 0;
  cost_value by_rules = 0;
  cost_value found = 0;
  std::size_t plans = 0;
};

parallel::pcg undivided(const tensor::tensor_graph& g) {
  std::vector<parallel::operator_grid> grids;
  for (const auto n : node_ids(g)) {
    std::vector<parallel::parallel_type> types;
    for (const auto v : g.operands(n)) {
      types.push_back(parallel::undivided(g.type(v)));
    }
    const auto* o = parallel_operators().dimensions(g.operation(n), types);
    grids.push_back(o == nullptr ? parallel::operator_grid{} : parallel::undivided_grid(*o));
  }
  return parallel::spell_out(parallel_operators(), g, grids);
}

comparison compare(std::uint64_t seed, std::uint64_t expansions) {
  random_engine random{seed};
  const auto g = test::random_training_graph(random, operators(), 3 + random.below(3));
  const std::size_t devices = random.below(2) == 0 ? 2 : 4;
  const auto m = hardware::preset(fmt::format("p100:1x{}", devices));
  const auto plain = undivided(tensor::with_delivered_outputs(operators(), g));
  rule_set rules;
  std::set<std::string> names;
  for (const auto n : node_ids(plain)) {
    const auto& name = parallel_operators().signature(plain.operation(n).kind).name;
    if (!plain.operands(n).empty() && names.insert(name).second) {
      const auto& of = rules_of(name, devices);
      rules.insert(rules.end(), of.begin(), of.end());
    }
  }
  divided_space space{plain, rules, m};
  backtracking_options o;
  o.alpha = 1.5;  // dividing a single operator moves its operands and results
  o.limits.expansions = expansions;
  const auto best = backtracking(space, o);
  CAPTURE(seed, devices);
  // Rules of chains do not change the plan, so they are not moves.
  const auto reached = space.graph(best.best);
  const auto plan = plan_of(reached);
  for (const auto& [name, made] : parallel::test::rewritten(parallel_operators(), reached, rules_of({}, devices))) {
    CAPTURE(name);
    CHECK(plan_of(made).fingerprint == plan.fingerprint);
  }
  const auto r =
      systems::unity(operators(), test::standard_rules(), g, m, parallel::analytic_durations(operators(), m));
  return {space.cost(space.initial()), best.cost, r.report.iteration.count(), space.plans()};
}

void compare_all(std::uint64_t first, std::uint64_t count, std::uint64_t expansions) {
  std::size_t divided = 0;
  std::size_t plans = 0;
  std::size_t equal = 0;
  for (auto seed = first; seed < first + count; ++seed) {
    const auto c = compare(seed, expansions);
    CAPTURE(seed, c.undivided, c.by_rules, c.found, c.plans);
    CHECK(c.found <= c.by_rules);
    if (c.found > c.by_rules) {
      fmt::print("seed {}: found {}, by rules that divide {}, {:.4f}\n", seed, c.found, c.by_rules,
                 static_cast<double>(c.found) / static_cast<double>(c.by_rules));
    }
    divided += c.by_rules < c.undivided ? 1 : 0;
    equal += c.by_rules == c.found ? 1 : 0;
    plans += c.plans;
  }
  if (count >= 10) {  // the few graphs tried under sanitizers are best undivided
    CHECK(divided > 0);
  }
  CHECK(plans > 20 * count);
  fmt::print("{} graphs: {} gain by dividing rules, {} as fast as what the search found; {} plans\n", count, divided,
             equal, plans);
}

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("backtracking over rules that divide operators finds no faster plan than Unity", "[exhaustive]") {
  compare_all(0, 10, 40);
}

// Run by hand: test_systems "[dividing]"; FIRST, COUNT and EXPANSIONS in the environment.
TEST_CASE("backtracking over rules that divide operators of 200 graphs finds no faster plan", "[.][dividing]") {
  compare_all(number_of("FIRST", 0), number_of("COUNT", 200), number_of("EXPANSIONS", 300));
}

}  // namespace tests_of_unity_dividing_rules
