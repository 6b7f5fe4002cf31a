#include "fusion_report.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/fusion/fusion_program.hpp>
#include <unity/fusion/reduction_times.hpp>
#include <unity/io/html_report.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>

namespace support {

using namespace unity;

void fusion_comparison::add(std::string name, fusion::fusion_strategy s) {
  fused_outcome o{std::move(name), std::move(s), {}, {}, {}, {}};
  fusion::fusion_session session{graph_, target_};
  session.reset(o.strategy);
  o.times = session.times();
  o.groups = fusion::count_groups(graph_, o.strategy);
  const auto simulated = [&](const fusion::reduction_writer& reduce) {
    const auto p = fusion::fusion_program(
        graph_, o.strategy,
        [&](std::uint32_t group) { return session.duration(session.groups().group_of(group)); }, reduce);
    simulate::full_simulation full;
    full.run(p);
    return simulate::summarize(p, full.times()).iteration;
  };
  o.on_network = simulated(fusion::on_network(machine_));
  if (channels_ > 1) {
    o.on_channels = simulated(fusion::on_channels(channels_, [&](bytes size) {
      return std::max(target_.all_reduce(static_cast<double>(size.count())), picoseconds{1});
    }));
  }
  all_.push_back(std::move(o));
}

const fused_outcome& fusion_comparison::named(const std::string& name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const fused_outcome& o) { return o.name == name; });
  UNITY_EXPECTS(found != all_.end(), "a strategy of that name");
  return *found;
}

const fused_outcome& fusion_comparison::best() const {
  return *std::min_element(all_.begin(), all_.end(), [](const fused_outcome& a, const fused_outcome& b) {
    return a.times.iteration < b.times.iteration;
  });
}

void print(const fusion_comparison& c, const fusion_summary& s) {
  fmt::print("{} on {}, simulated; an all-reduce takes {:.1f} us and {:.3f} ms per MB\n", s.model, s.machine,
             s.line.fixed * 1e-6, s.line.per_byte * 1e-3);
  fmt::print("{:16} {:>12} {:>12} {:>12} {:>8} {:>6} {:>8} {:>12}\n", "strategy", "iteration ms", "compute ms",
             "reduce ms", "kernels", "copies", "buckets", "network ms");
  for (const auto& o : c.all()) {
    fmt::print("{:16} {:12.3f} {:12.3f} {:12.3f} {:8} {:6} {:8} {:12.3f}\n", o.name,
               to_seconds(o.times.iteration) * 1e3, to_seconds(o.times.compute) * 1e3,
               to_seconds(o.times.communication) * 1e3, o.groups.kernels, o.groups.copies, o.groups.buckets,
               to_seconds(o.on_network) * 1e3);
  }
  fmt::print("no strategy takes less than {:.3f} ms\n", to_seconds(s.bound) * 1e3);
  fmt::print("best: {}; {} candidates in {:.2f} s, {:.0f} a second, the best after {:.2f} s\n", c.best().name,
             s.found.counts.candidates, s.found.seconds,
             static_cast<double>(s.found.counts.candidates) / std::max(s.found.seconds, 1e-9),
             s.found.history.back().seconds);
}

nlohmann::json to_json(const fusion_comparison& c, const fusion_summary& about) {
  const auto& g = c.graph();
  const auto& found = about.found;
  auto strategies = nlohmann::json::array();
  for (const auto& o : c.all()) {
    nlohmann::json s{{"name", o.name},
                     {"iteration_s", to_seconds(o.times.iteration)},
                     {"compute_s", to_seconds(o.times.compute)},
                     {"communication_s", to_seconds(o.times.communication)},
                     {"network_s", to_seconds(o.on_network)},
                     {"kernels", o.groups.kernels},
                     {"fused", o.groups.fused},
                     {"copies", o.groups.copies},
                     {"buckets", o.groups.buckets}};
    if (c.channels() > 1) {
      s["channels_s"] = to_seconds(o.on_channels);
    }
    strategies.push_back(std::move(s));
  }
  auto groups = nlohmann::json::array();
  auto buckets = nlohmann::json::array();
  const auto& best = c.best().strategy;
  const auto members = fusion::members_of(best);
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (members[k].size() < 2 || !(g.computes(members[k].front()) || g.reduces(members[k].front()))) {
      continue;
    }
    auto names = nlohmann::json::array();
    for (const auto m : members[k]) {
      names.push_back(fmt::format("{} {}{}", m, g[m].name, best.group_of[m] == k ? "" : " (copy)"));
    }
    (g.reduces(members[k].front()) ? buckets : groups).push_back(std::move(names));
  }
  return {{"model", about.model},
          {"machine", about.machine},
          {"strategies", strategies},
          {"bound_s", to_seconds(about.bound)},
          {"best", c.best().name},
          {"reductions", {{"seconds_per_byte", about.line.per_byte * 1e-12}, {"fixed_s", about.line.fixed * 1e-12}}},
          {"search",
           {{"candidates", found.counts.candidates},
            {"expanded", found.counts.expanded},
            {"seconds", found.seconds},
            {"best_after_s", found.history.back().seconds},
            {"stopped", to_string(found.stopped)}}},
          {"groups", groups},
          {"buckets", buckets}};
}

std::string to_report(const fusion_comparison& c, const fusion_summary& about) {
  io::html_report page{fmt::format("{} on {}, fused", about.model, about.machine)};
  page.paragraph(
      fmt::format("Iterations are simulated. No strategy takes less than {:.3f} ms.", to_seconds(about.bound) * 1e3));
  std::vector<io::chart_bar> times;
  std::vector<std::vector<std::string>> rows;
  for (const auto& o : c.all()) {
    const auto ms = [](double s) { return fmt::format("{:.3f}", s * 1e3); };
    times.push_back({o.name, to_seconds(o.times.iteration) * 1e3});
    rows.push_back({o.name, ms(to_seconds(o.times.iteration)), ms(to_seconds(o.times.compute)),
                    ms(to_seconds(o.times.communication)), fmt::format("{}", o.groups.kernels),
                    fmt::format("{}", o.groups.copies), fmt::format("{}", o.groups.buckets),
                    ms(to_seconds(o.on_network)), &o == &c.best() ? "best" : ""});
  }
  page.chart(times, "ms");
  page.table(std::vector<std::string>{"strategy", "iteration, ms", "computing, ms", "reducing, ms", "kernels", "copies",
                                      "buckets", "over links, ms", ""},
             rows);
  page.heading("The search");
  io::line_chart chart{"s", "ms of the best strategy", {{"best so far", {}}}, true, true};
  for (const auto& i : about.found.history) {
    chart.lines[0].points.push_back({i.seconds, to_seconds(picoseconds{i.cost}) * 1e3});
  }
  chart.lines[0].points.push_back({about.found.seconds, chart.lines[0].points.back().y});
  page.chart(chart);
  return page.text();
}

std::string to_xla_flags(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                         const fusion::fusion_strategy& s) {
  std::string text = "# No threshold of XLA's all-reduce combiner makes these buckets.\n";
  bool reduces = false;
  auto kernels = s;
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    kernels.group_of[i] = g.reduces(i) ? i : kernels.group_of[i];
  }
  const auto members = fusion::members_of(s);
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    double size = 0;
    for (const auto m : members[k]) {
      size += g.reduces(m) ? g[m].size : 0;
    }
    reduces = reduces || size > 0;
    if (size > 0 && systems::combined_reductions(g, t, kernels, size).group_of == s.group_of) {
      text = fmt::format("XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes={:.0f}\n", size);
    }
  }
  return reduces ? text : "# There are no all-reduces.\n";
}

}  // namespace support
