// Training on data sets: what is read, what is learned, and the accuracy on the test part.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/train/batches.hpp>
#include <unity/train/evaluation.hpp>

#include "../io/dataset_files.hpp"
#include "../io/sealed_files.hpp"
#include "runs.hpp"

namespace tests_of_learns {

namespace {

using namespace unity;
using train::test::operators;
namespace fs = std::filesystem;

io::dataset set_of(const std::string& name, const std::string& content, std::int64_t classes,
                   const std::vector<std::pair<io::stored_tensor, std::string>>& tensors) {
  const auto path = sealed_files::fresh_folder("learns_" + name) / "set";
  sealed_files::overwrite(path, dataset_files::dataset_of(content, classes, tensors));
  return io::dataset{path};
}

// Images of 2 x 4 pixels, in which the pixel with the number of the class is bright.
io::dataset bright_pixels(std::int64_t classes = 4) {
  random_engine random{1};
  std::vector<std::pair<io::stored_tensor, std::string>> tensors;
  for (const auto& [part, count] : {std::pair{"train", 40}, std::pair{"test", 18}}) {
    std::string samples;
    std::string labels;
    for (std::int64_t i = 0; i < count; ++i) {
      labels += static_cast<char>(i % classes);
      for (std::int64_t p = 0; p < 8; ++p) {
        samples += static_cast<char>(random.below(60) + (p == i % classes ? 180 : 0));
      }
    }
    tensors.push_back({{std::string{part} + " samples", "", tensor::dtype::uint8, {count, 2, 4}}, samples});
    tensors.push_back({{std::string{part} + " labels", "", tensor::dtype::uint8, {count}}, labels});
  }
  return set_of("pixels", "images", classes, tensors);
}

// A text over seven tokens in which each is the previous one plus two.
io::dataset counting() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += static_cast<char>(2 * i % 7);
  }
  return set_of("counting", "text", 7,
                {{{"train samples", "", tensor::dtype::uint8, {200}}, text},
                 {{"test samples", "", tensor::dtype::uint8, {50}}, text.substr(3, 50)}});
}

struct learned {
  std::vector<double> losses{};
  train::test_result test{};
};

learned learn(const parallel::plan& given, const io::dataset& set, double rate, std::uint64_t steps) {
  const auto p = train::with_loss(operators(), given, tensor::loss::cross_entropy);
  learned all;
  train::test::on_threads(p, {parallel::optimizer::momentum, rate}, 2, {operators(), p.graph, 2, set},
                          [&](auto& rank, auto& world) {
                            std::vector<double> losses;
                            for (std::uint64_t s = 0; s < steps; ++s) {
                              losses.push_back(rank.step(s));
                            }
                            backend::reference_backend b{operators()};
                            train::evaluation test{b, operators(), given, world, rank.executor(), p.graph, rank.data()};
                            const auto result = test.run();
                            if (world.rank() == 0) {
                              all = {losses, result};
                            }
                          });
  return all;
}

void check_same(const learned& a, const learned& b) {
  CHECK(a.test == b.test);
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t s = 0; s < a.losses.size(); ++s) {
    CHECK(std::abs(a.losses[s] - b.losses[s]) <= 1e-9 * std::abs(b.losses[s]));
  }
}

parallel::plan in_microbatches(const parallel::plan& whole, std::int64_t count) {
  auto p = whole;
  p.graph = parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, count)
                .value();
  p.pipeline.microbatches = count;
  p.pipeline.stages.assign(p.machine.network.device_count(), 0);
  return p;
}

constexpr const char* classifier = "zoo:mlp?layers=2&hidden=8&batch=8";
constexpr const char* decoder = "zoo:gpt?layers=1&hidden=8&heads=2&seq=6&vocab=8&batch=4";

std::string message_for(const char* model, tensor::loss what, const io::dataset& set) {
  const auto p = train::with_loss(operators(), train::test::plan_for(model, 1, "data"), what);
  return unity::test::message_of([&] { train::batches{operators(), p.graph, 1, set}; });
}

}  // namespace

TEST_CASE("a classifier learns bright pixels with the same losses under several strategies") {
  const auto set = bright_pixels();
  const auto one = learn(train::test::plan_for(classifier, 1, "data"), set, 0.1, 40);
  CHECK(one.losses.back() < 0.1 * one.losses.front());
  CHECK(one.test == train::test_result{18, 18});
  for (const auto* parallelism : {"data", "model", "mixed"}) {
    CAPTURE(parallelism);
    check_same(learn(train::test::plan_for(classifier, 4, parallelism), set, 0.1, 40), one);
  }
  check_same(learn(in_microbatches(train::test::plan_for(classifier, 1, "data"), 4), set, 0.1, 40), one);
}

TEST_CASE("a decoder learns the next token with the same losses under several strategies") {
  const auto set = counting();
  const auto one = learn(train::test::plan_for(decoder, 1, "data"), set, 0.1, 60);
  CHECK(one.losses.back() < 0.1 * one.losses.front());
  CHECK(one.test == train::test_result{48, 48});  // six positions in each of eight windows
  for (const auto* parallelism : {"data", "model", "mixed"}) {
    CAPTURE(parallelism);
    check_same(learn(train::test::plan_for(decoder, 2, parallelism), set, 0.1, 60), one);
  }
}

TEST_CASE("an untrained classifier does not label all test samples correctly") {
  const auto untaught = learn(train::test::plan_for(classifier, 2, "data"), bright_pixels(), 0, 1);
  CHECK(untaught.test.count == 18);
  CHECK(untaught.test.right < 18);
}

TEST_CASE("the decoder's mask hides later positions") {
  const auto set = counting();
  const auto p = train::with_loss(operators(), train::test::plan_for(decoder, 1, "data"), tensor::loss::cross_entropy);
  const train::batches data{operators(), p.graph, 1, set};
  const tensor::tensor_type t{tensor::dtype::float64, tensor::layout::row_major, false, {6, 6}};
  const parallel::box part{{2, 1}, {5, 6}};
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.volume()) * sizeof(double));
  data.fill("mask", t, part, 3, bytes);
  const auto mask = backend::decode<double>(
      bytes.data(), tensor::tensor_type{t.element, tensor::layout::row_major, false, part.sizes()});
  for (std::int64_t row = 2; row < 5; ++row) {
    for (std::int64_t column = 1; column < 6; ++column) {
      const auto value = mask.data[static_cast<std::size_t>((row - 2) * 5 + column - 1)];
      CHECK((column <= row ? value == 0 : value < -1000));
    }
  }
}

TEST_CASE("data sets that do not fit the model are refused") {
  const auto pixels = bright_pixels();
  using tensor::loss;
  CHECK(message_for(classifier, loss::cross_entropy, pixels).empty());
  CHECK(message_for(classifier, loss::mean_square, pixels) ==
        pixels.name() +
            ": nothing for input \"target of 0\" of the model; expected one of samples, and the labels of its output");
  CHECK(message_for("zoo:mlp?layers=2&hidden=6&batch=8", loss::cross_entropy, pixels).find("does not fill") !=
        std::string::npos);
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 8});
  const auto both = b.add(x, b.input("y", {8, 8}));
  const auto two = train::with_loss(
      operators(), train::test::plan_for(std::move(b).finish(std::vector{both}), 1, "data"), loss::cross_entropy);
  const auto message = unity::test::message_of([&] { train::batches{operators(), two.graph, 1, pixels}; });
  CHECK(message.starts_with(pixels.name() + ": nothing for input \"y\" of the model; "));
  CHECK(message_for(classifier, loss::cross_entropy, bright_pixels(9)) ==
        pixels.name() + ": 9 classes; expected as many as input \"labels of 0\" of the model has, 8 at most");
  const auto text = counting();
  CHECK(message_for(decoder, loss::cross_entropy, text).empty());
  CHECK(message_for("zoo:gpt?layers=1&hidden=8&heads=2&seq=6&vocab=6&batch=4", loss::cross_entropy, text)
            .find(": 7 classes; expected as many as input ") != std::string::npos);
  CHECK(message_for(classifier, loss::cross_entropy, text)
            .find(": a model without an input of samples; expected one with both") != std::string::npos);
}

TEST_CASE("forward programs contain no backward steps and keep the outputs") {
  const auto p = train::test::plan_for(classifier, 4, "mixed");
  const auto all = parallel::programs_of_ranks(operators(), p);
  const auto forward = parallel::forward_programs(all);
  for (std::size_t r = 0; r < all.ranks.size(); ++r) {
    const auto& steps = forward.ranks[r].steps;
    CHECK(steps.size() < all.ranks[r].steps.size());
    CHECK(forward.ranks[r].outputs == all.ranks[r].outputs);
    CHECK(forward.ranks[r].cotangents.empty());
    for (const auto& s : steps) {
      CHECK_FALSE(s.is_backward);
      if (s.kind == parallel::step_kind::wait) {
        REQUIRE(s.peer < steps.size());
        CHECK(steps[s.peer].tag == s.tag);
        CHECK((steps[s.peer].kind != parallel::step_kind::run && steps[s.peer].kind != parallel::step_kind::wait));
      }
    }
  }
}

}  // namespace tests_of_learns
