// Strategies of one model on one machine, simulated side by side.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <range/v3/algorithm/find_if.hpp>

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/train/memory_moves.hpp>

#include "recomputation_flag.hpp"
#include "synchronization_flag.hpp"

namespace support {

struct named_strategy {
  std::string name{};
  std::size_t graph = 0;  // of the comparison
  unity::parallel::strategy strategy{};
  unity::parallel::strategy_report report{};
  unity::parallel::pipeline pipeline{};  // the graph is of one of its micro-batches
  unity::parallel::synchronization synchronization{};
  unity::parallel::recomputation recomputed{};
  std::optional<unity::train::simulated_moves> offloaded{};
  std::string not_offloaded{};  // why, where it was tried
};

// Of a comparison, because flags do not fit it.
struct strategy_left_out {
  std::string name{};
  std::string reason{};
};

// A strategy that does not fit in memory is worse than one that fits, by the excess bytes; then time decides.
inline bool is_better(const unity::parallel::strategy_report& a, const unity::parallel::strategy_report& b) {
  const auto over = [](const unity::parallel::strategy_report& r) {
    unity::bytes sum{};
    for (const auto& e : r.excess) {
      sum += e.over;
    }
    return sum;
  };
  return over(a) != over(b) ? over(a) < over(b) : a.iteration < b.iteration;
}

// Graphs that compute the same, and strategies of them. The first graph is the model's.
class strategy_comparison {
 public:
  // times: how long operators take. The algebra must outlive this.
  strategy_comparison(const unity::tensor::algebra& operators, unity::hardware::machine m,
                      unity::tensor::tensor_graph g, unity::tensor::durations times,
                      unity::parallel::optimizer updates = unity::parallel::optimizer::sgd)
      : operators_{operators}, machine_{std::move(m)}, durations_{std::move(times)}, optimizer_{updates} {
    add_graph(std::move(g));
  }
  strategy_comparison(const strategy_comparison&) = delete;  // lowerings refer to graphs and machine
  strategy_comparison& operator=(const strategy_comparison&) = delete;

  // The number of the graph, or of an equal one that was added before.
  std::size_t add_graph(unity::tensor::tensor_graph g) {
    const auto equal = ranges::find_if(graphs_, [&](const auto& known) { return known->graph == g; });
    const auto number = static_cast<std::size_t>(equal - graphs_.begin());
    if (equal == graphs_.end()) {
      graphs_.push_back(std::make_unique<lowered_graph>(operators_, std::move(g), machine_, durations_, optimizer_));
    }
    return number;
  }
  void add(std::string name, std::size_t graph, unity::parallel::strategy s) {
    auto report = report_on(graph, s);
    add(std::move(name), graph, std::move(s), std::move(report));
  }
  void add(std::string name, std::size_t graph, unity::parallel::strategy s, unity::parallel::strategy_report report,
           unity::parallel::pipeline p = {}, unity::parallel::synchronization sync = {},
           unity::parallel::recomputation again = {}) {
    strategies_.push_back({std::move(name), graph, std::move(s), std::move(report), std::move(p), std::move(sync),
                           std::move(again), {}, {}});
  }
  // The best of several, which are of one graph.
  void add_best(std::string name, std::size_t graph, const std::vector<unity::parallel::strategy>& several) {
    named_strategy best{std::move(name), graph, {}, {}, {}, {}, {}, {}, {}};
    for (std::size_t i = 0; i < several.size(); ++i) {
      auto report = report_on(graph, several[i]);
      if (i == 0 || is_better(report, best.report)) {
        best.strategy = several[i];
        best.report = std::move(report);
      }
    }
    strategies_.push_back(std::move(best));
  }
  unity::parallel::strategy_report report_on(std::size_t graph, const unity::parallel::strategy& s) {
    const unity::stopwatch watch;
    auto report = unity::parallel::report_on(graphs_[graph]->lowering, graphs_[graph]->graph, machine_, s);
    reported_ = std::max(reported_, watch.seconds());
    return report;
  }
  // The seconds of the longest report so far.
  [[nodiscard]] double reported() const noexcept { return reported_; }

  // Effects: applies the flag to all strategies, and simulates them again. Strategies that it does not fit are left
  // out, such as stages 2 and 3 of ZeRO in pipelines whose schedule does not allow them. Throws: as check_sync;
  // unity::error if the whole program of a strategy was not simulated, or no strategy is left.
  void synchronize(const std::string& flag) {
    static_cast<void>(check_sync(flag));
    change_all("--sync " + flag,
               [&](named_strategy& s) { s.synchronization = sync_of(flag, graphs_[s.graph]->lowering, s.strategy); });
  }

  // Effects: applies the flags of recomputation to all strategies, and that of micro-batches to those without any, and
  // simulates them again. Strategies that they do not fit are left out, such as those that do not divide a micro-batch.
  // Comes before synchronize.
  // Throws: as check_recompute; unity::error if the whole program of a strategy was not simulated, or no strategy is
  // left.
  void economize(const memory_flags& flags) {
    static_cast<void>(check_recompute(flags.recompute));
    const auto recompute = flags.recompute.empty() ? std::string{} : "--recompute " + flags.recompute;
    const auto microbatches =
        flags.microbatches > 1 ? fmt::format("--microbatches {}", flags.microbatches) : std::string{};
    const auto both = recompute + (recompute.empty() || microbatches.empty() ? "" : " ") + microbatches;
    change_all(both, [&](named_strategy& s) {
      auto& whole = *graphs_[s.graph];
      if (flags.microbatches > 1 && s.pipeline.microbatches == 1) {
        s.graph = add_graph(graph_of_microbatch(operators_, whole.graph, flags.microbatches));
        s.pipeline.microbatches = flags.microbatches;
        if (s.pipeline.stages.empty()) {
          s.pipeline.stages.assign(machine_.network.device_count(), 0);
        }
        s.strategy = unity::parallel::strategy_of_microbatch(
            whole.lowering.dimensions(), graphs_[s.graph]->lowering.dimensions(), std::move(s.strategy));
      }
      if (!flags.recompute.empty()) {
        s.recomputed = recomputation_of(flags.recompute, operators_, graphs_[s.graph]->graph);
      }
    });
  }

  // Effects: strategies that do not fit move values to the host, and are simulated again; if they still do not fit,
  // they state the reason. Comes last.
  // Throws: unity::error if the whole program of a strategy was not simulated.
  void offload(double host_rate) {
    for (auto& s : strategies_) {
      expect_whole(s, "--offload");
      if (s.report.excess.empty()) {
        continue;
      }
      try {
        s.offloaded = unity::train::simulate_moves(operators_, plan_of(s), durations_, host_rate);
        s.report.iteration = s.offloaded->iteration;
        const auto limits = unity::parallel::memory_limits(machine_);
        for (const auto& e : s.report.excess) {
          s.report.memory_peaks[e.device] = limits[e.device];
        }
        s.report.excess.clear();
      } catch (const unity::error& e) {
        s.not_offloaded = e.what();
      }
    }
  }

  [[nodiscard]] const unity::tensor::algebra& operators() const noexcept { return operators_; }
  [[nodiscard]] const unity::hardware::machine& machine() const noexcept { return machine_; }
  [[nodiscard]] const unity::tensor::durations& durations() const noexcept { return durations_; }
  [[nodiscard]] const unity::tensor::tensor_graph& graph(std::size_t i = 0) const { return graphs_[i]->graph; }
  [[nodiscard]] unity::parallel::lowering& lowering(std::size_t i = 0) { return graphs_[i]->lowering; }
  [[nodiscard]] const std::vector<named_strategy>& strategies() const noexcept { return strategies_; }
  [[nodiscard]] const std::vector<strategy_left_out>& left_out() const noexcept { return left_out_; }
  // Precondition: there is one. The fastest of those that fit in memory; if none fits, that with the least excess.
  [[nodiscard]] const named_strategy& best() const {
    return *std::min_element(strategies_.begin(), strategies_.end(),
                             [](const auto& a, const auto& b) { return is_better(a.report, b.report); });
  }
  [[nodiscard]] unity::parallel::plan plan_of(const named_strategy& s) const {
    return {graph(s.graph), s.strategy, machine_, s.pipeline, optimizer_, s.synchronization, s.recomputed};
  }

 private:
  // Effects: calls change(strategy) for each strategy, and simulates it again. Those for which either throws
  // unity::error are left out, with what it says.
  // Throws: unity::error if the whole program of a strategy was not simulated, or no strategy is left.
  template <class F>
  void change_all(const std::string& flags, const F& change) {
    for (const auto& s : strategies_) {
      expect_whole(s, flags);
    }
    std::vector<named_strategy> kept;
    for (auto& s : strategies_) {
      try {
        change(s);
        auto& g = *graphs_[s.graph];
        s.report = unity::parallel::report_on(g.lowering, g.graph, machine_, s.strategy, s.pipeline, s.synchronization,
                                              s.recomputed);
        kept.push_back(std::move(s));
      } catch (const unity::error& e) {
        left_out_.push_back({s.name, e.what()});
      }
    }
    if (kept.empty() && !strategies_.empty()) {
      throw unity::error{fmt::format("{}: fits none of the {} strategies; {}: {}", flags, strategies_.size(),
                                     left_out_.back().name, left_out_.back().reason)};
    }
    strategies_ = std::move(kept);
  }
  static void expect_whole(const named_strategy& s, const std::string& flag) {
    if (s.report.is_of_representatives()) {
      throw unity::error{flag, fmt::format("{}, of which not all devices were simulated", s.name),
                         "a machine with fewer devices"};
    }
  }
  struct lowered_graph {
    unity::tensor::tensor_graph graph;
    unity::parallel::lowering lowering;

    lowered_graph(const unity::tensor::algebra& a, unity::tensor::tensor_graph g, const unity::hardware::machine& m,
                  const unity::tensor::durations& times, unity::parallel::optimizer updates)
        : graph{std::move(g)}, lowering{a, graph, m, times, unity::parallel::transfers::exchanges, updates} {}
  };

  const unity::tensor::algebra& operators_;
  unity::hardware::machine machine_;
  unity::tensor::durations durations_;
  unity::parallel::optimizer optimizer_;
  std::vector<std::unique_ptr<lowered_graph>> graphs_{};
  std::vector<named_strategy> strategies_{};
  std::vector<strategy_left_out> left_out_{};
  double reported_ = 0;
};

inline nlohmann::json to_json(const std::optional<unity::train::simulated_moves>& o) {
  return o ? nlohmann::json{{"loaded_bytes", o->moved.loaded.count()},
                            {"stored_bytes", o->moved.stored.count()},
                            {"limit_bytes", o->limit.count()}}
           : nlohmann::json{};
}

inline std::string_view schedule_name(const unity::parallel::pipeline& p) {
  return unity::parallel::pipeline_schedule_names[static_cast<std::size_t>(p.schedule)];
}

inline std::size_t recomputed_operators(const named_strategy& s) {
  return static_cast<std::size_t>(std::count(s.recomputed.begin(), s.recomputed.end(), true));
}

// " of 1, 2, 1 devices"; empty if stages have equal numbers.
inline std::string unequal_stages(const unity::parallel::pipeline& p) {
  std::vector<std::size_t> sizes(p.stage_count(), 0);
  for (const auto k : p.stages) {
    ++sizes[k];
  }
  const bool is_equal = std::all_of(sizes.begin(), sizes.end(), [&](std::size_t n) { return n == sizes[0]; });
  return is_equal ? std::string{} : fmt::format(" of {} devices", fmt::join(sizes, ", "));
}

// Weights of each of ZeRO's stages.
inline std::array<std::size_t, 3> sharded_weights(const named_strategy& s) {
  std::array<std::size_t, 3> counts{};
  for (const auto& w : s.synchronization.weights) {
    const auto& part = w.parts.front();
    if (part.kind == unity::parallel::sync_kind::sharded) {
      ++counts[part.stage - 1];
    }
  }
  return counts;
}

// Precondition: not all.
inline std::string_view described(unity::parallel::simulated_devices d) {
  switch (d) {
    case unity::parallel::simulated_devices::one_of_joined_kinds:
      return "one device of each kind was simulated, as if it waited for all that any of its kind waits for: "
             "mostly late";
    case unity::parallel::simulated_devices::one_of_each_stage:
      return "one device of each stage was simulated, the others do the same";
    default: return "one device of each kind was simulated, the others do the same at the same times";
  }
}

inline nlohmann::json to_json(const unity::hardware::machine& m, const named_strategy& s) {
  const auto& p = s.report;
  auto over = nlohmann::json::array();
  for (const auto& e : p.excess) {
    over.push_back({{"device", m.network[unity::hardware::device_id{e.device}].name}, {"bytes_over", e.over.count()}});
  }
  return {
      {"name", s.name},
      {"iteration_s", unity::to_seconds(p.iteration)},
      {"compute_s", unity::to_seconds(p.compute)},
      {"communication_s", unity::to_seconds(p.communication)},
      {"communication_bytes", p.is_of_representatives() ? nlohmann::json{} : nlohmann::json(p.communicated.count())},
      {"communication_elements",
       p.is_of_representatives() ? nlohmann::json{} : nlohmann::json(p.communicated_elements)},
      {"simulated_devices", unity::parallel::simulated_devices_names[static_cast<std::size_t>(p.simulated)]},
      {"stages", s.pipeline.stage_count()},
      {"microbatches", s.pipeline.microbatches},
      {"schedule", s.pipeline.stage_count() > 1 ? nlohmann::json(schedule_name(s.pipeline)) : nlohmann::json{}},
      {"chunks", s.pipeline.chunks},
      {"recomputed_operators", recomputed_operators(s)},
      {"sharded_weights", sharded_weights(s)},
      {"memory_peak_bytes", p.memory_peak().count()},
      {"out_of_memory", over},
      {"offloaded", to_json(s.offloaded)}};
}

inline nlohmann::json to_json(const strategy_comparison& c) {
  auto all = nlohmann::json::array();
  for (const auto& s : c.strategies()) {
    all.push_back(to_json(c.machine(), s));
  }
  return all;
}

inline void print(const strategy_comparison& c) {
  fmt::print("{:<12} {:>14} {:>14} {:>16} {:>14} {:>14}\n", "strategy", "iteration, ms", "computing, ms",
             "communicating, ms", "moved, MB", "memory, MB");
  for (const auto& s : c.strategies()) {
    const auto& p = s.report;
    const auto moved = p.is_of_representatives()
                           ? "not known"
                           : fmt::format("{:.3f}", static_cast<double>(p.communicated.count()) * 1e-6);
    fmt::print("{:<12} {:14.3f} {:14.3f} {:16.3f} {:>14} {:14.3f}{}\n", s.name, unity::to_seconds(p.iteration) * 1e3,
               unity::to_seconds(p.compute) * 1e3, unity::to_seconds(p.communication) * 1e3, moved,
               static_cast<double>(p.memory_peak().count()) * 1e-6, &s == &c.best() ? "  best" : "");
  }
  for (const auto& s : c.strategies()) {
    if (s.pipeline.stage_count() == 1 && s.pipeline.microbatches > 1) {
      fmt::print("{}: {} micro-batches, one after another\n", s.name, s.pipeline.microbatches);
    }
    if (s.pipeline.stage_count() > 1) {
      fmt::print("{}: {} micro-batches in {} stages{}, {}{}\n", s.name, s.pipeline.microbatches,
                 s.pipeline.stage_count(), unequal_stages(s.pipeline), schedule_name(s.pipeline),
                 s.pipeline.chunks == 1 ? "" : fmt::format(", {} chunks of each", s.pipeline.chunks));
    }
    if (const auto sharded = sharded_weights(s); recomputed_operators(s) + sharded[0] + sharded[1] + sharded[2] > 0) {
      fmt::print("{}: {} operators recomputed; weights of ZeRO 1, 2 and 3: {}, {} and {}\n", s.name,
                 recomputed_operators(s), sharded[0], sharded[1], sharded[2]);
    }
    if (s.report.is_of_representatives()) {
      fmt::print("{}: {}\n", s.name, described(s.report.simulated));
    }
  }
  for (const auto& s : c.left_out()) {
    fmt::print("{} is left out: {}\n", s.name, s.reason);
  }
  for (const auto& s : c.strategies()) {
    if (!s.report.excess.empty()) {
      fmt::print("{} does not fit: {}\n", s.name, unity::parallel::describe(c.machine(), s.report.excess));
    }
    if (!s.not_offloaded.empty()) {
      fmt::print("{} does not fit with moves to the host: {}\n", s.name, s.not_offloaded);
    }
    if (s.offloaded) {
      fmt::print(
          "{} fits with {:.3f} MB loaded from the host and {:.3f} MB stored there an iteration: train --memory "
          "{}B, of which kernels take some to work in\n",
          s.name, static_cast<double>(s.offloaded->moved.loaded.count()) * 1e-6,
          static_cast<double>(s.offloaded->moved.stored.count()) * 1e-6, s.offloaded->limit.count());
    }
  }
}

}  // namespace support
