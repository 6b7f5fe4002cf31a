// The times of operators: by the rates of the machine's devices, by the model of their kernels, or measured on this
// machine.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/backend/device_timer.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/kernel_devices.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/measured_durations.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "backends.hpp"
#include "number_range.hpp"
#include "timings.hpp"

namespace support {

struct timing_flags {
  std::string cost = "analytic";
  std::string timings{};
  int backend_threads = 0;
  bool has_launches = true;  // in times that are not measured; otherwise the caller adds them
};

inline void declare(CLI::App& app, timing_flags& f) {
  app.add_option(
      "--cost", f.cost,
      fmt::format("where times of operators come from: analytic (by the rates of the machine's devices), kernels "
                  "(of PyTorch, on those devices) or kernels:DEVICE (on that one), or measured:BACKEND (on this "
                  "machine; {})",
                  backend_list()));
  app.add_option("--timings", f.timings,
                 "file that keeps measured times, or none; default: in the user's cache folder");
  app.add_option("--backend-threads", f.backend_threads,
                 "threads of the cpu backend, with --cost measured:cpu; 0: all of the machine")
      ->check(number_in(0, 1024));
}

// The device of --cost kernels:DEVICE, or nothing.
// Throws: unity::error if there is no such device.
inline std::optional<unity::hardware::device> device_of_kernels(const std::string& cost) {
  const std::string prefix = "kernels:";
  if (!cost.starts_with(prefix)) {
    return std::nullopt;
  }
  auto found = unity::hardware::find_model(cost.substr(prefix.size()));
  if (!found || found->kind != unity::hardware::device_kind::gpu) {
    throw unity::error{"--cost kernels", fmt::format("'{}'", cost.substr(prefix.size())),
                       fmt::format("one of {}", unity::hardware::gpu_names())};
  }
  return found;
}

// The backend; empty: none.
// Throws: unity::error if flags are invalid or exclude each other.
inline std::string measured_backend(const timing_flags& f) {
  const std::string prefix = "measured:";
  if (f.cost.rfind(prefix, 0) == 0) {
    const auto name = f.cost.substr(prefix.size());
    check_backend(name, "--cost measured");
    check_threads(name, f.backend_threads);
    return name;
  }
  if (f.cost != "analytic" && f.cost != "kernels" && !device_of_kernels(f.cost)) {
    throw unity::error{"--cost", fmt::format("'{}'", f.cost), "analytic, kernels, kernels:DEVICE or measured:BACKEND"};
  }
  if (!f.timings.empty() || f.backend_threads != 0) {
    throw unity::error{f.timings.empty() ? "--backend-threads" : "--timings", "given, but nothing is measured",
                       "--cost measured:BACKEND besides"};
  }
  return {};
}

// Throws: unity::error if devices of several kinds would all be measured here.
inline void expect_one_kind(const timing_flags& flags, const unity::hardware::machine& m) {
  if (!measured_backend(flags).empty() && m.devices.size() != 1) {
    throw unity::error{fmt::format("--cost {}", flags.cost),
                       fmt::format("{} kinds of devices in machine {}", m.devices.size(), m.name),
                       "one, which is this machine's"};
  }
}

// Calls f(durations). Effects: stores measured times, and prints their number.
// Throws: as expect_one_kind; unity::error if operators cannot run.
template <class F>
void with_durations(const timing_flags& flags, const unity::tensor::algebra& a, const unity::hardware::machine& m,
                    const char* program, const F& f) {
  using namespace unity;
  const auto name = measured_backend(flags);
  if (name.empty()) {
    auto on = m;
    if (const auto named = device_of_kernels(flags.cost)) {
      std::fill(on.devices.begin(), on.devices.end(), *named);
    }
    for (auto& d : on.devices) {
      d.launch_seconds = flags.has_launches ? d.launch_seconds : 0;
    }
    return flags.cost == "analytic" ? f(parallel::analytic_durations(a, on)) : f(hardware::kernel_durations_of(a, on));
  }
  expect_one_kind(flags, m);
  const auto warn = [&](const std::string& line) { fmt::print(stderr, "{}: {}\n", program, line); };
  with_backend(name, a, flags.backend_threads, [&](auto& backend) {
    warn_if_busy(warn);
    backend::timing_options timing;
    timing.activation_bytes = std::size_t{32} << 20U;  // some operands of a step are recent, some are old
    backend::device_timer device{backend, timing};
    any_timer timer{[&](const auto& op, auto inputs, auto outputs) { return device.time(op, inputs, outputs); },
                    device.description()};
    tensor::timing_cache<any_timer> cache{a, timer, timings_file(flags.timings, timer.about, warn), warn};
    f(tensor::measured_durations{a, cache});
    cache.save();
    fmt::print("measured: {} operators in {:.1f} s, {} known, on {}\n", cache.measured(), cache.seconds(),
               cache.known(), timer.about);
  });
}

}  // namespace support
