#include <unity/parallel/lowering/sum_writer.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/edge_reads.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../divided_at_random.hpp"
#include "../elements.hpp"
#include "../lowered_graph.hpp"
#include "../operators.hpp"

namespace tests_of_sum_writer {

using namespace unity;
using hardware::device_id;
using parallel::configuration;
using parallel::degree_list;
using parallel::test::check_deltas;
using parallel::test::lowered_graph;
using parallel::test::operators;
using tasks::owner_kind;

namespace {

parallel::strategy random_of(const lowered_graph& x, random_engine& engine) {
  return parallel::test::divided_at_random(x.graph, x.lower.dimensions(), x.machine.network.device_count(), engine);
}

// Elements (of four bytes) in messages of the kind.
std::int64_t elements(const tasks::program& p, owner_kind kind) {
  const auto sum = parallel::test::message_volume(p, kind);
  CHECK(sum % 4 == 0);
  return sum / 4;
}

// The perceptron of Unity's figure 1 with an operator that reads its result: 64 samples, 784 features, 512 hidden, 10
// classes.
tensor::tensor_graph perceptron() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {64, 784});
  const auto h = b.relu(b.matmul(x, b.weight("w1", {784, 512})));
  return std::move(b).finish({b.gelu(b.matmul(h, b.weight("w2", {512, 10})))});
}

struct divided {
  degree_list degrees{};
  degree_list reductions{};
  std::int64_t copies = 1;
};

// Elements moved on edges and by all-reduces on two devices, given the divisions of the first product, the relu, the
// second product and its reader.
std::pair<std::int64_t, std::int64_t> counts(const std::vector<divided>& all) {
  lowered_graph x{perceptron(), "p100:1x2"};
  parallel::strategy s(x.graph.node_count());
  std::size_t next = 0;
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (!x.graph.operands(node_id{n}).empty()) {
      s[n] = {all[next].degrees, {device_id{0U}, device_id{1U}}, all[next].reductions, {}, all[next].copies};
      ++next;
    }
  }
  const auto p = x.lower.run(s);
  return {elements(p, owner_kind::edge), elements(p, owner_kind::weight)};
}

// The fewest bytes that an edge moves one way, counted element by element; and the slack for all-reduces, whose
// messages between neighbours are whole bytes.
std::pair<std::int64_t, std::int64_t> least_bytes(lowered_graph& x, const parallel::strategy& s,
                                                  const parallel::graph_edge& e) {
  const auto ends = x.lower.ends_of(s, e);
  const auto needs = x.lower.needs(s, e, ends);
  const std::vector<parallel::summed_value> sums(needs.sums.begin(), needs.sums.end());
  std::int64_t all = 0;
  std::int64_t slack = 0;
  for (const auto& m : needs.messages.messages) {
    all += m.elements;  // slow_messages.hpp checks those
  }
  const auto& dims = x.graph.type(e.value).dims;
  for (const auto& sum : sums) {
    const std::set<device_id> from(sum.from.begin(), sum.from.end());
    std::map<device_id, std::vector<parallel::box>> read;
    for (std::size_t i = 0; i < sum.to.size(); ++i) {
      read[sum.to[i]].push_back(sum.needed.boxes[sum.needed.box_of[i]]);
    }
    std::vector<std::int64_t> devices(static_cast<std::size_t>(tensor::element_count(dims)), 0);
    auto meets = devices;
    for (const auto& [device, boxes] : read) {
      const auto times = parallel::test::counts(boxes, dims);
      for (std::size_t i = 0; i < times.size(); ++i) {
        devices[i] += times[i] > 0 ? 1 : 0;
        meets[i] += times[i] > 0 ? static_cast<std::int64_t>(from.count(device)) : 0;
      }
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      all += devices[i] == 0 ? 0 : static_cast<std::int64_t>(from.size()) + devices[i] - (meets[i] > 0 ? 2 : 1);
    }
    slack += static_cast<std::int64_t>(from.size());
  }
  const auto size = static_cast<std::int64_t>(tensor::size_of(x.graph.type(e.value).element));
  return {all * size, slack};
}

}  // namespace

TEST_CASE("message volumes of perceptron plans match their parallel types") {
  // Figure 2a: data parallelism, with the gradients of all weights all-reduced.
  CHECK(counts({{{2, 1}}, {{2, 1}}, {{2, 1}}, {{2, 1}}}) == std::pair<std::int64_t, std::int64_t>{0, 813'056});
  // Figure 2b: the first product's sum is all-reduced to both devices; the second product's parameters are divided.
  CHECK(counts({{{1, 1}, {2}}, {{1, 1}, {}, 2}, {{1, 2}}, {{1, 2}}}) ==
        std::pair<std::int64_t, std::int64_t>{131'072, 0});
  // The same with reduce-scatter: each device has the sums of half of the features, likewise for the second product.
  CHECK(counts({{{1, 1}, {2}}, {{1, 2}}, {{1, 1}, {2}}, {{2, 1}}}) == std::pair<std::int64_t, std::int64_t>{66'816, 0});
  // Columns of the first weight, rows of the second.
  CHECK(counts({{{1, 2}}, {{1, 2}}, {{1, 1}, {2}}, {{2, 1}}}) == std::pair<std::int64_t, std::int64_t>{1'280, 0});
  // Its reader divided by samples, then replicated on both.
  CHECK(counts({{{1, 2}}, {{1, 2}}, {{1, 1}, {2}}, {{1, 1}, {}, 2}}) ==
        std::pair<std::int64_t, std::int64_t>{2'560, 0});
}

TEST_CASE("partial sums on random edges move the lower bound of bytes up to rounding") {
  const std::uint64_t seed = 51;
  INFO("seed " << seed);
  random_engine random{seed};
  tensor::builder b{operators()};
  const auto a = b.matmul(b.relu(b.matmul(b.input("x", {4, 12}), b.weight("w1", {12, 12}))), b.weight("w2", {12, 12}));
  const auto g = std::move(b).finish({b.relu(b.matmul(b.add(b.mul(a, a), b.gelu(a)), b.weight("w3", {12, 6})))});
  std::size_t summed = 0;
  std::size_t reduced = 0;
  for (const auto kind : {parallel::transfers::exchanges, parallel::transfers::messages}) {
    lowered_graph x{g, "p100:2x4", kind};
    for (int round = 0; round < 150; ++round) {
      const auto s = random_of(x, random);
      for (std::uint32_t e = 0; e < x.lower.training().edges().size(); ++e) {
        const auto& edge = x.lower.training().edges()[e];
        const auto [least, slack] = least_bytes(x, s, edge);
        summed += slack > 0 ? 1U : 0U;
        reduced += slack > 1 ? 1U : 0U;
        const auto fragment = x.lower.lowered_edge(s, e);
        const std::int64_t ways = x.lower.training().wanted(edge.to)[edge.operands[0]] ? 2 : 1;
        CAPTURE(round, e);
        REQUIRE(parallel::message_bytes(fragment).count() >= ways * least);
        REQUIRE(parallel::message_bytes(fragment).count() <= ways * (least + slack));
      }
    }
  }
  CHECK(summed > 100);
  CHECK(reduced > 100);
}

TEST_CASE("tasks start after all partial sums that they read; backward tasks after all readers") {
  const std::uint64_t seed = 52;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t pairs = 0;
  for (const auto* model : {"zoo:lenet?batch=12", "zoo:nmt?batch=4&hidden=12&vocab=16&seq=2"}) {
    lowered_graph x{tensor::zoo::build(operators(), model), "p100:2x4"};
    for (int round = 0; round < 6; ++round) {
      CAPTURE(model, round);
      const auto s = random_of(x, random);
      const auto p = x.lower.run(s);
      simulate::full_simulation run;
      run.run(p);
      for (const auto& e : x.lower.training().edges()) {
        const auto ends = x.lower.ends_of(s, e);
        const auto needs = x.lower.needs(s, e, ends);
        const auto times = [&](tasks::fragment_id f, std::uint32_t task) {
          return run.times()[p.find(f, task).index()];
        };
        const auto follows = [&](std::uint32_t producer, std::uint32_t consumer, bool is_local) {
          ++pairs;
          const std::int64_t least = is_local ? 0 : 100'000;  // a latency is longer
          REQUIRE(times(ends.to, consumer).start >= times(ends.from, producer).end + least);
          if (ends.is_wanted) {
            REQUIRE(times(ends.from, ends.producers + producer).start >=
                    times(ends.to, ends.consumers + consumer).end + least);
          }
        };
        for (const auto& u : needs.messages.local) {
          follows(u.producer, u.consumer, true);
        }
        for (const auto& m : needs.messages.messages) {
          for (const auto c : needs.messages.consumers_of(m)) {
            follows(m.producer, c, false);
          }
        }
        for (const auto& sum : needs.sums) {
          for (std::size_t i = 0; i < sum.producers.size(); ++i) {
            for (std::size_t k = 0; k < sum.consumers.size(); ++k) {
              follows(sum.producers[i], sum.consumers[k], sum.from[i] == sum.to[k]);
            }
          }
        }
      }
    }
  }
  CHECK(pairs > 1000);
}

TEST_CASE("delta simulation of random partial sums and replicas equals a simulation from scratch") {
  const std::uint64_t seed = 53;
  INFO("seed " << seed);
  random_engine random{seed};
  for (const auto* model : {"zoo:lenet?batch=12", "zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=2"}) {
    lowered_graph x{tensor::zoo::build(operators(), model), "p100:2x2"};
    CAPTURE(model);
    check_deltas(x, random_of(x, random), 60, random, [&](node_id n) { return random_of(x, random)[n.index()]; });
  }
}

TEST_CASE("partial sums and received sums take memory; a bias is held by one device") {
  tensor::builder b{operators()};
  const auto h = b.linear(b.input("x", {64, 784}), b.weight("w", {784, 512}), b.weight("bias", {512}));
  lowered_graph x{std::move(b).finish({b.relu(h)}), "p100:1x2"};
  parallel::strategy s(x.graph.node_count());
  std::size_t dense = 0;
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (x.graph.operation(node_id{n}).kind == operators().kind("linear")) {
      s[n] = {{1, 1}, {device_id{0U}, device_id{1U}}, {2}};
      dense = n;
    } else if (!x.graph.operands(node_id{n}).empty()) {
      s[n] = {{1, 1}, {device_id{0U}, device_id{1U}}, {}, {}, 2};
    }
  }
  const auto p = x.lower.run(s);
  constexpr std::int64_t block = 64 * 512 * 4;
  for (const auto& buffer : p[x.lower.fragment_of(node_id{dense})].buffers) {
    CHECK((buffer.size.count() == block || buffer.size.count() == 0));  // no cotangent of the input is computed
  }
  // The sum and its cotangent, on each of the two devices.
  const auto& edge = p[x.lower.edge_fragment(0)];
  REQUIRE(edge.buffers.size() == 4);
  for (const auto& buffer : edge.buffers) {
    CHECK(buffer.size.count() == block);
  }
  // The weight and its gradient are halved; the bias is on the first device alone.
  std::vector<std::int64_t> weights(2, 0);
  for (std::size_t w = 0; w < 2; ++w) {
    for (const auto& buffer : p[x.lower.weight_fragment(w)].buffers) {
      weights[buffer.device] += buffer.size.count();
    }
  }
  CHECK(weights == std::vector<std::int64_t>{2 * (784 / 2 * 512 + 512) * 4, 2 * (784 / 2 * 512) * 4});
}

TEST_CASE("partial sums take the time of a measured reduce-scatter, and their cotangents of a measured all-gather") {
  tensor::builder b{operators()};
  const auto h = b.matmul(b.input("x", {64, 784}), b.weight("w", {784, 512}));
  const auto g = std::move(b).finish({b.relu(h)});
  auto m = hardware::preset("p100:1x2");
  const auto taking = [](double seconds) {
    return std::vector<hardware::cost_range>{{hardware::cost_range::no_end, seconds, 0}};
  };
  m.links.push_back(
      {"local",
       2,
       {{hardware::exchange::reduce_scatter, taking(5e-3)}, {hardware::exchange::all_gather, taking(7e-3)}}});
  parallel::lowering l{operators(), g, m};
  parallel::strategy s(g.node_count());
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (!g.operands(node_id{n}).empty()) {
      const bool is_product = g.operation(node_id{n}).kind == operators().kind("matmul");
      s[n] = is_product ? configuration{{1, 1}, {device_id{0U}, device_id{1U}}, {2}}
                        : configuration{{1, 2}, {device_id{0U}, device_id{1U}}};
    }
  }
  std::map<std::int64_t, std::vector<std::int64_t>> sent;  // bytes, by duration
  for (const auto& t : l.lowered_edge(s, 0).tasks) {
    if (t.kind == tasks::task_kind::transfer) {
      sent[t.duration.count()].push_back(t.volume.count());
    }
  }
  constexpr std::int64_t half = 64 * 256 * 4;
  CHECK(sent == std::map<std::int64_t, std::vector<std::int64_t>>{{5'000'000'000, {half, half}},
                                                                  {7'000'000'000, {half, half}}});
}

TEST_CASE("a graph output with unreduced partial sums is rejected") {
  tensor::builder b{operators()};
  lowered_graph x{std::move(b).finish({b.matmul(b.input("x", {8, 8}), b.weight("w", {8, 8}))}), "p100:1x2"};
  auto s = parallel::data_parallel(x.lower.dimensions(), x.machine.network);
  CHECK_NOTHROW(x.lower.run(s));
  s.back() = {{1, 1}, {device_id{0U}, device_id{1U}}, {2}};
  CHECK_THROWS_WITH(x.lower.run(s), Catch::Contains("partial sums"));
  s.back() = {{1, 1}, {device_id{0U}, device_id{1U}}, {}, {}, 2};
  CHECK_NOTHROW(x.lower.run(s));
}

}  // namespace tests_of_sum_writer
