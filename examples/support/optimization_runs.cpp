#include "optimization_runs.hpp"

#include <cstdint>
#include <functional>
#include <string>

#include <fmt/core.h>

#include <unity/backend/device_timer.hpp>
#include <unity/backend/run_comparison.hpp>
#include <unity/core/error.hpp>
#include <unity/hardware/kernel_devices.hpp>
#include <unity/hardware/kernel_durations.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/measured_durations.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "backends.hpp"
#include "models.hpp"
#include "timings.hpp"

namespace support {

namespace {

using namespace unity;

template <class Backend>
backend::run_comparison compare(Backend& backend, const tensor::algebra& operators, const run_flags& f,
                                std::uint64_t seed, const optimization& r) {
  backend::comparison_options options;
  options.run.seed = seed;
  options.run.data = model_values(operators, r.before, seed);
  const auto found = backend::compare_runs(backend, operators, r.before.graph, r.found.graph, options);
  const auto tolerance = run_tolerance(r.before.graph);
  if (!(found.max_relative_error <= tolerance)) {
    throw error{fmt::format("--run {}", f.run),
                fmt::format("the outputs of the optimized graph differ by {}", found.max_relative_error),
                fmt::format("a relative error of at most {:f}", tolerance)};
  }
  return found;
}

void warn(const std::string& line) { fmt::print(stderr, "optimize: {}\n", line); }

}  // namespace

systems::taso_result search_by(tensor::timing_cache<any_timer>& cache, const tensor::algebra& operators,
                               const rule_set& rules, systems::taso_options options, const tensor::tensor_graph& graph,
                               bool shares_memory) {
  const tensor::time_cost<tensor::measured_durations<any_timer>> time{
      operators, {operators, cache, shares_memory}, options.objective.mode};
  static_cast<void>(time.total(graph));  // says what cannot be run
  options.excluded_seconds = [&] { return cache.seconds(); };
  return systems::taso(operators, time, rules, graph, options);
}

systems::taso_result search_by(const hardware::device& kernels, const tensor::algebra& operators, const rule_set& rules,
                               const systems::taso_options& options, const tensor::tensor_graph& graph) {
  hardware::machine on;
  on.devices = {kernels};
  const tensor::time_cost<hardware::kernel_durations> time{operators, hardware::kernel_durations_of(operators, on),
                                                           options.objective.mode};
  return systems::taso(operators, time, rules, graph, options);
}

double run_tolerance(const tensor::tensor_graph& g) {
  double tolerance = 1e-4;
  for (const auto v : g.outputs()) {
    tolerance = tensor::size_of(g.type(v).element) < 4 ? 3e-2 : tolerance;
  }
  return tolerance;
}

void expect_kernels(const run_flags& f, const tensor::algebra& operators, const tensor::tensor_graph& g) {
  if (!f.run.empty()) {
    with_backend(f.run, operators, f.threads, [&](auto& backend) { backend::expect_kernels(backend, operators, g); });
  }
}

void search_measured(const run_flags& f, const tensor::algebra& operators, const rule_set& rules,
                     const systems::taso_options& options, optimization& r, const std::function<void()>& check) {
  with_backend(f.measured, operators, f.threads, [&](auto& backend) {
    warn_if_busy(warn);
    backend::device_timer device{backend};
    any_timer timer{[&](const auto& op, auto inputs, auto outputs) { return device.time(op, inputs, outputs); },
                    device.description()};
    tensor::timing_cache<any_timer> cache{operators, timer, timings_file(f.timings, timer.about, warn), warn};
    r.found = search_by(cache, operators, rules, options, r.before.graph, true);
    check();
    if (f.run == f.measured) {
      r.run = {compare(backend, operators, f, options.seed, r),
               backend::predicted_time(operators, r.before.graph, device, cache),
               backend::predicted_time(operators, r.found.graph, device, cache)};
    }
    cache.save();
    r.measured = {timer.about, cache.measured(), cache.known(), cache.seconds()};
  });
}

void run_both(const run_flags& f, const tensor::algebra& operators, std::uint64_t seed, optimization& r) {
  if (!f.run.empty() && !r.run) {
    with_backend(f.run, operators, f.threads, [&](auto& backend) {
      r.run = {compare(backend, operators, f, seed, r), {}, {}};
    });
  }
}

}  // namespace support
