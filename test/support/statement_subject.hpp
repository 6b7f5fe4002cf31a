// Small transformers on small machines for tests of plan statements, and exhaustive lists of their statements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_loss.hpp>
#include <unity/parallel/strategies/statement_program.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

namespace unity::test {

struct simulated_statement {
  unity::parallel::plan_statement statement{};
  unity::picoseconds iteration{};
  unity::bytes peak{};
};

struct statement_subject {
  unity::tensor::algebra operators = unity::tensor::training_algebra();
  std::string model{};
  unity::hardware::machine on{};
  unity::tensor::durations durations;
  unity::parallel::task_times times;

  statement_subject(std::string name, const std::string& machine)
      : model{std::move(name)},
        on{unity::hardware::preset(machine)},
        durations{unity::parallel::analytic_durations(operators, on)},
        times{operators, durations, unity::parallel::optimizer::adam} {}

  // layers: 0 for the model's own number.
  [[nodiscard]] unity::tensor::tensor_graph graph(std::int64_t micro, std::uint32_t layers = 0) const {
    using namespace unity;
    auto r = tensor::zoo::parse(model);
    r.values.batch = micro;
    r.values.layers = layers == 0 ? r.values.layers : layers;
    return parallel::with_wide_loss(operators, tensor::converted(operators, r.chosen->build(operators, r.values),
                                                                 tensor::dtype::float32, tensor::dtype::bfloat16));
  }
  [[nodiscard]] unity::parallel::transformer_work work(const unity::parallel::plan_statement& s,
                                                       std::uint32_t layers = 0) const {
    return unity::parallel::work_of(operators, graph(s.micro, layers), s, durations);
  }
  [[nodiscard]] simulated_statement simulate(const unity::parallel::plan_statement& s,
                                             const unity::parallel::transformer_work& w,
                                             const unity::parallel::transformer_work* inner = nullptr) const {
    unity::parallel::statement_groups groups{s, on};
    const auto p = unity::parallel::program_of(s, on, w, times, groups,
                                               unity::parallel::statement_devices::one_of_each_stage, inner);
    unity::simulate::full_simulation run;
    simulated_statement r{s, run.run(p.program), {}};
    for (const auto& m : unity::simulate::memory_profiles(p.program, run.times())) {
      r.peak = std::max(r.peak, m.peak);
    }
    return r;
  }
  // All statements that are not refused, by trying all numbers. Leaves out sp with t=1, and ZeRO and overlap with d=1,
  // because they equal other statements.
  [[nodiscard]] std::vector<simulated_statement> simulate_all(std::int64_t batch, std::int64_t layers) const;
};

// By trial, the layers of the first and last stage: 0 for equal stages, or as equal as possible when the other stages
// have one layer more than an equal share. Two stages may differ by two layers.
inline std::vector<std::pair<std::int64_t, std::int64_t>> searched_ends(std::int64_t stages, std::int64_t layers) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, 0}};  // refused if the stages do not divide the layers
  for (std::int64_t first = 1; first < layers && stages > 1; ++first) {
    for (std::int64_t last = 1; first + last <= layers; ++last) {
      const auto apart = std::max(first, last) - std::min(first, last);
      const auto middle = layers / stages + 1;
      const bool is_near =
          stages == 2 ? first + last == layers && apart > 0 && apart <= 2
                      : first + last + (stages - 2) * middle == layers && apart <= 1 && std::max(first, last) <= middle;
      if (is_near) {
        all.emplace_back(first, last);
      }
    }
  }
  return all;
}

inline std::vector<simulated_statement> statement_subject::simulate_all(std::int64_t batch, std::int64_t layers) const {
  using namespace unity::parallel;
  std::vector<simulated_statement> all;
  // What the work depends on: micro-batch, t, sp, recomputation, and d if gradients are divided.
  std::map<std::tuple<std::int64_t, std::int64_t, bool, recomputed_part, std::int64_t>, transformer_work> works;
  const auto devices = static_cast<std::int64_t>(on.network.device_count());
  std::map<std::int64_t, unity::tensor::tensor_graph> graphs;
  const auto attempt = [&](const plan_statement& s) {
    auto g = graphs.find(s.micro);
    if (g == graphs.end()) {
      g = graphs.emplace(s.micro, graph(s.micro)).first;
    }
    try {  // catches only refusals of the statement
      check(s, on.network.device_count());
      static_cast<void>(layers_of_stages(s, layers));
      const std::tuple key{s.micro, s.tensor, s.is_sequence_parallel, s.recomputed,
                           s.divides_gradients() ? s.data : std::int64_t{0}};
      auto at = works.find(key);
      if (at == works.end()) {
        at = works.emplace(key, work_of(operators, g->second, s, durations)).first;
      }
      all.push_back(simulate(s, at->second));
    } catch (const unity::error&) {
    }
  };
  plan_statement s;
  s.batch = batch;
  for (s.tensor = 1; s.tensor <= devices; ++s.tensor) {
    for (s.pipeline = 1; s.tensor * s.pipeline <= devices; ++s.pipeline) {
      s.data = devices / s.tensor / s.pipeline;
      const auto ends = searched_ends(s.pipeline, layers);
      for (s.micro = 1; s.micro <= batch; ++s.micro) {
        for (std::int64_t chunks = 0; chunks < layers * static_cast<std::int64_t>(ends.size()); ++chunks) {
          s.interleave = 1 + chunks % layers;
          std::tie(s.first_layers, s.last_layers) = ends[static_cast<std::size_t>(chunks / layers)];
          for (int flags = 0; flags < 48; ++flags) {
            s.is_sequence_parallel = flags % 2 == 1;
            s.zero = flags / 2 % 4;
            s.recomputed = static_cast<recomputed_part>(flags / 8 % 3);
            s.is_overlapped = flags / 24 == 1;
            if ((!s.is_sequence_parallel || s.tensor > 1) && (s.zero == 0 || s.data > 1) &&
                (!s.is_overlapped || s.data > 1)) {
              attempt(s);
            }
          }
        }
      }
    }
  }
  return all;
}

struct random_subject {
  statement_subject on;
  std::int64_t layers;
  std::int64_t batch;
  std::string text;
};

inline random_subject random_statement_subject(unity::random_engine& random) {
  const auto layers = std::vector<std::int64_t>{2, 4, 6}[random.below(3)];
  const auto heads = std::vector<std::int64_t>{2, 4}[random.below(2)];
  const auto hidden = heads * std::vector<std::int64_t>{16, 64, 256}[random.below(3)];
  const auto seq = std::vector<std::int64_t>{32, 128}[random.below(2)];
  const auto vocab = std::vector<std::int64_t>{64, 1024}[random.below(2)];
  const std::string machine =
      std::vector<std::string>{"dgx_a100_80:1x4", "dgx_a100_80:2x2", "p100:2x2", "p100:1x4"}[random.below(4)];
  const auto batch = std::vector<std::int64_t>{4, 6, 8, 12}[random.below(4)];
  const auto model = fmt::format("zoo:gpt?form={}&layers={}&hidden={}&heads={}&seq={}&vocab={}",
                                 random.below(2) == 0 ? "training" : "faithful", layers, hidden, heads, seq, vocab);
  return {statement_subject{model, machine}, layers, batch, fmt::format("{} on {}, batch {}", model, machine, batch)};
}

}  // namespace unity::test
