// Ranks compute what one device computes: outputs and gradients, for random strategies.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/builder.hpp>

#include "../../support/cases.hpp"
#include "../operators.hpp"
#include "../random_plan.hpp"
#include "../random_sync.hpp"
#include "../rank_runs.hpp"

namespace tests_of_rank_lowering {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;

TEST_CASE("ranks compute the outputs and gradients of one device for random plans") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; compared < unity::test::cases(500); ++seed) {
    const auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    std::string names;
    for (const auto n : node_ids(p->graph)) {
      names += " " + operators().signature(p->graph.operation(n).kind).name;
    }
    CAPTURE(seed, names);
    CHECK(parallel::test::error_on_ranks(operators(), *p, seed) < 1e-9);
    auto synchronized = *p;
    random_engine random{seed};
    synchronized.synchronization = parallel::test::random_sync(random, operators(), *p);
    CHECK(parallel::test::error_on_ranks(operators(), synchronized, seed) < 1e-9);
    ++compared;
  }
}

// Operators whose bodies use positions: in a shard, positions start at 0 wherever it lies.
TEST_CASE("ranks compute the results of one device for operators that read positions") {
  const std::string_view name =
      GENERATE("gather", "gather_elements", "scatter_elements", "trilu", "strided_slice", "dot_product_attention");
  CAPTURE(name);
  tensor::builder b{operators()};
  const auto table = b.relu(b.weight("table", {4, 8}));
  const auto made = [&](std::initializer_list<value_id> operands, std::initializer_list<tensor::named_attribute> with) {
    return b.relu(b.apply(name, operands, with)[0]);
  };
  const auto numbers = [&](const tensor::shape& dims) { return b.input("numbers", dims, tensor::dtype::int64); };
  value_id y;
  if (name == "gather") {
    y = made({table, numbers({4})}, {{"axis", 1}});
  } else if (name == "gather_elements") {
    y = made({table, numbers({4, 4})}, {{"axis", 1}});
  } else if (name == "scatter_elements") {
    const auto at = numbers({4, 4});
    y = made({table, at, b.relu(b.weight("added", {4, 4}))}, {{"axis", 1}, {"reduction", "add"}});
  } else if (name == "trilu") {
    y = made({table}, {{"upper", false}});
  } else if (name == "strided_slice") {
    y = made({table}, {{"axes", {1}}, {"starts", {7}}, {"counts", {4}}, {"steps", {-2}}});
  } else {
    const auto x = b.relu(b.weight("x", {2, 2, 8, 4}));
    y = made({x, x, x}, {{"causal", true}});
  }
  plan p;
  p.graph = std::move(b).finish({y});
  p.machine = hardware::preset("p100:1x4");
  const graph_dimensions all{operators(), p.graph};
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t i = 0; i < unity::test::cases(60); ++i) {
    p.configurations = parallel::test::divided_at_random(p.graph, all, 4, random);
    CHECK(parallel::test::error_on_ranks(operators(), p, seed) < 1e-9);
  }
}

}  // namespace tests_of_rank_lowering
