#include <unity/learn/estimator_training.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/units.hpp>
#include <unity/learn/estimator_file.hpp>
#include <unity/learn/estimator_report.hpp>
#include <unity/learn/kernel_features.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "synthetic_kernels.hpp"

namespace tests_of_estimator_training {

using namespace unity;
using learn::estimator_training;
using learn::training_settings;
using unity::test::training::operators;

namespace {

training_settings small_settings() {
  training_settings s;
  s.shape = {16, 2, 1};
  s.epochs = 6;
  return s;
}

std::vector<learn::kernel_sample> some_samples(std::size_t count) { return test::synthetic_kernels{17}.next(count); }

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("learn_training_" + name);
}

}  // namespace

TEST_CASE("estimator training does not depend on the thread count") {
  const auto samples = some_samples(250);
  estimator_training alone{operators(), samples, small_settings(), 1};
  estimator_training together{operators(), samples, small_settings(), 2};
  for (int i = 0; i < 2; ++i) {
    CHECK(alone.run_epoch() == together.run_epoch());
  }
  CHECK(alone.state() == together.state());
  CHECK(alone.version() == together.version());
}

TEST_CASE("estimator training resumed from a checkpoint matches an uninterrupted run") {
  const auto samples = some_samples(250);
  const auto file = scratch("checkpoint");
  estimator_training whole{operators(), samples, small_settings(), 1};
  estimator_training first{operators(), samples, small_settings(), 1};
  for (int i = 0; i < 2; ++i) {
    whole.run_epoch();
    first.run_epoch();
  }
  learn::write_training(file, first);
  estimator_training second{operators(), samples, small_settings(), 1};
  learn::resume_training(file, second);
  CHECK(second.state() == whole.state());
  while (!whole.is_done()) {
    whole.run_epoch();
    second.run_epoch();
  }
  CHECK(whole.state().epoch == small_settings().epochs);
  CHECK(second.state() == whole.state());
  CHECK(second.best() == whole.best());
}

TEST_CASE("an epoch of estimator training that is given up changes nothing") {
  const auto samples = some_samples(400);
  estimator_training whole{operators(), samples, small_settings(), 1};
  estimator_training stopped{operators(), samples, small_settings(), 1};
  whole.run_epoch();
  stopped.run_epoch();
  int steps = 0;
  CHECK(!stopped.run_epoch([&] { return steps++ == 2; }));  // after two steps
  CHECK(steps == 3);
  CHECK(stopped.state() == whole.state());
  CHECK(!stopped.run_epoch([] { return true; }));
  CHECK(stopped.run_epoch([] { return false; }) == whole.run_epoch());
  CHECK(stopped.state() == whole.state());
}

TEST_CASE("a training checkpoint with other settings or samples is refused") {
  const auto samples = some_samples(60);
  const auto file = scratch("other");
  const auto settings = small_settings();
  learn::write_training(file, estimator_training{operators(), samples, settings, 1});
  const auto message = [&](const std::vector<learn::kernel_sample>& given, const training_settings& s) {
    estimator_training run{operators(), given, s, 1};
    return test::message_of([&] { learn::resume_training(file, run); });
  };
  CHECK(message(samples, settings).empty());
  const auto refused =
      file.string() + ": a checkpoint of a run with other settings or samples; expected one of this run";
  auto other = settings;
  other.seed = 2;
  CHECK(message(samples, other) == refused);
  other = settings;
  other.rate = 1;
  CHECK(message(samples, other) == refused);
  other = settings;
  other.own_times = false;
  CHECK(message(samples, other) == refused);
  other = settings;
  other.shape.layers = 2;
  CHECK(message(samples, other) == refused);
  auto changed = samples;
  changed[7].time += unity::picoseconds{1};
  CHECK(message(changed, settings) == refused);
  changed = samples;
  changed[7].kernel.parts[0].duration += unity::picoseconds{1};
  CHECK(message(changed, settings) == refused);
}

TEST_CASE("a trained network beats the linear estimator on held-out kernels") {
  auto settings = small_settings();
  settings.epochs = 30;
  const auto d = learn::divide_samples(some_samples(1200), "", 1);
  estimator_training run{operators(), d.learned, settings, 2};
  const auto first = run.run_epoch();
  double last = first;
  while (!run.is_done()) {
    last = run.run_epoch();
  }
  CHECK(last < first / 5);
  const auto network = learn::accuracy_of(run.best(), d.tested);
  const auto linear = learn::accuracy_of(learn::linear_estimator{d.learned}, d.tested);
  const auto sum = learn::accuracy_of(learn::sum_of_parts{}, d.tested);
  INFO(network.median << " " << network.within_14 << " linear " << linear.median << " " << linear.within_14);
  CHECK(network.median < 0.08);
  CHECK(network.within_14 > linear.within_14 + 0.05);
  CHECK(network.p90 < linear.p90);
  CHECK(linear.median < sum.median);
}

TEST_CASE("estimator training stops early and keeps the best weights") {
  auto settings = small_settings();
  settings.epochs = 50;
  settings.patience = 2;
  settings.rate = 1;  // too high a rate to learn anything
  estimator_training run{operators(), some_samples(100), settings, 1};
  const auto start = run.state().best_error;
  while (!run.is_done()) {
    run.run_epoch();
  }
  CHECK(run.state().epoch < 50);
  CHECK(run.state().epoch == run.state().best_epoch + 2);
  CHECK(run.state().best_error <= start);
  CHECK(run.best().weights == run.state().best);
}

TEST_CASE("estimator training without usable samples is refused") {
  CHECK(test::message_of([] { estimator_training{operators(), {}, {}, 1}; }) ==
        "samples: 0 of them; expected some of at most 64 parts to learn from");
  auto large = some_samples(1);
  large[0].kernel.parts.resize(65);
  CHECK(test::message_of([&] { estimator_training{operators(), large, {}, 1}; }) ==
        "samples: 1 of them; expected some of at most 64 parts to learn from");
}

}  // namespace tests_of_estimator_training
