#include <unity/parallel/lowering/edge_reads.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/network.hpp>

#include "../divided_at_random.hpp"
#include "../operators.hpp"

namespace tests_of_edge_reads {

using namespace unity;
using hardware::device_id;
using parallel::configuration;
using parallel::test::dimensions;
using parallel::test::operators;
using parallel::test::type;

namespace {

struct ends {
  parallel::operator_dimensions from;
  parallel::operator_dimensions to;
  std::vector<std::uint32_t> operands;
};

// A product with every kind of reader: alone or twice, with a bias, non-linear, over other dimensions, with a window.
std::vector<ends> edges() {
  const auto product = dimensions("matmul", {}, {type({4, 12}), type({12, 12}, true)});
  const auto images = dimensions("conv2d", {{"pads", {1, 1, 1, 1}}}, {type({2, 4, 4, 4}), type({4, 4, 3, 3}, true)});
  return {
      {product, dimensions("relu", {}, {type({4, 12})}), {0}},
      {product, dimensions("mul", {}, {type({4, 12}), type({4, 12})}), {0, 1}},
      {product, dimensions("add", {}, {type({4, 12}), type({4, 12})}), {0, 1}},
      {product, dimensions("add", {}, {type({4, 12}), type({4, 12})}), {1}},
      {product, dimensions("matmul", {}, {type({4, 12}), type({12, 6}, true)}), {0}},
      {product, dimensions("matmul", {}, {type({6, 4}), type({4, 12})}), {1}},
      {product, dimensions("linear", {}, {type({4, 12}), type({12, 6}, true), type({6}, true)}), {0}},
      {product, dimensions("reduce_sum", {{"axes", {1}}}, {type({4, 12})}), {0}},
      {images, dimensions("conv2d", {{"pads", {1, 1, 1, 1}}}, {type({2, 4, 4, 4}), type({4, 4, 3, 3}, true)}), {0}}};
}

struct subject {
  parallel::division_table table;
  configuration producer;
  configuration consumer;
  const parallel::division* from = nullptr;
  const parallel::division* to = nullptr;
  parallel::edge_reads reads;

  subject(const parallel::network& n, const ends& e, configuration a, configuration b)
      : producer{std::move(a)},
        consumer{std::move(b)},
        from{&table.of(0, e.from, producer)},
        to{&table.of(1, e.to, consumer)} {
    const auto overlaps = table.overlaps(*from, 0, *to, e.operands);
    reads = reads_of(n, {*from, producer.devices, *to, consumer.devices, e.operands}, overlaps);
  }
};

// Whether the box contains the element.
bool has(const parallel::box& b, const tensor::shape& at) {
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (at[d] < b.begin[d] || at[d] >= b.end[d]) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("partial sums read over an edge add up to the value with each element read once") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  random_engine random{seed};
  const auto m = hardware::preset("p100:2x4");
  const parallel::network net{m};
  std::size_t sums = 0;
  std::size_t plain = 0;
  for (int round = 0; round < 40; ++round) {
    for (const auto& e : edges()) {
      const auto a = parallel::test::divided_at_random(e.from, 8, random, {true, round % 2 == 0});
      const auto b = parallel::test::divided_at_random(e.to, 8, random, {true, round % 3 == 0});
      const subject x{net, e, a, b};
      const auto tasks = b.task_count();
      const auto grid = a.grid();
      for (std::size_t i = 0; i < e.operands.size(); ++i) {
        const auto& partials = x.to->partials[e.operands[i]];
        const auto& dims = e.to.inputs[e.operands[i]].dims;
        for (std::int64_t number = 0; number < tensor::element_count(dims); ++number) {
          tensor::shape at = dims;
          auto rest = number;
          for (auto d = dims.size(); d-- > 0;) {
            at[d] = rest % dims[d];
            rest /= dims[d];
          }
          // By partial of the operand, the set of the producer's partials that form it; the same for all its readers.
          std::map<std::uint32_t, std::uint64_t> seen;
          for (std::uint32_t t = 0; t < tasks; ++t) {
            const auto reader = static_cast<std::uint32_t>(i * tasks + t);
            if (!has(x.to->parts[t].operands[e.operands[i]], at)) {
              continue;
            }
            std::uint64_t bits = 0;
            const auto add = [&](std::uint32_t producer) {
              REQUIRE(has(x.from->parts[producer].results[0], at));
              const auto place = place_of(grid, producer);
              const auto partial =
                  static_cast<std::uint64_t>(place.partial * parallel::product(grid.reductions) + place.reduction);
              REQUIRE((bits >> partial & 1U) == 0);
              bits |= std::uint64_t{1} << partial;
            };
            for (const auto& o : x.reads.single) {
              if (o.consumer == reader && has(x.from->parts[o.producer].results[0], at)) {
                add(o.producer);
                ++plain;
              }
            }
            for (const auto& s : x.reads.sums) {
              if (std::binary_search(s.readers.begin(), s.readers.end(), reader) &&
                  has(x.from->parts[s.block].results[0], at)) {
                std::for_each(s.producers.begin(), s.producers.end(), add);
                ++sums;
              }
            }
            const auto [known, is_new] = seen.emplace(partials.of_task(t), bits);
            REQUIRE((is_new || known->second == bits));
          }
          if (seen.size() == partials.count) {  // windows and strides may skip elements
            std::uint64_t all = 0;
            for (const auto& [partial, bits] : seen) {
              REQUIRE((all & bits) == 0);
              all |= bits;
            }
            REQUIRE(all == (std::uint64_t{1} << static_cast<std::uint64_t>(grid.result_partials())) - 1);
          } else {
            REQUIRE(seen.empty());
          }
        }
      }
    }
  }
  CHECK(sums > 1000);
  CHECK(plain > 1000);
}

TEST_CASE("a consumer reads the replica of its device or node; replicas share the readers") {
  const auto m = hardware::preset("p100:2x4");
  const parallel::network net{m};
  const ends e{dimensions("relu", {}, {type({4, 12})}), dimensions("gelu", {}, {type({4, 12})}), {0}};
  const auto on = [](std::initializer_list<std::size_t> devices, std::int64_t copies) {
    configuration c{{1, 1}, {}, {}, {}, copies};
    for (const auto d : devices) {
      c.devices.push_back(device_id{d});
    }
    return c;
  };
  const subject x{net, e, on({0, 3, 5}, 3), on({1, 2, 3, 6, 7}, 5)};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const auto& o : x.reads.single) {
    CHECK(o.elements == 48);
    pairs.emplace_back(o.producer, o.consumer);
  }
  CHECK(pairs == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 0}, {1, 1}, {1, 2}, {2, 3}, {2, 4}});
}

TEST_CASE("a partial sum is read by the consumer on its device") {
  const auto m = hardware::preset("p100:1x4");
  const parallel::network net{m};
  const auto devices = [](std::initializer_list<std::size_t> all) {
    configuration c;
    for (const auto d : all) {
      c.devices.push_back(device_id{d});
    }
    return c.devices;
  };
  const ends e{dimensions("matmul", {}, {type({4, 12}), type({12, 12}, true)}),
               dimensions("reduce_sum", {{"axes", {1}}}, {type({4, 12})}),
               {0}};
  const auto order = devices({2, 0, 3, 1});
  const subject x{net, e, {{1, 1}, order, {4}}, {{1}, devices({0, 1, 2, 3}), {1}, {4}}};
  REQUIRE(x.reads.single.size() == 4);
  for (const auto& o : x.reads.single) {
    CHECK(order[o.producer] == device_id{std::size_t{o.consumer}});
  }
  // With more operand partials than producer partials, the remaining ones are zero.
  const subject y{net, e, {{1, 1}, devices({3})}, {{1}, devices({0, 1, 2, 3}), {1}, {4}}};
  REQUIRE(y.reads.single.size() == 1);
  CHECK(y.reads.single[0].consumer == 3);
  CHECK(y.reads.sums.empty());
}

}  // namespace tests_of_edge_reads
