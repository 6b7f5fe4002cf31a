// Divides the vertices of a graph among devices by the time of a layer on this machine: times sums over neighbours on
// random ranges of vertices, learns a cost from them, and balances ranges of vertices by it.
//
// run: rmat:12:60000 --parts 4 --width 16 --samples 20 --out {out}/graph.lux

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/io/lux.hpp>

#include "support/graphs.hpp"
#include "support/number_range.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string graph{};
  std::size_t parts = 8;
  std::uint32_t width = 64;
  std::size_t samples = 100;
  std::uint64_t seed = 1;
  std::string out{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("GRAPH", a.graph, support::graph_names)->required();
  app.add_option("--parts", a.parts, "number of ranges, one per device")
      ->check(support::number_in(std::size_t{1}, std::size_t{65536}));
  app.add_option("--width", a.width, "columns of the layer's input")
      ->check(support::number_in(std::uint32_t{1}, std::uint32_t{65536}));
  app.add_option("--samples", a.samples, "ranges to time")
      ->check(support::number_in(std::size_t{1}, std::size_t{100'000}));
  app.add_option("--seed", a.seed, "random seed")->check(support::number_from(std::uint64_t{0}));
  app.add_option("--out", a.out, "file for the graph in .lux format");
}

// The layer: the row of each vertex is the sum of the rows of the sources of its in-edges.
class neighbour_sum {
 public:
  neighbour_sum(gnn::csr_view g, std::size_t width)
      : graph_{g}, width_{width}, in_(g.vertices() * width, 1.0F), out_(in_.size()) {}

  // Seconds on a range of vertices, the least of three.
  double seconds(gnn::vertex_range r) {
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run(r);
      const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = i == 0 ? took : std::min(best, took);
    }
    return best;
  }

 private:
  void run(gnn::vertex_range r) {
    for (auto v = r.begin; v < r.end; ++v) {
      auto* const to = out_.data() + v * width_;
      std::fill_n(to, width_, 0.0F);
      for (const auto s : graph_.sources_of(v)) {
        const auto* const from = in_.data() + s * width_;
        for (std::size_t c = 0; c < width_; ++c) {
          to[c] += from[c];
        }
      }
    }
  }

  gnn::csr_view graph_;
  std::size_t width_;
  std::vector<float> in_;
  std::vector<float> out_;
};

gnn::layer_cost learned(const gnn::vertex_feature_sums& sums, neighbour_sum& layer, const arguments& a) {
  random_engine random{a.seed};
  gnn::layer_cost_learner learner;
  for (std::size_t i = 0; i < a.samples; ++i) {
    const auto x = static_cast<gnn::vertex_id>(random.below(sums.vertices() + 1UL));
    const auto y = static_cast<gnn::vertex_id>(random.below(sums.vertices() + 1UL));
    const gnn::vertex_range r{std::min(x, y), std::max(x, y)};
    learner.observe(sums.of(r), layer.seconds(r));
  }
  return learner.snapshot();
}

void print(const char* name, const gnn::vertex_partition& p, gnn::csr_view g, const gnn::range_costs& costs,
           neighbour_sum& layer) {
  double slowest = 0;
  gnn::vertex_id remote = 0;
  const auto parts = gnn::report(g, p);
  for (std::size_t k = 0; k < p.parts(); ++k) {
    slowest = std::max(slowest, layer.seconds(p.range(k)));
    remote = std::max(remote, parts[k].remote_sources);
  }
  fmt::print("{:<16}{:>16.3f}{:>16.3f}{:>16}\n", name, costs.seconds(p) * 1e3, slowest * 1e3, remote);
}

int run(const arguments& a) {
  const support::graph_named graph{a.graph, a.seed};
  const auto g = graph.view();
  if (!a.out.empty()) {
    io::write_lux(a.out, g);
  }
  const gnn::vertex_feature_sums sums{g, {a.width}};
  neighbour_sum layer{g, a.width};
  const auto cost = learned(sums, layer, a);
  const gnn::range_costs costs{sums, std::vector(a.parts, std::vector{gnn::layer_on_device{cost, 0}})};
  const auto balanced = gnn::balanced_partition(costs);
  fmt::print("{}: {} vertices, {} edges, {} parts\n", a.graph, g.vertices(), g.edges(), a.parts);
  for (std::size_t i = 0; i < gnn::vertex_feature_count; ++i) {
    fmt::print("{:>12.3f} ns for one of {}, of {}\n", cost.weights[i] * 1e9, gnn::vertex_feature_names[i],
               sums.total()[i]);
  }
  fmt::print("{:<16}{:>16}{:>16}{:>16}\n", "slowest part", "predicted, ms", "measured, ms", "remote sources");
  print("undivided", gnn::undivided(g.vertices(), a.parts), g, costs, layer);
  print("equal vertices", gnn::equal_vertices(g.vertices(), a.parts), g, costs, layer);
  print("equal edges", gnn::equal_edges(g, a.parts), g, costs, layer);
  print("learned cost", balanced, g, costs, layer);
  // No division into ranges is predicted to be faster.
  return costs.seconds(balanced) <= costs.seconds(gnn::equal_edges(g, a.parts)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("partition_graph", "Divides the vertices of a graph by a learned cost.", argc,
                                         argv, declare, run);
}
