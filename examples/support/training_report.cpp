#include "training_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/take.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/evaluation.hpp>
#include <unity/train/offloaded_values.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_report.hpp>

#include "machines.hpp"
#include "operation_times.hpp"
#include "outputs.hpp"
#include "rank_timeline.hpp"

namespace support {

namespace {

// An iteration of a plan as the simulator has it. Unit: seconds.
struct simulated_iteration {
  double seconds = 0;
  std::vector<double> computing{};    // by device
  std::vector<std::int64_t> peaks{};  // likewise: bytes
  // Where all operators and exchanges are as fast, and as slow, as four of five measured ones.
  std::optional<std::pair<double, double>> interval{};
};

simulated_iteration simulated(const unity::tensor::algebra& a, const unity::parallel::plan& p,
                              const unity::tensor::durations& times) {
  unity::simulate::full_simulation s;
  const auto program = unity::parallel::lower(a, p, times);
  s.run(program);
  const auto line = unity::simulate::summarize(program, s.times());
  simulated_iteration r{unity::to_seconds(line.iteration), {}, {}};
  for (const auto& device : line.resources | ranges::views::take(p.machine.network.device_count())) {
    r.computing.push_back(unity::to_seconds(device.busy));
  }
  for (const auto& m : line.memory) {
    r.peaks.push_back(m.peak.count());
  }
  return r;
}
// Without a flush an iteration takes what as many further micro-batches take, and on the device that is busiest what
// comes once for all of them: updates, and sums of gradients.
simulated_iteration simulated_delayed(const unity::tensor::algebra& a, unity::parallel::plan p,
                                      const unity::tensor::durations& times) {
  const auto once = simulated(a, p, times);
  if (p.pipeline.stage_count() == 1) {
    return once;  // there is nothing to flush
  }
  p.pipeline.microbatches *= 2;
  const auto twice = simulated(a, p, times);
  double passes = 0;  // of the device that computes longest for those micro-batches
  for (const auto& [before, after] : ranges::views::zip(once.computing, twice.computing)) {
    passes = std::max(passes, after - before);
  }
  const auto between = std::max(0.0, twice.seconds - once.seconds - passes);  // what it waits for others
  return {*std::max_element(once.computing.begin(), once.computing.end()) + between, once.computing, once.peaks};
}

nlohmann::json shares_json(const unity::train::time_shares& s) {
  return {{"compute_s", unity::to_seconds(s.compute)},
          {"update_s", unity::to_seconds(s.update)},
          {"communication_s", unity::to_seconds(s.communication)},
          {"waiting_s", unity::to_seconds(s.waiting)},
          {"other_s", unity::to_seconds(s.other)}};
}

// From its first start on any rank to its last end. Units: as those of spans.
std::pair<std::int64_t, std::int64_t> last_step(const unity::train::merged_timeline& t) {
  std::uint32_t number = 0;
  for (const auto& r : t.ranks) {
    for (const auto& s : r.spans) {
      number = std::max(number, s.step);
    }
  }
  std::optional<std::pair<std::int64_t, std::int64_t>> all;
  for (const auto& r : t.ranks) {
    for (const auto& s : r.spans) {
      if (s.kind == unity::train::activity::step && s.step == number) {
        all = all ? std::pair{std::min(all->first, s.start), std::max(all->second, s.end)} : std::pair{s.start, s.end};
      }
    }
  }
  return all.value_or(t.extent());
}

void print(const training_job& j, const training_outcome& r, const simulated_iteration& simulated,
           const unity::train::breakdown& shares, std::optional<double> error_of_losses) {
  if (j.before) {
    fmt::print("goes on after {} steps\n", j.first);
  }
  for (const auto& [s, loss] : ranges::views::enumerate(r.losses)) {
    if (s == 0 || s + 1 == r.losses.size()) {
      fmt::print("step {}: loss {:.9g}\n", static_cast<std::size_t>(j.first) + s, loss);
    }
  }
  if (r.test) {
    fmt::print("accuracy: {:.4f}, {} of {} for testing\n", r.test->accuracy(), r.test->right, r.test->count);
  }
  fmt::print("iteration: {:.3f} ms measured, {:.3f} ms simulated on {}{}\n", r.seconds * 1e3, simulated.seconds * 1e3,
             j.trained.machine.name, j.kernels ? ", without fused kernels" : "");
  print_assumed(j.trained.machine);
  const auto& critical = shares.ranks[shares.critical];
  const auto computing = unity::to_seconds(critical.compute + critical.update);
  fmt::print(
      "rank {}, the busiest, measured: {:.3f} ms computing, {:.3f} ms communicating, {:.3f} ms waiting, {:.3f} ms "
      "else\n",
      shares.critical, computing * 1e3, unity::to_seconds(critical.communication) * 1e3,
      unity::to_seconds(critical.waiting) * 1e3, unity::to_seconds(critical.other) * 1e3);
  const auto expected = simulated.computing[shares.critical];
  fmt::print("rank {}, simulated: {:.3f} ms computing, {:.3f} ms communicating or waiting\n", shares.critical,
             expected * 1e3, (simulated.seconds - expected) * 1e3);
  const auto held = [](const unity::train::rank_timeline& t) { return t.memory.kept + t.memory.arena; };
  const auto& most = *std::max_element(r.timeline.ranks.begin(), r.timeline.ranks.end(),
                                       [&](const auto& x, const auto& y) { return held(x) < held(y); });
  fmt::print("a rank holds {:.3f} MB at most: {:.3f} of values, {:.3f} of weights and what the optimizer keeps\n",
             static_cast<double>(held(most).count()) * 1e-6, static_cast<double>(most.memory.arena.count()) * 1e-6,
             static_cast<double>(most.memory.kept.count()) * 1e-6);
  for (std::size_t rank = 0; rank < r.predicted.size(); ++rank) {
    const auto& m = r.timeline.ranks[rank].memory;
    const auto& p = r.predicted[rank];
    fmt::print(
        "rank {}, with its host: {:.3f} MB loaded and {:.3f} MB stored in a step, {:.3f} and {:.3f} as planned\n", rank,
        static_cast<double>(m.loaded.count()) * 1e-6, static_cast<double>(m.stored.count()) * 1e-6,
        static_cast<double>(p.loaded.count()) * 1e-6, static_cast<double>(p.stored.count()) * 1e-6);
  }
  if (error_of_losses) {
    fmt::print("checked: losses differ from those of the undivided graph by {:.3g} at most, relative\n",
               *error_of_losses);
  }
}

// Losses, shares of time, and the last step from `from` on.
std::string to_report(const training_flags& a, const training_job& j, const training_outcome& r,
                      const unity::train::breakdown& shares, std::int64_t from) {
  unity::io::html_report page{fmt::format("{}, trained on {} ranks", a.plan, r.timeline.ranks.size())};
  page.paragraph(fmt::format("An iteration takes {:.3f} ms, the median of those after the first.", r.seconds * 1e3));
  page.heading("Losses");
  unity::io::line_chart losses{"steps", "loss", {{"loss", {}}}, false, false};
  for (std::size_t s = 0; s < r.losses.size(); ++s) {
    if (std::isfinite(r.losses[s])) {
      losses.lines[0].points.push_back({static_cast<double>(j.first + s), r.losses[s]});
    }
  }
  page.chart(losses);
  page.heading("The last step");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t k = 0; k < shares.ranks.size(); ++k) {
    const auto& s = shares.ranks[k];
    std::vector<std::string> row{fmt::format("rank {}", k)};
    for (const auto time : {s.compute, s.update, s.communication, s.waiting, s.other}) {
      row.push_back(fmt::format("{:.3f}", unity::to_seconds(time) * 1e3));
    }
    rows.push_back(std::move(row));
  }
  page.table(
      std::vector<std::string>{"", "computing, ms", "updating, ms", "communicating, ms", "waiting, ms", "other, ms"},
      rows);
  add_timeline(page, r.timeline, from);
  return page.text();
}

}  // namespace

void report(const training_flags& a, const unity::tensor::algebra& operators, const training_job& j, int ranks,
            const char* comm, const training_outcome& r, std::optional<double> error_of_losses) {
  simulated_iteration simulated;
  with_durations(a.timing, operators, j.trained.machine, "train", [&](const unity::tensor::durations& times) {
    const auto with = [&](const unity::parallel::plan& p, const unity::tensor::durations& some) {
      return p.pipeline.is_delayed ? simulated_delayed(operators, p, some) : support::simulated(operators, p, some);
    };
    simulated = with(j.trained, times);
    if (!measured_backend(a.timing).empty()) {
      const auto seconds_at = [&](unity::picoseconds unity::duration::* end,
                                  double unity::hardware::cost_interval::* of_exchanges) {
        auto at = j.trained;
        at.machine = unity::hardware::machine_at(std::move(at.machine), of_exchanges);
        return with(at, unity::durations_at{times, end}).seconds;
      };
      // With itself: an order of tasks can be worse where they are faster.
      simulated.interval =
          std::minmax({simulated.seconds, seconds_at(&unity::duration::low, &unity::hardware::cost_interval::low),
                       seconds_at(&unity::duration::high, &unity::hardware::cost_interval::high)});
    }
  });
  const auto [from, until] = last_step(r.timeline);
  const auto shares = unity::train::break_down(r.timeline, from, until);
  print(j, r, simulated, shares, error_of_losses);
  std::vector<output> files;
  if (!a.program.empty()) {
    auto programs = unity::parallel::programs_of_ranks(operators, j.trained);
    if (const auto change = kernels_of(operators, j)) {
      std::transform(programs.ranks.begin(), programs.ranks.end(), programs.ranks.begin(), change);
    }
    for (auto& rank : programs.ranks) {
      rank = unity::train::with_offloaded_values(operators, rank, j.trained.offloaded);
    }
    files.push_back({a.program, unity::parallel::to_text(operators, j.trained.graph, programs), {}, {}});
  }
  if (!a.trace.empty()) {
    files.push_back({a.trace,
                     {},
                     [&](const std::filesystem::path& path) { unity::train::write_chrome_trace(r.timeline, path); },
                     {}});
  }
  if (!a.json.empty()) {
    const auto number = [](const std::optional<double>& x) { return x ? nlohmann::json(*x) : nlohmann::json(nullptr); };
    nlohmann::json result{{"ranks", ranks},
                          {"backend", a.backend},
                          {"comm", comm},
                          {"first_step", j.first},
                          {"steps", a.steps},
                          {"loss", r.losses},
                          {"accuracy", number(r.test ? std::optional{r.test->accuracy()} : std::nullopt)},
                          {"max_rel_error_vs_single", number(error_of_losses)},
                          {"measured_iteration_s", r.seconds},
                          {"simulated_iteration_s", simulated.seconds},
                          {"simulated_computing_s", simulated.computing},
                          {"simulated_peak_bytes", simulated.peaks},
                          {"breakdown", nlohmann::json::array()},
                          {"memory", nlohmann::json::array()}};
    if (simulated.interval) {
      result["simulated_interval_s"] = {simulated.interval->first, simulated.interval->second};
    }
    for (const auto& s : shares.ranks) {
      result["breakdown"].push_back(shares_json(s));
    }
    for (const auto& rank : r.timeline.ranks) {
      const auto& m = rank.memory;
      result["memory"].push_back({{"bytes", (m.kept + m.arena).count()},
                                  {"kept_bytes", m.kept.count()},
                                  {"arena_bytes", m.arena.count()},
                                  {"loaded_bytes", m.loaded.count()},
                                  {"stored_bytes", m.stored.count()}});
    }
    for (std::size_t rank = 0; rank < r.predicted.size(); ++rank) {
      result["memory"][rank]["predicted_loaded_bytes"] = r.predicted[rank].loaded.count();
      result["memory"][rank]["predicted_stored_bytes"] = r.predicted[rank].stored.count();
    }
    files.push_back({a.json, fmt::format("{}\n", result.dump(2)), {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, j, r, shares, from), {}, {}});
  }
  write_all(files);
}

}  // namespace support
