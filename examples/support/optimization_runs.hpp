// Searches of `optimize` by measured or modelled kernel times, and its runs on a backend: single operators for a
// search, and both graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <unity/hardware/machine.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "optimization.hpp"
#include "timings.hpp"

namespace support {

struct run_flags {
  std::string measured{};  // the backend of --cost measured:BACKEND
  std::string run{};       // the backend of --run
  std::string timings{};
  int threads = 0;  // of the cpu backend; 0: all that the machine has
};

// A search by the modelled times of PyTorch's kernels on the device.
unity::systems::taso_result search_by(const unity::hardware::device& kernels, const unity::tensor::algebra& operators,
                                      const unity::rule_set& rules, const unity::systems::taso_options& options,
                                      const unity::tensor::tensor_graph& graph);

// The largest relative error of an output that rounding explains.
double run_tolerance(const unity::tensor::tensor_graph& g);

// Throws: unity::error if --run names a backend without a kernel for an operator of the graph.
void expect_kernels(const run_flags& f, const unity::tensor::algebra& operators, const unity::tensor::tensor_graph& g);

// A search by measured times. Measuring does not count as search time, so a second run with stored times finds the
// same. shares_memory: see measured_durations. Throws: unity::error if an operator of the graph cannot be run.
unity::systems::taso_result search_by(unity::tensor::timing_cache<any_timer>& cache,
                                      const unity::tensor::algebra& operators, const unity::rule_set& rules,
                                      unity::systems::taso_options options, const unity::tensor::tensor_graph& graph,
                                      bool shares_memory);

// The search by times measured on the backend of --cost, then `check`, then the run on the same backend if --run names
// it. Throws: unity::error if an operator cannot be run, or as run_both.
void search_measured(const run_flags& f, const unity::tensor::algebra& operators, const unity::rule_set& rules,
                     const unity::systems::taso_options& options, optimization& r, const std::function<void()>& check);

// Effects: runs both graphs if --run requests it and it was not done before.
// Throws: unity::error if the results differ by more than rounding explains.
void run_both(const run_flags& f, const unity::tensor::algebra& operators, std::uint64_t seed, optimization& r);

}  // namespace support
