#include <unity/train/run_settings.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_run_settings {

using namespace unity;

TEST_CASE("run settings survive a checkpoint header round trip") {
  train::run_settings s{"90f3a1", 8, "cross_entropy", "synthetic", {}, 7};
  s.rule.updates = parallel::optimizer::adam;
  s.rule.beta2 = 0.75;
  CHECK(train::settings_in(train::header_of(s, 3), "w") == s);
}

TEST_CASE("each number that an optimizer depends on survives a checkpoint header round trip") {
  using rule_number = double train::update_rule::*;
  using parallel::optimizer;
  const std::vector<std::pair<optimizer, std::vector<rule_number>>> all{
      {optimizer::sgd, {&train::update_rule::learning_rate}},
      {optimizer::momentum, {&train::update_rule::learning_rate, &train::update_rule::momentum}},
      {optimizer::adam,
       {&train::update_rule::learning_rate, &train::update_rule::beta1, &train::update_rule::beta2,
        &train::update_rule::epsilon}}};
  for (const auto& [updates, numbers] : all) {
    CAPTURE(static_cast<int>(updates));
    train::run_settings s{"90f3a1", 1'000'003, "mean_square", "digits", {}, std::numeric_limits<std::uint64_t>::max()};
    s.rule.updates = updates;
    double next = 1.0 / 3;
    for (const auto number : numbers) {
      s.rule.*number = next;
      next /= 7;
    }
    const auto header = train::header_of(s, 41);
    CHECK(header.step == 41);
    CHECK(train::settings_in(header, "w") == s);
    for (const auto& [name, number] : header.settings) {
      auto lacking = header;
      lacking.settings.erase(name);
      CHECK(test::message_of([&] { static_cast<void>(train::settings_in(lacking, "w")); }) ==
            "w: no setting \"" + name + "\"; expected those of the optimizer, and the batch");
    }
    CHECK(header.settings.size() == numbers.size() + 1);
  }
}

TEST_CASE("each setting in which a checkpoint's run differs is named with both values") {
  train::run_settings found{"90f3a1", 8, "cross_entropy", "synthetic", {}, 7};
  found.rule.updates = parallel::optimizer::adam;
  const auto complaint = [&](const auto& change) {
    auto wanted = found;
    change(wanted);
    return test::message_of([&] { train::expect_same(found, wanted, "w"); });
  };
  using settings = train::run_settings;
  CHECK(complaint([](settings&) {}).empty());
  CHECK(complaint([](settings& s) { s.loss = "mean_square"; }) ==
        "w: of a run with loss cross_entropy; expected loss mean_square, as here");
  CHECK(complaint([](settings& s) { s.model = "0"; }) ==
        "w: weights of another model, fingerprint \"90f3a1\"; expected this one, fingerprint \"0\"");
  CHECK(complaint([](settings& s) { s.batch = 9; }) ==
        "w: of a run with batches of 8 samples; expected batches of 9 samples, as here");
  CHECK(complaint([](settings& s) { s.rule.updates = parallel::optimizer::sgd; }) ==
        "w: of a run with optimizer adam; expected optimizer sgd, as here");
  CHECK(complaint([](settings& s) { s.rule.learning_rate = 0.5; }) ==
        "w: of a run with rate 0.01; expected rate 0.5, as here");
  CHECK(complaint([](settings& s) { s.rule.beta1 = 0.5; }).ends_with("; expected beta1 0.5, as here"));
  CHECK(complaint([](settings& s) { s.rule.beta2 = 0.5; }).ends_with("; expected beta2 0.5, as here"));
  CHECK(complaint([](settings& s) { s.rule.epsilon = 0.5; }).ends_with("; expected epsilon 0.5, as here"));
  CHECK(complaint([](settings& s) { s.rule.momentum = 0.5; }).empty());  // Adam has none
  CHECK(complaint([](settings& s) { s.seed = 8; }) == "w: of a run with seed 7; expected seed 8, as here");
  CHECK(complaint([](settings& s) { s.data = "digits"; }) ==
        "w: of a run with data synthetic; expected data digits, as here");
}

TEST_CASE("a model's fingerprint depends on inputs and weights but not on samples and operators") {
  const auto& a = test::training::operators();
  // With a batch of 4, inputs and weights have dimensions of that size besides.
  const auto fingerprint = [&](std::int64_t batch, std::int64_t outputs, const std::string& weight, bool is_fused,
                               tensor::dtype element) {
    tensor::builder b{a};
    const auto x = b.input("x", {batch, 4}, element);
    const auto w = b.weight(weight, {4, outputs}, element);
    const auto y = is_fused ? b.matmul(x, w, "relu") : b.relu(b.matmul(x, w));
    const auto g = std::move(b).finish({y});
    return train::model_fingerprint(a, tensor::with_loss(a, g, tensor::loss::mean_square));
  };
  const auto own = fingerprint(8, 3, "w", false, tensor::dtype::float32);
  CHECK(own.size() == 16);
  CHECK(own.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(fingerprint(8, 3, "w", true, tensor::dtype::float32) == own);
  CHECK(fingerprint(4, 3, "w", false, tensor::dtype::float32) == own);
  CHECK(fingerprint(3, 3, "w", false, tensor::dtype::float32) == own);
  CHECK(fingerprint(8, 5, "w", false, tensor::dtype::float32) != own);
  CHECK(fingerprint(8, 3, "v", false, tensor::dtype::float32) != own);
  CHECK(fingerprint(8, 3, "w", false, tensor::dtype::float64) != own);
}

TEST_CASE("a model's fingerprint does not depend on micro-batches, though masks may have as many rows as samples") {
  const auto& a = test::training::operators();
  const auto fingerprint = [&](std::int64_t batch, std::int64_t rows, std::int64_t microbatches) {
    tensor::builder b{a};
    const auto x = b.input("x", {batch / microbatches, 4, 4});
    const auto y = b.add(x, b.input("mask", {rows, 4}));
    const auto g = std::move(b).finish({y});
    return train::model_fingerprint(a, tensor::with_loss(a, g, tensor::loss::mean_square, microbatches), microbatches);
  };
  for (const auto microbatches : {2, 4}) {
    CAPTURE(microbatches);
    CHECK(fingerprint(8, 4, microbatches) == fingerprint(8, 4, 1));
    CHECK(fingerprint(4, 4, microbatches) == fingerprint(4, 4, 1));
  }
  CHECK(fingerprint(8, 1, 2) != fingerprint(8, 4, 2));
}

TEST_CASE("a checkpoint header with invalid numbers is refused") {
  const auto refusal = [](double batch, std::int64_t step) {
    auto h = train::header_of({}, step);
    h.settings["batch"] = batch;
    try {
      static_cast<void>(train::settings_in(h, "w"));
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  CHECK(refusal(8, 0).empty());
  CHECK(refusal(8, -1) == "w: step -1; expected a number of steps");
  CHECK(refusal(1e300, 0) == "w: a batch of 1.0000000000000001e+300; expected a number of samples");
  CHECK(refusal(-1, 0) == "w: a batch of -1; expected a number of samples");
  CHECK(refusal(0.5, 0) == "w: a batch of 0.5; expected a number of samples");
}

}  // namespace tests_of_run_settings
