#include <unity/hardware/device_rates.hpp>
#include <unity/tensor/standard_rules.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include <unity/cost/roofline.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>
#include <unity/tensor/zoo.hpp>

#include "testing.hpp"

namespace tests_of_standard_rules {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

const rule_set& rules() {
  static const auto all = compile_rules(standard(), parse_rules(standard_rules, "standard_rules"));
  return all;
}

using space_type = rewrite_space<tensor::algebra, analytic_cost>;

analytic_cost taso_cost() { return {standard(), *hardware::find_device("taso")}; }

// Compares both graphs at one random point. Where the first is undefined, the second may have any value.
template <class Scalar>
void check_equal(const tensor_graph& a, const tensor_graph& b, std::uint64_t seed, double tolerance) {
  const tensor::detail::random_point<Scalar> point{standard(), seed, true};
  const auto x = evaluate<Scalar>(standard(), a, point);
  const auto y = evaluate<Scalar>(standard(), b, point);
  REQUIRE(x.size() == y.size());
  for (std::size_t o = 0; o < x.size(); ++o) {
    REQUIRE(x[o].dims == y[o].dims);
    if constexpr (std::floating_point<Scalar>) {
      double largest = 1;
      double worst = 0;
      for (std::size_t i = 0; i < x[o].data.size(); ++i) {
        if (std::isfinite(x[o].data[i])) {
          largest = std::max(largest, std::abs(x[o].data[i]));
          const auto error = std::abs(x[o].data[i] - y[o].data[i]);
          worst = error <= worst ? worst : error;
        }
      }
      CHECK(worst <= tolerance * largest);
    } else {
      CHECK(x[o].data == y[o].data);
    }
  }
}

// The number of rewrites of `g` by one rule; checks that each keeps the values.
std::size_t check_rewrites(const substitution& s, const tensor_graph& g) {
  space_type space{standard(), taso_cost(), rule_set{s}, g};
  const auto start = space.initial();
  space_type::scratch_type scratch;
  space_type::scratch_type other;
  std::size_t applied = 0;
  for (const auto m : space.moves(start)) {
    space.prepare(start, scratch);
    if (!space.price(start, m, scratch)) {
      continue;
    }
    ++applied;
    const auto after = space.graph(space.apply(start, m, scratch, other));
    check_equal<double>(g, after, applied, s.rule.real_only ? 0x1p-23 : 0x1p-30);
    if (!s.rule.real_only) {
      check_equal<modular61>(g, after, applied, 0);
    }
  }
  return applied;
}

auto optimized(space_type& space, std::uint64_t expansions) {
  backtracking_options o;
  o.limits.expansions = expansions;
  return backtracking(space, o);
}

double ratio(const std::string& model, std::uint64_t expansions) {
  space_type space{standard(), taso_cost(), rules(), zoo::build(standard(), model)};
  const auto before = space.cost(space.initial());
  return static_cast<double>(optimized(space, expansions).cost) / static_cast<double>(before);
}

}  // namespace

TEST_CASE("standard rules have unique names and are marked as proved from existing axioms") {
  const auto axioms = parse_rules(standard_axioms, "standard_axioms");
  std::set<std::string> properties;
  for (const auto& axiom : axioms) {
    properties.insert(axiom.name);
  }
  std::set<std::string> names;
  const auto stated = parse_rules(standard_rules, "standard_rules");
  for (const auto& r : stated) {
    INFO(r.name);
    CHECK(names.insert(r.name).second);
    CHECK(r.known == syntax::standing::proved);
    for (const auto& name : r.axioms) {
      INFO(name);
      CHECK(properties.count(name) == 1);
    }
  }
}

TEST_CASE("the congruence prover proves every standard rule") {
  const theory axioms{standard(), parse_rules(standard_axioms, "standard_axioms")};
  const auto stated = parse_rules(standard_rules, "standard_rules");
  const auto proofs = verify_rules(standard(), axioms, congruence_prover{}, stated, 2);
  for (std::size_t i = 0; i < stated.size(); ++i) {
    INFO("rule " << stated[i].name << ": " << proofs[i].reason << " " << proofs[i].details);
    CHECK(proofs[i].found == verdict::proved);
    CHECK((stated[i].real_only || !proofs[i].real_only));
    CHECK((stated[i].safe_for == "inference" || !proofs[i].inference_only));
  }
}

TEST_CASE("every standard rule passes rule tests on at least 50 instances") {
  for (const auto& s : rules()) {
    const auto report = test_rule(standard(), s);
    INFO("rule " << s.name << ": " << report.because);
    CHECK(report.found == rule_report::verdict::passes);
    CHECK(report.instances >= 50);
    CHECK(report.bits >= (s.rule.real_only ? 92 : 200));
  }
}

TEST_CASE("every standard rule matches its own instances and its rewrites keep the values") {
  for (const auto& s : rules()) {
    INFO("rule " << s.name);
    instance_generator generator{standard(), s, 7};
    std::size_t applied = 0;
    for (int tries = 0; tries < 300 && applied < 5; ++tries) {
      const auto instance = generator.next(200000);
      REQUIRE(instance);
      if (const auto target = target_graph(standard(), s, *instance)) {
        applied += check_rewrites(s, *source_graph(standard(), s, *instance));
      }
    }
    CHECK(applied >= 5);
  }
}

TEST_CASE("guarded standard rules are refuted without their last condition") {
  std::set<std::string> guarded{"conv_of_kernel_sum.reverse", "conv_of_sum.reverse",
                                "conv_of_enlarged_kernel",    "transpose_same",
                                "concat_of_max_pools",        "layer_norm_with_pow"};
  for (auto s : rules()) {
    if (guarded.erase(s.name) > 0) {
      INFO("rule " << s.name);
      s.conditions.pop_back();
      CHECK(test_rule(standard(), s, {.instances = 300}).found == rule_report::verdict::refuted);
    }
  }
  CHECK(guarded.empty());
}

TEST_CASE("every rewrite on the path of a search with standard rules keeps the values") {
  for (const auto* model : {"zoo:nasrnn?form=taso&hidden=6&seq=2", "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
                            "zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=11", "zoo:mlp?hidden=8&layers=3&batch=2"}) {
    INFO(model);
    const auto g = zoo::build(standard(), model);
    space_type space{standard(), taso_cost(), rules(), g};
    const auto found = optimized(space, 100);
    CHECK_FALSE(found.path.empty());
    auto at = space.initial();
    space_type::scratch_type scratch;
    space_type::scratch_type other;
    for (const auto& [move, cost] : found.path) {
      INFO(space.rule_of(move).name);
      space.prepare(at, scratch);
      REQUIRE(space.price(at, move, scratch));
      at = space.apply(at, move, scratch, other);
      check_equal<double>(g, space.graph(at), 3, 1e-9);
      check_equal<modular61>(g, space.graph(at), 4, 0);
    }
  }
}

TEST_CASE("standard rules reach the expected cost ratios on TASO's graphs") {
  CHECK(ratio("zoo:resnet50?form=taso", 100) <= 0.9964);
  CHECK(ratio("zoo:resnext50?form=taso", 100) <= 0.99655);
  CHECK(ratio("zoo:bert?form=taso", 100) <= 0.70);
  CHECK(ratio("zoo:nasrnn?form=taso", 300) <= 0.46);
  CHECK(ratio("zoo:nasnet_a?form=taso", 300) <= 0.81);
}

}  // namespace tests_of_standard_rules
