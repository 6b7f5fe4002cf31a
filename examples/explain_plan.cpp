// Explains how a plan divides each operator: the operator's time, and the effect of its best other division.
//
// run: {source}/examples/plans/lenet_p100.json --json {out}/result.json

#include <CLI/CLI.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/take.hpp>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/explanation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

#include "support/explanation_table.hpp"
#include "support/number_range.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string plan{};
  std::string budget = "30s";
  std::size_t rows = 20;
  support::timing_flags timing{};
  std::string json{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("PLAN", a.plan, "a plan's .json file: graph, machine and strategy")->required();
  app.add_option("--budget", a.budget, "time limit; operators that take most come first: 500ms, 30s")
      ->capture_default_str();
  app.add_option("--rows", a.rows, "operators to print")
      ->check(support::number_in(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  support::declare(app, a.timing);
  app.add_option("--json", a.json, "file for all operators as JSON");
  app.add_option("--report", a.report, "file for an HTML report of all operators");
}

struct outcome {
  parallel::plan plan{};
  systems::strategy_price price{};
  std::vector<systems::operator_explanation> operators{};
};

double milliseconds(picoseconds t) { return to_seconds(t) * 1e3; }

outcome explained(const arguments& a) {
  const auto operators = tensor::training_algebra();
  const auto limit = support::parse_quantity("--budget", a.budget, support::durations);
  outcome r;
  r.plan = io::read_plan(operators, a.plan);
  support::with_durations(a.timing, operators, r.plan.machine, "explain_plan", [&](const tensor::durations& times) {
    systems::plan_prices prices{operators, r.plan, times};
    r.price = prices.own();
    const stopwatch watch;
    r.operators = systems::explain(operators, prices, [&] { return watch.seconds() < limit; });
  });
  return r;
}

void print(const arguments& a, const outcome& r) {
  fmt::print("{} on {}: an iteration takes {:.6f} ms{}\n", a.plan, r.plan.machine.name, milliseconds(r.price.iteration),
             r.price.fits() ? "" : ", and does not fit in memory");
  fmt::print("\n{:<24} {:>13} {:>13} {:>13}  {}\n", "operator", "computing, ms", "receiving, ms", "gradients, ms",
             "division, and the best other one");
  for (const auto& e : r.operators | ranges::views::take(a.rows)) {
    fmt::print("{:<24} {:13.3f} {:13.3f} {:13.3f}  {}\n", e.name, milliseconds(e.computing), milliseconds(e.receiving),
               milliseconds(e.gradients), r.plan.configurations[e.node.index()]);
    if (e.next && e.next->price.fits()) {
      fmt::print("{:68} {}{}: {:+.6f} ms\n", "", e.next->to,
                 e.next->operators > 1 ? fmt::format(" with {} that follow", e.next->operators - 1) : "",
                 milliseconds(e.next->price.iteration - r.price.iteration));
    } else {
      fmt::print("{:68} {}\n", "", e.next ? "no other one fits in memory" : "no other one was looked at");
    }
  }
  std::size_t looked_at = 0;
  std::size_t better = 0;
  for (const auto& e : r.operators) {
    looked_at += e.priced > 0 ? 1 : 0;
    better += e.next && e.next->price.cost < r.price.cost ? 1 : 0;
  }
  fmt::print("\n{} of {} operators were looked at; {} of them alone would be better divided otherwise\n", looked_at,
             r.operators.size(), better);
}

nlohmann::json to_json(const outcome& r) {
  const auto configuration = [&](const parallel::configuration& c) { return fmt::format("{}", c); };
  auto all = nlohmann::json::array();
  for (const auto& e : r.operators) {
    nlohmann::json item{{"node", e.node.index()},
                        {"name", e.name},
                        {"configuration", configuration(r.plan.configurations[e.node.index()])},
                        {"computing_s", to_seconds(e.computing)},
                        {"receiving_s", to_seconds(e.receiving)},
                        {"gradients_s", to_seconds(e.gradients)},
                        {"alternatives", e.priced}};
    if (e.next) {
      item["next"] = {{"configuration", configuration(e.next->to)},
                      {"operators", e.next->operators},
                      {"fits", e.next->price.fits()},
                      {"iteration_s", to_seconds(e.next->price.iteration)}};
    }
    all.push_back(std::move(item));
  }
  return {{"iteration_s", to_seconds(r.price.iteration)}, {"fits", r.price.fits()}, {"operators", std::move(all)}};
}

std::string to_report(const arguments& a, const outcome& r) {
  io::html_report page{fmt::format("Why {} is divided so", a.plan)};
  page.paragraph(
      fmt::format("An iteration on {} takes {:.6f} ms, simulated. Times of operators are sums over devices "
                  "or links, of one micro-batch.",
                  r.plan.machine.name, milliseconds(r.price.iteration)));
  support::add_explanation(page, r.plan, r.price, r.operators, r.operators.size());
  return page.text();
}

void run(const arguments& a) {
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto r = explained(a);
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", to_json(r).dump(2)), {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, r), {}, {}});
  }
  support::write_all(files);
  print(a, r);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("explain_plan", "Explains why a plan divides each operator as it does", argc,
                                         argv, declare, run);
}
