#include <unity/parallel/configuration.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "operators.hpp"

namespace tests_of_configuration {

using namespace unity;
using hardware::device_id;
using parallel::box;
using parallel::configuration;
using parallel::degree_list;
using parallel::test::dimensions;
using parallel::test::operators;
using parallel::test::type;

namespace {

configuration on_first(const degree_list& degrees) {
  configuration c{degrees, {}};
  std::int64_t tasks = 1;
  for (const auto d : degrees) {
    tasks *= d;
  }
  for (std::int64_t t = 0; t < tasks; ++t) {
    c.devices.push_back(device_id{static_cast<std::size_t>(t)});
  }
  return c;
}

}  // namespace

TEST_CASE("a configuration with invalid degrees or devices is rejected with the reason") {
  const auto o = dimensions("matmul", {}, {type({8, 12}), type({12, 20}, true)});
  CHECK(why_not(o, on_first({2, 2}), 4).empty());
  CHECK(why_not(o, on_first({2}), 4) == "1 degrees for 2 divisible dimensions");
  CHECK(why_not(o, on_first({3, 1}), 4) == "degree 3 does not divide the size 8 of sample dimension 0");
  CHECK(why_not(o, on_first({0, 1}), 4) == "degree 0 does not divide the size 8 of sample dimension 0");
  CHECK(why_not(o, on_first({2, 4}), 4) == "more tasks than the 4 devices");
  CHECK(why_not(o, {{2, 1}, {device_id{0U}}}, 4) == "1 devices for 2 tasks");
  CHECK(why_not(o, {{2, 1}, {device_id{0U}, device_id{7U}}}, 4) == "no device 7 of 4");
  CHECK(why_not(o, {{2, 1}, {device_id{0U}, device_id{}}}, 4) == "a task without a device");
  CHECK(why_not(o, {{2, 1}, {device_id{3U}, device_id{3U}}}, 4).empty());
}

TEST_CASE("a configuration with invalid reductions or replicas is rejected with the reason") {
  const auto o = dimensions("matmul", {}, {type({8, 12}), type({12, 20}, true)});
  const auto with = [](degree_list reductions, degree_list partials, std::int64_t copies, std::size_t tasks) {
    configuration c{{1, 1}, {}, std::move(reductions), std::move(partials), copies};
    c.devices.resize(tasks, device_id{0U});
    return c;
  };
  CHECK(why_not(o, with({3}, {1, 1}, 1, 3), 8).empty());
  CHECK(why_not(o, with({2}, {1, 2}, 2, 8), 8).empty());
  CHECK(why_not(o, with({2}, {2, 2}, 2, 16), 8) == "more tasks than the 8 devices");
  CHECK(why_not(o, with({}, {}, 9, 9), 8) == "more tasks than the 8 devices");
  CHECK(why_not(o, with({2}, {1, 2}, 2, 4), 8) == "4 devices for 8 tasks");
  CHECK(why_not(o, with({2, 2}, {}, 1, 4), 8) == "2 degrees for 1 sums that can be divided");
  CHECK(why_not(o, with({5}, {}, 1, 5), 8) == "degree 5 does not divide the size 12 of the sum over k");
  CHECK(why_not(o, with({}, {2}, 1, 2), 8) == "1 numbers of partials for 2 linear groups");
  CHECK(why_not(o, with({}, {0, 1}, 1, 1), 8) == "0 partials of linear group 0");
  CHECK(why_not(o, with({}, {}, 0, 1), 8) == "0 copies");
  const auto relu = dimensions("relu", {}, {type({8, 12})});
  CHECK(why_not(relu, with({}, {2}, 1, 2), 8) == "1 numbers of partials for 0 linear groups");
  const auto conv = dimensions("conv2d", {}, {type({2, 3, 8, 8}), type({4, 3, 3, 3}, true)});
  configuration taps{{1, 1, 1, 1}, {}, degree_list(conv.reductions.size(), 1)};
  taps.reductions[conv.reductions.size() - 1] = 3;
  taps.devices.resize(3, device_id{0U});
  CHECK(why_not(conv, taps, 8) == "parts of the sum over kw, whose windows would not fit the operand");
}

TEST_CASE("tasks of a divided reduction read parts of the summed index and write the same block") {
  const auto o = dimensions("matmul", {}, {type({8, 12}), type({12, 20}, true)});
  const auto parts = parallel::shards_of(o, parallel::task_grid{{2, 1}, {3}, {1, 2}, 2});
  REQUIRE(parts.size() == 24);
  CHECK(parts[3] == parallel::shard{{{{4, 4}, {8, 8}}, {{4, 0}, {8, 20}}}, {{{4, 0}, {8, 20}}}});
  for (std::size_t t = 0; t < parts.size(); ++t) {
    CHECK(parts[t] == parts[t % 6]);
    CHECK(parts[t].results == parts[t % 2].results);
  }
}

TEST_CASE("a configuration whose operand parts are not contiguous boxes is rejected") {
  const auto o = dimensions("reshape", {{"dims", {8, 4, 6}}}, {type({8, 24})});
  CHECK(why_not(o, on_first({1, 4, 6}), 32).empty());
  CHECK(why_not(o, on_first({1, 2, 1}), 32).empty());
  CHECK(why_not(o, on_first({1, 1, 2}), 32) == "parts of operand 0 that lie scattered along dimension 1");
  const auto grouped = dimensions("conv2d", {{"groups", 2}}, {type({8, 6, 4, 4}), type({12, 3, 1, 1}, true)});
  CHECK(why_not(grouped, on_first({1, 4, 1, 1}), 32).empty());
  CHECK(why_not(grouped, on_first({1, 3, 1, 1}), 32) ==
        "a degree that does not fall into the factors of its dimension");
}

TEST_CASE("tasks of a divided matmul read rows of one operand and columns of the other") {
  const auto o = dimensions("matmul", {}, {type({8, 12}), type({12, 20}, true)});
  const auto shards = parallel::shards_of(o, {2, 2});
  REQUIRE(shards.size() == 4);
  CHECK(shards[1] == parallel::shard{{{{0, 0}, {4, 12}}, {{0, 10}, {12, 20}}}, {{{0, 10}, {4, 20}}}});
  CHECK(shards[2] == parallel::shard{{{{4, 0}, {8, 12}}, {{0, 0}, {12, 10}}}, {{{4, 0}, {8, 10}}}});
}

TEST_CASE("tasks of a divided convolution read halos and no padding") {
  const auto o = dimensions("conv2d", {{"pads", {1, 1, 1, 1}}}, {type({2, 3, 8, 8}), type({4, 3, 3, 3}, true)});
  const auto shards = parallel::shards_of(o, {1, 1, 4, 1});
  REQUIRE(shards.size() == 4);
  CHECK(shards[0].operands[0] == box{{0, 0, 0, 0}, {2, 3, 3, 8}});
  CHECK(shards[1].operands[0] == box{{0, 0, 1, 0}, {2, 3, 5, 8}});
  CHECK(shards[3].operands[0] == box{{0, 0, 5, 0}, {2, 3, 8, 8}});
  CHECK(shards[1].operands[1] == box{{0, 0, 0, 0}, {4, 3, 3, 3}});
  const auto strided = dimensions("conv2d", {{"stride", {2, 2}}}, {type({1, 1, 9, 9}), type({1, 1, 3, 3}, true)});
  CHECK(parallel::shards_of(strided, {2, 1})[1].operands[0] == box{{0, 0, 4, 0}, {1, 1, 9, 9}});
}

TEST_CASE("tasks of a valid configuration write each result element exactly once") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t valid = 0;
  for (const auto* name :
       {"zoo:lenet?batch=4", "zoo:rnnlm?batch=4&hidden=8&vocab=16&seq=2", "zoo:nmt?batch=4&hidden=8&vocab=16&seq=2"}) {
    const auto g = tensor::zoo::build(operators(), name);
    const parallel::graph_dimensions all{operators(), g};
    for (const auto n : node_ids(g)) {
      const auto& o = all[n];
      for (int i = 0; i < 4 && !o.inputs.empty(); ++i) {
        degree_list degrees;
        for (std::size_t k = 0; k < o.divisible.size(); ++k) {
          degrees.push_back(std::int64_t{1} << random.below(3));
        }
        if (!why_not(o, on_first(degrees), 64).empty()) {
          continue;
        }
        ++valid;
        const auto shards = parallel::shards_of(o, degrees);
        for (std::size_t r = 0; r < o.outputs.size(); ++r) {
          std::int64_t volume = 0;
          for (std::size_t s = 0; s < shards.size(); ++s) {
            volume += shards[s].results[r].volume();
            for (std::size_t t = 0; t < s; ++t) {
              REQUIRE(intersection(shards[s].results[r], shards[t].results[r]).empty());
            }
          }
          REQUIRE(volume == tensor::element_count(o.outputs[r].dims));
        }
      }
    }
  }
  CHECK(valid > 100);
}

}  // namespace tests_of_configuration
