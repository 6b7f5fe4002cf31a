// Divides the vertices of a graph among devices by the time of a layer on this machine: times sums over neighbours on
// random ranges of vertices, learns a cost from them, and balances ranges of vertices by it.
//
// run: rmat:12:60000 --parts 4 --width 16 --samples 20 --out {out}/graph.lux

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/lux.hpp>

#include "support/graphs.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
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
  std::string report{};
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
  app.add_option("--report", a.report, "file for an HTML report: the time of each part, predicted and measured");
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

// A division of the vertices: what its parts take.
struct division {
  const char* name = "";
  std::vector<double> predicted{};  // seconds, by part
  std::vector<double> measured{};
  gnn::vertex_id remote = 0;  // the most sources that a part reads from others

  [[nodiscard]] double slowest_predicted() const { return *std::max_element(predicted.begin(), predicted.end()); }
  [[nodiscard]] double slowest_measured() const { return *std::max_element(measured.begin(), measured.end()); }
};

division timed(const char* name, const gnn::vertex_partition& p, gnn::csr_view g, const gnn::range_costs& costs,
               neighbour_sum& layer) {
  division d{name, {}, {}, 0};
  const auto parts = gnn::report(g, p);
  for (std::size_t k = 0; k < p.parts(); ++k) {
    d.predicted.push_back(costs.seconds(costs(k, p.range(k))));
    d.measured.push_back(layer.seconds(p.range(k)));
    d.remote = std::max(d.remote, parts[k].remote_sources);
  }
  return d;
}

void print(std::span<const division> all) {
  fmt::print("{:<16}{:>16}{:>16}{:>16}\n", "slowest part", "predicted, ms", "measured, ms", "remote sources");
  for (const auto& d : all) {
    fmt::print("{:<16}{:>16.3f}{:>16.3f}{:>16}\n", d.name, d.slowest_predicted() * 1e3, d.slowest_measured() * 1e3,
               d.remote);
  }
}

std::string to_report(const arguments& a, gnn::csr_view g, std::span<const division> all) {
  io::html_report page{fmt::format("{} in {} parts", a.graph, a.parts)};
  page.paragraph(fmt::format("{} vertices, {} edges; a layer that sums the rows of neighbours, {} columns.",
                             g.vertices(), g.edges(), a.width));
  page.heading("The slowest part");
  std::vector<std::vector<std::string>> rows;
  io::line_chart chart{"part", "measured, ms", {}, false, true};
  for (const auto& d : all) {
    rows.push_back({d.name, fmt::format("{:.3f}", d.slowest_predicted() * 1e3),
                    fmt::format("{:.3f}", d.slowest_measured() * 1e3), std::to_string(d.remote)});
    io::chart_line line{d.name};
    for (std::size_t k = 0; k < d.measured.size(); ++k) {
      line.points.push_back({static_cast<double>(k), d.measured[k] * 1e3});
    }
    chart.lines.push_back(std::move(line));
  }
  page.table(std::vector<std::string>{"division", "predicted, ms", "measured, ms", "remote sources"}, rows);
  page.heading("Each part");
  page.chart(chart);
  return page.text();
}

int run(const arguments& a) {
  support::expect_writable(a.out);
  support::expect_writable(a.report);
  const support::graph_named graph{a.graph, a.seed};
  const auto g = graph.view();
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
  const auto equal_edges = gnn::equal_edges(g, a.parts);
  const std::vector<division> all{timed("undivided", gnn::undivided(g.vertices(), a.parts), g, costs, layer),
                                  timed("equal vertices", gnn::equal_vertices(g.vertices(), a.parts), g, costs, layer),
                                  timed("equal edges", equal_edges, g, costs, layer),
                                  timed("learned cost", balanced, g, costs, layer)};
  print(all);
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, {}, [&](const auto& path) { io::write_lux(path, g); }, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, g, all), {}, {}});
  }
  support::write_all(files);
  // No division into ranges is predicted to be faster.
  return costs.seconds(balanced) <= costs.seconds(equal_edges) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("partition_graph", "Divides the vertices of a graph by a learned cost.", argc,
                                         argv, declare, run);
}
