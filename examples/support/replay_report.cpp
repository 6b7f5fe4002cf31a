#include "replay_report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>
#include <unity/trace/replay.hpp>

namespace support {

namespace {

namespace trace = unity::trace;

double seconds(unity::picoseconds t) { return unity::to_seconds(t); }
double milliseconds(unity::picoseconds t) { return seconds(t) * 1e3; }
double relative(double found, double measured) { return measured > 0 ? (found - measured) / measured : 0; }
double relative(unity::picoseconds found, unity::picoseconds measured) {
  return relative(static_cast<double>(found.count()), static_cast<double>(measured.count()));
}

// Counts over all ranks by reason.
std::map<std::string, std::size_t> unknown_of(const trace::job_trace& job) {
  std::map<std::string, std::size_t> all;
  for (const auto& r : job.ranks) {
    for (const auto& [why, count] : r.unknown) {
      all[why] += count;
    }
  }
  return all;
}

std::string_view cause_of(const trace::critical_task& t) {
  constexpr std::array<std::string_view, 3> names{"nothing", "dependency", "resource"};
  return names[static_cast<std::size_t>(t.cause)];
}

// The critical path by kind of task: time and number.
std::vector<std::pair<std::string, std::pair<unity::picoseconds, std::size_t>>> shares_of(
    const trace::flow_graph& g, const std::vector<trace::critical_task>& path) {
  std::map<std::string, std::pair<unity::picoseconds, std::size_t>> by;
  for (const auto& step : path) {
    const auto& t = g.tasks[step.task];
    const auto part = trace::phase_names[static_cast<std::size_t>(t.part)];
    const auto type = trace::task_type_names[static_cast<std::size_t>(t.type)];
    auto& share = by[trace::is_communication(t.type) ? std::string{type} : fmt::format("{}, {}", type, part)];
    share.first += step.time;
    ++share.second;
  }
  std::vector<std::pair<std::string, std::pair<unity::picoseconds, std::size_t>>> all{by.begin(), by.end()};
  std::erase_if(all, [](const auto& s) { return s.second.first == unity::picoseconds{}; });
  unity::stable_sort(all, [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  return all;
}

std::string steps_text(const replayed_job& r) {
  auto text = fmt::format("\n{:>12} {:>14} {:>14} {:>9} {:>16}\n", "step", "measured, ms", "replayed, ms", "error, %",
                          "Daydream's, %");
  for (const auto& s : r.steps) {
    text += fmt::format("{:>12} {:14.3f} {:14.3f} {:9.2f} {:16.2f}\n", s.number, milliseconds(s.measured),
                        milliseconds(s.replayed), 100 * relative(s.replayed, s.measured),
                        100 * relative(s.coarse, s.measured));
  }
  text += r.steps.size() > 1 ? "each by what the other steps took on average\n"
                             : "by its own durations, as there is no other step\n";
  return text;
}

std::string ranks_text(const replayed_job& r) {
  const auto uses = trace::rank_uses(r.average.graph, r.replayed);
  auto text =
      fmt::format("\n{:<16} {:>12} {:>10} {:>10} {:>12}", "rank", "offset, us", "total, ms", "busy, ms", "moving, ms");
  for (const auto name : trace::idle_cause_names) {
    text += fmt::format(" {:>15}", name);
  }
  text += "\n";
  for (std::size_t k = 0; k < uses.size(); ++k) {
    text += fmt::format("{:<16} {:12.1f} {:10.3f} {:10.3f} {:12.3f}", r.average.graph.ranks[k].name,
                        static_cast<double>(r.corrections[k].count()) * 1e-6, milliseconds(r.replayed.rank_time[k]),
                        milliseconds(uses[k].busy), milliseconds(uses[k].communication));
    for (const auto idle : uses[k].idle) {
      text += fmt::format(" {:15.3f}", milliseconds(idle));
    }
    text += "\n";
  }
  const auto memory = trace::memory_use(r.average.graph, r.replayed);
  for (std::size_t k = 0; k < memory.size(); ++k) {
    if (memory[k].is_known) {
      text += fmt::format("{} needs {:.3f} MB of memory at most, {:.3f} MB of it all the time\n",
                          r.average.graph.ranks[k].name, static_cast<double>(memory[k].peak.count()) * 1e-6,
                          static_cast<double>(memory[k].held.count()) * 1e-6);
    }
  }
  for (const auto& s : trace::stragglers(r.average.graph, r.replayed)) {
    text += fmt::format("others wait {:.3f} ms for {}, at {} collectives and messages\n", milliseconds(s.waited),
                        r.average.graph.ranks[s.rank].name, s.meetings);
  }
  return text;
}

std::string path_text(const replayed_job& r) {
  const auto& g = r.average.graph;
  auto path = trace::critical_path(g, r.replayed);
  auto text = fmt::format("\n{:<34} {:>8} {:>12}\n", "critical path", "tasks", "ms");
  for (const auto& [what, share] : shares_of(g, path)) {
    text += fmt::format("{:<34} {:8} {:12.3f}\n", what, share.second, milliseconds(share.first));
  }
  unity::stable_sort(path, [](const auto& a, const auto& b) { return a.time > b.time; });
  text += "its longest steps\n";
  for (std::size_t k = 0; k < std::min<std::size_t>(8, path.size()); ++k) {
    text += fmt::format("{:12.3f} ms  {:.100}; waited for {}\n", milliseconds(path[k].time),
                        trace::describe(g, r.job.names, path[k].task), cause_of(path[k]));
  }
  return text;
}

nlohmann::json ranks_json(const replayed_job& r) {
  auto all = nlohmann::json::array();
  const auto uses = trace::rank_uses(r.average.graph, r.replayed);
  const auto memory = trace::memory_use(r.average.graph, r.replayed);
  for (std::size_t k = 0; k < uses.size(); ++k) {
    nlohmann::json idle;
    for (std::size_t c = 0; c < trace::idle_cause_names.size(); ++c) {
      idle[std::string{trace::idle_cause_names[c]}] = seconds(uses[k].idle[c]);
    }
    double measured = 0;
    for (const auto& s : r.steps) {
      measured += seconds(s.rank_measured[k]) / static_cast<double>(r.steps.size());
    }
    const auto replayed = seconds(r.replayed.rank_time[k]);
    all.push_back(
        {{"name", r.average.graph.ranks[k].name},
         {"offset_s", seconds(r.corrections[k])},
         {"measured_s", measured},
         {"replayed_s", replayed},
         {"error", relative(replayed, measured)},
         {"busy_s", seconds(uses[k].busy)},
         {"communication_s", seconds(uses[k].communication)},
         {"idle_s", idle},
         {"memory_bytes", memory[k].is_known ? nlohmann::json(memory[k].peak.count()) : nlohmann::json(nullptr)}});
  }
  return all;
}

nlohmann::json steps_json(const replayed_job& r) {
  auto all = nlohmann::json::array();
  for (const auto& s : r.steps) {
    auto ranks = nlohmann::json::array();
    for (std::size_t k = 0; k < s.rank_measured.size(); ++k) {
      ranks.push_back({{"measured_s", seconds(s.rank_measured[k])},
                       {"replayed_s", seconds(s.rank_replayed[k])},
                       {"error", relative(s.rank_replayed[k], s.rank_measured[k])}});
    }
    all.push_back({{"number", s.number},
                   {"measured_s", seconds(s.measured)},
                   {"replayed_s", seconds(s.replayed)},
                   {"error", relative(s.replayed, s.measured)},
                   {"replayed_alone_s", seconds(s.replayed_alone)},
                   {"coarse_s", seconds(s.coarse)},
                   {"coarse_error", relative(s.coarse, s.measured)},
                   {"tasks", s.tasks},
                   {"unmatched", s.unmatched},
                   {"ranks", std::move(ranks)}});
  }
  return all;
}

nlohmann::json path_json(const replayed_job& r) {
  auto all = nlohmann::json::array();
  const auto& g = r.average.graph;
  for (const auto& step : trace::critical_path(g, r.replayed)) {
    if (step.time == unity::picoseconds{}) {
      continue;  // meetings and the like: times add up without them
    }
    const auto& t = g.tasks[step.task];
    all.push_back({{"task", trace::describe(g, r.job.names, step.task)},
                   {"rank", g.ranks[t.rank].name},
                   {"type", trace::task_type_names[static_cast<std::size_t>(t.type)]},
                   {"phase", trace::phase_names[static_cast<std::size_t>(t.part)]},
                   {"end_s", seconds(unity::picoseconds{r.replayed.times[step.task].end})},
                   {"time_s", seconds(step.time)},
                   {"waited_for", cause_of(step)}});
  }
  return all;
}

}  // namespace

mean_iteration mean_of(const replayed_job& r) {
  mean_iteration m;
  for (const auto& s : r.steps) {
    m.measured += seconds(s.measured) / static_cast<double>(r.steps.size());
  }
  m.replayed = seconds(r.replayed.iteration);
  return m;
}

std::string to_text(const replayed_job& r) {
  const auto m = mean_of(r);
  auto text = fmt::format("{} events of {} ranks, {} steps; {} tasks, {} messages and {} collectives between ranks\n",
                          r.job.event_count(), r.job.ranks.size(), r.steps.size(), r.average.graph.tasks.size(),
                          r.transactions.messages.size(), r.transactions.collectives.size());
  for (const auto& [why, count] : unknown_of(r.job)) {
    text += fmt::format("not understood: {} times, {}\n", count, why);
  }
  text += fmt::format("an iteration takes {:.3f} ms on average; replayed {:.3f} ms, {:+.2f}%\n", m.measured * 1e3,
                      m.replayed * 1e3, 100 * relative(m.replayed, m.measured));
  text += steps_text(r) + ranks_text(r) + path_text(r);
  if (r.plan) {
    text += to_text(*r.plan, r.average.graph, r.replayed);
  }
  if (r.changed) {
    text += fmt::format("\nwhat if {}: {:.3f} ms, {:.3f} times as fast\n", r.changed->changes,
                        milliseconds(r.changed->replayed.iteration),
                        static_cast<double>(r.replayed.iteration.count()) /
                            static_cast<double>(std::max<std::int64_t>(1, r.changed->replayed.iteration.count())));
  }
  if (r.optimized) {
    text += to_text(*r.optimized);
  }
  return text;
}

nlohmann::json to_json(const replayed_job& r) {
  const auto m = mean_of(r);
  auto late = nlohmann::json::array();
  for (const auto& s : trace::stragglers(r.average.graph, r.replayed)) {
    late.push_back(
        {{"rank", r.average.graph.ranks[s.rank].name}, {"waited_s", seconds(s.waited)}, {"times", s.meetings}});
  }
  nlohmann::json all{
      {"iteration",
       {{"measured_s", m.measured}, {"replayed_s", m.replayed}, {"error", relative(m.replayed, m.measured)}}},
      {"steps", steps_json(r)},
      {"ranks", ranks_json(r)},
      {"stragglers", std::move(late)},
      {"critical_path", path_json(r)},
      {"tasks", r.average.graph.tasks.size()},
      {"events", r.job.event_count()},
      {"not_understood", unknown_of(r.job)},
      {"seconds", r.seconds}};
  if (r.plan) {
    all["plan"] = to_json(*r.plan, r.average.graph, r.replayed);
  }
  if (r.changed) {
    const auto iteration = seconds(r.changed->replayed.iteration);
    all["what_if"] = {{"changes", r.changed->changes},
                      {"iteration_s", iteration},
                      {"speedup", iteration > 0 ? m.replayed / iteration : 1}};
  }
  if (r.optimized) {
    all["optimized"] = to_json(*r.optimized);
  }
  return all;
}

}  // namespace support
