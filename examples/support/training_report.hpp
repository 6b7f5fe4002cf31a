// What a run of `train` says in the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/breakdown.hpp>
#include <unity/train/evaluation.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_trace.hpp>

#include "outputs.hpp"
#include "training_flags.hpp"
#include "training_job.hpp"

namespace support {

struct training_outcome {
  std::vector<double> losses{};
  double seconds = 0;  // of an iteration, the median of those after the first
  unity::train::merged_timeline timeline{};
  std::optional<unity::train::test_result> test{};  // with a data set; of rank 0
};

// One iteration of a plan, simulated.
inline double simulated_seconds(const unity::tensor::algebra& a, const unity::parallel::plan& p) {
  unity::simulate::full_simulation s;
  const auto program = unity::parallel::lower(a, p);
  s.run(program);
  std::int64_t end = 0;
  for (const auto& t : s.times()) {
    end = std::max(end, t.end);
  }
  return unity::to_seconds(unity::picoseconds{end});
}

inline nlohmann::json shares_json(const unity::train::time_shares& s) {
  return {{"compute_s", unity::to_seconds(s.compute)},
          {"communication_s", unity::to_seconds(s.communication)},
          {"waiting_s", unity::to_seconds(s.waiting)},
          {"other_s", unity::to_seconds(s.other)}};
}

inline void print(const training_job& j, const training_outcome& r, double simulated,
                  const unity::train::breakdown& shares, std::optional<double> error_of_losses) {
  if (j.before) {
    std::printf("goes on after %llu steps\n", static_cast<unsigned long long>(j.first));
  }
  for (std::size_t s = 0; s < r.losses.size(); ++s) {
    if (s == 0 || s + 1 == r.losses.size()) {
      std::printf("step %zu: loss %.9g\n", static_cast<std::size_t>(j.first) + s, r.losses[s]);
    }
  }
  if (r.test) {
    std::printf("accuracy: %.4f, %lld of %lld for testing\n", r.test->accuracy(), static_cast<long long>(r.test->right),
                static_cast<long long>(r.test->count));
  }
  std::printf("iteration: %.3f ms measured, %.3f ms simulated on %s\n", r.seconds * 1e3, simulated * 1e3,
              j.trained.machine.name.c_str());
  const auto& critical = shares.ranks[shares.critical];
  std::printf("rank %zu, the busiest: %.3f ms computing, %.3f ms communicating, %.3f ms waiting, %.3f ms else\n",
              shares.critical, unity::to_seconds(critical.compute) * 1e3,
              unity::to_seconds(critical.communication) * 1e3, unity::to_seconds(critical.waiting) * 1e3,
              unity::to_seconds(critical.other) * 1e3);
  if (error_of_losses) {
    std::printf("checked: losses differ from those of the undivided graph by %.3g at most, relative\n",
                *error_of_losses);
  }
}

// Prints, and writes the files that the flags ask for: all or none. error_of_losses: of --check.
inline void report(const training_flags& a, const unity::tensor::algebra& operators, const training_job& j, int ranks,
                   const char* comm, const training_outcome& r, std::optional<double> error_of_losses) {
  const auto simulated = simulated_seconds(operators, j.trained);
  const auto [from, until] = r.timeline.extent();
  const auto shares = unity::train::break_down(r.timeline, from, until);
  print(j, r, simulated, shares, error_of_losses);
  std::vector<output> files;
  if (!a.trace.empty()) {
    files.push_back({a.trace,
                     {},
                     [&](const std::filesystem::path& path) { unity::train::write_chrome_trace(r.timeline, path); },
                     {}});
  }
  if (!a.json.empty()) {
    const auto number = [](const std::optional<double>& x) { return x ? nlohmann::json(*x) : nlohmann::json(nullptr); };
    nlohmann::json result{{"ranks", ranks},
                          {"backend", a.backend},
                          {"comm", comm},
                          {"first_step", j.first},
                          {"steps", a.steps},
                          {"loss", r.losses},
                          {"accuracy", number(r.test ? std::optional{r.test->accuracy()} : std::nullopt)},
                          {"max_rel_error_vs_single", number(error_of_losses)},
                          {"measured_iteration_s", r.seconds},
                          {"simulated_iteration_s", simulated},
                          {"breakdown", nlohmann::json::array()}};
    for (const auto& s : shares.ranks) {
      result["breakdown"].push_back(shares_json(s));
    }
    files.push_back({a.json, result.dump(2) + "\n", {}, {}});
  }
  write_all(files);
}

}  // namespace support
