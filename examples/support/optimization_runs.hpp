// Searches of optimize by other times than rates predict, and what it runs on a backend: operators that a search asks
// for, and both graphs.
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

// A search by the kernels of PyTorch that run operators on the device.
unity::systems::taso_result search_by(const unity::hardware::device& kernels, const unity::tensor::algebra& operators,
                                      const unity::rule_set& rules, const unity::systems::taso_options& options,
                                      const unity::tensor::tensor_graph& graph);

// The largest relative error of an output that rounding explains.
double run_tolerance(const unity::tensor::tensor_graph& g);

// Throws: unity::error where --run names a backend without a kernel for an operator of the graph.
void expect_kernels(const run_flags& f, const unity::tensor::algebra& operators, const unity::tensor::tensor_graph& g);

// A search by measured times. Measuring does not count as searching: a second run, which need not measure, finds the
// same. shares_memory: see measured_durations. Throws: unity::error where an operator of the graph cannot be run.
unity::systems::taso_result search_by(unity::tensor::timing_cache<any_timer>& cache,
                                      const unity::tensor::algebra& operators, const unity::rule_set& rules,
                                      unity::systems::taso_options options, const unity::tensor::tensor_graph& graph,
                                      bool shares_memory);

// The search by times that the backend of --cost measures, then `check`, then the run on the same backend, where --run
// names it. Throws: unity::error where an operator cannot be run, or as run_both.
void search_measured(const run_flags& f, const unity::tensor::algebra& operators, const unity::rule_set& rules,
                     const unity::systems::taso_options& options, optimization& r, const std::function<void()>& check);

// Effects: runs both graphs, where --run asks for it and nothing has done it.
// Throws: unity::error where the results differ by more than rounding explains.
void run_both(const run_flags& f, const unity::tensor::algebra& operators, std::uint64_t seed, optimization& r);

}  // namespace support
