#include <unity/hardware/device_rates.hpp>
#include <unity/systems/taso.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_taso {

namespace {

using namespace unity;
using unity::test::standard::operators;

const rule_set& shipped() {
  static const auto all = compile_rules(operators(), parse_rules(tensor::standard_rules));
  return all;
}
systems::taso_options options(const char* device, std::uint64_t expansions) {
  systems::taso_options o;
  o.objective.device = *hardware::find_device(device);
  o.limits.expansions = expansions;
  return o;
}
bool equal(const tensor::tensor_graph& a, const tensor::tensor_graph& b, bool modular) {
  const auto report = tensor::check_equivalence(operators(), a, b, {.modular = modular});
  INFO(report.problem);
  return report.passed;
}

TEST_CASE("a joint search of substitutions and layouts beats each alone and both in sequence", "[exhaustive]") {
  const auto bert = tensor::zoo::build(operators(), "zoo:bert?form=taso&layers=2");
  auto o = options("v100", 400);
  const auto substitution = systems::taso(operators(), shipped(), bert, o);
  o.layouts = variants::searched;
  const auto layout = systems::taso(operators(), {}, bert, o);
  const auto sequential = systems::taso(operators(), {}, substitution.graph, o);
  const auto joint = systems::taso(operators(), shipped(), bert, o);
  CHECK(layout.cost_after_s < layout.cost_before_s);
  CHECK(sequential.cost_after_s <= substitution.cost_after_s);
  CHECK(joint.cost_after_s < sequential.cost_after_s);
  CHECK(joint.cost_after_s < layout.cost_after_s);
  CHECK(equal(bert, joint.graph, !joint.real_only));
  CHECK(equal(bert, layout.graph, true));
}

TEST_CASE("stages of a TASO search lie between its start and its best and are equivalent") {
  for (const auto algorithm : {systems::algorithm::backtracking, systems::algorithm::beam, systems::algorithm::mcmc}) {
    const auto bert = tensor::zoo::build(operators(), "zoo:bert?layers=1");
    auto o = options("v100", algorithm == systems::algorithm::mcmc ? 2000 : 50);
    o.algorithm = algorithm;
    o.stages = 3;
    const auto found = systems::taso(operators(), shipped(), bert, o);
    CAPTURE(static_cast<int>(algorithm));
    REQUIRE(found.cost_after_s < found.cost_before_s);
    REQUIRE(!found.stages.empty());
    REQUIRE(found.stages.size() <= 3);
    for (std::size_t i = 0; i < found.stages.size(); ++i) {
      const auto& stage = found.stages[i];
      const auto part = static_cast<double>(i + 1) / 4;
      CHECK(stage.cost_before_s == found.cost_before_s);
      CHECK(stage.cost_before_s - stage.cost_after_s >= 0.999 * part * (found.cost_before_s - found.cost_after_s));
      CHECK(stage.cost_after_s >= found.cost_after_s);
      CHECK(!(stage.graph == found.graph));
      CHECK(!stage.rules_used.empty());
      CHECK(equal(bert, stage.graph, !stage.real_only));
      CHECK(stage.origins.size() == stage.graph.node_count());
    }
    o.stages = 0;
    CHECK(systems::taso(operators(), shipped(), bert, o).stages.empty());
  }
}

TEST_CASE("operators on weights alone are rewritten in training and not in inference") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 4});
  const auto u = b.weight("u", {4, 4});
  const auto v = b.weight("v", {4, 4});
  const auto product = b.matmul(x, b.relu(b.relu(b.add(u, v))));
  const auto output = b.relu(b.relu(product));
  const auto g = std::move(b).finish({output});
  const auto rules = compile_rules(operators(), parse_rules("rule twice relu(relu(?x)) => relu(?x)"));
  const auto moves = [&](tensor::mode mode) {
    systems::objective o;
    o.mode = mode;
    systems::taso_space space{operators(), systems::make_cost(operators(), o), rules, g};
    return space.initial().matches.size();
  };
  CHECK(moves(tensor::mode::training) == 2);
  CHECK(moves(tensor::mode::inference) == 1);
}

TEST_CASE("taso_space prices with layouts equal state costs and graphs stay equivalent") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  const auto bert = tensor::zoo::build(operators(), "zoo:bert?form=taso&layers=1");
  systems::objective objective;
  systems::taso_space space{operators(), systems::make_cost(operators(), objective), shipped(), bert,
                            variants::searched};
  systems::taso_space::scratch_type from;
  systems::taso_space::scratch_type to;
  auto state = space.initial();
  std::size_t relayouts = 0;
  for (int step = 0; step < 25; ++step) {
    const auto moves = space.moves(state);
    const auto m = moves[random.below(moves.size())];
    space.prepare(state, from);
    const auto priced = space.price(state, m, from);
    if (!priced) {
      continue;
    }
    relayouts += space.rule_of(m).name == "relayout" ? 1 : 0;
    state = space.apply(state, m, from, to);
    REQUIRE(space.cost(state) == priced->cost);
    REQUIRE(space.fingerprint_of(state) == priced->fingerprint);
    // The same graph, interned afresh, has the same cost.
    systems::taso_space again{
        operators(), systems::make_cost(operators(), objective), {}, space.graph(state), variants::kept};
    REQUIRE(again.cost(again.initial()) == priced->cost);
  }
  CHECK(relayouts > 0);
  CHECK(equal(bert, space.graph(state), false));
}

// With operators' own layouts, a target may read existing values that are computed from what it replaces.
TEST_CASE("an exact search with layouts ends without creating cycles") {
  tensor::builder b{operators()};
  const auto first = b.relu(b.input("x", {2, 4}));
  const auto second = b.relu(b.input("y", {2, 4}));
  const std::vector outputs{b.tanh(first), b.tanh(second)};
  const auto g = std::move(b).finish(outputs);
  const auto rules = compile_rules(operators(), parse_rules(R"(
    rule joined  (relu(?x), relu(?y)) => split{axis=0, sizes=[size(?x, 0), size(?y, 0)]}(relu(concat{axis=0}(?x, ?y)))
    rule divided relu(concat{axis=0}(?x, ?y)) => concat{axis=0}(relu(?x), relu(?y))
  )"));
  auto o = options("v100", 2000);
  o.algorithm = systems::algorithm::exact;
  o.layouts = variants::searched;
  const auto found = systems::taso(operators(), rules, g, o);
  CHECK(found.stopped == stop_reason::exhausted);
  CHECK(found.counts.expanded > 3);
  CHECK(equal(g, found.graph, true));
}

TEST_CASE("training excludes inference-only rules and prices work on weights") {
  const auto rules = systems::select_rules(shipped(), syntax::standing::tested, tensor::mode::training);
  CHECK(rules.size() < shipped().size());
  CHECK(std::none_of(rules.begin(), rules.end(),
                     [](const auto& r) { return r.rule.safe_for == "inference"; }));

  const auto resnet = tensor::zoo::build(operators(), "zoo:resnet50");
  auto o = options("v100", 40);
  const auto inference = systems::taso(operators(), shipped(), resnet, o);
  o.objective.mode = tensor::mode::training;
  const auto training = systems::taso(operators(), rules, resnet, o);
  CHECK(inference.cost_after_s / inference.cost_before_s < training.cost_after_s / training.cost_before_s);
  CHECK(equal(resnet, training.graph, !training.real_only));
}

TEST_CASE("TASO refuses a graph whose costs exceed 64 bits") {
  const auto huge = tensor::zoo::build(operators(), "zoo:mlp?hidden=1048576&batch=1048576&layers=64");
  CHECK_THROWS_WITH(systems::taso(operators(), {}, huge, options("k80", 1)),
                    Catch::Contains("more than 2^61") && Catch::Contains("a smaller model"));
}

TEST_CASE("TASO refuses a node with more than 65535 operands") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2});
  const auto g = std::move(b).finish({b.concat(0, std::vector<value_id>(70000, x))});
  CHECK_THROWS_WITH(systems::taso(operators(), {}, g, options("v100", 1)),
                    Catch::Contains("70000 operands or results; expected at most 65535"));
}

TEST_CASE("select_rules excludes rules below the required evidence") {
  auto rules = compile_rules(
      operators(), parse_rules("rule a relu(relu(?x)) => relu(?x) assumed\nrule b negate(negate(?x)) => ?x tested 61"));
  CHECK(systems::select_rules(rules, syntax::standing::assumed, tensor::mode::inference).size() == 2);
  const auto tested = systems::select_rules(rules, syntax::standing::tested, tensor::mode::inference);
  REQUIRE(tested.size() == 1);
  CHECK(tested[0].name == "b");
  CHECK(systems::select_rules(rules, syntax::standing::proved, tensor::mode::inference).empty());
}

TEST_CASE("a TASO search with a memory limit needs no more than the limit or its start") {
  const auto nasrnn = tensor::zoo::build(operators(), "zoo:nasrnn");
  const tensor::memory_cost memory{operators()};
  const auto held = [&](const tensor::tensor_graph& g) {
    rewrite_space space{operators(), memory, {}, g};
    return space.cost(space.initial());
  };
  const auto free = systems::taso(operators(), shipped(), nasrnn, options("v100", 100));
  auto o = options("v100", 100);
  o.objective.memory_limit = (held(nasrnn) + held(free.graph)) / 2;
  const auto limited = systems::taso(operators(), shipped(), nasrnn, o);
  CHECK(held(limited.graph) <= std::max(o.objective.memory_limit, held(nasrnn)));
  CHECK(equal(nasrnn, limited.graph, !limited.real_only));
}

TEST_CASE("a weight on arithmetic in the objective trades time for fewer operations") {
  const auto bert = tensor::zoo::build(operators(), "zoo:bert?form=taso&layers=1");
  const tensor::flop_cost arithmetic{operators()};
  const auto operations = [&](const tensor::tensor_graph& g) {
    rewrite_space space{operators(), arithmetic, {}, g};
    return space.cost(space.initial());
  };
  auto o = options("v100", 200);
  const auto time = systems::taso(operators(), shipped(), bert, o);
  o.objective.flops_weight = 1;
  const auto work = systems::taso(operators(), shipped(), bert, o);
  CHECK(operations(work.graph) <= operations(time.graph));
  CHECK(operations(work.graph) <= operations(bert));
  CHECK(time.cost_after_s <= work.cost_after_s);
}

TEST_CASE("each TASO algorithm reproducibly gives an equivalent graph of the stated cost") {
  const auto name = GENERATE(systems::algorithm::backtracking, systems::algorithm::beam, systems::algorithm::mcmc,
                             systems::algorithm::exact);
  CAPTURE(static_cast<int>(name));
  const auto nasrnn = tensor::zoo::build(operators(), "zoo:nasrnn");
  auto o = options("taso", 60);
  o.algorithm = name;
  o.seed = 7;
  const auto r = systems::taso(operators(), shipped(), nasrnn, o);
  CHECK(r.cost_after_s <= r.cost_before_s);
  rewrite_space space{operators(), tensor::analytic_cost{operators(), *hardware::find_device("taso")}, {}, r.graph};
  CHECK(to_seconds(picoseconds{space.cost(space.initial())}) == Approx(r.cost_after_s));
  CHECK(equal(nasrnn, r.graph, !r.real_only));
  const auto again = systems::taso(operators(), shipped(), nasrnn, o);
  CHECK(again.graph == r.graph);
  CHECK(again.counts == r.counts);
}

}  // namespace

TEST_CASE("TASO options of another algorithm are refused") {
  const auto refused = [](systems::algorithm algorithm, auto change) {
    auto o = options("taso", 10);
    o.algorithm = algorithm;
    change(o);
    return test::message_of([&] { systems::detail::check_options(o); });
  };
  using systems::algorithm;
  for (const auto which : {algorithm::beam, algorithm::mcmc}) {
    CHECK(refused(which, [](auto& o) { o.resume = "a"; }) ==
          "search: a checkpoint for another algorithm; expected backtracking or exact");
    CHECK(refused(which, [](auto& o) { o.alpha = 2; }) ==
          "search: alpha, sleep sets or patience for another algorithm; expected backtracking");
  }
  CHECK(refused(algorithm::exact, [](auto& o) { o.width = 3; }) ==
        "search: a width for another algorithm; expected beam");
  CHECK(refused(algorithm::beam, [](auto& o) { o.beta = 3; }) == "search: beta for another algorithm; expected mcmc");
}

}  // namespace tests_of_taso
