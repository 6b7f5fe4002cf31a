// A graph on a machine, and the programs lowered from its strategies.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/zoo.hpp>

#include "fragments_around.hpp"
#include "operators.hpp"

namespace unity::parallel::test {

struct lowered_graph {
  tensor::tensor_graph graph;
  unity::hardware::machine machine;
  lowering lower;

  lowered_graph(tensor::tensor_graph g, std::string_view on, transfers kind = transfers::exchanges)
      : graph{std::move(g)}, machine{hardware::preset(on)}, lower{operators(), graph, machine, kind} {}
  lowered_graph(std::string_view model, std::string_view on)
      : lowered_graph{tensor::zoo::build(operators(), model), on} {}
  lowered_graph(const lowered_graph&) = delete;
  lowered_graph& operator=(const lowered_graph&) = delete;

  [[nodiscard]] strategy data() const { return data_parallel(lower.dimensions(), machine.network); }
};

// Total bytes of messages in fragments of the kind.
[[nodiscard]] inline std::int64_t message_volume(const tasks::program& p, tasks::owner_kind kind) {
  std::int64_t sum = 0;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    if (p.owner_of(tasks::fragment_id{f}).kind == kind) {
      sum += message_bytes(p[tasks::fragment_id{f}]).count();
    }
  }
  return sum;
}

// Repeatedly changes one operator's configuration to draw(node), and keeps or reverts it: after each change, delta
// simulation must give the time of that strategy lowered from scratch.
template <class Draw>
void check_deltas(lowered_graph& x, strategy s, int rounds, random_engine& random, const Draw& draw) {
  simulate::delta_simulation delta{x.lower.run(s)};
  for (int i = 0; i < rounds; ++i) {
    CAPTURE(i);
    auto n = node_id{std::size_t{0}};
    while (x.graph.operands(n).empty()) {
      n = node_id{static_cast<std::size_t>(random.below(x.graph.node_count()))};
    }
    const auto before = s[n.index()];
    s[n.index()] = draw(n);
    const auto around = fragments_around(x.lower, s, n);
    const auto end = delta.try_replace(replacements_of(around));
    REQUIRE(end.has_value());
    REQUIRE(*end == simulate::full_simulation{}.run(x.lower.run(s)));
    if (random.below(2) == 0) {
      delta.commit();
    } else {
      delta.rollback();
      s[n.index()] = before;
    }
  }
}

}  // namespace unity::parallel::test
