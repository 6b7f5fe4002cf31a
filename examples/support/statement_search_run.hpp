// A search over plan statements of a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/strategies/statement_search.hpp>
#include <unity/parallel/strategies/statement_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

#include "machines.hpp"
#include "operation_times.hpp"
#include "outputs.hpp"
#include "quantity.hpp"
#include "statement_run.hpp"

namespace support {

struct statement_search_run {
  unity::parallel::statement_space space{};
  unity::bytes memory{};  // of a device; 0: unknown
  unity::parallel::statement_search_result found{};
};

// Throws: unity::error if no statement divides the model, fits in memory, or is found in time.
inline statement_search_run searched_statements(const unity::tensor::algebra& operators, const std::string& model,
                                                const statement_flags& f, const timing_flags& timing) {
  using namespace unity;
  statement_search_run r;
  r.space = parallel::parse_statement_search(f.plan);
  const auto machine = load_machine(f.machine);
  r.memory = hardware::model_of(machine, hardware::device_id{std::size_t{0}}).memory;
  const auto seconds = f.budget.empty() ? 60 : parse_quantity("--budget", f.budget, durations);
  const auto graph_of = [&](std::int64_t micro, std::uint32_t layers) {
    return microbatch_of(operators, model, micro, f.element, layers);
  };
  with_durations(timing, operators, machine, "simulate", [&](const tensor::durations& all) {
    r.found = parallel::search_statements(operators, graph_of, machine, all, f.optimizer, r.space, {r.memory, seconds});
  });
  return r;
}

inline nlohmann::json to_json(const statement_search_run& r) {
  using unity::to_seconds;
  auto frontier = nlohmann::json::array();
  for (const auto& s : r.found.frontier) {
    frontier.push_back({{"plan", to_string(s.statement)},
                        {"iteration_s", to_seconds(s.iteration)},
                        {"memory_peak_bytes", s.peak.count()}});
  }
  nlohmann::json bound;  // null: nothing was left
  if (r.found.bound) {
    bound = to_seconds(*r.found.bound);
  }
  return {{"space", to_string(r.space)},           {"memory_bytes", r.memory.count()},
          {"frontier", std::move(frontier)},       {"statements", r.found.statements},
          {"over_memory", r.found.over_memory},    {"by_bound", r.found.by_bound},
          {"simulated", r.found.simulated.size()}, {"left", r.found.left},
          {"bound_s", std::move(bound)},           {"is_best_proved", r.found.is_best_proved},
          {"is_complete", r.found.is_complete},    {"seconds", r.found.seconds}};
}

inline std::string summary_of(const statement_search_run& r) {
  const auto& f = r.found;
  return fmt::format("{} statements: {} need more memory, {} are ruled out by bounds, {} simulated, {} left",
                     f.statements, f.over_memory, f.by_bound, f.simulated.size(), f.left);
}

inline void add_search(unity::io::html_report& page, const statement_search_run& r) {
  using namespace unity;
  constexpr double giga = 1e-9;
  page.heading("Time and memory");
  page.paragraph(fmt::format("{}, searched: {}. {}", to_string(r.space), summary_of(r),
                             r.found.is_complete      ? "No other statement is on the frontier."
                             : r.found.is_best_proved ? "No statement is faster; the frontier may lack some."
                                                      : "Time was over: what was left may be better."));
  io::line_chart chart{"s of an iteration, simulated", "GB that the fullest device holds", {}, true, true};
  io::chart_line frontier{"frontier", {}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& s : r.found.frontier) {
    const auto seconds = to_seconds(s.iteration);
    const auto held = static_cast<double>(s.peak.count()) * giga;
    frontier.points.push_back({seconds, held});
    frontier.labels.push_back(to_string(s.statement));
    rows.push_back({to_string(s.statement), fmt::format("{:.6f}", seconds), fmt::format("{:.3f}", held)});
  }
  io::chart_line others{"other simulated statements", {}};
  others.has_line = false;
  for (const auto& s : r.found.simulated) {
    if (std::find(r.found.frontier.begin(), r.found.frontier.end(), s) == r.found.frontier.end()) {
      others.points.push_back({to_seconds(s.iteration), static_cast<double>(s.peak.count()) * giga});
      others.labels.push_back(to_string(s.statement));
    }
  }
  chart.lines = {std::move(frontier), std::move(others)};
  page.chart(chart);
  page.table(std::vector<std::string>{"frontier", "iteration, s", "memory, GB"}, rows);
}

inline void print(const statement_search_run& r) {
  fmt::print("{}; {:.1f} s\n", summary_of(r), r.found.seconds);
  fmt::print("{}\n", r.found.is_complete      ? "no other statement is as fast, or as fast with as little memory:"
                     : r.found.is_best_proved ? "no statement is faster than the first; others of these may be beaten:"
                                              : "time was over; the best until then:");
  for (const auto& s : r.found.frontier) {
    fmt::print("{:12.6f} s {:10.3f} GB  {}\n", unity::to_seconds(s.iteration),
               static_cast<double>(s.peak.count()) * 1e-9, to_string(s.statement));
  }
}

// Prints and writes the search, and the statement that it found like a given one.
inline void run_statement_search(const unity::tensor::algebra& operators, const std::string& model, statement_flags f,
                                 const timing_flags& timing, const statement_files& names) {
  const auto search = searched_statements(operators, model, f, timing);
  f.plan = to_string(search.found.best().statement);
  const auto r = simulated_statement(operators, model, f, timing);
  auto json = to_json(r, model);
  json["search"] = to_json(search);
  write(r, model, json, names, [&](unity::io::html_report& page) { add_search(page, search); });
  print(search);
  print(r, model);
}

}  // namespace support
