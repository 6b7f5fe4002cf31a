// Times fused kernels on this machine, as samples for `train_estimator`. Operators of training iterations are fused at
// random, and timed as one kernel and separately.
//
// run: zoo:mlp?layers=2&hidden=16&batch=8 --samples 5 --seconds 0.001 --out {out}/kernels.bin

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/rank_kernels.hpp>
#include <unity/fusion/rank_region.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/kernel_samples.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/measured_durations.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "support/fusion_job.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/timings.hpp"

namespace {

using namespace unity;

struct arguments {
  std::vector<std::string> models{};
  std::vector<std::string> dimensions{};
  std::size_t samples = 2000;
  double seconds = 0.02;
  int threads = 1;
  std::uint64_t seed = 1;
  std::string out{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("MODELS", a.models,
                 std::string{support::model_help} + "; several models; the batch of a zoo model is per rank")
      ->required();
  app.add_option("--samples", a.samples, "most distinct kernels per model")
      ->check(support::number_in(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--seconds", a.seconds, "seconds to run each kernel")
      ->check(support::number_in(1e-4, 10.0))
      ->capture_default_str();
  app.add_option("--threads", a.threads, "threads per kernel; 0: all of the machine")
      ->check(support::number_in(0, 1024))
      ->capture_default_str();
  app.add_option("--seed", a.seed, "random seed of the fusions")->check(support::number_from(std::uint64_t{0}));
  app.add_option("--out", a.out, "file for the samples")->required();
  app.add_option("--report", a.report, "file for an HTML report: fused kernels beside their operators alone");
}

using timer = backend::device_timer<backend::cpu_backend>;

// An instruction and some of its neighbours that a kernel can hold.
void grow(fusion::fusion_session& s, const fusion::instruction_graph& g, random_engine& random) {
  const auto first = static_cast<fusion::instruction_id>(random.below(g.size()));
  const auto wanted = 2 + random.below(24);
  for (std::uint64_t tries = 0; tries < 4 * wanted; ++tries) {
    const auto all = s.groups().members(s.groups().group_of(first));
    if (all.size() >= wanted) {
      return;
    }
    const auto one = all[random.below(all.size())];
    const auto readers = g.readers(one);
    const auto operands = g.operands(one);
    if (random.below(2) == 0 && !readers.empty()) {
      const auto to = readers[random.below(readers.size())];
      static_cast<void>(g.computes(to) && s.fuse(s.groups().group_of(one), s.groups().group_of(to)));
    } else if (!operands.empty()) {
      const auto from = operands[random.below(operands.size())].from;
      const auto to = s.groups().group_of(one);
      static_cast<void>(g.computes(from) && (random.below(3) == 0 ? s.duplicate(s.groups().group_of(from), to)
                                                                  : s.fuse(s.groups().group_of(from), to)));
    }
  }
}

class measurement_of_model {
 public:
  measurement_of_model(const arguments& a, const tensor::algebra& operators, const std::string& model,
                       backend::cpu_backend& b, const backend::timing_options& timing, const tensor::durations& times)
      : arguments_{a},
        operators_{operators},
        model_{model},
        backend_{b},
        timing_{timing},
        job_{support::load_fusion_job(operators, model, a.dimensions, hardware::preset("host:1x2"),
                                      parallel::optimizer::sgd, true)} {
    support::add_instructions(operators, times, job_);
    target_.kernels = fusion::roofline_kernels(job_.plan.machine);
    target_.all_reduce = fusion::reduction_line{1, 1};
  }

  // Appends samples until there are enough, or no new kernels are found.
  void run(std::vector<learn::kernel_sample>& to) {
    const auto& g = job_.instructions.graph;
    random_engine random{arguments_.seed};
    fusion::fusion_session s{g, target_};
    constexpr int patience = 20;  // strategies without a new kernel
    for (int idle = 0; found_ < arguments_.samples && idle < patience; ++idle) {
      s.reset(fusion::unfused(g));
      for (std::uint64_t seeds = 1 + random.below(g.size() / 2); seeds-- > 0;) {
        grow(s, g, random);
      }
      const auto strategy = s.groups().strategy();
      s.reset(strategy);
      idle = measure(s, strategy, to) > 0 ? -1 : idle;
    }
    fmt::print("{}: {} kernels\n", model_, found_);
  }

 private:
  std::size_t measure(fusion::fusion_session& s, const fusion::fusion_strategy& strategy,
                      std::vector<learn::kernel_sample>& to) {
    const auto plan = fusion::plan_of(operators_, job_.program, job_.instructions, strategy, s.order(), job_.weights);
    const auto fused = fusion::with_kernels(operators_, job_.program, plan);
    std::map<node_id, fusion::instruction_id> instructions;
    for (std::size_t step = 0; step < job_.program.steps.size(); ++step) {
      if (job_.instructions.by_step[step] != fusion::rank_instructions::none) {
        instructions[job_.program.steps[step].node] = job_.instructions.by_step[step];
      }
    }
    std::size_t made = 0;
    for (const auto& k : fused.kernels) {
      const auto home = std::find_if(k.outputs.begin(), k.outputs.end(),
                                     [&](value_id v) { return instructions.contains(fused.graph.producer(v)); });
      if (found_ == arguments_.samples || home == k.outputs.end() || k.inputs.empty()) {
        continue;
      }
      const auto group = s.groups().group_of(instructions.at(fused.graph.producer(*home)));
      auto description = s.groups().description(group);
      if (!known_.insert(fusion::fingerprint_of(description)).second) {
        continue;
      }
      const auto time = backend::time_region(backend_, operators_, fusion::region_of(operators_, fused, k), timing_);
      to.push_back({model_, std::move(description), std::max(time.median, picoseconds{1})});
      ++found_;
      ++made;
    }
    return made;
  }

  const arguments& arguments_;
  const tensor::algebra& operators_;
  const std::string& model_;
  backend::cpu_backend& backend_;
  const backend::timing_options& timing_;
  support::fusion_job job_;
  fusion::fusion_target target_{};
  std::set<fingerprint> known_{};
  std::size_t found_ = 0;
};

// 0 if there are no values.
double percentile(std::vector<double> values, std::size_t percent) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[(values.size() - 1) * percent / 100];
}

std::string to_report(const arguments& a, const std::vector<learn::kernel_sample>& samples, const std::string& device) {
  const auto microseconds = [](picoseconds t) { return to_seconds(t) * 1e6; };
  io::html_report page{"Fused kernels"};
  page.paragraph(fmt::format("{} kernels on {}; the longest 5% are left out of the picture.", samples.size(), device));
  std::vector<double> separate;
  for (const auto& s : samples) {
    separate.push_back(microseconds(learn::sum_of_parts{}(s.kernel)));
  }
  const double most = percentile(separate, 95);
  io::line_chart chart{
      "operators alone, us", "the fused kernel, us", {{"as long", {{0, 0}, {most, most}}}}, false, true};
  std::vector<std::vector<std::string>> rows;
  for (const auto& model : a.models) {
    io::chart_line line{model, {}, {}, false};
    std::vector<double> ratios;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].network == model) {
        const auto fused = microseconds(samples[i].time);
        ratios.push_back(fused / separate[i]);
        if (separate[i] <= most) {
          line.points.push_back({separate[i], fused});
          line.labels.push_back(fmt::format("{} operators", samples[i].kernel.parts.size()));
        }
      }
    }
    rows.push_back({model, std::to_string(ratios.size()), fmt::format("{:.3f}", percentile(ratios, 50))});
    chart.lines.push_back(std::move(line));
  }
  page.chart(chart);
  page.table(std::vector<std::string>{"model", "kernels", "median of fused / alone"}, rows);
  return page.text();
}

void run(arguments& a) {
  for (const auto& model : a.models) {
    static_cast<void>(io::utf8_word("MODELS", model));  // reports an error now, not when samples are written
  }
  support::expect_writable(a.out);
  support::expect_writable(a.report);
  const auto operators = tensor::training_algebra();
  backend::cpu_options o;
  o.threads = a.threads;
  backend::cpu_backend backend{operators, o};
  backend::timing_options timing;
  timing.seconds = a.seconds;
  // As many samples as short kernels need to fill that time.
  timing.most = std::max(timing.most, static_cast<int>(std::ceil(a.seconds / timing.sample_seconds)));
  timer device{backend, timing};
  const auto warn = [](const std::string& line) { fmt::print(stderr, "measure_kernels: {}\n", line); };
  support::warn_if_busy(warn);
  // Separate operators are timed here, too, and not looked up, so that the machine is in the same state.
  tensor::timing_cache<timer> cache{operators, device, {}, warn};
  const tensor::durations times{tensor::measured_durations{operators, cache}};
  std::vector<learn::kernel_sample> samples;
  for (const auto& model : a.models) {
    measurement_of_model{a, operators, model, backend, timing, times}.run(samples);
  }
  std::vector<support::output> files{
      {a.out, {}, [&](const auto& path) { learn::write_kernel_samples(path, samples); }, io::previous_of(a.out)}};
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, samples, device.description()), {}, {}});
  }
  support::write_all(files);
  fmt::print("{} kernels and {} operators on {}\n", samples.size(), cache.measured(), device.description());
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("measure_kernels", "Times fused kernels of training iterations.", argc, argv,
                                         declare, run);
}
