#include <unity/parallel/recomputation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "operators.hpp"

namespace tests_of_recomputation {

namespace {

using namespace unity;
using parallel::test::operators;

tensor::tensor_graph zoo(const std::string& name) { return tensor::zoo::build(operators(), name); }

std::size_t operators_in(const tensor::tensor_graph& g) {
  std::size_t all = 0;
  for (const auto n : node_ids(g)) {
    all += g.operands(n).empty() ? 0 : 1;
  }
  return all;
}

// The least peak if any of the operators `free` keep their results, and the others of `all` do not; tries all choices.
template <class Peak>
bytes least_peak(const parallel::recomputation& all, const std::vector<std::size_t>& free, const Peak& peak) {
  auto least = peak(all);
  for (std::size_t chosen = 1; chosen < (std::size_t{1} << free.size()); ++chosen) {
    auto r = all;
    for (std::size_t k = 0; k < free.size(); ++k) {
      r[free[k]] = (chosen >> k & 1U) == 0;
    }
    least = std::min(least, peak(r));
  }
  return least;
}

// Names of the operators that are not recomputed, in order.
std::string kept(const tensor::tensor_graph& g, const parallel::recomputation& r) {
  std::string text;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty() && !r[n.index()]) {
      text += std::string{operators().signature(g.operation(n).kind).name} + " ";
    }
  }
  return text;
}

// x w0 relu w1 relu ..., with `products` products.
tensor::tensor_graph chain(std::size_t products) {
  tensor::builder b{operators()};
  auto x = b.input("x", {4, 4});
  for (std::size_t k = 0; k < products; ++k) {
    x = b.relu(b.matmul(x, b.weight("w" + std::to_string(k), {4, 4})));
  }
  return std::move(b).finish({x});
}

// relu, then `count` residual blocks (x + relu(x w)), then relu.
tensor::tensor_graph residual_blocks(std::size_t count) {
  tensor::builder b{operators()};
  auto x = b.relu(b.input("x", {4, 4}));
  for (std::size_t k = 0; k < count; ++k) {
    x = b.add(b.relu(b.matmul(x, b.weight("w" + std::to_string(k), {4, 4}))), x);
  }
  return std::move(b).finish({b.relu(x)});
}

// Whether no operator behind it reads what an operator before it makes.
bool is_cut(const tensor::tensor_graph& g, node_id n) {
  for (const auto behind : node_ids(g)) {
    for (const auto v : g.operands(behind)) {
      const auto from = g.producer(v);
      if (behind > n && from < n && !g.operands(from).empty()) {
        return false;
      }
    }
  }
  return !g.operands(n).empty();
}

}  // namespace

TEST_CASE("recomputation is allowed for operators only and not for outputs of the graph") {
  const auto g = chain(2);
  for (const auto n : node_ids(g)) {
    CAPTURE(n.index());
    const bool is_output = g.producer(g.outputs()[0]) == n;
    CHECK(parallel::can_recompute(g, n) == (!g.operands(n).empty() && !is_output));
    parallel::recomputation r(g.node_count());
    r[n.index()] = true;
    if (parallel::can_recompute(g, n)) {
      CHECK_NOTHROW(parallel::check(operators(), g, r));
    } else {
      CHECK_THROWS_AS(parallel::check(operators(), g, r), error);
    }
  }
  CHECK_NOTHROW(parallel::check(operators(), g, {}));
  CHECK_THROWS_WITH(parallel::check(operators(), g, parallel::recomputation(2)),
                    "recomputation: of 2 nodes; expected of the 7 that the graph has");
  parallel::recomputation input(g.node_count());
  input[0] = true;
  CHECK_THROWS_WITH(parallel::check(operators(), g, input), Catch::StartsWith("recomputation, node 0 (input): "));
}

TEST_CASE("recomputation_but_every keeps each k-th operator and the output") {
  const auto g = chain(4);
  CHECK(kept(g, parallel::recomputation_but_every(g, 1)) == "matmul relu matmul relu matmul relu matmul relu ");
  CHECK(kept(g, parallel::recomputation_but_every(g, 2)) == "relu relu relu relu ");
  CHECK(kept(g, parallel::recomputation_but_every(g, 3)) == "matmul relu relu ");  // the output is kept as well
}

TEST_CASE("recomputation_between_products keeps matmuls and convolutions and the output") {
  const auto g = chain(3);
  CHECK(kept(g, parallel::recomputation_between_products(operators(), g)) == "matmul matmul matmul relu ");
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 4, 8, 8});
  auto y = b.conv2d(x, b.weight("k", {4, 4, 3, 3}), {{1, 1}, "same", {0, 0, 0, 0}, {1, 1}, 1, "relu"});
  y = b.conv2d(y, b.weight("d", {4, 1, 3, 3}), {{1, 1}, "same", {0, 0, 0, 0}, {1, 1}, 4, "none"});
  y = b.max_pool(b.add(y, x), {{2, 2}, {2, 2}, "valid", {0, 0, 0, 0}, false});
  y = b.softmax(b.matmul(b.reshape(y, {2, 64}), b.weight("w", {64, 8}), "tanh"), 1);
  const auto image = std::move(b).finish({y});
  CHECK(kept(image, parallel::recomputation_between_products(operators(), image)) == "conv2d conv2d matmul softmax ");
}

TEST_CASE("full recomputation keeps about sqrt(n) checkpoints at cuts of the graph") {
  for (const std::size_t products : {8U, 32U, 200U}) {
    const auto g = chain(products);
    const auto r = parallel::full_recomputation(g);
    const auto checkpoints = operators_in(g) - static_cast<std::size_t>(std::count(r.begin(), r.end(), true));
    CAPTURE(products, checkpoints);
    CHECK(checkpoints * checkpoints >= operators_in(g) / 2);
    CHECK(checkpoints * checkpoints <= 2 * operators_in(g));
  }
  const auto g = zoo("zoo:gpt?layers=6&hidden=8&heads=2&seq=4&vocab=16&batch=2");
  const auto r = parallel::full_recomputation(g);
  CHECK_NOTHROW(parallel::check(operators(), g, r));
  std::size_t checkpoints = 0;
  for (const auto n : node_ids(g)) {  // no operator after a checkpoint reads a value from before it
    if (!g.operands(n).empty() && !r[n.index()]) {
      CAPTURE(n.index());
      CHECK(is_cut(g, n));
      checkpoints += parallel::can_recompute(g, n) ? 1 : 0;
    }
  }
  CAPTURE(operators_in(g), checkpoints);
  CHECK(checkpoints >= 3);
  CHECK(checkpoints * checkpoints <= operators_in(g));
}

TEST_CASE("peak memory with checkpoints on random chains is within 10 percent of the optimum", "[law]") {
  const std::uint64_t seed = 31;
  INFO("seed " << seed);
  random_engine random{seed};
  double worst = 1;
  for (int trial = 0; trial < 60; ++trial) {
    const auto g = chain(5);  // ten operators, of which the last is an output
    parallel::recomputation all(g.node_count());
    std::vector<bytes> held(g.node_count());
    std::vector<std::size_t> free;
    bytes sum;
    for (const auto n : node_ids(g)) {
      if (parallel::can_recompute(g, n)) {
        all[n.index()] = random.between(0, 3) > 0;
        held[n.index()] = bytes{random.between(1, 1000)};
        sum += all[n.index()] ? held[n.index()] : bytes{};
        if (all[n.index()]) {
          free.push_back(n.index());
        }
      }
    }
    // In a chain, every kept operator ends a segment.
    const auto peak = [&](const parallel::recomputation& r) {
      bytes kept;
      bytes since;
      bytes largest;
      for (const auto n : node_ids(g)) {
        const auto i = n.index();
        since = r[i] ? since + held[i] : g.operands(n).empty() ? since : bytes{};
        kept += all[i] && !r[i] ? held[i] : bytes{};
        largest = std::max(largest, since);
      }
      return kept + largest;
    };
    const auto least = least_peak(all, free, peak);
    const auto found = parallel::with_checkpoints(g, all, held);
    for (std::size_t n = 0; n < found.size(); ++n) {
      REQUIRE((all[n] || !found[n]));
    }
    REQUIRE(peak(found) <= sum);
    REQUIRE(peak(found) >= least);
    if (least > bytes{}) {
      worst = std::max(worst, static_cast<double>(peak(found).count()) / static_cast<double>(least.count()));
    }
  }
  CHECK(worst < 1.1);
}

TEST_CASE("checkpoints of residual blocks are at cuts and within 10 percent of the best cuts", "[law]") {
  const std::uint64_t seed = 33;
  INFO("seed " << seed);
  random_engine random{seed};
  const auto g = residual_blocks(5);
  std::vector<bool> cuts;
  for (const auto n : node_ids(g)) {
    cuts.push_back(is_cut(g, n));
  }
  REQUIRE(std::count(cuts.begin(), cuts.end(), true) == 1 + 5 + 1);  // relu, sums, relu
  double worst = 1;
  std::size_t kept = 0;
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    parallel::recomputation all(g.node_count());
    std::vector<bytes> held(g.node_count());
    std::vector<std::size_t> free;
    for (const auto n : node_ids(g)) {
      const auto i = n.index();
      if (parallel::can_recompute(g, n)) {
        all[i] = random.between(0, 5) > 0;
        held[i] = bytes{random.between(1, cuts[i] ? 200 : 1000)};
        if (all[i] && cuts[i]) {
          free.push_back(i);
        }
      }
    }
    // A span ends at a cut that is kept; what is kept inside of a block ends none.
    const auto peak = [&](const parallel::recomputation& r) {
      bytes own;
      bytes since;
      bytes largest;
      for (std::size_t i = 0; i < r.size(); ++i) {
        since = r[i] ? since + held[i] : cuts[i] ? bytes{} : since;
        own += all[i] && !r[i] ? held[i] : bytes{};
        largest = std::max(largest, since);
      }
      return own + largest;
    };
    const auto least = least_peak(all, free, peak);
    const auto found = parallel::with_checkpoints(g, all, held);
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE((all[i] || !found[i]));
      REQUIRE((found[i] == all[i] || cuts[i]));
      kept += found[i] == all[i] ? 0 : 1;
    }
    REQUIRE(peak(found) >= least);
    REQUIRE(least > bytes{});
    worst = std::max(worst, static_cast<double>(peak(found).count()) / static_cast<double>(least.count()));
  }
  CHECK(worst < 1.1);
  CHECK(kept > 60);
}

TEST_CASE("a chain of 100 operators with equal results gets about 10 checkpoints") {
  const auto g = chain(50);
  parallel::recomputation all(g.node_count());
  for (const auto n : node_ids(g)) {
    all[n.index()] = parallel::can_recompute(g, n);
  }
  const std::vector<bytes> held(g.node_count(), bytes{100});
  const auto found = parallel::with_checkpoints(g, all, held);
  const auto dropped = std::count(all.begin(), all.end(), true) - std::count(found.begin(), found.end(), true);
  CHECK(dropped >= 8);
  CHECK(dropped <= 12);
}

}  // namespace tests_of_recomputation
