// Claims: on TASO's graphs and under its cost formula, searches end at no higher cost than TASO's optimizer. Where TASO
// needs more than ten seconds (nasrnn, nasnet_a) they take at most 1/500 of its CPU seconds and 1/50 of its memory.
//
// TASO's figures were measured once on a 2-core machine (alpha 1.05, 300 expansions, 151 rules). The raw ratio is the
// one that TASO reports. The target ratio corrects it for valid rules: concats of activations pay for the bytes they
// move, and depthwise weights are not merged by concat. Each model is searched with the written rules, with the
// generated ones, with these and the derived ones, and with all. Each search runs in its own process; CPU time and peak
// memory are the operating system's figures.

#include <sys/resource.h>

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <unity/tensor/derived_rules.hpp>
#include <unity/tensor/generated_rules.hpp>

#include "support/child.hpp"
#include "support/models.hpp"

namespace {

struct peer {
  const char* model;
  double raw_ratio;     // cost after : before, as TASO reports it; 0: not measured
  double target_ratio;  // corrected; 0: not measured
  double cpu_s;
  double memory_bytes;
};

struct measured {
  double ratio = 0;
  double search_cpu_s = 0;
  double seconds_to_best = 0;
  double candidates = 0;
};

struct rule_choice {
  const char* name;
  bool written;
  bool generated;
  bool derived;
};

constexpr rule_choice choices[] = {{"written", true, false, false},
                                   {"generated", false, true, false},
                                   {"generated_and_derived", false, true, true},
                                   {"all", true, true, true}};

// Compiles only what the choice has, as this runs in the process whose memory is measured.
unity::rule_set rules_of(rule_choice c) {
  unity::rule_set all;
  const auto add = [&](const unity::rule_set& more) { all.insert(all.end(), more.begin(), more.end()); };
  if (c.written) {
    add(bench::rules());
  }
  if (c.generated) {
    add(unity::compile_rules(bench::operators(), unity::parse_rules(unity::tensor::generated_rules)));
  }
  if (c.derived) {
    add(unity::compile_rules(bench::operators(), unity::parse_rules(unity::tensor::derived_rules)));
  }
  return all;
}

measured optimize(const char* name, rule_choice rules) {
  const auto r =
      unity::systems::taso(bench::operators(), rules_of(rules), bench::model(name), bench::options("taso", 300));
  return {r.cost_after_s / r.cost_before_s, r.cpu_s, r.seconds_to_best, static_cast<double>(r.counts.candidates)};
}

void cost_cpu_and_memory_beside_taso(benchmark::State& state, peer p, rule_choice rules) {
  for (auto _ : state) {
    rusage usage{};
    const auto m = bench::in_child([&] { return optimize(p.model, rules); }, usage);
    const auto memory = bench::peak_bytes(usage);
    state.counters["cost_ratio"] = m.ratio;
    if (p.target_ratio > 0) {
      state.counters["cost_ratio_taso_raw"] = p.raw_ratio;
      state.counters["cost_ratio_target"] = p.target_ratio;
      state.counters["cpu_times_fewer"] = p.cpu_s / m.search_cpu_s;
      state.counters["memory_times_less"] = p.memory_bytes / memory;
    }
    state.counters["search_cpu_s"] = m.search_cpu_s;
    state.counters["memory_bytes"] = memory;
    state.counters["seconds_to_best"] = m.seconds_to_best;
    state.counters["candidates"] = m.candidates;
  }
}

void register_all() {
  const peer peers[] = {{"zoo:resnet50?form=taso", 0.9964, 0.9964, 0.03, 0.2e9},
                        {"zoo:resnext50?form=taso", 0.9965, 0.9965, 3.6, 0.5e9},
                        {"zoo:bert?form=taso", 0.885, 0.885, 1.15, 0.36e9},
                        {"zoo:nasrnn", 0.665, 0.74, 17.0, 2.2e9},
                        {"zoo:nasnet_a?form=taso", 0.858, 0.98, 158, 13.1e9},
                        {"zoo:bert", 0, 0, 0, 0},
                        {"zoo:resnet50", 0, 0, 0, 0},
                        {"zoo:densenet121", 0, 0, 0, 0}};
  for (const auto& p : peers) {
    for (const auto& rules : choices) {
      benchmark::RegisterBenchmark(fmt::format("cost_cpu_and_memory_beside_taso/{}/{}", p.model, rules.name).c_str(),
                                   cost_cpu_and_memory_beside_taso, p, rules)
          ->Iterations(1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
