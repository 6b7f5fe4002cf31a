// Runs that stop and resume, under any plan.

#include <unity/parallel/sample_values.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/train/checkpoint.hpp>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_checkpoint {

namespace {

using namespace unity;
using train::test::operators;
using unity::test::message_of;
namespace fs = std::filesystem;

constexpr std::uint64_t seed = 5;

fs::path fresh(const std::string& name) {
  const auto folder = fs::path{UNITY_TEST_SCRATCH_DIR} / ("train_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder / "w";
}

struct strategy_of {
  const char* parallelism;
  std::size_t devices;
};

parallel::plan plan_of(const std::string& model, const strategy_of& s) {
  return train::with_loss(operators(), train::test::plan_for(model, s.devices, s.parallelism),
                          tensor::loss::mean_square);
}

train::run_settings settings_for(const parallel::plan& p, const train::update_rule& rule) {
  return train::test::settings_for(p, rule, seed);
}

std::vector<double> train_some(const parallel::plan& p, const train::update_rule& rule, std::uint64_t from,
                               std::uint64_t until, const fs::path& before, const fs::path& after) {
  return train::test::train_some(p, rule, seed, from, until, before, after);
}

std::string content_of(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

}  // namespace

TEST_CASE("a run resumed from a checkpoint under another plan and rank count keeps its losses") {
  const auto* model =
      GENERATE("zoo:mlp?layers=3&hidden=8&batch=8", "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4");
  const auto updates = GENERATE(parallel::optimizer::adam, parallel::optimizer::sgd, parallel::optimizer::momentum);
  const auto first = GENERATE(strategy_of{"data", 2}, strategy_of{"model", 4});
  const auto second = GENERATE(strategy_of{"model", 2}, strategy_of{"mixed", 4}, strategy_of{"data", 1});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, static_cast<int>(updates), first.parallelism, first.devices, second.parallelism, second.devices);
  const train::update_rule rule{updates, 0.01};
  const auto p = plan_of(model, first);
  const auto whole = train_some(p, rule, 0, 6, {}, {});
  const auto file = fresh("goes_on");
  auto stopped = train_some(p, rule, 0, 3, {}, file);
  const auto same = train_some(p, rule, 3, 6, file, {});
  const auto other = train_some(plan_of(model, second), rule, 3, 6, file, {});
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(stopped[s] == whole[s]);
    CHECK(same[s] == whole[3 + s]);
    CHECK(std::abs(other[s] - whole[3 + s]) <= 1e-9 * std::abs(whole[3 + s]));
  }
}

TEST_CASE("a pipelined run resumes under other stages with delayed updates applied") {
  const auto is_delayed = GENERATE(false, true);
  CAPTURE(is_delayed);
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto whole = train::test::plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  const auto staged = [&](std::size_t stages, std::int64_t microbatches) {
    return train::with_loss(operators(), train::test::in_stages(whole, stages, microbatches, is_delayed),
                            tensor::loss::mean_square);
  };
  const auto p = staged(2, 4);
  const auto file = fresh("stages");
  std::vector<double> rest;  // losses after the checkpoint, in the run that writes it
  train::test::on_threads(p, rule, seed, {operators(), p.graph, seed}, [&](auto& rank, auto& world) {
    for (std::uint64_t s = 0; s < 6; ++s) {
      const auto loss = rank.step(s);
      if (s == 2) {
        train::write_checkpoint(file, operators(), rank, world, settings_for(p, rule), 3);
      }
      if (s > 2 && world.rank() == 0) {
        rest.push_back(loss);
      }
    }
  });
  CHECK(train_some(p, rule, 3, 6, file, {}) == rest);
  const auto other = train_some(staged(3, 8), rule, 3, 6, file, {});
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(std::abs(other[s] - rest[s]) <= 1e-9 * std::abs(rest[s]));
  }
}

TEST_CASE("a checkpoint read and rewritten under another plan is the same file") {
  const auto* model = "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4";
  const train::update_rule rule{parallel::optimizer::adam, 0.01};
  const auto file = fresh("same");
  train_some(plan_of(model, {"mixed", 4}), rule, 0, 2, {}, file);
  const auto content = content_of(file);
  for (const auto& s :
       {strategy_of{"data", 1}, strategy_of{"data", 4}, strategy_of{"model", 2}, strategy_of{"mixed", 2}}) {
    const auto again = fs::path{file.string() + ".again"};
    train_some(plan_of(model, s), rule, 2, 2, file, again);
    CHECK((content_of(again) == content));
  }
}

namespace {

// The same compressor for every weight.
parallel::plan compressed(parallel::plan p, const parallel::compressor& method, std::uint32_t bucket) {
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  for (auto& w : p.synchronization.weights) {
    w.parts.front().compressor = method;
    w.parts.front().bucket = bucket;
  }
  p.synchronization.buckets.resize(bucket == 0 ? 1 : 0);
  return p;
}

}  // namespace

TEST_CASE("a run with compressors resumes bit for bit with its kept errors") {
  const auto* model = "zoo:mlp?layers=3&hidden=8&batch=8";
  const auto none = parallel::synchronizer::no_bucket;
  struct compressed_run {
    parallel::compressor method{};
    std::uint32_t bucket = none;
  };
  const auto run = GENERATE_COPY(compressed_run{{parallel::compression::power_sgd, true, 2}, none},
                                 compressed_run{{parallel::compression::float16, true, 0}, none},
                                 compressed_run{{parallel::compression::bfloat16, true, 0}, 0},
                                 compressed_run{{parallel::compression::top_k, true, 100}, none});
  const auto devices = GENERATE(std::size_t{2}, std::size_t{1}, std::size_t{4});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(run.method.kind, devices);
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto plain = plan_of(model, {"data", devices});
  const auto p = compressed(plain, run.method, run.bucket);
  const auto whole = train_some(p, rule, 0, 4, {}, {});
  const auto file = fresh("compressed");
  const auto stopped = train_some(p, rule, 0, 2, {}, file);
  const auto rest = train_some(p, rule, 2, 4, file, {});
  CHECK(stopped == std::vector(whole.begin(), whole.begin() + 2));
  CHECK(rest == std::vector(whole.begin() + 2, whole.end()));
  const auto again = fs::path{file.string() + ".again"};
  train_some(p, rule, 2, 2, file, again);
  CHECK((content_of(again) == content_of(file)));

  // A plan with other messages ignores the kept errors: ranks begin without any, as if the file had none.
  const auto before = fresh("not_compressed");
  train_some(plain, rule, 2, 2, file, before);  // the same weights in a file without kept errors
  const auto without = train_some(p, rule, 2, 4, before, {});
  CHECK(without[0] == whole[2]);
  CHECK((without[1] == whole[3]) == (devices == 1));
  const auto wider = compressed(plain, {parallel::compression::power_sgd, true, 3}, none);
  CHECK(train_some(wider, rule, 2, 4, file, {}) == train_some(wider, rule, 2, 4, before, {}));
  const auto other = train_some(plan_of(model, {"model", 2}), rule, 2, 4, file, {});
  CHECK(std::abs(other[0] - whole[2]) <= 1e-9 * std::abs(whole[2]));
}

TEST_CASE("evaluating a batch's loss leaves the kept compression errors unchanged") {
  const train::update_rule rule{parallel::optimizer::sgd, 0.05};
  const auto p = compressed(plan_of("zoo:mlp?layers=3&hidden=8&batch=8", {"data", 2}),
                            {parallel::compression::top_k, true, 100}, parallel::synchronizer::no_bucket);
  const auto expected = train_some(p, rule, 0, 4, {}, {});
  std::vector<double> losses;
  train::test::on_threads(p, rule, seed, {operators(), p.graph, seed}, [&](auto& rank, auto& world) {
    for (std::uint64_t s = 0; s < 4; ++s) {
      static_cast<void>(rank.loss_of(7, io::dataset_part::train));
      const auto loss = rank.step(s);
      if (world.rank() == 0) {
        losses.push_back(loss);
      }
    }
  });
  CHECK(losses == expected);
}

TEST_CASE("a checkpoint of another run is refused with the differing setting") {
  const auto* model = "zoo:mlp?layers=3&hidden=8&batch=8";
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto file = fresh("other_run");
  const auto p = plan_of(model, {"data", 2});
  train_some(p, rule, 0, 1, {}, file);
  const auto refused = [&](const parallel::plan& other, const train::update_rule& other_rule) {
    return message_of([&] { train_some(other, other_rule, 1, 2, file, {}); });
  };
  const auto where = file.string() + ": of a run with ";
  CHECK(refused(p, rule).empty());
  CHECK(refused(plan_of("zoo:mlp?layers=3&hidden=12&batch=8", {"data", 2}), rule)
            .starts_with(file.string() + ": weights of another model, fingerprint "));
  CHECK(refused(plan_of("zoo:mlp?layers=2&hidden=8&batch=8", {"data", 2}), rule)
            .starts_with(file.string() + ": weights of another model, fingerprint "));
  CHECK(refused(plan_of("zoo:mlp?layers=3&hidden=8&batch=16", {"data", 2}), rule) ==
        where + "batches of 8 samples; expected batches of 16 samples, as here");
  auto other = rule;
  other.updates = parallel::optimizer::adam;
  CHECK(refused(p, other) == where + "optimizer momentum; expected optimizer adam, as here");
  other = rule;
  other.momentum = 0.5;
  CHECK(refused(p, other).starts_with(where + "momentum 0.9000000000000000"));
  other = rule;
  other.beta1 = 0.5;  // momentum has no beta1
  CHECK(refused(p, other).empty());
}

TEST_CASE("non-finite weights are not written and the earlier checkpoint survives") {
  const auto* model = "zoo:mlp?layers=3&hidden=8&batch=8";
  const auto p = plan_of(model, {"data", 2});
  const auto file = fresh("no_numbers");
  train_some(p, {parallel::optimizer::sgd, 0.01}, 0, 1, {}, file);
  const auto content = content_of(file);
  const auto message = message_of(
      [&] { train_some(p, {parallel::optimizer::sgd, std::numeric_limits<double>::infinity()}, 0, 1, {}, file); });
  CHECK(message ==
        "step 0: weights that are not finite, first from a change of weights; expected numbers; is the learning rate "
        "too large?");
  CHECK((content_of(file) == content));
  CHECK(std::distance(fs::directory_iterator{file.parent_path()}, {}) == 1);
}

}  // namespace tests_of_checkpoint
