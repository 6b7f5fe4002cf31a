// The differences of two plans, and the time and memory of each.
//
// run: {source}/examples/plans/lenet_p100.json {source}/examples/plans/lenet_p100.json --json {out}/result.json --report {out}/report.html

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/take.hpp>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_svg.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/plan_difference.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

#include "support/number_range.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string first{};
  std::string second{};
  std::size_t rows = 20;
  support::timing_flags timing{};
  std::string json{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("FIRST", a.first, "a plan's .json file")->required();
  app.add_option("SECOND", a.second, "another plan's .json file")->required();
  app.add_option("--rows", a.rows, "operators to print of each kind of difference")
      ->check(support::number_in(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  support::declare(app, a.timing);
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: both plans side by side, and what differs");
}

struct simulated_plan {
  parallel::plan plan{};
  picoseconds iteration{};
  bytes moved{};
  bytes peak{};
  tasks::program program{};
  std::vector<simulate::task_times> times{};
};

simulated_plan simulated(const tensor::algebra& operators, const arguments& a, const std::string& file) {
  simulated_plan r{io::read_plan(operators, file), {}, {}, {}, {}, {}};
  support::with_durations(a.timing, operators, r.plan.machine, "diff_plans", [&](const tensor::durations& times) {
    r.program = parallel::lower(operators, r.plan, times);
    simulate::full_simulation simulation;
    simulation.run(r.program);
    r.times = {simulation.times().begin(), simulation.times().end()};
    const auto line = simulate::summarize(r.program, r.times);
    r.iteration = line.iteration;
    r.moved = line.communicated;
    for (const auto& m : line.memory) {
      r.peak = std::max(r.peak, m.peak);
    }
  });
  return r;
}

class comparison {
 public:
  explicit comparison(const arguments& a)
      : arguments_{a},
        first_{simulated(operators_, a, a.first)},
        second_{simulated(operators_, a, a.second)},
        difference_{parallel::difference_of(operators_, first_.plan, second_.plan)} {}

  void print() const {
    row({"", arguments_.first, arguments_.second});
    for (const auto& one : rows()) {
      row(one);
    }
    const auto& d = difference_;
    if (d.is_none()) {
      fmt::print("\nboth plans are the same\n");
      return;
    }
    if (d.has_other_machine) {
      fmt::print("\nthe machines differ{}\n",
                 first_.plan.machine.name == second_.plan.machine.name ? ", though they have one name" : "");
    }
    if (d.has_other_pipeline && pipeline_of(first_.plan) == pipeline_of(second_.plan) &&
        schedule_of(first_.plan) == schedule_of(second_.plan)) {
      fmt::print("\nstages have other devices\n");
    }
    list("\noperators of the first plan alone", d.only_first,
         [&](node_id n) { return fmt::format("- {}", name(first_.plan, n)); });
    list("\noperators of the second plan alone", d.only_second,
         [&](node_id n) { return fmt::format("+ {}", name(second_.plan, n)); });
    list(fmt::format("\nof {} operators of both divided differently", d.common), d.divided, [&](const auto& pair) {
      return fmt::format("- {}: {}\n+ {}: {}", name(first_.plan, pair.first),
                         first_.plan.configurations[pair.first.index()], name(second_.plan, pair.second),
                         second_.plan.configurations[pair.second.index()]);
    });
    const auto of_one = [&](const std::vector<bool>& by_first) {
      return [&](const auto& pair) {
        return !by_first.empty() && by_first[pair.first.index()]
                   ? fmt::format("- {}", name(first_.plan, pair.first))
                   : fmt::format("+ {}", name(second_.plan, pair.second));
      };
    };
    list("\nrecomputed by one plan alone", d.recomputed, of_one(first_.plan.recomputed));
    list("\noffloaded by one plan alone", d.offloaded, of_one(first_.plan.offloaded));
    list("\nweights synchronized differently", d.synchronized,
         [](const std::string& w) { return "  " + printable(w); });
  }

  [[nodiscard]] std::string to_report() const {
    io::html_report page{fmt::format("{} and {}", arguments_.first, arguments_.second)};
    page.paragraph("One iteration of each plan, simulated.");
    page.table(std::vector<std::string>{"", arguments_.first, arguments_.second}, rows());
    add_differences(page);
    add_plan(page, first_, arguments_.first);
    add_plan(page, second_, arguments_.second);
    return page.text();
  }

  [[nodiscard]] nlohmann::json to_json() const {
    const auto& d = difference_;
    const auto names = [&](const parallel::plan& p, const std::vector<node_id>& nodes) {
      auto all = nlohmann::json::array();
      for (const auto n : nodes) {
        all.push_back(name(p, n));
      }
      return all;
    };
    auto divided = nlohmann::json::array();
    for (const auto& [n, m] : d.divided) {
      divided.push_back(
          {{"first", fmt::format("{}: {}", name(first_.plan, n), first_.plan.configurations[n.index()])},
           {"second", fmt::format("{}: {}", name(second_.plan, m), second_.plan.configurations[m.index()])}});
    }
    const auto of_one = [&](const std::vector<std::pair<node_id, node_id>>& pairs, const std::vector<bool>& by_first) {
      auto all = nlohmann::json::array();
      for (const auto& [n, m] : pairs) {
        all.push_back({{"first", name(first_.plan, n)},
                       {"second", name(second_.plan, m)},
                       {"by_first", !by_first.empty() && by_first[n.index()]}});
      }
      return all;
    };
    return {{"first", numbers(first_)},
            {"second", numbers(second_)},
            {"same", d.is_none()},
            {"common", d.common},
            {"only_first", names(first_.plan, d.only_first)},
            {"only_second", names(second_.plan, d.only_second)},
            {"divided", std::move(divided)},
            {"recomputed", of_one(d.recomputed, first_.plan.recomputed)},
            {"offloaded", of_one(d.offloaded, first_.plan.offloaded)},
            {"synchronized", d.synchronized},
            {"other_machine", d.has_other_machine},
            {"other_pipeline", d.has_other_pipeline},
            {"other_optimizer", d.has_other_optimizer}};
  }

 private:
  // What it is, of the first plan, of the second.
  [[nodiscard]] std::vector<std::vector<std::string>> rows() const {
    const auto ms = [](picoseconds t) { return fmt::format("{:.6f}", to_seconds(t) * 1e3); };
    return {{"machine", first_.plan.machine.name, second_.plan.machine.name},
            {"iteration, ms", ms(first_.iteration), ms(second_.iteration)},
            {"moved over links, MB", megabytes(first_.moved), megabytes(second_.moved)},
            {"memory of a device, MB", megabytes(first_.peak), megabytes(second_.peak)},
            {"optimizer", optimizer_of(first_.plan), optimizer_of(second_.plan)},
            {"stages, micro-batches", pipeline_of(first_.plan), pipeline_of(second_.plan)},
            {"schedule", schedule_of(first_.plan), schedule_of(second_.plan)},
            {"operators recomputed", count(first_.plan.recomputed), count(second_.plan.recomputed)},
            {"operators offloaded", count(first_.plan.offloaded), count(second_.plan.offloaded)}};
  }
  static void row(const std::vector<std::string>& cells) {
    fmt::print("{:<24} {:>24} {:>24}\n", cells[0], cells[1], cells[2]);
  }
  // Names of operators that one of the plans does not have, or treats differently.
  void add_differences(io::html_report& page) const {
    const auto& d = difference_;
    std::vector<std::vector<std::string>> all;
    for (const auto n : d.only_first) {
      all.push_back({name(first_.plan, n), "an operator", "none"});
    }
    for (const auto n : d.only_second) {
      all.push_back({name(second_.plan, n), "none", "an operator"});
    }
    for (const auto& [n, m] : d.divided) {
      all.push_back({name(first_.plan, n), fmt::format("{}", first_.plan.configurations[n.index()]),
                     fmt::format("{}", second_.plan.configurations[m.index()])});
    }
    const auto add = [&](const auto& pairs, const std::vector<bool>& by_first, const char* what) {
      for (const auto& [n, m] : pairs) {
        const bool is_first = !by_first.empty() && by_first[n.index()];
        all.push_back({name(first_.plan, n), is_first ? what : "", is_first ? "" : what});
      }
    };
    add(d.recomputed, first_.plan.recomputed, "recomputed");
    add(d.offloaded, first_.plan.offloaded, "offloaded");
    for (const auto& w : d.synchronized) {
      all.push_back({w, "synchronized differently", ""});
    }
    page.heading("What differs");
    if (all.empty()) {
      page.paragraph(d.is_none() ? "Both plans are the same." : "No operator: see the table above.");
    } else {
      page.table(std::vector<std::string>{"operator or weight", arguments_.first, arguments_.second}, all);
    }
  }
  void add_plan(io::html_report& page, const simulated_plan& p, const std::string& file) const {
    page.heading(file);
    io::add_simulation(page, p.program, p.times);
    page.picture(io::to_strategy_svg(operators_, p.plan, file), "operators, divided");
  }
  static std::string megabytes(bytes b) { return fmt::format("{:.3f}", static_cast<double>(b.count()) * 1e-6); }
  static std::string optimizer_of(const parallel::plan& p) {
    return std::string{parallel::optimizer_names[static_cast<std::size_t>(p.updates)]};
  }
  static std::string pipeline_of(const parallel::plan& p) {
    return fmt::format("{}, {}", p.pipeline.stage_count(), p.pipeline.microbatches);
  }
  static std::string schedule_of(const parallel::plan& p) {
    const auto& q = p.pipeline;
    return fmt::format("{}{}{}", parallel::pipeline_schedule_names[static_cast<std::size_t>(q.schedule)],
                       q.chunks > 1 ? fmt::format(", {} chunks", q.chunks) : std::string{},
                       q.is_delayed ? ", delayed" : "");
  }
  static std::string count(const std::vector<bool>& nodes) {
    return fmt::format("{}", std::count(nodes.begin(), nodes.end(), true));
  }
  static nlohmann::json numbers(const simulated_plan& p) {
    return {{"machine", p.plan.machine.name},
            {"iteration_s", to_seconds(p.iteration)},
            {"moved_bytes", p.moved.count()},
            {"memory_peak_bytes", p.peak.count()}};
  }
  [[nodiscard]] std::string name(const parallel::plan& p, node_id n) const {
    return fmt::format("{} {}", operators_.signature(p.graph.operation(n).kind).name, n.index());
  }
  template <class T, class Show>
  void list(const std::string& title, const std::vector<T>& all, const Show& show) const {
    if (all.empty()) {
      return;
    }
    fmt::print("{}: {}\n", title, all.size());
    for (const auto& item : all | ranges::views::take(arguments_.rows)) {
      fmt::print("{}\n", show(item));
    }
    if (all.size() > arguments_.rows) {
      fmt::print("  and {} more\n", all.size() - arguments_.rows);
    }
  }

  const arguments& arguments_;
  tensor::algebra operators_ = tensor::training_algebra();
  simulated_plan first_;
  simulated_plan second_;
  parallel::plan_difference difference_;
};

void run(const arguments& a) {
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const comparison c{a};
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back(
        {a.json, fmt::format("{}\n", c.to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace))});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, c.to_report()});
  }
  support::write_all(files);
  c.print();
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("diff_plans", "Compares two plans", argc, argv, declare, run);
}
