// What ranks compute is what one device computes: outputs and gradients, for strategies at random.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rank_lowering.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>

#include "divided_at_random.hpp"
#include "operators.hpp"
#include "random_model.hpp"
#include "rank_runs.hpp"

namespace {

using namespace unity;
using namespace unity::parallel;
using test::numbers;
using test::operators;

numbers source(const tensor::tensor_graph& g, value_id v, std::uint64_t seed) {
  return tensor::evaluate<double>(operators(), g.operation(g.producer(v)), {}, {}, seed)[0];
}

// Runs the plan on its ranks and on one device. Returns the largest difference of an output's or gradient's element.
double compare(const plan& p, std::uint64_t seed) {
  const auto one = tensor::differentiate(operators(), p.graph);
  const auto expected = tensor::evaluate<double>(
      operators(), one.graph, [](const tensor::operation&, const tensor::tensor_type&) { return std::optional<numbers>{}; }, seed);
  const auto programs = programs_of_ranks(operators(), p);
  test::rank_run run{operators(), programs};
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    const auto& rank = programs.ranks[r];
    for (const auto& x : rank.inputs) {
      run.set(r, x.value, test::part_of(source(p.graph, x.of, seed), x.part));
    }
    for (const auto& w : rank.weights) {
      run.set(r, w.weight.value, test::part_of(source(p.graph, w.weight.of, seed), w.weight.part));
    }
    for (const auto& c : rank.cotangents) {
      const auto& t = p.graph.type(p.graph.outputs()[c.output]);
      const auto op = operators().make_operation(
          "input", {{"name", "cotangent" + std::to_string(c.output)}, {"element", name_of(t.element)}, {"dims", {t.dims.begin(), t.dims.end()}}});
      run.set(r, c.value, test::part_of(tensor::evaluate<double>(operators(), op, {}, {}, seed)[0], c.part));
    }
  }
  REQUIRE(run.run());
  double error = 0;
  const auto meet = [&](const numbers& whole, const box& part, const numbers& own) {
    const auto wanted = test::part_of(whole, part);
    REQUIRE(wanted.dims == own.dims);
    for (std::size_t i = 0; i < own.data.size(); ++i) {
      error = std::max(error, std::abs(own.data[i] - wanted.data[i]) / (1 + std::abs(wanted.data[i])));
    }
  };
  std::vector<std::int64_t> made(p.graph.outputs().size(), 0);
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    for (const auto& o : programs.ranks[r].outputs) {
      made[o.output] += o.part.volume();
      meet(expected[o.output], o.part, run.get(r, o.value));
    }
    for (const auto& w : programs.ranks[r].weights) {
      for (std::size_t s = 0; s < one.sources.size(); ++s) {
        if (one.sources[s] != w.weight.of) {
          continue;
        }
        const auto& whole = expected[p.graph.outputs().size() + s];
        meet(whole, w.weight.part, w.gradient.valid() ? run.get(r, w.gradient) : numbers{w.weight.part.sizes()});
      }
    }
  }
  for (std::size_t o = 0; o < made.size(); ++o) {
    const auto v = p.graph.outputs()[o];
    CHECK((p.graph.operands(p.graph.producer(v)).empty() || made[o] == tensor::element_count(p.graph.type(v).dims)));
  }
  return error;
}

}  // namespace

TEST_CASE("ranks compute what one device computes, on graphs and under strategies at random") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; compared < 500; ++seed) {
    random_engine random{seed};
    test::model_maker maker{random, operators()};
    maker.add(1 + random.below(7));
    plan p;
    p.graph = std::move(maker).finish();
    p.machine = machine::preset(seed % 2 == 0 ? "p100:1x4" : "p100:2x3");
    const graph_dimensions all{operators(), p.graph};
    p.configurations = test::divided_at_random(p.graph, all, p.machine.network.device_count(), random);
    bool runs = true;
    for (std::size_t n = 0; n < p.graph.node_count(); ++n) {
      runs = runs && (operators().signature(p.graph.operation(node_id{n}).kind).name != "enlarge" || p.configurations[n].task_count() < 2);
    }
    if (!runs) {
      continue;  // parts of an enlarged kernel are no kernels
    }
    std::string names;
    for (std::size_t n = 0; n < p.graph.node_count(); ++n) {
      names += " " + operators().signature(p.graph.operation(node_id{n}).kind).name;
    }
    CAPTURE(seed, names);
    CHECK(compare(p, seed) < 1e-9);
    ++compared;
  }
}
