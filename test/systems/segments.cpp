// Graphs cut into segments, and segments as graphs.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/segment_assembly.hpp>
#include <unity/systems/unity/segments.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_segments {

namespace {

using namespace unity;
using systems::detail::analyzed_graph;
using unity::test::training::operators;

tensor::tensor_graph model() {
  return tensor::zoo::build(operators(), "zoo:gpt?layers=4&hidden=16&heads=2&seq=8&vocab=32&batch=4");
}

struct cut_graph {
  tensor::tensor_graph graph = model();
  analyzed_graph one{operators(), graph};
  std::vector<parallel::spine_step> steps = parallel::spine_of(one.ops.tree(), one.ops.tree().root());

  [[nodiscard]] std::vector<systems::segment_range> into(std::size_t least, const rule_set& rules = {}) const {
    return systems::cut(graph, one.ops, steps, systems::rule_edges{rules}, least);
  }
  [[nodiscard]] systems::segment_graph piece(const systems::segment_range& r) const {
    return systems::segment_of(operators(), graph, one.ops, systems::operators_of(one.ops, steps, r), r.first);
  }
  [[nodiscard]] std::size_t operators_in(const systems::segment_range& r) const {
    std::size_t sum = 0;
    for (auto i = r.first; i < r.last; ++i) {
      sum += parallel::operators_of(one.ops.tree(), steps[i]).size();
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("segments cover the spine in order with at least the requested operators") {
  const cut_graph g;
  for (const std::size_t least : {2U, 5U, 10U, 20U}) {
    CAPTURE(least);
    const auto all = g.into(least);
    REQUIRE(all.size() > 1);
    std::size_t next = 0;
    for (const auto& s : all) {
      CHECK(s.first == next);
      CHECK(s.last > s.first);
      CHECK(g.operators_in(s) >= least);
      next = s.last;
    }
    CHECK(next == g.steps.size());
  }
  CHECK(g.into(g.one.ops.size()) == std::vector<systems::segment_range>{{0, g.steps.size()}});
}

TEST_CASE("segments are cut where fewer rules cross") {
  tensor::builder b{operators()};
  auto x = b.input("x", {4, 4});
  for (int i = 0; i < 4; ++i) {
    x = b.tanh(b.relu(x));
  }
  const auto graph = std::move(b).finish({x});
  const analyzed_graph one{operators(), graph};
  const auto steps = parallel::spine_of(one.ops.tree(), one.ops.tree().root());
  const auto rules =
      compile_rules(operators(), parse_rules("rule relu_then_tanh\n  tanh(relu(?x)) => relu(tanh(?x))\n", "a test"));
  const systems::rule_edges edges{rules};
  CHECK(edges.across(operators().kind("relu"), operators().kind("tanh")) == 1);
  CHECK(edges.across(operators().kind("tanh"), operators().kind("relu")) == 0);
  for (const auto& s : systems::cut(graph, one.ops, steps, edges, 3)) {
    CHECK(s.last % 2 == 0);  // ends after a tanh
  }
  CHECK(systems::cut(graph, one.ops, steps, systems::rule_edges{rule_set{}}, 3)[0].last == 3);
}

TEST_CASE("repeated layers give segments of equal shape with matching boundaries") {
  const cut_graph g;
  const auto ranges = g.into(10);
  std::vector<systems::segment_graph> pieces;
  for (const auto& r : ranges) {
    pieces.push_back(g.piece(r));
  }
  CHECK(pieces.front().entries.empty());
  CHECK(pieces.back().exits.empty());
  std::size_t alike = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    CHECK(pieces[i].entries.size() == 1);
    CHECK(pieces[i].entries == pieces[i - 1].exits);
    for (std::size_t k = 0; k < i; ++k) {
      if (pieces[i].shape == pieces[k].shape) {
        ++alike;
        CHECK(pieces[i].graph.node_count() == pieces[k].graph.node_count());
        CHECK(pieces[i].sources.size() == pieces[k].sources.size());
      }
    }
  }
  CHECK(alike > 0);
}

TEST_CASE("cutting and reassembling a graph without rules keeps it equivalent") {
  const auto m = hardware::preset("p100:1x2");
  const hardware::route_table routes{m.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  const auto mesh = hardware::meshes_of(m.network, 1).front();
  for (const char* name : {"zoo:gpt?layers=3&hidden=16&heads=2&seq=8&vocab=32&batch=4", "zoo:dlrm?form=ae&batch=8",
                           "zoo:mlp?form=ae&layers=3&hidden=16&batch=8"}) {
    for (const std::size_t least : {2U, 6U}) {
      CAPTURE(name, least);
      const auto g = tensor::zoo::build(operators(), name);
      systems::mesh_solver solver{
          operators(), m, routes, mesh, clock, parallel::all_index_uses, parallel::optimizer::sgd};
      systems::joint_options o;
      o.segment = least;
      const auto r = systems::improve(operators(), {}, g, solver, {16, 0}, o);
      CHECK(analyzed_graph{operators(), r.graph}.ops.size() == analyzed_graph{operators(), g}.ops.size());
      const auto same = tensor::check_equivalence(operators(), g, r.graph);
      CAPTURE(same.problem);
      CHECK(same.passed);
    }
  }
}

TEST_CASE("an operator of a model is not a boundary, whatever its name") {
  const auto named = [](const char* name, const char* signature) {
    return operators().make_operation("opaque",
                                      {{"name", name}, {"signature", signature}, {"elements", {0}}, {"dims", {1, 8}}});
  };
  CHECK_FALSE(
      systems::is_boundary(operators(), named("before.custom::Op", "before.custom::Op#3"), systems::before_name));
  CHECK_FALSE(systems::is_boundary(operators(), named("behind0_0", ""), systems::behind_name));
}

TEST_CASE("repeated joins copies of a segment into one chain") {
  const cut_graph g;
  const auto ranges = g.into(10);
  const auto piece = g.piece(ranges.at(1));
  REQUIRE(piece.entries.size() == 1);
  REQUIRE(piece.exits.size() == 1);
  CHECK(systems::repeated(operators(), piece.graph, 1) == piece.graph);
  constexpr std::size_t count = 3;
  const auto all = systems::repeated(operators(), piece.graph, count);
  const auto boundaries = [](const tensor::tensor_graph& h, std::string_view name) {
    std::size_t sum = 0;
    for (const auto n : node_ids(h)) {
      sum += systems::is_boundary(operators(), h.operation(n), name) ? 1U : 0U;
    }
    return sum;
  };
  CHECK(boundaries(all, systems::before_name) == 1);
  CHECK(boundaries(all, systems::behind_name) == 1);
  const analyzed_graph one{operators(), piece.graph};
  const analyzed_graph three{operators(), all};
  CHECK(three.ops.size() == count * (one.ops.size() - 2) + 2);
  CHECK(systems::cut(all, three.ops, parallel::spine_of(three.ops.tree(), three.ops.tree().root()),
                     systems::rule_edges{rule_set{}}, 10)
            .size() >= count);
}

TEST_CASE("assembling all segments gives an equivalent graph") {
  const cut_graph g;
  std::vector<systems::segment_graph> pieces;
  std::map<fingerprint, tensor::tensor_graph> by_shape;
  for (const auto& r : g.into(10)) {
    pieces.push_back(g.piece(r));
    by_shape.try_emplace(pieces.back().shape, pieces.back().graph);
  }
  const auto again = systems::assembled(operators(), g.graph, pieces, by_shape);
  CHECK(again.node_count() == g.graph.node_count());
  const auto same = tensor::check_equivalence(operators(), g.graph, again);
  CAPTURE(same.problem);
  CHECK(same.passed);
}

TEST_CASE("windows hold all operators in order and reassemble to an equivalent graph") {
  for (const auto& [name, least] :
       {std::pair{"zoo:nasrnn?hidden=8&seq=2", std::size_t{3}}, std::pair{"zoo:nasrnn?hidden=8&seq=2", std::size_t{10}},
        std::pair{"zoo:dlrm?form=ae&batch=8", std::size_t{3}}}) {
    CAPTURE(name, least);
    const auto g = tensor::zoo::build(operators(), name);
    const analyzed_graph one{operators(), g};
    std::vector<systems::segment_graph> pieces;
    std::map<fingerprint, tensor::tensor_graph> by_shape;
    std::vector<std::uint32_t> met;
    for (const auto& w : systems::windows(g, one.ops, systems::rule_edges{rule_set{}}, least)) {
      CHECK(w.size() >= least);
      CHECK(w.size() <= 2 * least);
      met.insert(met.end(), w.begin(), w.end());
      pieces.push_back(systems::segment_of(operators(), g, one.ops, w, pieces.size()));
      by_shape.try_emplace(pieces.back().shape, pieces.back().graph);
    }
    REQUIRE(pieces.size() > 1);
    CHECK(std::any_of(pieces.begin(), pieces.end(), [](const auto& p) { return p.entries.size() > 1; }));
    CHECK(std::is_sorted(met.begin(), met.end()));
    std::size_t attached = 0;
    for (std::uint32_t i = 0; i < one.ops.size(); ++i) {
      attached += one.ops.is_attached(i) ? 1U : 0U;
    }
    CHECK(met.size() + attached == one.ops.size());
    const auto again = systems::assembled(operators(), g, pieces, by_shape);
    CHECK(again.node_count() == g.node_count());
    const auto same = tensor::check_equivalence(operators(), g, again);
    CAPTURE(same.problem);
    CHECK(same.passed);
  }
}

TEST_CASE("a graph without a spine is rewritten in windows and becomes cheaper to map") {
  const auto g = tensor::zoo::build(operators(), "zoo:nasrnn?hidden=16&seq=3");
  const auto m = hardware::preset("p100:1x2");
  const hardware::route_table routes{m.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  const auto mesh = hardware::meshes_of(m.network, 1).front();
  systems::mesh_solver solver{operators(), m, routes, mesh, clock, parallel::all_index_uses, parallel::optimizer::sgd};
  systems::joint_options o;
  o.expansions = 2;
  o.nearby = 200;
  const analyzed_graph before{operators(), g};
  REQUIRE(before.ops.size() > 100);
  const auto r = systems::improve(operators(), unity::test::joint_rules(), g, solver, {16, 0}, o);
  CHECK(r.expanded > 0);
  CHECK(r.segments > 1);
  CHECK_FALSE(r.rules.empty());
  const analyzed_graph after{operators(), r.graph};
  CHECK(solver.solve(after.ops, {16, 0}).cost < solver.solve(before.ops, {16, 0}).cost);
  const auto same = tensor::check_equivalence(operators(), g, r.graph);
  CAPTURE(same.problem);
  CHECK(same.passed);
  // Without time nothing changes, and the result says so.
  o.limits.seconds = 0;
  const auto none = systems::improve(operators(), unity::test::joint_rules(), g, solver, {16, 0}, o);
  CHECK(none.ended_early);
  CHECK(none.graph == g);
}

}  // namespace tests_of_segments
