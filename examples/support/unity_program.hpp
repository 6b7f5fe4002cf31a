// Unity's search for a program: its flags, the compared searches, and the results.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <unity/io/plan_json.hpp>
#include <unity/parallel/pcg/plan_values.hpp>
#include <unity/parallel/rules/substitution_trace.hpp>
#include <unity/systems/unity.hpp>

#include "plan_trace.hpp"
#include "search_flags.hpp"
#include "strategy_comparison.hpp"

namespace support {

struct unity_flags {
  std::vector<std::string> baselines{"data", "model", "expert", "figures", "flexflow", "sequential"};
  unity::systems::unity_options options{};
  std::size_t threads = 1;                   // of the baselines that search
  std::optional<double> baseline_seconds{};  // each, apart from the limit; nothing: part of it
  bool keeps_graph = false;
};

struct unity_outcome {
  unity::systems::unity_result found{};
  std::vector<rule_count> parallel_rules{};  // that lead from the found graph to its parallel computation graph
  std::vector<unity::parallel::substitution_step>
      trace_to_best{};                          // from the graph of the best plan to that of the plan
  unity::parallel::value_comparison checked{};  // the best plan beside its graph
  std::vector<std::string> frontier{};          // strategies of the frontier of time and memory, fastest first
  struct baseline {
    std::string name{};
    double seconds = 0;
    std::uint64_t proposals = 0;  // of FlexFlow's search
  };
  std::vector<baseline> baselines{};  // those that search
};

void declare(CLI::App& app, search_flags& flags, unity_flags& f);

// Throws: unity::error if `none` is combined with other names.
void check(const unity_flags& f);

// Effects: adds data, model, expert, the given strategies of the model's graph, those of the paper's figures if they
// fit it, flexflow, sequential (substitutions first, then flexflow), and the result of the search, whose last
// improvements start at the best of all.
unity_outcome compare_unity(strategy_comparison& c, const unity_flags& f, const std::vector<named_strategy>& given);

// Effects: sets trace_to_best and checked, and removes strategies that were left out from the frontier. Comes after all
// changes to the strategies, as they may change which is best.
void check_best(const strategy_comparison& c, unity_outcome& r);

// The members of the result's JSON that only this search has.
nlohmann::json to_json(const unity_outcome& r);

void print(const unity_outcome& r);

// The members of the plan's file besides the plan.
unity::io::plan_notes notes_of(const unity_outcome& r, const named_strategy& best);

}  // namespace support
