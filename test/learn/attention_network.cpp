#include <unity/learn/attention_network.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/random.hpp>
#include <unity/learn/kernel_features.hpp>

#include "../support/operators.hpp"
#include "synthetic_kernels.hpp"

namespace tests_of_attention_network {

using namespace unity;
using learn::network_shape;
using unity::test::training::operators;

namespace {

// Random weights, so that no block is zero (some are initialized to zero).
std::vector<float> random_weights(const network_shape& s, std::uint64_t seed) {
  random_engine random{seed};
  std::vector<float> w(learn::weight_count(s));
  for (auto& x : w) {
    x = static_cast<float>(0.6 * (random.unit() - 0.5));
  }
  return w;
}

struct readable {
  fusion::kernel_description kernel{};
  learn::kernel_features features{};
};

readable read(fusion::kernel_description k, const learn::feature_scaling& scaling) {
  auto f = learn::features_of(k, true);
  scaling.apply(f.rows);
  return {std::move(k), std::move(f)};
}

std::vector<readable> some_kernels(std::size_t count, std::size_t parts) {
  test::synthetic_kernels kernels{11};
  std::vector<fusion::kernel_description> all;
  std::vector<learn::kernel_features> features;
  while (all.size() < count) {
    auto k = kernels.next().kernel;
    if (k.parts.size() <= parts) {
      features.push_back(learn::features_of(k, true));
      all.push_back(std::move(k));
    }
  }
  const auto scaling = learn::scaling_of(features);
  std::vector<readable> ready;
  for (auto& k : all) {
    ready.push_back(read(std::move(k), scaling));
  }
  return ready;
}

// One batch through the network's graph, with inputs as the header documents.
struct batch_run {
  double loss = 0;
  std::vector<float> y{};
  std::vector<float> gradient{};
};

batch_run run_batch(const network_shape& s, const std::vector<readable>& kernels, std::size_t nodes,
                    const std::vector<float>& weights) {
  const auto count = kernels.size();
  std::vector<float> features(count * nodes * learn::part_features);
  std::vector<float> sight(count * s.heads * nodes * nodes, learn::unseen);
  std::vector<float> pooling(count * 2 * nodes);
  std::vector<float> target(count, 0.3F);
  std::vector<float> weight(count, 1);
  for (std::size_t k = 0; k < count; ++k) {
    const auto& f = kernels[k].features;
    std::copy(f.rows.begin(), f.rows.end(), &features[k * nodes * learn::part_features]);
    for (std::size_t i = 0; i < f.parts(); ++i) {
      pooling[2 * k * nodes + i] = learn::pool_scale;
      pooling[(2 * k + 1) * nodes + i] = f.shares[i];
    }
    for (std::size_t head = 0; head < s.heads; ++head) {
      auto* const seen = &sight[(k * s.heads + head) * nodes * nodes];
      for (std::size_t i = 0; i < nodes; ++i) {
        seen[i * nodes + i] = 0;
      }
      for (const auto& [from, to] : kernels[k].kernel.edges) {
        (head < s.heads / 2 ? seen[to * nodes + from] : seen[from * nodes + to]) = 0;
      }
    }
  }
  backend::cpu_backend b{operators(), {1}};
  backend::executor<backend::cpu_backend> run{
      b, operators(),
      learn::trained_attention_graph(operators(), s, static_cast<std::int64_t>(count),
                                     static_cast<std::int64_t>(nodes))};
  const auto set = [&](const char* name, const std::vector<float>& x) { run.set(name, std::as_bytes(std::span{x})); };
  set("weights", weights);
  set("features", features);
  set("sight", sight);
  set("pooling", pooling);
  set("target", target);
  set("weight", weight);
  run.run();
  run.wait();
  return {run.output(0).data.at(0), run.output(1).data, run.output(2).data};
}

float forward(const network_shape& s, const std::vector<float>& weights, const readable& k) {
  return learn::attention_forward(s, weights, k.kernel, k.features);
}

// The same kernel with its parts permuted, operands still before readers.
fusion::kernel_description relabelled(const fusion::kernel_description& k, std::uint64_t seed) {
  random_engine random{seed};
  const auto count = k.parts.size();
  std::vector<std::size_t> operands(count);
  for (const auto& e : k.edges) {
    ++operands[e.second];
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (operands[i] == 0) {
      ready.push_back(i);
    }
  }
  fusion::kernel_description other;
  std::vector<std::size_t> place(count);
  while (!ready.empty()) {
    const auto at = random.below(ready.size());
    const auto i = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    place[i] = other.parts.size();
    other.parts.push_back(k.parts[i]);
    for (const auto& e : k.edges) {
      if (e.first == i && --operands[e.second] == 0) {
        ready.push_back(e.second);
      }
    }
  }
  for (const auto& [from, to] : k.edges) {
    other.edges.emplace_back(static_cast<std::uint16_t>(place[from]), static_cast<std::uint16_t>(place[to]));
  }
  std::sort(other.edges.begin(), other.edges.end());
  return other;
}

}  // namespace

TEST_CASE("weight blocks of the attention network are contiguous") {
  const network_shape s{16, 4, 2};
  std::size_t at = 0;
  for (const auto& b : learn::weight_blocks(s)) {
    CHECK(b.offset == at);
    at += b.size();
  }
  CHECK(at == learn::weight_count(s));
  CHECK(learn::initial_weights(s, 1).size() == at);
  CHECK(learn::initial_weights(s, 1) != learn::initial_weights(s, 2));
}

TEST_CASE("the untrained attention network predicts the baseline") {
  const network_shape s{16, 4, 2};
  for (const auto& k : some_kernels(5, 30)) {
    CHECK(forward(s, learn::initial_weights(s, 1), k) == Approx(0).margin(1e-5));
  }
}

TEST_CASE("a valid network shape divides its hidden size among an even number of heads") {
  CHECK(network_shape{32, 4, 3}.is_valid());
  CHECK(network_shape{32, 4, 0}.is_valid());
  CHECK_FALSE(network_shape{32, 3, 3}.is_valid());
  CHECK_FALSE(network_shape{30, 4, 3}.is_valid());
  CHECK_FALSE(network_shape{32, 0, 3}.is_valid());
}

TEST_CASE("the attention forward pass matches its graph for other padding and batch order") {
  for (const auto& s : {network_shape{32, 4, 3}, network_shape{12, 2, 1}, network_shape{20, 10, 6}}) {
    const auto weights = random_weights(s, s.hidden);
    const auto kernels = some_kernels(6, 8);
    std::vector<readable> turned{kernels.rbegin(), kernels.rend()};
    const auto small = run_batch(s, kernels, 8, weights);
    const auto large = run_batch(s, turned, 16, weights);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto y = forward(s, weights, kernels[k]);
      CHECK(small.y[k] == Approx(y).margin(1e-4));
      CHECK(large.y[kernels.size() - 1 - k] == Approx(y).margin(1e-4));
    }
    CHECK(std::abs(small.y[0] - small.y[1]) > 1e-3);
  }
}

TEST_CASE("the attention forward pass matches its graph padded to 32 and 64 parts") {
  const network_shape s{16, 4, 2};
  const auto weights = random_weights(s, 5);
  const auto kernels = some_kernels(4, 30);
  for (const std::size_t nodes : {32U, 64U}) {
    const auto found = run_batch(s, kernels, nodes, weights);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      CHECK(found.y[k] == Approx(forward(s, weights, kernels[k])).margin(1e-4));
    }
  }
}

TEST_CASE("the attention forward pass does not depend on the order of parts") {
  const network_shape s{32, 4, 3};
  const auto weights = random_weights(s, 9);
  std::size_t changed = 0;
  for (const auto& k : some_kernels(20, 30)) {
    const auto other = relabelled(k.kernel, 3);
    changed += other == k.kernel ? 0 : 1;
    std::vector<learn::kernel_features> own{learn::features_of(k.kernel, true)};
    const auto scaling = learn::scaling_of(own);
    CHECK(forward(s, weights, read(other, scaling)) ==
          Approx(forward(s, weights, read(k.kernel, scaling))).margin(1e-4));
  }
  CHECK(changed > 5);
}

TEST_CASE("the attention forward pass depends on edges and their direction") {
  const network_shape s{32, 4, 3};
  const auto weights = random_weights(s, 9);
  auto k = some_kernels(1, 8)[0];
  k.kernel.parts.resize(2);
  k.kernel.edges = {{0, 1}};
  k.features.rows.resize(2 * learn::part_features, 0.5F);
  k.features.shares = {0.5F, 0.5F};
  const auto with = forward(s, weights, k);
  auto without = k;
  without.kernel.edges.clear();
  CHECK(std::abs(with - forward(s, weights, without)) > 1e-5);
  auto turned = k;
  turned.kernel.edges = {{1, 0}};
  CHECK(std::abs(with - forward(s, weights, turned)) > 1e-5);
}

TEST_CASE("the attention network's gradient matches finite differences") {
  const network_shape s{8, 2, 2};
  const auto kernels = some_kernels(4, 8);
  const auto weights = random_weights(s, 4);
  const auto at = run_batch(s, kernels, 8, weights);
  random_engine random{1};
  for (const auto& b : learn::weight_blocks(s)) {
    INFO(b.name);
    const auto i = b.offset + random.below(b.size());
    constexpr float step = 4e-3F;
    auto below = weights;
    auto above = weights;
    below[i] -= step;
    above[i] += step;
    const auto slope =
        (run_batch(s, kernels, 8, above).loss - run_batch(s, kernels, 8, below).loss) / (2 * double{step});
    CHECK(at.gradient[i] == Approx(slope).epsilon(0.05).margin(2e-3));
  }
}

}  // namespace tests_of_attention_network
