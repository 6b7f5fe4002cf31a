// Times runs of graphs, and compares the times and results of two graphs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/cost/duration.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend {

struct repetition_options {
  int warm_up = 2;
  int least = 5;       // least timed runs of each graph
  int most = 100;      // most timed runs of each graph
  double seconds = 3;  // no more runs after this time
};
struct comparison_options {
  executor_options run{};
  repetition_options repeat{};
};

// Times are those of whole graphs, from the first launch to the end of the last.
struct run_comparison {
  measurement first{};
  measurement second{};
  double max_relative_error = 0;  // of the second graph's outputs, as backend::relative_error
  executor_counts first_counts{};
  executor_counts second_counts{};
};

namespace detail {

// Runs that are repeated and timed as repetition_options says.
class timed_runs {
 public:
  explicit timed_runs(const repetition_options& options) : options_{options} {}

  template <class Executor>
  [[nodiscard]] static double seconds_of(Executor& e) {
    const auto start = clock::now();
    e.run();
    e.wait();
    return seconds_since(start);
  }
  template <class Executor>
  void warm_up(Executor& e) const {
    for (int i = 0; i < std::max(options_.warm_up, 1); ++i) {
      static_cast<void>(seconds_of(e));
    }
  }
  // Calls round(i) for each repetition.
  template <class Round>
  void repeat(const Round& round) const {
    const auto start = clock::now();
    for (int i = 0; i < options_.least || (i < options_.most && seconds_since(start) < options_.seconds); ++i) {
      round(i);
    }
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] static double seconds_since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  }

  repetition_options options_;
};

}  // namespace detail

// Times runs of the graph, after the warm-up.
// Throws: unity::error if a run fails.
template <device_backend Backend>
[[nodiscard]] measurement time_runs(executor<Backend>& e, const repetition_options& options = {}) {
  const detail::timed_runs runs{options};
  runs.warm_up(e);
  std::vector<double> seconds;
  runs.repeat([&](int) { seconds.push_back(runs.seconds_of(e)); });
  return summarize(std::move(seconds));
}

// Times both in turns, alternating which one goes first, so that disturbances affect both.
// Throws: unity::error if a run fails, or if outputs differ in number or sizes.
template <device_backend Backend>
[[nodiscard]] run_comparison compare_runs(executor<Backend>& first, executor<Backend>& second,
                                          const repetition_options& options = {}) {
  expect_same_outputs(first.output_types(), second.output_types());
  const detail::timed_runs runs{options};
  runs.warm_up(first);
  runs.warm_up(second);
  run_comparison found;
  for (std::size_t i = 0; i < first.output_count(); ++i) {
    found.max_relative_error = std::max(
        found.max_relative_error, relative_error(second.template output<double>(i), first.template output<double>(i)));
  }
  std::vector<double> of_first;
  std::vector<double> of_second;
  runs.repeat([&](int i) {
    if (i % 2 == 0) {
      of_first.push_back(runs.seconds_of(first));
    }
    of_second.push_back(runs.seconds_of(second));
    if (i % 2 == 1) {
      of_first.push_back(runs.seconds_of(first));
    }
  });
  found.first = summarize(std::move(of_first));
  found.second = summarize(std::move(of_second));
  found.first_counts = first.counts();
  found.second_counts = second.counts();
  return found;
}

// Likewise for graphs, on equal values for sources of the same name.
// Throws: also as executor.
template <device_backend Backend>
[[nodiscard]] run_comparison compare_runs(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& first,
                                          const tensor::tensor_graph& second, const comparison_options& options = {}) {
  executor<Backend> one{backend, a, first, options.run};
  executor<Backend> two{backend, a, second, options.run};
  return compare_runs(one, two, options.repeat);
}

}  // namespace unity::backend
