// Chooses the passes that make a job fit in memory at the least cost in time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/systems/dpro/passes.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::systems {

// Time and memory of a job with passes, as replayed.
struct pass_effect {
  std::vector<std::string> passes{};
  picoseconds iteration{};
  bytes peak{};  // of the rank that needs most; 0: not in the traces

  friend bool operator==(const pass_effect&, const pass_effect&) = default;
};

struct fitted_job {
  trace::flow_graph graph{};
  pass_effect effect{};
  pass_effect before{};              // without passes
  std::vector<pass_effect> tried{};  // in the order tried
  bool fits = true;
};

// The first line of Algorithm 1. First applies passes that save no memory or change numbers, if they make the iteration
// shorter or the limit requires it. Then, if the job needs more memory than the limit, tries the passes that save
// memory, alone and in pairs of different kinds, and takes the fastest that fits; if none fits, the one with the
// smallest peak. A limit of 0 means no limit. Complexity: a replay for each combination.
// Throws: unity::error if there is a limit and the traces contain no memory information.
[[nodiscard]] fitted_job fit_job(const trace::flow_graph& job, const trace::name_table& names, bytes limit,
                                 const std::vector<graph_pass>& passes);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_FITTING)

#include <algorithm>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/trace/replay.hpp>

namespace unity::systems {

namespace detail {

class job_fitter {
 public:
  job_fitter(const trace::flow_graph& job, const trace::name_table& names, bytes limit) : names_{names}, limit_{limit} {
    all_.graph = job;
    all_.before = all_.effect = effect_of(job, {});
  }

  fitted_job run(const std::vector<graph_pass>& passes) {
    if (limit_ > bytes{} && all_.before.peak == bytes{}) {
      throw error{"traces", "nothing about memory", "traces that tell what memory operators need, as there is a limit"};
    }
    for (const auto& p : passes) {
      if (!p.saves_memory || p.changes_numbers) {
        try_on(all_.graph, all_.effect.passes, {&p});
      }
    }
    if (limit_ > bytes{} && all_.effect.peak > limit_) {
      save_memory(passes);
    }
    all_.fits = limit_ == bytes{} || all_.effect.peak <= limit_;
    return std::move(all_);
  }

 private:
  [[nodiscard]] pass_effect effect_of(const trace::flow_graph& g, std::vector<std::string> passes) const {
    const auto r = trace::replay(g, names_);
    pass_effect e{std::move(passes), r.iteration, {}};
    for (const auto& m : trace::memory_use(g, r)) {
      e.peak = std::max(e.peak, m.is_known ? m.peak : bytes{});
    }
    return e;
  }
  // If both fit, the faster one is better; if neither fits, the smaller one.
  [[nodiscard]] bool is_better(const pass_effect& a, const pass_effect& b) const {
    const bool one = limit_ == bytes{} || a.peak <= limit_;
    const bool other = limit_ == bytes{} || b.peak <= limit_;
    return one != other ? one : one ? a.iteration < b.iteration : a.peak < b.peak;
  }
  void try_on(const trace::flow_graph& base, const std::vector<std::string>& names,
              const std::vector<const graph_pass*>& passes) {
    auto g = base;
    auto list = names;
    for (const auto* p : passes) {
      if (!p->change(g, names_)) {
        return;
      }
      list.push_back(p->name);
    }
    auto e = effect_of(g, std::move(list));
    all_.tried.push_back(e);
    if (is_better(e, all_.effect)) {
      all_.graph = std::move(g);
      all_.effect = std::move(e);
    }
  }
  static std::string kind_of(const graph_pass& p) { return p.name.substr(0, p.name.find('=')); }
  void save_memory(const std::vector<graph_pass>& passes) {
    const auto base = all_.graph;
    const auto names = all_.effect.passes;
    for (const auto& p : passes) {
      if (p.saves_memory && !p.changes_numbers) {
        try_on(base, names, {&p});
      }
    }
    if (all_.effect.peak <= limit_) {
      return;
    }
    for (std::size_t a = 0; a < passes.size(); ++a) {
      for (std::size_t b = a + 1; b < passes.size(); ++b) {
        const bool may = passes[a].saves_memory && passes[b].saves_memory && !passes[a].changes_numbers &&
                         !passes[b].changes_numbers && kind_of(passes[a]) != kind_of(passes[b]);
        if (may) {
          try_on(base, names, {&passes[a], &passes[b]});
        }
      }
    }
  }

  const trace::name_table& names_;
  bytes limit_;
  fitted_job all_;
};

}  // namespace detail

UNITY_INLINE fitted_job fit_job(const trace::flow_graph& job, const trace::name_table& names, bytes limit,
                                const std::vector<graph_pass>& passes) {
  return detail::job_fitter{job, names, limit}.run(passes);
}

}  // namespace unity::systems

#endif
