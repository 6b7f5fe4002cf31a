// Trains an estimator of the time of fused kernels on measured kernels, and reports its error beside those of a linear
// model and of the sum of the times of separate operators.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/estimator_file.hpp>
#include <unity/learn/estimator_report.hpp>
#include <unity/learn/estimator_training.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/kernel_samples.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/error_shares.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string samples{};
  bool without_times = false;
  std::string holdout{};
  learn::training_settings settings{};
  std::string budget{};
  std::string checkpoint{};
  bool resume = false;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::string json{};
  std::string report{};
  std::string out{};
};

void declare(CLI::App& app, arguments& a) {
  using support::number_in;
  app.add_option("SAMPLES", a.samples, "a file of measured kernels")->required();
  app.add_flag("--without-times", a.without_times, "ignore the measured times of single operators");
  app.add_option("--holdout", a.holdout, "network to test on; train on all others");
  app.add_option("--epochs", a.settings.epochs, "most epochs")->check(number_in<std::uint64_t>(1, 1'000'000));
  app.add_option("--patience", a.settings.patience, "stop after this many epochs without a better estimate")
      ->check(number_in<std::uint64_t>(1, 1'000'000));
  app.add_option("--hidden", a.settings.shape.hidden, "hidden size per operator")
      ->check(number_in<std::uint64_t>(4, 1024));
  app.add_option("--layers", a.settings.shape.layers, "attention layers")->check(number_in<std::uint64_t>(0, 64));
  app.add_option("--budget", a.budget, "time limit of training, such as 10m; the best weights so far are written");
  app.add_option("--seed", a.settings.seed, "random seed of initial weights, order and split of samples")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--checkpoint", a.checkpoint, "file for the state of the run, saved every ten seconds and at the end");
  app.add_flag("--resume", a.resume, "continue from the checkpoint")->needs("--checkpoint");
  app.add_option("--threads", a.threads, "threads; they do not change the result")
      ->check(number_in<std::uint64_t>(1, 1024));
  app.add_option("--json", a.json, "file for the report as JSON");
  app.add_option("--report", a.report, "file for an HTML report: errors while training, and on the tested kernels");
  app.add_option("--out", a.out, "file for the estimator")->required();
}

// Trains until all epochs are done, the error stops improving, or the budget is spent; returns which. Appends the best
// validation error after each epoch.
std::string_view train(const arguments& a, learn::estimator_training& run, io::chart_line& best) {
  constexpr double between = 10;  // seconds
  const auto limit =
      a.budget.empty() ? budget{}.seconds : support::parse_quantity("--budget", a.budget, support::durations);
  const stopwatch clock;
  double written = 0;
  const auto is_over = [&] { return clock.seconds() >= limit; };  // an epoch of a large network may take longer
  while (!run.is_done() && run.run_epoch(is_over)) {
    best.points.push_back({static_cast<double>(run.state().epoch), run.state().best_error});
    if (!a.checkpoint.empty() && clock.seconds() - written > between) {
      learn::write_training(a.checkpoint, run);
      written = clock.seconds();
    }
  }
  return !run.is_done() ? "budget" : run.state().epoch >= run.settings().epochs ? "epochs" : "patience";
}

struct named_estimator {
  const char* name = "";
  learn::kernel_time estimate{};
};

nlohmann::json accuracies(const std::vector<named_estimator>& estimators,
                          const std::vector<learn::kernel_sample>& samples) {
  nlohmann::json all;
  for (const auto& e : estimators) {
    const auto r = learn::accuracy_of(e.estimate, samples);
    all[e.name] = {{"median", r.median}, {"p90", r.p90}, {"within_14", r.within_14}, {"within_20", r.within_20}};
  }
  return all;
}

void print_row(const std::string& of, std::size_t count, const std::vector<named_estimator>& estimators,
               const nlohmann::json& r) {
  for (const auto& e : estimators) {
    const auto& x = r.at(e.name);
    const auto percent = [&](const char* key) { return 100 * x.at(key).get<double>(); };
    const bool is_first = e.name == estimators.front().name;
    fmt::print("{:<24} {:>8} {:<13} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", is_first ? of : "",
               is_first ? std::to_string(count) : "", e.name, percent("median"), percent("p90"), percent("within_14"),
               percent("within_20"));
  }
}

std::string to_report(const arguments& a, const std::vector<named_estimator>& estimators,
                      const std::vector<learn::kernel_sample>& tested, io::chart_line best) {
  io::html_report page{fmt::format("An estimator from {}", a.samples)};
  page.heading("Training");
  page.chart(io::line_chart{"epochs",
                            "best validation error so far: the mean square of log(estimate / measured)",
                            {std::move(best)},
                            true,
                            false});
  page.heading("Errors on tested kernels");
  std::vector<io::chart_bar> medians;
  std::vector<io::chart_line> lines;
  for (const auto& e : estimators) {
    auto errors = learn::errors_of(e.estimate, tested);
    medians.push_back({e.name, 100 * learn::accuracy_of_errors(errors).median});
    lines.push_back(support::error_shares(e.name, std::move(errors)));
  }
  page.paragraph(fmt::format("The median of {} errors, and how many are small.", tested.size()));
  page.chart(medians, "%");
  page.chart(support::error_chart(std::move(lines)));
  return page.text();
}

void run(const arguments& a) {
  auto settings = a.settings;
  settings.own_times = !a.without_times;
  if (!settings.shape.is_valid()) {
    throw error{"--hidden", std::to_string(settings.shape.hidden),
                fmt::format("a multiple of {} heads", settings.shape.heads)};
  }
  support::expect_writable(a.out);
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  if (!a.checkpoint.empty()) {
    const io::replaced_file probe{a.checkpoint};
  }
  const auto d = learn::divide_samples(learn::read_kernel_samples(a.samples), a.holdout, settings.seed);
  const auto operators = tensor::training_algebra();
  learn::estimator_training training{operators, d.learned, settings, a.threads};
  if (a.resume) {
    learn::resume_training(a.checkpoint, training);
  }
  const stopwatch clock;
  io::chart_line best{"validation", {}};
  const auto stopped = train(a, training, best);
  const auto seconds = clock.seconds();
  const auto estimator = training.best();
  const std::vector<named_estimator> estimators{
      {"network", estimator}, {"linear", learn::linear_estimator{d.learned}}, {"sum_of_parts", learn::sum_of_parts{}}};
  const auto& s = training.state();
  nlohmann::json report{{"samples", d.learned.size() + d.tested.size()},
                        {"tested", d.tested.size()},
                        {"holdout", a.holdout.empty() ? nlohmann::json{} : nlohmann::json(a.holdout)},
                        {"own_times", settings.own_times},
                        {"seed", settings.seed},
                        {"weights", estimator.weights.size()},
                        {"epochs", s.epoch},
                        {"best_epoch", s.best_epoch},
                        {"validation_error", s.best_error},
                        {"stopped", stopped},
                        {"training_s", seconds},
                        {"accuracy", accuracies(estimators, d.tested)}};
  fmt::print("{} samples, {} of them for testing; {} epochs in {:.1f} s, stopped: {}\n",
             d.learned.size() + d.tested.size(), d.tested.size(), s.epoch, seconds, stopped);
  fmt::print("{:<24} {:>8} {:<13} {:>10} {:>10} {:>10} {:>10}\n", "network", "samples", "estimator", "median, %",
             "p90, %", "in 14%, %", "in 20%, %");
  print_row("all", d.tested.size(), estimators, report["accuracy"]);
  report["networks"] = nlohmann::json::array();
  for (const auto& of : learn::by_network(d.tested)) {
    const auto r = accuracies(estimators, of);
    print_row(of.front().network, of.size(), estimators, r);
    report["networks"].push_back({{"name", of.front().network}, {"samples", of.size()}, {"accuracy", r}});
  }
  std::vector<support::output> files{
      {a.out, {}, [&](const auto& path) { learn::write_estimator(path, estimator); }, io::previous_of(a.out)}};
  if (!a.json.empty()) {
    files.push_back({a.json, report.dump(1) + "\n", {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, estimators, d.tested, std::move(best)), {}, {}});
  }
  support::write_all(files);
  if (!a.checkpoint.empty()) {
    learn::write_training(a.checkpoint, training);  // last: without room for it, the estimator is kept
  }
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("train_estimator", "Trains an estimator of what fused kernels take", argc,
                                         argv, declare, run);
}
