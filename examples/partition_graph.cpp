// Divides the vertices of a graph among devices by what a layer takes on this machine: sums over neighbours are timed
// on random ranges of vertices, a cost is learned, and ranges of vertices are balanced by it.
//
// run: rmat:12:60000 --parts 4 --width 16 --samples 20 --out {out}/graph.lux

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/to_number.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generate.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/gnn/layer_cost.hpp>
#include <unity/gnn/minmax_partition.hpp>
#include <unity/gnn/partition_report.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/io/graph_text.hpp>
#include <unity/io/lux.hpp>
#include <unity/io/matrix_market.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/vertex_dataset.hpp>

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
  app.add_option(
         "GRAPH", a.graph,
         "a file (.lux; .mtx, .graph or .txt, also .gz), the prefix of a data set's files, or rmat:SCALE:EDGES, "
         "random:VERTICES:EDGES, attached:VERTICES:EDGES_EACH")
      ->required();
  app.add_option("--parts", a.parts, "devices")->check(support::number_in(std::size_t{1}, std::size_t{65536}));
  app.add_option("--width", a.width, "columns of the layer's input")
      ->check(support::number_in(std::uint32_t{1}, std::uint32_t{65536}));
  app.add_option("--samples", a.samples, "ranges that are timed")
      ->check(support::number_in(std::size_t{1}, std::size_t{100'000}));
  app.add_option("--seed", a.seed, "of what is drawn")->check(support::number_from(std::uint64_t{0}));
  app.add_option("--out", a.out, "file for the graph, as .lux");
}

// A graph of one of the generators, or nothing. Throws: unity::error where the numbers are none.
std::optional<gnn::csr_graph> generated(std::string_view name, std::uint64_t seed) {
  const auto first = std::min(name.find(':'), name.size());
  const auto second = std::min(name.find(':', first + 1), name.size());
  const auto kind = name.substr(0, first);
  if (second == name.size() || (kind != "rmat" && kind != "random" && kind != "attached")) {
    return std::nullopt;
  }
  const auto a = to_number<gnn::vertex_id>(name.substr(first + 1, second - first - 1));
  const auto b = to_number<gnn::edge_id>(name.substr(second + 1));
  if (!a || !b || *b > std::uint64_t{1} << 31U) {
    throw error{name, "no two numbers behind the generator", "as in rmat:14:200000, 2^31 edges at most"};
  }
  const gnn::edge_rules rules{.both_directions = true, .self_edges = true, .distinct = true};
  if (kind == "rmat") {
    return gnn::generate(gnn::rmat{*a, *b, seed}, rules);
  }
  return kind == "random" ? gnn::generate(gnn::erdos_renyi{*a, *b, seed}, rules)
                          : gnn::generate(gnn::barabasi_albert{*a, static_cast<gnn::vertex_id>(*b), seed}, rules);
}

gnn::csr_graph graph_named(const arguments& a) {
  if (auto drawn = generated(a.graph, a.seed)) {
    return *drawn;
  }
  const std::string_view name{a.graph};
  const auto bare = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
  if (bare.ends_with(".lux")) {
    return io::read_lux(a.graph);
  }
  if (!bare.ends_with(".mtx") && !bare.ends_with(".graph") && !bare.ends_with(".txt")) {
    return io::read_vertex_dataset(a.graph).graph;
  }
  const auto text = io::read_packed(a.graph).front();
  return bare.ends_with(".mtx")     ? io::graph_of(io::parse_matrix_market(text.text, text.name), text.name)
         : bare.ends_with(".graph") ? io::parse_neighbours(text.text, text.name)
                                    : io::parse_edges(text.text, text.name);
}

// The layer: each vertex has the sum of the rows of those that its in-edges come from.
class neighbour_sum {
 public:
  neighbour_sum(gnn::csr_view g, std::size_t width)
      : graph_{g}, width_{width}, in_(g.vertices() * width, 1.0F), out_(in_.size()) {}

  // Seconds on a range of vertices, the best of three.
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
  const auto g = graph_named(a);
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
