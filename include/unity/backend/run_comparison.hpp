// Two graphs run against each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/cost/kernel_timer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend {

struct comparison_options {
  executor_options run{};
  int warm_up = 2;
  int least = 5;       // timed runs of each graph at least
  int most = 100;      // and at most
  double seconds = 3;  // no more runs after this time
};

// Of whole graphs, from the first launch to the end of the last.
struct run_comparison {
  measurement first{};
  measurement second{};
  double max_relative_error = 0;  // of the second graph's outputs, as backend::relative_error
  executor_counts first_counts{};
  executor_counts second_counts{};
};

// Times both graphs on equal values for sources of one name, in turns, the one that goes first changing, so that what
// disturbs the machine disturbs both.
// Throws: unity::error as the executor; where outputs are of other number.
template <device_backend Backend>
[[nodiscard]] run_comparison compare_runs(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& first,
                                          const tensor::tensor_graph& second, const comparison_options& options = {}) {
  using clock = std::chrono::steady_clock;
  const auto since = [](clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); };
  executor<Backend> one{backend, a, first, options.run};
  executor<Backend> two{backend, a, second, options.run};
  if (one.output_count() != two.output_count()) {
    throw error{"outputs of two graphs", std::to_string(one.output_count()) + " and " + std::to_string(two.output_count()),
                "as many"};
  }
  const auto run = [&](executor<Backend>& e) {
    const auto start = clock::now();
    e.run();
    e.wait();
    return since(start);
  };
  for (int i = 0; i < std::max(options.warm_up, 1); ++i) {
    run(one);
    run(two);
  }
  run_comparison found;
  for (std::size_t i = 0; i < one.output_count(); ++i) {
    found.max_relative_error = std::max(found.max_relative_error, relative_error(two.output(i), one.output(i)));
  }
  std::vector<double> of_one;
  std::vector<double> of_two;
  const auto start = clock::now();
  for (int i = 0; i < options.least || (i < options.most && since(start) < options.seconds); ++i) {
    if (i % 2 == 0) {
      of_one.push_back(run(one));
    }
    of_two.push_back(run(two));
    if (i % 2 == 1) {
      of_one.push_back(run(one));
    }
  }
  found.first = summarize(std::move(of_one));
  found.second = summarize(std::move(of_two));
  found.first_counts = one.counts();
  found.second_counts = two.counts();
  return found;
}

}  // namespace unity::backend
