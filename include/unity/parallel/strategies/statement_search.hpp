// Searches the fastest plan statement of a model on a machine, and the fastest ones that need less memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_bound.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_space.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

struct timed_statement {
  plan_statement statement{};
  picoseconds iteration{};
  bytes peak{};  // of the device that holds most

  friend bool operator==(const timed_statement&, const timed_statement&) = default;
};

// The statements that no other one beats: none is at least as fast and holds at most as much. Of equal ones, the first.
// Fastest first.
// Complexity: n log n.
[[nodiscard]] std::vector<timed_statement> frontier_of(std::vector<timed_statement> all);

struct statement_search_options {
  bytes memory{};  // of a device; 0: no limit
  double seconds = std::numeric_limits<double>::infinity();
};

// Deterministic, except that less is found if time ends the search.
struct statement_search_result {
  std::vector<timed_statement> simulated{};  // those that fit, in ascending order of their bounds
  std::vector<timed_statement> frontier{};   // frontier_of(simulated)
  bool is_best_proved = false;               // no statement is faster than the first of the frontier
  bool is_complete = false;                  // every statement was decided: the frontier is that of all
  std::optional<picoseconds> bound{};        // if time ended the search: no statement that is left is faster
  // These add up to `statements`:
  std::size_t statements = 0;
  std::size_t over_memory = 0;  // need too much memory, by their bound or as simulated
  std::size_t by_bound = 0;     // not simulated: one that was is no slower and holds no more than their bounds say
  std::size_t left = 0;         // not decided when time ended the search
  double seconds = 0;

  // The fastest of those that were simulated. Precondition: there is one.
  [[nodiscard]] const timed_statement& best() const { return frontier.front(); }
};

// The graph of the model for a micro-batch of so many samples. layers: 0 for as many as the model has.
using microbatch_graphs = std::function<tensor::tensor_graph(std::int64_t micro, std::uint32_t layers)>;

namespace detail {

class statement_searcher {
 public:
  statement_searcher(const tensor::algebra& a, microbatch_graphs graph_of, const hardware::machine& m,
                     const tensor::durations& durations, optimizer updates, const statement_search_options& options);

  [[nodiscard]] statement_search_result run(const statement_space& space);

 private:
  // Micro-batch, t, sp, recomputation, and whether gradients are divided.
  using work_key = std::tuple<std::int64_t, std::int64_t, bool, recomputed_part, bool>;
  using group_key = std::tuple<std::int64_t, std::int64_t, bool>;  // t, p, whether there are several chunks
  struct candidate {
    plan_statement statement{};
    picoseconds bound{};
    bytes least{};
  };

  [[nodiscard]] bool is_over() const { return clock_.seconds() >= options_.seconds; }
  [[nodiscard]] bool is_too_much(bytes b) const { return options_.memory > bytes{} && b > options_.memory; }
  [[nodiscard]] std::vector<plan_statement> all_of(const statement_space& space);
  [[nodiscard]] transformer_work new_work(const plan_statement& s, std::uint32_t layers);
  // The work of the statement. If gradients are divided, one for all d.
  [[nodiscard]] const transformer_work& work(const plan_statement& s);
  [[nodiscard]] statement_groups& groups(const plan_statement& s);
  void find_candidates(const std::vector<plan_statement>& all);
  void refuse(bytes needed) {
    ++result_.over_memory;
    least_ = std::min(least_, needed);
  }
  void simulate(const candidate& c);
  void simulate_all();

  const tensor::algebra& algebra_;
  microbatch_graphs graph_of_;
  const hardware::machine& machine_;
  std::uint32_t model_;
  const tensor::durations& durations_;
  task_times times_;
  statement_search_options options_;
  stopwatch clock_{};
  simulate::full_simulation simulation_{};
  std::uint32_t layers_ = 0;
  std::optional<bool> are_layers_alike_{};  // if so, the work of three layers gives that of all (with_layers)
  std::map<std::pair<std::int64_t, std::uint32_t>, tensor::tensor_graph> graphs_{};
  std::map<work_key, transformer_work> works_{};
  std::map<group_key, statement_groups> groups_{};
  statement_peaks peaks_{};
  bytes least_ = bytes{std::numeric_limits<std::int64_t>::max()};  // the least memory that a refused statement needs
  std::vector<candidate> candidates_{};
  statement_search_result result_{};
};

}  // namespace detail

// Simulates the statements of a space in ascending order of their bounds. Leaves out those that need more memory than a
// device has, and those that a simulated one beats: it is no slower, and holds no more, than their bounds say. Devices
// must be alike.
// Complexity: the work of a layer for each size of micro-batches, t, sp and recomputation; a bound for each statement;
// the simulations; and at worst the square of the number of statements.
// Throws: unity::error for a model that is not a transformer, a machine whose nodes differ, where no statement divides
// or fits, and where time is over before one was simulated.
[[nodiscard]] inline statement_search_result search_statements(const tensor::algebra& a,
                                                               const microbatch_graphs& graph_of,
                                                               const hardware::machine& m,
                                                               const tensor::durations& durations, optimizer updates,
                                                               const statement_space& space,
                                                               const statement_search_options& options) {
  return detail::statement_searcher{a, graph_of, m, durations, updates, options}.run(space);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_SEARCH)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/statement_program.hpp>
#include <unity/parallel/strategies/statement_stages.hpp>
#include <unity/parallel/strategies/transformer_layers.hpp>
#include <unity/simulate/timeline.hpp>

namespace unity::parallel::detail {

UNITY_INLINE statement_searcher::statement_searcher(const tensor::algebra& a, microbatch_graphs graph_of,
                                                    const hardware::machine& m, const tensor::durations& durations,
                                                    optimizer updates, const statement_search_options& options)
    : algebra_{a},
      graph_of_{std::move(graph_of)},
      machine_{m},
      model_{m.network[hardware::device_id{0U}].model},
      durations_{durations},
      times_{a, durations, updates},
      options_{options} {}

UNITY_INLINE statement_search_result statement_searcher::run(const statement_space& space) {
  find_candidates(all_of(space));
  simulate_all();
  if (result_.simulated.empty() && result_.left > 0) {
    throw error{"plan", fmt::format("no statement was simulated in {} s", options_.seconds), "more time"};
  }
  if (result_.simulated.empty()) {
    throw error{"plan",
                fmt::format("statements of {} need {} bytes of a device, or more", to_string(space), least_.count()),
                fmt::format("one that needs {} at most, as a device has", options_.memory.count())};
  }
  result_.frontier = frontier_of(result_.simulated);
  result_.is_complete = result_.left == 0;
  result_.is_best_proved =
      result_.is_complete || (result_.bound && *result_.bound >= result_.frontier.front().iteration);
  result_.seconds = clock_.seconds();
  return std::move(result_);
}

UNITY_INLINE std::vector<plan_statement> statement_searcher::all_of(const statement_space& space) {
  const auto& graph = graphs_.emplace(std::pair{std::int64_t{1}, 0U}, graph_of_(1, 0)).first->second;
  const auto layers = layers_of(algebra_, graph, graph_dimensions{algebra_, graph});
  layers_ = layers.count;
  const auto nodes = hardware::devices_by_node(machine_.network);
  auto all = all_statements(space, {static_cast<std::int64_t>(machine_.network.device_count()),
                                    static_cast<std::int64_t>(nodes.empty() ? 1 : nodes[0].size()), layers.count,
                                    layers.heads, layers.has_core, layers.positions});
  result_.statements = all.size();
  return all;
}

UNITY_INLINE statement_groups& statement_searcher::groups(const plan_statement& s) {
  const group_key key{s.tensor, s.pipeline, s.interleave > 1};
  auto at = groups_.find(key);
  if (at == groups_.end()) {
    at = groups_.emplace(key, statement_groups{s, machine_}).first;
  }
  return at->second;
}

UNITY_INLINE transformer_work statement_searcher::new_work(const plan_statement& s, std::uint32_t layers) {
  const std::pair key{s.micro, layers};
  auto graph = graphs_.find(key);
  if (graph == graphs_.end()) {
    graph = graphs_.emplace(key, graph_of_(s.micro, layers)).first;
  }
  auto whole = s;
  whole.pipeline = whole.interleave = 1;  // so that any number of layers divides
  whole.first_layers = whole.last_layers = 0;
  return work_of(algebra_, graph->second, whole, durations_, model_);
}

UNITY_INLINE const transformer_work& statement_searcher::work(const plan_statement& s) {
  const work_key key{s.micro, s.tensor, s.is_sequence_parallel, s.recomputed, s.divides_gradients()};
  auto at = works_.find(key);
  if (at != works_.end()) {
    return at->second;
  }
  constexpr std::uint32_t few = 3;
  if (!are_layers_alike_) {
    auto one = s;
    one.micro = 1;
    are_layers_alike_ = layers_ > few && with_layers(new_work(one, few), layers_) == new_work(one, 0);
  }
  auto found = *are_layers_alike_ ? with_layers(new_work(s, few), layers_) : new_work(s, 0);
  return works_.emplace(key, std::move(found)).first->second;
}

UNITY_INLINE void statement_searcher::find_candidates(const std::vector<plan_statement>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& s = all[i];
    if (is_over()) {
      result_.left = all.size() - i;
      result_.bound = picoseconds{};
      break;
    }
    auto& g = groups(s);
    const statement_stages stages{s, work(s), g};
    const auto least = peaks_.least_of(s, stages, times_.updates());
    if (is_too_much(least)) {
      refuse(least);
      continue;
    }
    candidates_.push_back({s, iteration_bound(s, stages, machine_, times_, g), least});
  }
  unity::stable_sort(candidates_, [](const candidate& x, const candidate& y) {
    return std::tuple{x.bound, x.least} < std::tuple{y.bound, y.least};
  });
}

UNITY_INLINE void statement_searcher::simulate(const candidate& c) {
  auto& g = groups(c.statement);
  const auto& all = work(c.statement);
  const auto own = c.statement.divides_gradients()
                       ? std::optional{with_data_groups(all, algebra_, c.statement.data, durations_, model_)}
                       : in_one_step_each(c.statement, statement_stages{c.statement, all, g}, all, g);
  const bool is_inner = c.statement.overlaps_sums();  // the same work in fewer tasks is for some of the phases
  const auto p = program_of(c.statement, machine_, own && !is_inner ? *own : all, times_, g,
                            statement_devices::one_of_each_stage, own && is_inner ? &*own : nullptr);
  const auto iteration = simulation_.run(p.program);
  bytes peak{};
  for (const auto& m : simulate::memory_profiles(p.program, simulation_.times())) {
    peak = std::max(peak, m.peak);
  }
  if (is_too_much(peak)) {
    refuse(peak);
  } else {
    result_.simulated.push_back({c.statement, iteration, peak});
  }
}

UNITY_INLINE void statement_searcher::simulate_all() {
  for (const auto& c : candidates_) {
    if (std::any_of(result_.simulated.begin(), result_.simulated.end(),
                    [&](const auto& s) { return s.iteration <= c.bound && s.peak <= c.least; })) {
      ++result_.by_bound;
    } else if (is_over()) {
      ++result_.left;
      result_.bound = result_.bound.value_or(c.bound);
    } else {
      simulate(c);
    }
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<timed_statement> frontier_of(std::vector<timed_statement> all) {
  unity::stable_sort(all, [](const auto& x, const auto& y) {
    return std::tuple{x.iteration, x.peak} < std::tuple{y.iteration, y.peak};
  });
  std::vector<timed_statement> few;
  for (const auto& s : all) {
    if (few.empty() || s.peak < few.back().peak) {
      few.push_back(s);
    }
  }
  return few;
}

}  // namespace unity::parallel

#endif
