#include <unity/parallel/configuration_grid.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/operand_partials.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "divided_at_random.hpp"
#include "operators.hpp"

namespace tests_of_configuration_grid {

using namespace unity;
using hardware::device_id;
using parallel::test::dimensions;
using parallel::test::operators;
using parallel::test::type;

namespace {

std::vector<device_id> numbered(std::size_t count) {
  std::vector<device_id> all;
  for (std::size_t d = 0; d < count; ++d) {
    all.push_back(device_id{d});
  }
  return all;
}

}  // namespace

TEST_CASE("a configuration and its operator grid have equal degrees and number tasks differently") {
  // Grid order: partials of {0}, partials of {1}, copies, b, n, k as in the structure. Configuration order: parts of
  // the sum before parts of results.
  const auto o = dimensions("matmul", {}, {type({8, 12}), type({12, 20}, true)});
  const parallel::configuration c{{2, 1}, {device_id{5U}, device_id{6U}, device_id{7U}, device_id{4U}}, {2}, {}, 1};
  const auto g = grid_of(o, c);
  CHECK(task_count(g) == 4);
  CHECK(parallel::product(g.indices) == 4);
  const auto same = configuration_of(o, g, numbered(4));
  CHECK(same.degrees == c.degrees);
  CHECK(same.reductions == c.reductions);
  // In the grid the sum is inner to rows; in the configuration it is outer.
  CHECK(same.devices == decltype(same.devices){device_id{0U}, device_id{2U}, device_id{1U}, device_id{3U}});
}

TEST_CASE("partial-sum counts of a configuration agree with the types on its operator grid") {
  const std::uint64_t seed = 31;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t compared = 0;
  std::size_t partial = 0;
  const auto compare = [&](const parallel::operator_dimensions& o) {
    const auto c = parallel::test::divided_at_random(o, 24, random, {});
    const auto grid = grid_of(o, c);
    REQUIRE(task_count(grid) == static_cast<std::int64_t>(c.task_count()));
    const auto types = parallel::types_on(o, grid);
    if (!types) {
      return;  // the parts of windows are not even blocks
    }
    ++compared;
    const auto tasks = static_cast<std::int64_t>(c.task_count());
    for (std::size_t x = 0; x < o.inputs.size(); ++x) {
      const auto partials = partials_of(o, c.grid(), x);
      REQUIRE(partials.count == types->operands[x].partial);
      REQUIRE(total(types->operands[x]) == tasks);
      partial += partials.count > 1 && !c.reductions.empty() ? 1U : 0U;
      for (std::uint32_t t = 0; t < partials.count && partials.count > 1; ++t) {  // they repeat for every copy and part
        REQUIRE(std::count(partials.of.begin(), partials.of.end(), t) == tasks / partials.count);
      }
    }
    for (const auto& t : types->results) {
      REQUIRE(t.partial == c.grid().result_partials());
      REQUIRE(t.copies == c.copies);
    }
  };
  for (const auto* name :
       {"zoo:lenet?batch=12", "zoo:nmt?batch=12&hidden=24&vocab=36&seq=2", "zoo:inception_v3?batch=6"}) {
    const auto g = tensor::zoo::build(operators(), name);
    const parallel::graph_dimensions all{operators(), g};
    for (const auto n : node_ids(g)) {
      if (!all[n].inputs.empty()) {
        compare(all[n]);
      }
    }
  }
  const auto x = type({8, 6, 12});
  const auto w = type({12, 12}, true);
  for (int i = 0; i < 50; ++i) {
    compare(dimensions("linear", {}, {type({8, 12}), type({12, 6}, true), type({6}, true)}));
    compare(dimensions("conv2d", {}, {type({2, 6, 4, 4}), type({4, 6, 1, 1}, true)}));
    compare(dimensions("attention", {{"heads", 3}}, {x, x, x, w, w, w, w}));
    compare(dimensions("reduce_sum", {{"axes", {1}}}, {type({8, 12})}));
  }
  CHECK(compared > 300);
  CHECK(partial > 20);
}

TEST_CASE("a configuration survives the round trip through its operator grid with its devices") {
  const std::uint64_t seed = 32;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t moved = 0;
  const auto check_numbers = [&](const parallel::operator_dimensions& o) {
    const auto c = parallel::test::divided_at_random(o, 24, random, {});
    const auto grid = grid_of(o, c);
    const auto tasks = c.grid();
    // By task, its number in the grid: device d has task d of the grid.
    const auto by_number = configuration_of(o, grid, numbered(c.task_count()));
    std::vector<device_id> devices(c.task_count());
    std::vector<bool> is_met(c.task_count());
    for (std::size_t t = 0; t < c.task_count(); ++t) {
      const auto number = by_number.devices[t].index();
      const bool is_new = !is_met.at(number);
      REQUIRE(is_new);
      is_met[number] = true;
      moved += number == t ? 0U : 1U;
      devices[number] = c.devices[t];
      // [groups...][copies][indices...], row-major
      std::vector<std::int64_t> counts(grid.partials.begin(), grid.partials.end());
      counts.push_back(grid.copies);
      counts.insert(counts.end(), grid.indices.begin(), grid.indices.end());
      const auto digits = position_of(number, counts);
      const auto groups = grid.partials.size();
      const auto place = place_of(tasks, t);
      REQUIRE(digits[groups] == place.copy);
      std::int64_t partial = 0;
      for (std::size_t k = 0; k < groups; ++k) {
        partial = partial * grid.partials[k] + digits[k];
      }
      REQUIRE(partial == place.partial);
      const auto range = [&](std::size_t i) {
        const auto size = o.structure.indices[i].size / grid.indices[i];
        return parallel::index_range{digits[groups + 1 + i] * size, (digits[groups + 1 + i] + 1) * size};
      };
      const auto own = parallel::shard_of(o, tasks, t);
      for (std::size_t x = 0; x < o.inputs.size(); ++x) {
        REQUIRE(own.operands[x] ==
                parallel::box_of_indices(o.structure, o.structure.operands[x], o.inputs[x].dims, range));
      }
      for (std::size_t r = 0; r < o.outputs.size(); ++r) {
        REQUIRE(own.results[r] ==
                parallel::box_of_indices(o.structure, o.structure.results[r], o.outputs[r].dims, range, true));
      }
    }
    const auto back = configuration_of(o, grid, devices);
    REQUIRE(back.grid() == c.grid());
    REQUIRE(back.devices == c.devices);
  };
  const auto g = tensor::zoo::build(operators(), "zoo:nmt?batch=12&hidden=24&vocab=36&seq=2");
  const parallel::graph_dimensions all{operators(), g};
  for (const auto n : node_ids(g)) {
    if (!all[n].inputs.empty()) {
      check_numbers(all[n]);
    }
  }
  for (int i = 0; i < 100; ++i) {
    check_numbers(dimensions("linear", {}, {type({8, 12}), type({12, 6}, true), type({6}, true)}));
    check_numbers(dimensions("matmul", {}, {type({2, 8, 12}), type({2, 12, 6})}));
  }
  CHECK(moved > 20);
}

TEST_CASE("an operator grid without an equivalent configuration is rejected with the reason") {
  const auto softmax = dimensions("softmax", {{"axis", 1}}, {type({8, 4})});
  auto g = undivided_grid(softmax);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    g.indices[i] = softmax.structure.indices[i].kind == tensor::index_kind::statistic ? 2 : 1;
  }
  REQUIRE(task_count(g) == 2);
  CHECK_THAT(why_no_configuration(softmax, g), Catch::Contains("statistics of the whole"));
  CHECK_THROWS_WITH(configuration_of(softmax, g, numbered(2)), Catch::Contains("statistics of the whole"));
  auto steps = undivided_grid(softmax);
  steps.steps[0] = 2;
  CHECK_THAT(why_no_configuration(softmax, steps), Catch::Contains("2 steps of index"));
  CHECK_THROWS_WITH(configuration_of(softmax, undivided_grid(softmax), numbered(2)), Catch::Contains("2 devices"));
  CHECK(configuration_of(softmax, undivided_grid(softmax), numbered(1)) ==
        parallel::configuration{{1}, {device_id{0U}}});
}

}  // namespace tests_of_configuration_grid
