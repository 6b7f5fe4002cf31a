// TASO's published rules (graph_subst.pb) against the tester and against the shipped rules.
#include <unity/hardware/device_rates.hpp>
#include <unity/io/taso_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/io/rule_text.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "../support/operators.hpp"
#include "../support/shared_file.hpp"

namespace tests_of_published_rules {

namespace tensor = unity::tensor;
using verdict = tensor::rule_report::verdict;
using unity::test::standard::operators;

namespace {

unity::substitution compiled(const std::string& text) {
  return unity::compile_rule(operators(), unity::parse_rules(text, "published").at(0)).at(0);
}

// Rules as TASO's optimizer reads them: the channels of its operands determine the groups of a convolution.
struct implicit_groups {
  std::size_t number;
  const char* text;
};
const std::vector<implicit_groups> implicit{
    {98,
     "add(conv2d{padding=same, groups=?g}(?x, ?w), conv2d{padding=same, groups=?h}(?y, ?v)) => "
     "conv2d{padding=same, groups=(size(?x, 1) + size(?y, 1)) / (size(?w, 1) + size(?v, 1))}(concat{axis=1}(?x, ?y), "
     "concat{axis=1}(?w, ?v))"},
    {99,
     "concat{axis=1}(conv2d{padding=same, groups=?g}(?x, ?w), conv2d{padding=same, groups=?h}(?y, ?v)) => "
     "conv2d{padding=same, groups=(size(?x, 1) + size(?y, 1)) / size(?w, 1)}(concat{axis=1}(?x, ?y), "
     "concat{axis=0}(?w, ?v))"},
    {100,
     "concat{axis=1}(conv2d{padding=same, groups=?g, activation=relu}(?x, ?w), conv2d{padding=same, groups=?h, "
     "activation=relu}(?y, ?v)) => conv2d{padding=same, groups=(size(?x, 1) + size(?y, 1)) / size(?w, 1), "
     "activation=relu}(concat{axis=1}(?x, ?y), concat{axis=0}(?w, ?v))"},
    {125,
     "concat{axis=1}(conv2d{padding=same, groups=?g}(?x, ?w), conv2d{padding=same, groups=?h}(?x, ?v)) => "
     "conv2d{padding=same, groups=size(?x, 1) / size(?w, 1)}(?x, concat{axis=0}(?w, ?v))"},
    {126,
     "concat{axis=1}(conv2d{padding=same, groups=?g, activation=relu}(?x, ?w), conv2d{padding=same, groups=?h, "
     "activation=relu}(?x, ?v)) => relu(conv2d{padding=same, groups=size(?x, 1) / size(?w, 1)}(?x, "
     "concat{axis=0}(?w, ?v)))"},
    {127,
     "(conv2d{padding=same, groups=?g}(?x, ?w), conv2d{padding=same, groups=?h}(?x, ?v)) => split{axis=1, "
     "sizes=[size(?w, 0), size(?v, 0)]}(conv2d{padding=same, groups=size(?x, 1) / size(?w, 1)}(?x, "
     "concat{axis=0}(?w, ?v)))"},
    {128,
     "concat{axis=1}(conv2d{padding=same, groups=?g, activation=relu}(?x, ?w), conv2d{padding=same, groups=?h, "
     "activation=relu}(?x, ?v)) => conv2d{padding=same, groups=size(?x, 1) / size(?w, 1), activation=relu}(?x, "
     "concat{axis=0}(?w, ?v))"},
    {129,
     "(relu(conv2d{padding=same, groups=?g}(?x, ?w)), conv2d{padding=same, groups=?h, activation=relu}(?x, ?v)) => "
     "split{axis=1, sizes=[size(?w, 0), size(?v, 0)]}(conv2d{padding=same, groups=size(?x, 1) / size(?w, 1), "
     "activation=relu}(?x, concat{axis=0}(?w, ?v)))"},
};

const std::set<std::size_t> wrong{99, 100, 130, 131};  // concats of unrelated convolutions

// Empty if the rules are not available.
std::vector<unity::io::converted_rule> published() {
  const auto path = unity::test::shared_file("rules/taso_graph_subst.pb");
  if (!path) {
    return {};
  }
  std::vector<unity::io::converted_rule> all;
  for (const auto& r : unity::io::read_taso_rules(*path)) {
    all.push_back(unity::io::to_rule_text(r));
  }
  return all;
}

using space_type = unity::rewrite_space<tensor::algebra, tensor::analytic_cost>;

// Equal if the outputs are the same terms, whichever subterms are shared.
std::uint64_t term_hash(const tensor::tensor_graph& g) {
  std::vector<std::uint64_t> of(g.value_count());
  const auto order = unity::topological_order(g);
  REQUIRE(order);
  for (const auto n : *order) {
    std::vector<std::uint64_t> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(of[v.index()]);
    }
    if (operators().signature(g.operation(n).kind).commutative) {
      std::sort(operands.begin(), operands.end());
    }
    auto h = unity::mix64(std::hash<tensor::operation>{}(g.operation(n)));
    for (const auto o : operands) {
      h = unity::hash_combine(h, o);
    }
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      of[g.results(n)[r].index()] = unity::hash_combine(h, r);
    }
  }
  std::uint64_t h = 0;
  for (const auto v : g.outputs()) {
    h = unity::hash_combine(h, of[v.index()]);
  }
  return h;
}

// Both sides of a rule, on inputs without sizes of 1.
std::pair<tensor::tensor_graph, tensor::tensor_graph> sides(const unity::substitution& s) {
  tensor::instance_generator generator{operators(), s, 5};
  for (int tries = 0; tries < 200; ++tries) {
    const auto i = generator.next(200000);
    REQUIRE(i);
    const bool plain = std::all_of(i->values.begin(), i->values.end(), [](const auto& types) {
      return !types[0].constant && std::find(types[0].dims.begin(), types[0].dims.end(), 1) == types[0].dims.end();
    });
    auto source = tensor::source_graph(operators(), s, *i);
    auto target = tensor::target_graph(operators(), s, *i);
    if (plain && source && target) {
      return {*std::move(source), *std::move(target)};
    }
  }
  FAIL("no instance of " << s.name);
  return {};
}

// The length of the shortest derivation of one graph from the other by the shipped rules, breadth first.
std::optional<std::size_t> derivation(const unity::rule_set& rules, const tensor::tensor_graph& from,
                                      const tensor::tensor_graph& to, std::size_t most_states) {
  struct reached {
    space_type::state_type state;
    std::size_t steps;
  };
  const tensor::analytic_cost cost{operators(), *unity::hardware::find_device("taso")};
  space_type space{operators(), cost, rules, from};
  space_type::scratch_type scratch;
  space_type::scratch_type other;
  std::deque<reached> all;
  std::set<std::uint64_t> seen{term_hash(from)};
  const auto goal = term_hash(to);
  all.push_back({space.initial(), 0});
  for (std::size_t k = 0; k < all.size() && k < most_states; ++k) {
    const std::vector<unity::match_id> moves{all[k].state.matches};
    for (const auto m : moves) {
      space.prepare(all[k].state, scratch);
      if (!space.price(all[k].state, m, scratch)) {
        continue;
      }
      auto child = space.apply(all[k].state, m, scratch, other);
      const auto h = term_hash(space.graph(child));
      if (h == goal) {
        return all[k].steps + 1;
      }
      if (seen.insert(h).second) {
        all.push_back({std::move(child), all[k].steps + 1});
      }
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("TASO rules that imply convolution groups are refuted by a counterexample") {
  for (const auto& r : implicit) {
    const auto s = compiled("rule taso_" + std::to_string(r.number) + "\n  " + r.text +
                            "\n  if shape(?w) == replace(shape(?v), 0, size(?w, 0))");
    const auto report = tensor::test_rule(operators(), s, {.instances = 300});
    INFO("rule " << r.number << ": " << report.because);
    CHECK(report.found == verdict::refuted);
    CHECK(report.because.find("?x float32[") != std::string::npos);
    CHECK(report.because.find("element ") != std::string::npos);
  }
}

TEST_CASE("with stated groups 129 of TASO's 133 rules pass their tests and four never fit", "[exhaustive][shared]") {
  const auto all = published();
  if (all.empty()) {
    return;
  }
  REQUIRE(all.size() == 133);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name << ": " << all[i].outside_because);
    REQUIRE(all[i]);
    const auto report = tensor::test_rule(operators(), compiled(all[i].text), {.instances = 20});
    INFO(all[i].text << report.because);
    CHECK(report.found == (wrong.contains(i) ? verdict::never_fits : verdict::passes));
  }
}

TEST_CASE("shipped rules derive each of TASO's 129 true rules in at most seven rewrites", "[exhaustive][shared]") {
  const auto rules = unity::compile_rules(operators(), unity::parse_rules(tensor::standard_rules));
  const auto all = published();
  if (all.empty()) {
    return;
  }
  std::size_t derived = 0;
  std::size_t at_once = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wrong.contains(i)) {
      continue;
    }
    const auto [source, target] = sides(compiled(all[i].text));
    const auto steps = derivation(rules, source, target, 2000);
    INFO(all[i].text);
    CHECK(steps.value_or(99) <= 7);
    derived += steps ? 1 : 0;
    at_once += steps == std::size_t{1} ? 1 : 0;
  }
  CHECK(derived == 129);
  CHECK(at_once >= 60);
}

}  // namespace tests_of_published_rules
