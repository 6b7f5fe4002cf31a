#include <unity/parallel/lowering/folding.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/strategies_tensor.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../operators.hpp"
#include "../transformer.hpp"

namespace tests_of_folding {

using namespace unity;
using hardware::device_id;

namespace {

constexpr const char* presets[] = {"p100:4x4", "dgx_a100:4x8", "k80:4x4", "p100:8x1"};

struct subject {
  tensor::tensor_graph graph;
  hardware::machine on;
  parallel::lowering lower;

  subject(tensor::tensor_graph g, std::string_view m)
      : graph{std::move(g)},
        on{hardware::preset(m)},
        lower{parallel::test::operators(), graph, on, parallel::transfers::messages} {}
  subject(std::string_view model, std::string_view m)
      : subject{tensor::zoo::build(parallel::test::operators(), model), m} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  [[nodiscard]] parallel::folded_program fold(const parallel::strategy& s, const parallel::synchronization& sync = {}) {
    return parallel::fold(parallel::test::operators(), lower, s, parallel::node_shifts(on.network), sync);
  }
  [[nodiscard]] parallel::strategy data() const { return parallel::data_parallel(lower.dimensions(), on.network); }
  [[nodiscard]] parallel::strategy tensors(std::size_t width) const {
    return parallel::data_tensor_parallel(graph, lower.dimensions(), on.network, width);
  }
};

// Requires that the folded and the whole timeline are equal for every resource and device. Returns the order of the
// symmetry.
std::size_t require_equal(subject& x, const parallel::strategy& s, const parallel::synchronization& sync = {}) {
  const auto folded = x.fold(s, sync);
  const auto whole = x.lower.run(s, sync);
  simulate::full_simulation run;
  run.run(whole);
  const auto expected = simulate::summarize(whole, run.times());
  run.run(folded.program);
  const auto found = parallel::unfolded(folded, simulate::summarize(folded.program, run.times()));
  REQUIRE(found.iteration == expected.iteration);
  REQUIRE(found.tasks == expected.tasks);
  REQUIRE(found.communicated == expected.communicated);
  REQUIRE(found.resources == expected.resources);
  REQUIRE(found.memory == expected.memory);
  return folded.order;
}

// Samples are divided among nodes; within a node anything, but the same in all nodes.
parallel::strategy alike_in_nodes(const subject& x, std::size_t nodes, random_engine& random) {
  const auto& all = x.lower.dimensions();
  const auto width = x.on.network.device_count() / nodes;
  parallel::strategy s;
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    auto& c = s.emplace_back();
    while (!o.inputs.empty()) {
      const auto inside = parallel::random_configuration(o, width, random);
      c = inside;
      c.degrees[0] *= static_cast<std::int64_t>(nodes);
      c.devices.clear();
      for (std::size_t node = 0; node < nodes; ++node) {
        for (const auto d : inside.devices) {
          c.devices.push_back(device_id{node * width + d.index()});
        }
      }
      if (o.divisible[0].kind == parallel::parallelism::sample &&
          parallel::why_not(o, c, x.on.network.device_count()).empty()) {
        break;
      }
    }
  }
  return s;
}

// Swaps two tasks of an operator, which may break the symmetry of nodes.
parallel::strategy disturbed(parallel::strategy s, random_engine& random) {
  for (;;) {
    auto& devices = s[random.below(s.size())].devices;
    if (devices.size() > 1) {
      std::swap(devices[random.below(devices.size())], devices[random.below(devices.size())]);
      return s;
    }
  }
}

}  // namespace

TEST_CASE("folded simulation of data parallelism equals the whole one in times and memory") {
  unity::test::one_of_some is_tried;
  for (const auto* on : {"p100:4x4", "k80:4x4", "dgx_a100:4x8", "summit:4x6"}) {
    for (const auto* model : {"zoo:resnet50?batch=96", "zoo:rnnlm?batch=96&hidden=64&vocab=96&seq=4"}) {
      if (!is_tried()) {
        continue;
      }
      INFO(model << " on " << on);
      subject x{model, on};
      // The order is only 2 where a collective is a ring: every other node traverses its part backwards.
      CHECK(require_equal(x, x.data()) >= 2);
    }
  }
  subject one_each{"zoo:rnnlm?batch=64&hidden=16&vocab=32&seq=4", "p100:8x1"};
  CHECK(require_equal(one_each, one_each.data()) == 8);
}

TEST_CASE("folded simulation of sharded weights with equal shares equals the whole one") {
  for (const auto* on : std::span{presets}.first(unity::test::cases(4))) {
    INFO(on);
    subject x{"zoo:rnnlm?batch=64&hidden=64&vocab=128&seq=2", on};
    CHECK(require_equal(x, x.data(), parallel::sharded_sync(x.lower)) > 1);
    subject y{parallel::test::transformer{parallel::test::operators(), {32, 2, 64, 8, 16, 64}}.build(), on};
    const auto nodes = y.on.network.devices().back().node + std::size_t{1};
    const auto s = y.tensors(y.on.network.device_count() / nodes);
    CHECK(require_equal(y, s, parallel::sharded_sync(y.lower)) > 1);
  }
}

TEST_CASE("folded simulation of gradient buckets equals the whole one") {
  for (const auto* on : std::span{presets}.first(unity::test::cases(4))) {
    subject x{"zoo:rnnlm?batch=64&hidden=64&vocab=128&seq=2", on};
    subject y{parallel::test::transformer{parallel::test::operators(), {32, 2, 64, 8, 16, 64}}.build(), on};
    const auto nodes = y.on.network.devices().back().node + std::size_t{1};
    const auto tensors = y.tensors(y.on.network.device_count() / nodes);
    for (const auto size : {bytes{2'000}, bytes{10'000}, bytes{1'000'000}}) {
      INFO(on << ", buckets of " << size.count());
      CHECK(require_equal(x, x.data(), parallel::bucketed_sync(x.lower, x.data(), size)) > 1);
      auto some = parallel::bucketed_sync(y.lower, tensors, size);
      CHECK(require_equal(y, tensors, some) > 1);
      const auto bucket_of = [](const parallel::weight_sync& w) { return w.parts.front().bucket; };
      const auto shared = std::find_if(some.weights.begin(), some.weights.end(), [&](const auto& w) {
        return bucket_of(w) != parallel::synchronizer::no_bucket &&
               std::count_if(some.weights.begin(), some.weights.end(),
                             [&](const auto& other) { return bucket_of(other) == bucket_of(w); }) > 1;
      });
      if (shared != some.weights.end()) {
        *shared = {};
        CHECK(require_equal(y, tensors, some) > 1);
      }
    }
  }
}

TEST_CASE("parameter servers and unequal shares are not folded; the reason is given") {
  subject x{"zoo:rnnlm?batch=64&hidden=64&vocab=128&seq=2", "p100:4x4"};
  const auto ps = parallel::served_sync(x.lower, x.data());
  CHECK(require_equal(x, x.data(), ps) == 1);
  CHECK(x.fold(x.data(), ps).why_not_more.find("a server, which devices do not share alike") != std::string::npos);
  subject odd{"zoo:rnnlm?batch=64&hidden=6&vocab=9&seq=2", "p100:4x4"};
  const auto shares = parallel::sharded_sync(odd.lower);
  CHECK(require_equal(odd, odd.data(), shares) == 1);
  CHECK(odd.fold(odd.data(), shares).why_not_more.find("shares of it that are not equal") != std::string::npos);
}

TEST_CASE("folded simulation of data and tensor parallelism on two nodes equals the whole one") {
  constexpr const char* machines[] = {"p100:4x4", "dgx_a100:4x8", "dgx_h100:6x8", "t4:4x8", "k80:4x4"};
  for (const auto* on : std::span{machines}.first(unity::test::cases(5))) {
    INFO(on);
    subject x{parallel::test::transformer{parallel::test::operators(), {24, 2, 64, 8, 16, 64}}.build(), on};
    const auto nodes = x.on.network.devices().back().node + std::size_t{1};
    CHECK(require_equal(x, x.tensors(x.on.network.device_count() / nodes)) == nodes / 2);
  }
}

TEST_CASE("an odd number of nodes is not folded if a collective is a ring; the reason is given") {
  subject x{"zoo:rnnlm?batch=24&hidden=16&vocab=32&seq=2", "p100:3x4"};
  const auto f = x.fold(x.data());
  CHECK(f.order == 1);
  CHECK(f.why_not_more.find("a collective whose flows are not mapped to its flows") != std::string::npos);
  CHECK(f.program.task_count() == x.lower.run(x.data()).task_count());
}

TEST_CASE("folded simulation equals the whole one for random strategies alike in all nodes") {
  const std::uint64_t seed = 7;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t refused = 0;
  for (const auto* on : {"p100:4x2", "k80:4x4", "dgx_a100:4x4"}) {
    for (const auto* model : {"zoo:lenet?batch=64", "zoo:rnnlm?batch=64&hidden=16&vocab=32&seq=2"}) {
      subject x{model, on};
      for (std::uint64_t i = 0; i < unity::test::cases(10); ++i) {
        const auto s = alike_in_nodes(x, 4, random);
        INFO(on << " " << model << " " << x.fold(s).why_not_more);
        CHECK(require_equal(x, s) > 1);
        refused += require_equal(x, disturbed(s, random)) == 1 ? 1 : 0;
      }
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("replicas within nodes are folded; partial sums are not") {
  subject x{"zoo:mlp?batch=64", "p100:4x2"};
  parallel::strategy s(x.graph.node_count());
  node_id product{};
  for (std::size_t n = 0; n < s.size(); ++n) {
    const auto& o = x.lower.dimensions()[node_id{n}];
    if (o.inputs.empty()) {
      continue;
    }
    s[n] = {parallel::degree_list(o.divisible.size(), 1), {}, {}, {}, 2};
    s[n].degrees[0] = 4;
    for (std::size_t t = 0; t < 8; ++t) {
      s[n].devices.push_back(device_id{t % 4 * 2 + t / 4});
    }
    product = product.valid() || o.reductions.empty() ? product : node_id{n};
  }
  CHECK(require_equal(x, s) == 2);
  s[product.index()].copies = 1;
  s[product.index()].reductions = {2};
  const auto f = x.fold(s);
  CHECK(f.order == 1);
  CHECK(f.why_not_more.find("sums of partials, which are not folded") != std::string::npos);
  require_equal(x, s);
}

TEST_CASE("a strategy that differs between devices is not folded; the reason is given") {
  subject x{"zoo:lenet?batch=8", "p100:4x2"};
  const auto s = parallel::model_parallel(parallel::test::operators(), x.graph, x.lower.dimensions(), x.on.network);
  const auto f = x.fold(s);
  CHECK(f.order == 1);
  CHECK(f.why_not_more.find("devices that are not mapped to its devices") != std::string::npos);
  require_equal(x, s);
}

}  // namespace tests_of_folding
