// What ranks compute is what one device computes: outputs and gradients, for strategies at random.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include <unity/core/random.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>

#include "divided_at_random.hpp"
#include "operators.hpp"
#include "random_model.hpp"
#include "rank_runs.hpp"

using namespace unity;
using namespace unity::parallel;
using test::operators;

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
    CHECK(test::error_on_ranks(operators(), p, seed) < 1e-9);
    ++compared;
  }
}
