#include <unity/parallel/strategies/strategy_tables.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/delays.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/operators.hpp"

namespace tests_of_strategy_tables {

using namespace unity;
using parallel::delay_matrix;
using unity::test::training::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  hardware::machine machine = hardware::preset("p100:1x2");
  parallel::lowering lower;
  parallel::strategy_choices choices;

  explicit subject(tensor::tensor_graph g)
      : graph{std::move(g)},
        lower{operators(), graph, machine},
        choices{
            parallel::choices_of(graph, parallel::placements{lower.dimensions(), 2, parallel::block_strides::one})} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
};

// Two products in sequence that share a weight, and a branch around the second.
tensor::tensor_graph shared() {
  tensor::builder b{operators()};
  const auto w = b.weight("w", {64, 64});
  const auto first = b.matmul(b.input("x", {16, 64}), w);
  return std::move(b).finish({b.add(b.matmul(b.relu(first), w), b.tanh(first))});
}

std::int64_t sum_of(const tasks::fragment& f, tasks::task_kind kind) {
  std::int64_t sum = 0;
  for (const auto& t : f.tasks) {
    sum += t.kind == kind ? t.duration.count() : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("strategy_tables have the link times of the lowering for each pair of choices") {
  subject x{shared()};
  const parallel::strategy_tables tables{x.lower, x.choices, 2};
  REQUIRE(tables.operator_count() == 5);
  REQUIRE(tables.edges().size() == x.lower.training().edges().size());
  std::size_t local = 0;
  std::size_t sent = 0;
  std::size_t apart = 0;
  for (std::uint32_t e = 0; e < tables.edges().size(); ++e) {
    const auto& edge = tables.edges()[e];
    const auto from = x.choices.operators[edge.from];
    const auto to = x.choices.operators[edge.to];
    for (std::size_t a = 0; a < x.choices.configurations[edge.from].size(); ++a) {
      for (std::size_t b = 0; b < x.choices.configurations[edge.to].size(); ++b) {
        parallel::strategy s(x.graph.node_count());
        s[from.index()] = x.choices.configurations[edge.from][a];
        s[to.index()] = x.choices.configurations[edge.to][b];
        const auto fragment = x.lower.lowered_edge(s, e);
        const auto& d = edge.delays[a * x.choices.configurations[edge.to].size() + b];
        REQUIRE(d.forward.rows() == s[from.index()].task_count());
        REQUIRE(d.forward.columns() == s[to.index()].task_count());
        std::int64_t links = 0;
        for (const auto& l : d.links) {
          links += l.time.count();
        }
        REQUIRE(links == sum_of(fragment, tasks::task_kind::transfer));
        const auto written = parallel::shards_of(x.lower.dimensions()[from], s[from.index()].degrees);
        const auto read = parallel::shards_of(x.lower.dimensions()[to], s[to.index()].degrees);
        const auto reads = [&](std::size_t p, std::size_t c) {
          const auto& operands = x.lower.training().edges()[e].operands;
          return std::any_of(operands.begin(), operands.end(), [&](std::uint32_t i) {
            return !intersection(written[p].results[0], read[c].operands[i]).empty();
          });
        };
        for (std::size_t p = 0; p < d.forward.rows(); ++p) {
          for (std::size_t c = 0; c < d.forward.columns(); ++c) {
            const bool is_here = s[from.index()].devices[p] == s[to.index()].devices[c];
            REQUIRE((d.forward(p, c) != delay_matrix::none || !reads(p, c)));
            REQUIRE((d.forward(p, c) == delay_matrix::none || (d.forward(p, c) == 0) == is_here));
            REQUIRE(d.backward(c, p) == d.forward(p, c));  // links are equally fast in both directions
            local += d.forward(p, c) == 0 ? 1 : 0;
            sent += d.forward(p, c) > 0 ? 1 : 0;
            apart += reads(p, c) ? 0 : 1;
          }
        }
      }
    }
  }
  REQUIRE(local > 20);
  REQUIRE(sent > 20);
  REQUIRE(apart > 10);  // tasks that read nothing of a producer's task
}

TEST_CASE("strategy_tables of a weight have the updates of joint choices and their minima") {
  subject x{shared()};
  const parallel::strategy_tables tables{x.lower, x.choices, 2};
  REQUIRE(tables.weights().size() == 1);
  const auto& w = tables.weights()[0];
  REQUIRE(w.users.size() == 2);
  REQUIRE(w.delays.size() == 3);
  const auto& first = x.choices.configurations[w.users[0]];
  const auto& last = x.choices.configurations[w.users[1]];
  REQUIRE(w.delays[1].size() == first.size());
  REQUIRE(w.delays[2].size() == first.size() * last.size());
  for (std::size_t a = 0; a < first.size(); ++a) {
    auto least = w.delays[2][a * last.size()].work;
    for (std::size_t b = 0; b < last.size(); ++b) {
      parallel::strategy s(x.graph.node_count());
      s[x.choices.operators[w.users[0]].index()] = first[a];
      s[x.choices.operators[w.users[1]].index()] = last[b];
      const auto& d = w.delays[2][a * last.size() + b];
      REQUIRE(d.work == sum_of(x.lower.lowered_weight(s, 0), tasks::task_kind::update));
      REQUIRE(d.until_update.rows() == first[a].task_count() + last[b].task_count());
      least = std::min(least, d.work);
      for (std::size_t k = 0; k < 2; ++k) {
        REQUIRE(w.delays[1][a].update[k] <= d.update[k]);
      }
    }
    REQUIRE(w.delays[1][a].work == least);
    REQUIRE(w.delays[1][a].until_update.rows() == first[a].task_count());
    REQUIRE(w.delays[0][0].work <= least);
  }
}

TEST_CASE("turnarounds over undecided operators take at least the shortest choice of the next") {
  subject x{shared()};
  const parallel::strategy_tables tables{x.lower, x.choices, 2};
  int finite = 0;
  for (const auto& e : tables.edges()) {
    for (std::size_t a = 0; a < tables.times(e.from).size(); ++a) {
      const auto& least = e.turnarounds[a];
      for (std::size_t t = 0; t < least.rows(); ++t) {
        // Round trip over any one choice, plus the time of that operator.
        auto shortest = delay_matrix::none;
        for (std::size_t b = 0; b < tables.times(e.to).size(); ++b) {
          const auto& o = tables.times(e.to)[b];
          const auto& d = e.delays[a * tables.times(e.to).size() + b];
          auto longest = delay_matrix::none;
          for (std::size_t c = 0; c < o.forward.size(); ++c) {
            if (d.forward(t, c) >= 0 && d.backward(c, t) >= 0) {
              longest = std::max(longest, d.forward(t, c) + o.forward[c] + o.backward[c] + d.backward(c, t));
            }
          }
          shortest = b == 0 ? longest : std::min(shortest, longest);
        }
        REQUIRE(least(t, t) >= shortest);
        finite += shortest > 0 ? 1 : 0;
      }
    }
  }
  REQUIRE(finite > 10);
}

TEST_CASE("strategy_tables reject a weight with too many joint choices") {
  const auto g = tensor::zoo::build(operators(), "zoo:rnntc?seq=6&batch=64&hidden=64&vocab=64");
  const auto m = hardware::preset("p100:1x4");
  parallel::lowering lower{operators(), g, m};
  const auto choices =
      parallel::choices_of(g, parallel::placements{lower.dimensions(), 4, parallel::block_strides::one});
  REQUIRE_THROWS_AS((parallel::strategy_tables{lower, choices, 4}), error);
  try {
    const parallel::strategy_tables tables{lower, choices, 4};
  } catch (const error& e) {
    REQUIRE(std::string{e.what()}.find("6 operators with too many joint configurations") != std::string::npos);
  }
}

}  // namespace tests_of_strategy_tables
