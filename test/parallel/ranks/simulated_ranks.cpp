#include <unity/parallel/ranks/simulated_ranks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "../../support/machine_without_starts.hpp"
#include "../../support/message_of.hpp"

namespace tests_of_simulated_ranks {

using namespace unity;
using parallel::step_kind;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

// A product on a value from outside.
struct writer {
  parallel::rank_program p{};
  parallel::region_writer regions{operators(), p.graph, p.steps};

  value_id input() { return regions.outside({tensor::dtype::float32, tensor::layout::row_major, false, {512, 512}}); }
  value_id product(value_id x) {
    regions.begin(p.steps, node_id{std::size_t{0}}, false, 0);
    const std::vector<value_id> operands{x, x};
    return regions.run(operators().make_operation("matmul"), operands);
  }
  std::uint32_t step(step_kind kind, value_id v, std::uint32_t peer, std::uint32_t tag) {
    parallel::rank_step s{.kind = kind};
    s.peer = peer;
    s.tag = tag;
    if (kind == step_kind::receive) {
      s.node = p.graph.producer(v);
    } else if (kind != step_kind::wait) {
      s.value = v;
    }
    if (kind == step_kind::reduce) {
      s.node = p.graph.producer(regions.outside(p.graph.type(v)));
    }
    p.steps.push_back(s);
    return static_cast<std::uint32_t>(p.steps.size() - 1);
  }
};

picoseconds iteration(const hardware::machine& m, const std::vector<parallel::rank_program>& ranks,
                      const std::vector<std::vector<std::uint32_t>>& groups = {}, double host_rate = 0) {
  parallel::simulated_ranks all{operators(), m, parallel::analytic_durations(operators(), m), parallel::optimizer::sgd,
                                host_rate};
  for (const auto& p : ranks) {
    all.add(p);
  }
  const auto program = std::move(all).finish(groups);
  simulate::full_simulation s;
  s.run(program);
  return simulate::summarize(program, s.times()).iteration;
}

TEST_CASE("simulated ranks run steps in sequence while messages travel") {
  const auto m = test::machine_without_starts("p100:1x2");
  writer one;
  const auto x = one.product(one.input());
  const auto t = iteration(m, {one.p, {}});
  REQUIRE(t > picoseconds{});
  static_cast<void>(one.product(x));
  REQUIRE(iteration(m, {one.p, {}}).count() == 2 * t.count());

  // Rank 0 sends its product and continues; rank 1 waits for it after a product of its own.
  writer sender;
  const auto y = sender.product(sender.input());
  sender.step(step_kind::send, y, 1, 7);
  static_cast<void>(sender.product(y));
  writer receiver;
  const auto came = receiver.input();
  const auto begun = receiver.step(step_kind::receive, came, 0, 7);
  const auto own = receiver.product(receiver.input());
  receiver.step(step_kind::wait, {}, begun, 0);
  static_cast<void>(receiver.product(came));
  static_cast<void>(own);
  parallel::network n{m};
  picoseconds travels{};
  picoseconds slowest{};  // link
  for (const auto& h :
       n.hops(hardware::device_id{std::size_t{0}}, hardware::device_id{std::size_t{1}}, bytes{512 * 512 * 4})) {
    travels = std::max(travels, h.duration) + h.latency;
    slowest = std::max(slowest, h.duration);
  }
  const auto all = iteration(m, {sender.p, receiver.p});
  REQUIRE(slowest > picoseconds{});
  REQUIRE(all >= picoseconds{2 * t.count() + slowest.count()});
  REQUIRE(all <= picoseconds{2 * t.count() + travels.count()});
}

TEST_CASE("a simulated all-reduce begins when the last rank arrives") {
  const auto m = test::machine_without_starts("p100:1x2");
  const auto rank = [](int products) {
    writer w;
    auto x = w.input();
    for (int i = 0; i < products; ++i) {
      x = w.product(x);
    }
    const auto begun = w.step(step_kind::reduce, x, 0, 0);
    w.step(step_kind::wait, {}, begun, 0);
    return w.p;
  };
  const std::vector<std::vector<std::uint32_t>> both{{0, 1}};
  const auto even = iteration(m, {rank(1), rank(1)}, both);
  const auto uneven = iteration(m, {rank(1), rank(3)}, both);
  writer alone;
  static_cast<void>(alone.product(alone.input()));
  REQUIRE(uneven - even == picoseconds{2 * iteration(m, {alone.p, {}}).count()});
}

TEST_CASE("simulated_ranks rejects unsent messages and unsupported steps and missing devices") {
  const auto m = test::machine_without_starts("p100:1x1");
  writer w;
  const auto begun = w.step(step_kind::receive, w.input(), 0, 3);
  w.step(step_kind::wait, {}, begun, 0);
  CHECK(test::message_of([&] { static_cast<void>(iteration(m, {w.p})); }) ==
        "rank 0: waits for message 3 of rank 0; expected a message that is sent");
  CHECK(test::message_of([&] { static_cast<void>(iteration(m, {{}, {}})); }) ==
        "machine: 1 devices; expected one for each rank");
  const auto refused = [&](parallel::rank_step s) {
    writer one;
    s.value = one.input();
    one.p.steps.push_back(s);
    CHECK(test::message_of([&] { static_cast<void>(iteration(m, {one.p})); }) ==
          "rank 0, step 0: a step that is not simulated; expected operators, messages, collectives and updates of one "
          "iteration, and moves where there is a host");
  };
  refused({.kind = step_kind::fused});
  refused({.kind = step_kind::store});
  refused({.kind = step_kind::fetch});
  refused({.kind = step_kind::send, .is_late = true});
  refused({.kind = step_kind::send, .lag = 1});
}

TEST_CASE("simulated reduce-scatter and all-gather take the sum of their times") {
  const auto m = test::machine_without_starts("p100:1x4");
  const auto rank = [](std::vector<step_kind> kinds) {
    writer w;
    const auto x = w.input();
    for (const auto k : kinds) {
      const auto begun = w.step(k, x, 0, 0);
      w.step(step_kind::wait, {}, begun, 0);
    }
    return std::vector<parallel::rank_program>(4, w.p);
  };
  const std::vector<std::vector<std::uint32_t>> all{{0, 1, 2, 3}};
  const auto scattered = iteration(m, rank({step_kind::scatter}), all);
  const auto gathered = iteration(m, rank({step_kind::gather}), all);
  CHECK(scattered > picoseconds{});
  CHECK(gathered > picoseconds{});
  CHECK(iteration(m, rank({step_kind::scatter, step_kind::gather}), all) == scattered + gathered);
}

TEST_CASE("simulated moves to and from the host take their bytes over the host's rate") {
  const auto m = test::machine_without_starts("p100:1x1");
  writer w;
  const auto x = w.product(w.input());
  const auto alone = iteration(m, {w.p});
  w.step(step_kind::store, x, 0, 0);
  w.step(step_kind::fetch, x, 0, 0);
  constexpr double rate = 1e9;
  CHECK(iteration(m, {w.p}, {}, rate) == alone + picoseconds{2 * 512 * 512 * 4 * std::int64_t{1000}});
}

}  // namespace tests_of_simulated_ranks
