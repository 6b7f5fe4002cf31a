// Compares ways to synchronize a model's weights, by rules and by searches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/io/resource_spec.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/systems/autodist/evaluator.hpp>
#include <unity/systems/autodist/trials.hpp>
#include <unity/tensor/algebra.hpp>

namespace support {

// auto    AutoDist's, whose ranker learns from trials
// random  the same sampled ways, none ranked
// mcmc    the library's chain, from the fastest rule
// beam    the library's beam, from the fastest rule
inline constexpr std::array<std::string_view, 4> sync_searches{"auto", "random", "mcmc", "beam"};

// A way to synchronize, with its time and memory.
struct sync_outcome {
  std::string name{};
  unity::parallel::synchronization sync{};
  unity::picoseconds iteration{};  // simulated
  unity::bytes moved{};
  unity::bytes memory_peak{};  // of the device that holds most
  std::vector<unity::parallel::memory_excess> excess{};
  std::optional<double> load{};  // bytes of the fullest server over their mean; nothing without servers
  std::optional<unity::picoseconds>
      measured{};  // where trials are run: its run, or the median of those after the first
  std::size_t runs = 0;
  bool is_rule = true;  // or the strategy of a file

  [[nodiscard]] unity::picoseconds time() const { return measured.value_or(iteration); }
};

// Compares ways, one after the other. Its arguments must outlive it.
class sync_comparison {
 public:
  using run_function = std::function<unity::picoseconds(const unity::parallel::synchronization&)>;

  // run: runs a plan and returns the time of an iteration; empty: iterations are simulated.
  sync_comparison(const unity::tensor::algebra& operators, const unity::io::resources& r,
                  unity::systems::sync_problem problem, unity::systems::sync_simulation simulation, run_function run)
      : operators_{operators},
        resources_{r},
        problem_{std::move(problem)},
        simulation_{std::move(simulation)},
        run_{std::move(run)} {}

  [[nodiscard]] const unity::systems::sync_problem& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::vector<sync_outcome>& all() const noexcept { return all_; }
  // The fastest of those that fit in memory, if any fits; only of those that were run again, if any was.
  [[nodiscard]] const sync_outcome& best() const;
  // The record of AutoDist's search, if it ran.
  [[nodiscard]] const std::optional<unity::systems::trial_result>& trials() const noexcept { return trials_; }
  // The fastest before any search.
  [[nodiscard]] unity::picoseconds baseline() const { return rules_[0].time(); }

  // The simulated time of an iteration in which every device updates by its own gradients, without messages. Ways in
  // which devices update only some weights, or make the gradients of only some tables, can be faster.
  [[nodiscard]] unity::picoseconds computing();

  void add(std::string name, unity::parallel::synchronization sync);
  // With this number of trials and seconds; each search begins with the results of rules only.
  // If trials are run, the three fastest are added. Precondition: a way was added before.
  void search(std::string_view name, std::size_t trials, double seconds, std::uint64_t seed);
  // After all ways were added and run: runs the fastest again (systems/autodist/reruns.hpp), which decides.
  void run_again(std::size_t rounds);

 private:
  // measured: by its first run, where it had one.
  void add(std::string name, unity::parallel::synchronization sync, std::optional<unity::picoseconds> measured);
  void sample(bool is_ranked, std::size_t trials, double seconds, std::uint64_t seed);
  void walk(bool is_beam, std::size_t trials, double seconds, std::uint64_t seed);

  const unity::tensor::algebra& operators_;
  const unity::io::resources& resources_;
  unity::systems::sync_problem problem_;
  unity::systems::sync_simulation simulation_;
  run_function run_;
  std::vector<sync_outcome> all_{};
  std::vector<sync_outcome> rules_{};  // the fastest of them, once there was a search
  std::optional<std::size_t> best_{};  // by runs after the first
  std::optional<unity::systems::trial_result> trials_{};
};

}  // namespace support
