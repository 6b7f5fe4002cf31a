// Chooses the tensors of a training iteration that stay on a device of limited memory, to minimize loads from the host.
//
// run: zoo:lenet?batch=32 --limit 2MB --json {out}/result.json
// run: zoo:lenet --limit 4MB
// run: gcn:232965:114848857:602:256:41 --limit 1796MiB --json {out}/result.json
// run: zoo:candle_uno --limit 80MB --width 8 --json {out}/result.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/placement/training_memory.hpp>
#include <unity/systems/roc/vertex_memory.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model{};
  std::string limit{};
  std::vector<std::string> dimensions{};
  placement::memory_planning planning{};
  std::string json{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("MODEL", a.model,
                 std::string{support::model_help} +
                     ", or a graph neural network by its sizes, gcn:VERTICES:EDGES:WIDTH:WIDTH[:WIDTH...] or "
                     "gin:VERTICES:EDGES:WIDTH:WIDTH:WIDTH; the first width is that of the features")
      ->required();
  app.add_option("--limit", a.limit, "memory of the device: 1122MB, 16GB, 1070MiB")->required();
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option("--width", a.planning.search.width,
                 "states that the beam keeps for graphs that are too large for the dynamic program")
      ->check(support::number_in(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: loads beside the baselines, memory by operator");
}

// A graph neural network, or nothing if the name is that of another model.
// Throws: unity::error if numbers are missing or too large.
std::optional<placement::memory_graph> graph_network(std::string_view name) {
  const auto kind = name.substr(0, std::min(name.find(':'), name.size()));
  if (kind != "gcn" && kind != "gin") {
    return std::nullopt;
  }
  constexpr std::int64_t most = std::int64_t{1} << 32U;
  constexpr std::int64_t widest = 1 << 20;
  std::vector<std::int64_t> numbers;
  for (auto rest = name.substr(kind.size()); !rest.empty();) {
    const auto end = std::min(rest.find(':', 1), rest.size());
    const auto number = to_number<std::int64_t>(rest.substr(1, end - 1));
    if (!number || *number < 1 || *number > (numbers.size() < 2 ? most : widest)) {
      throw error{std::string{name}, fmt::format("'{}'", rest.substr(1, end - 1)),
                  fmt::format("a number from 1 to {}", numbers.size() < 2 ? most : widest)};
    }
    numbers.push_back(*number);
    rest.remove_prefix(end);
  }
  if (kind == "gin" ? numbers.size() != 5 : numbers.size() < 4) {
    throw error{std::string{name}, fmt::format("{} numbers", numbers.size()),
                kind == "gin" ? "5: vertices, edges and 3 widths" : "vertices, edges and 2 widths or more"};
  }
  const systems::graph_size size{numbers[0], numbers[1]};
  return kind == "gin" ? systems::gin_memory(size, numbers[2], numbers[3], numbers[4])
                       : systems::gcn_memory(size, std::span{numbers}.subspan(2));
}

placement::memory_graph graph_of(const arguments& a) {
  if (auto network = graph_network(a.model)) {
    if (!a.dimensions.empty()) {
      throw error{"--dim", a.model, "an .onnx file"};
    }
    return *std::move(network);
  }
  const auto operators = tensor::training_algebra();
  return placement::training_memory(operators, support::load_training_graph(operators, a.model, a.dimensions));
}

struct baseline {
  const char* name;
  placement::memory_traffic traffic;
};

struct outcome {
  placement::memory_graph graph{};
  bytes limit{};
  std::vector<baseline> baselines{};
  placement::found_memory_plan found{};
  double seconds = 0;
};

outcome planned(const arguments& a) {
  outcome r;
  r.limit = support::parse_memory("--limit", a.limit);
  r.graph = graph_of(a);
  const auto add = [&](const char* name, const placement::memory_plan& p) {
    r.baselines.push_back({name, placement::replay(r.graph, p, r.limit)});
  };
  add("streaming", placement::streaming_plan(r.graph, r.limit));
  add("lru", placement::lru_plan(r.graph, r.limit));
  add("largest_first", placement::largest_first_plan(r.graph, r.limit));
  const stopwatch watch;
  r.found = placement::find_memory_plan(r.graph, r.limit, a.planning);
  r.seconds = watch.seconds();
  return r;
}

double megabytes(bytes b) { return static_cast<double>(b.count()) * 1e-6; }

void print(const arguments& a, const outcome& r) {
  const auto least = placement::least_capacity(r.graph);
  fmt::print("{} in {:.3f} MB: {} operators, {} tensors", a.model, megabytes(r.limit), r.graph.operator_count(),
             r.graph.tensor_count());
  if (least.operation.valid()) {
    fmt::print("; no plan runs with less than {:.3f} MB, for {}", megabytes(least.size),
               r.graph.operation(least.operation).name);
  }
  fmt::print("\n{:16} {:>14} {:>14} {:>14}\n", "", "MB loaded", "MB stored", "MB held");
  const auto row = [](const char* name, const placement::memory_traffic& t) {
    fmt::print("{:16} {:14.3f} {:14.3f} {:14.3f}\n", name, megabytes(t.loaded), megabytes(t.stored), megabytes(t.peak));
  };
  for (const auto& b : r.baselines) {
    row(b.name, b.traffic);
  }
  row("dp", r.found.traffic);
  if (r.found.is_best()) {
    fmt::print("no plan loads less; ");
  } else if (r.found.bound == bytes{}) {
    fmt::print("what any plan loads at least is not known; ");
  } else {
    const auto gap = static_cast<double>((r.found.traffic.loaded - r.found.bound).count()) /
                     static_cast<double>(r.found.bound.count());
    fmt::print("no plan loads less than {:.3f} MB, so it is within {:.3f}% of the best; ", megabytes(r.found.bound),
               100 * gap);
  }
  fmt::print("found in {:.3f} s by {}\n", r.seconds,
             r.found.is_of_program ? "dynamic programming" : "a bounded search, as there are too many states");
}

nlohmann::json names_of(const placement::memory_graph& g, const std::vector<placement::tensor_id>& tensors) {
  auto names = nlohmann::json::array();
  for (const auto t : tensors) {
    names.push_back(g.tensor(t).name);
  }
  return names;
}

std::string result_text(const arguments& a, const outcome& r) {
  nlohmann::json loaded{{"dp", r.found.traffic.loaded.count()}};
  nlohmann::json stored{{"dp", r.found.traffic.stored.count()}};
  for (const auto& b : r.baselines) {
    loaded[b.name] = b.traffic.loaded.count();
    stored[b.name] = b.traffic.stored.count();
  }
  auto order = nlohmann::json::array();
  auto cached = nlohmann::json::array();
  auto loads = nlohmann::json::array();
  auto stores = nlohmann::json::array();
  for (std::size_t s = 0; s < r.found.plan.size(); ++s) {
    order.push_back(r.graph.operation(r.found.plan[s].operation).name);
    cached.push_back(names_of(r.graph, r.found.plan[s].kept));
    loads.push_back(names_of(r.graph, r.found.traffic.steps[s].loaded));
    stores.push_back(names_of(r.graph, r.found.traffic.steps[s].stored));
  }
  const nlohmann::json all{{"model", a.model},
                           {"limit_bytes", r.limit.count()},
                           {"least_bytes", placement::least_capacity(r.graph).size.count()},
                           {"input_bytes", placement::input_bytes(r.graph).count()},
                           {"loaded_bytes", std::move(loaded)},
                           {"stored_bytes", std::move(stored)},
                           {"held_bytes", r.found.traffic.peak.count()},
                           {"bound_bytes", r.found.bound.count()},
                           {"method", r.found.is_of_program ? "dynamic_program" : "bounded_search"},
                           {"seconds", r.seconds},
                           {"order", std::move(order)},
                           {"cached", std::move(cached)},
                           {"loads", std::move(loads)},
                           {"stores", std::move(stores)}};
  return all.dump(1) + "\n";
}

std::string report_text(const arguments& a, const outcome& r) {
  io::html_report page{fmt::format("{} in {:.3f} MB", a.model, megabytes(r.limit))};
  page.heading("Loaded from the host");
  std::vector<io::chart_bar> loads;
  for (const auto& b : r.baselines) {
    loads.push_back({b.name, megabytes(b.traffic.loaded)});
  }
  loads.push_back({"dp", megabytes(r.found.traffic.loaded)});
  if (r.found.bound > bytes{}) {
    loads.push_back({"bound of any plan", megabytes(r.found.bound)});
  }
  page.chart(loads, "MB");
  page.heading("Operators in their order");
  page.paragraph("Megabytes on the device while each operator runs, and what is loaded before it and stored after it.");
  const auto sum = [&](const std::vector<placement::tensor_id>& tensors) {
    bytes all{};
    for (const auto t : tensors) {
      all += r.graph.tensor(t).size;
    }
    return megabytes(all);
  };
  io::line_chart chart{"operators", "MB", {{"on the device", {}}, {"loaded", {}}, {"stored", {}}}, true, false};
  std::vector<std::vector<std::string>> rows;
  for (std::size_t s = 0; s < r.found.plan.size(); ++s) {
    const auto& step = r.found.traffic.steps[s];
    const auto x = static_cast<double>(s);
    chart.lines[0].points.push_back({x, megabytes(step.held)});
    chart.lines[1].points.push_back({x, sum(step.loaded)});
    chart.lines[2].points.push_back({x, sum(step.stored)});
    rows.push_back({r.graph.operation(r.found.plan[s].operation).name, fmt::format("{:.3f}", megabytes(step.held)),
                    fmt::format("{:.3f}", sum(step.loaded)), fmt::format("{:.3f}", sum(step.stored))});
  }
  page.chart(chart);
  page.table(std::vector<std::string>{"operator", "MB held", "MB loaded", "MB stored"}, rows);
  return page.text();
}

void run(const arguments& a) {
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto r = planned(a);
  print(a, r);
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, result_text(a, r), {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, report_text(a, r), {}, {}});
  }
  support::write_all(files);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("plan_memory",
                                         "Plans what a training iteration keeps on a device of limited memory (ROC).",
                                         argc, argv, declare, run);
}
