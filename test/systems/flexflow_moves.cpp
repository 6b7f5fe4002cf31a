#include <unity/systems/flexflow/moves.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/operators.hpp"

namespace tests_of_flexflow_moves {

using namespace unity;
using systems::device_choice;
using systems::strategy_moves;
using systems::strategy_proposal;
using parallel::test::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  strategy_moves moves;

  subject(std::string_view model, std::size_t devices, parallel::block_strides strides = parallel::block_strides::all)
      : graph{tensor::zoo::build(operators(), model)},
        dimensions{operators(), graph},
        moves{operators(), graph, dimensions, devices, strides} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
};

constexpr std::pair<std::string_view, std::size_t> subjects[] = {{"zoo:lenet", 4},
                                                                 {"zoo:alexnet?batch=48", 6},
                                                                 {"zoo:rnnlm?seq=3", 16},
                                                                 {"zoo:nmt?seq=2&batch=96&hidden=192&vocab=384", 96},
                                                                 {"zoo:bert?layers=1&batch=8", 8}};

bool is_block(const parallel::configuration& c, std::size_t devices, parallel::block_strides strides) {
  const auto all = parallel::aligned_blocks(devices, c.task_count(), strides);
  return std::any_of(all.begin(), all.end(), [&](const auto& b) { return on_block(c.degrees, b) == c; });
}

}  // namespace

TEST_CASE("strategy_moves lists each operator in exactly one unit") {
  const subject x{"zoo:rnnlm?seq=3", 4};
  std::set<node_id> seen;
  for (const auto& u : x.moves.units()) {
    for (const auto n : u.nodes) {
      REQUIRE(seen.insert(n).second);
    }
  }
  CHECK(std::vector<node_id>(seen.begin(), seen.end()) == x.moves.operators());
  CHECK(x.moves.device_count() == 4);
}

TEST_CASE("changing a unit changes all of its operators and gives its lead the configuration", "[law]") {
  for (const auto& [model, devices] : subjects) {
    const subject x{model, devices};
    const std::uint64_t seed = 61;
    CAPTURE(model, devices, seed);
    random_engine random{seed};
    for (std::size_t u = 0; u < x.moves.units().size(); ++u) {
      const auto& unit = x.moves.units()[u];
      const auto c = x.moves.draw(unit.lead, u % 2 == 0 ? device_choice::blocks : device_choice::any, random);
      const auto change = x.moves.change_unit(u, c);
      REQUIRE(change.size() == unit.nodes.size());
      for (std::size_t i = 0; i < change.size(); ++i) {
        REQUIRE(change[i].node == unit.nodes[i]);
        REQUIRE(why_not(x.dimensions[change[i].node], change[i].to, devices) == "");
        if (x.dimensions.kind(change[i].node) == x.dimensions.kind(unit.lead)) {
          REQUIRE(change[i].to == c);
        }
      }
    }
  }
}

TEST_CASE("regions are connected; spread 1 takes the whole component and spread 0 one unit", "[law]") {
  for (const auto& [model, devices] : subjects) {
    const subject x{model, devices};
    const auto& units = x.moves.units();
    // The units that a value connects, found by looking at every edge.
    std::vector<std::set<std::size_t>> joined(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (std::size_t v = 0; v < units.size(); ++v) {
        for (const auto n : units[v].nodes) {
          for (const auto value : x.graph.operands(n)) {
            if (u != v && std::count(units[u].nodes.begin(), units[u].nodes.end(), x.graph.producer(value)) > 0) {
              joined[u].insert(v);
              joined[v].insert(u);
            }
          }
        }
      }
    }
    const std::uint64_t seed = 63;
    CAPTURE(model, devices, seed);
    random_engine random{seed};
    std::size_t several = 0;
    for (std::size_t i = 0; i < 60; ++i) {
      const auto u = random.below(units.size());
      const auto c = x.moves.draw(units[u].lead, device_choice::blocks, random);
      REQUIRE(x.moves.change_region(u, c, 0, random) == x.moves.change_unit(u, c));
      const auto spread = i % 2 == 0 ? 1.0 : 0.4;
      const auto change = x.moves.change_region(u, c, spread, random);
      std::map<node_id, parallel::configuration> to;
      for (const auto& r : change) {
        REQUIRE(to.emplace(r.node, r.to).second);
        REQUIRE(
            r.to ==
            (r.node == units[u].lead ? c : parallel::following(x.dimensions[r.node], x.dimensions[units[u].lead], c)));
        REQUIRE(why_not(x.dimensions[r.node], r.to, devices) == "");
      }
      std::set<std::size_t> region;
      for (std::size_t v = 0; v < units.size(); ++v) {
        const auto in =
            std::count_if(units[v].nodes.begin(), units[v].nodes.end(), [&](node_id n) { return to.contains(n); });
        REQUIRE((in == 0 || in == static_cast<std::ptrdiff_t>(units[v].nodes.size())));
        if (in > 0) {
          region.insert(v);
        }
      }
      REQUIRE(region.contains(u));
      std::set<std::size_t> reached{u};  // within the region, or anywhere where its spread is one
      std::vector<std::size_t> pending{u};
      while (!pending.empty()) {
        const auto at = pending.back();
        pending.pop_back();
        for (const auto v : joined[at]) {
          if ((spread == 1 || region.contains(v)) && reached.insert(v).second) {
            pending.push_back(v);
          }
        }
      }
      REQUIRE(reached == region);
      several += spread < 1 && region.size() > 1 ? 1 : 0;
    }
    CHECK(several > 0);
  }
}

TEST_CASE("random unit strategies and proposals are valid and change each node at most once", "[law]") {
  for (const auto& [model, devices] : subjects) {
    for (const auto strides : {parallel::block_strides::one, parallel::block_strides::all}) {
      const subject x{model, devices, strides};
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(model, devices, seed);
        random_engine random{seed};
        auto s = random_unit_strategy(x.moves, random);
        check(operators(), x.dimensions, s, devices);
        const strategy_proposal proposal{&x.moves, 0.5, 0.3, seed == 0 ? device_choice::any : device_choice::blocks};
        for (int step = 0; step < 200; ++step) {
          const auto by = proposal.sample(s, random);
          REQUIRE(by.has_value());
          REQUIRE(by->log_ratio == 0);
          std::set<node_id> nodes;
          for (const auto& r : by->move) {
            REQUIRE(nodes.insert(r.node).second);
            REQUIRE(why_not(x.dimensions[r.node], r.to, devices) == "");
            s[r.node.index()] = r.to;
          }
          if (by->move.size() == 1 && proposal.devices == device_choice::blocks) {
            REQUIRE(is_block(by->move[0].to, devices, strides));
          }
        }
        check(operators(), x.dimensions, s, devices);
      }
    }
  }
}

TEST_CASE("strategy proposals choose units with the given probability and operators uniformly", "[law]") {
  const subject x{"zoo:rnnlm?seq=3&batch=8&hidden=16&vocab=24", 4};
  const parallel::strategy s(x.graph.node_count());
  const std::uint64_t seed = 62;
  CAPTURE(seed);
  for (const auto share : {0.0, 0.3, 1.0}) {
    CAPTURE(share);
    random_engine random{seed};
    const strategy_proposal proposal{&x.moves, share, 0, device_choice::blocks};
    std::map<node_id, double> singles;
    double units = 0;
    const int samples = 20000;
    double in_large = 0;  // units with several operators
    for (const auto& u : x.moves.units()) {
      in_large += u.nodes.size() > 1 ? 1 : 0;
    }
    for (int i = 0; i < samples; ++i) {
      const auto move = proposal.sample(s, random)->move;
      units += move.size() > 1 ? 1 : 0;
      if (move.size() == 1) {
        singles[move[0].node] += 1;
      }
    }
    const auto expected = share * in_large / static_cast<double>(x.moves.units().size());
    REQUIRE(in_large > 0);
    CHECK(std::abs(units / samples - expected) <= 5 * std::sqrt(expected * (1 - expected) / samples));
    if (share == 0) {
      const auto count = static_cast<double>(x.moves.operators().size());
      CHECK(singles.size() == x.moves.operators().size());
      double chi = 0;
      for (const auto& [n, k] : singles) {
        chi += (k - samples / count) * (k - samples / count) / (samples / count);
      }
      CHECK(chi < count - 1 + 6 * std::sqrt(2 * (count - 1)));
    }
  }
}

TEST_CASE("a graph without operators has no strategy proposals") {
  tensor::tensor_graph empty;
  const parallel::graph_dimensions none{operators(), empty};
  const strategy_moves moves{operators(), empty, none, 4};
  random_engine random{1};
  CHECK(!strategy_proposal{&moves, 0.5, 0.3, device_choice::blocks}.sample({}, random).has_value());
}

}  // namespace tests_of_flexflow_moves
