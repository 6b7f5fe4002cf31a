#include <unity/learn/ranker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/random.hpp>

#include "../support/operators.hpp"

namespace tests_of_ranker {

namespace {

using namespace unity;
using unity::test::training::operators;

constexpr learn::ranking_shape small{5, 3, 16, 4};

std::vector<float> random_numbers(std::size_t count, random_engine& random) {
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(static_cast<float>(2 * random.unit() - 1));
  }
  return all;
}

std::vector<learn::ranked_list> random_lists(const learn::ranking_shape& s, std::size_t count, std::size_t items,
                                             random_engine& random) {
  std::vector<learn::ranked_list> all;
  for (std::size_t i = 0; i < count; ++i) {
    auto rows = random_numbers(items * s.item_features, random);
    all.push_back({std::move(rows), random_numbers(s.list_features, random)});
  }
  return all;
}

struct graph_result {
  double loss = 0;
  std::vector<float> scores{};
  std::vector<float> gradient{};
};

graph_result run_graph(const learn::ranking_shape& s, const std::vector<learn::ranked_list>& lists,
                       const std::vector<float>& weights, const std::vector<float>& pairs) {
  const auto count = static_cast<std::int64_t>(lists.size());
  const auto items = static_cast<std::int64_t>(lists[0].items.size() / s.item_features);
  backend::cpu_backend cpu{operators(), {1}};
  backend::executor<backend::cpu_backend> network{cpu, operators(), learn::ranking_graph(operators(), s, count, items)};
  std::vector<float> rows;
  std::vector<float> wholes;
  for (const auto& l : lists) {
    rows.insert(rows.end(), l.items.begin(), l.items.end());
    wholes.insert(wholes.end(), l.whole.begin(), l.whole.end());
  }
  network.set("weights", std::as_bytes(std::span{weights}));
  network.set("items", std::as_bytes(std::span{rows}));
  network.set("wholes", std::as_bytes(std::span{wholes}));
  network.set("pairs", std::as_bytes(std::span{pairs}));
  network.run();
  network.wait();
  return {double{network.output(0).data[0]}, network.output(1).data, network.output(2).data};
}

}  // namespace

TEST_CASE("a ranker's forward pass matches its graph and its loss matches the formula", "[law]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto lists = random_lists(small, 6, 1 + seed * 3, random);
    const auto weights = random_numbers(learn::size_of(learn::weight_blocks(small)), random);
    std::vector<float> pairs(36);
    for (auto& p : pairs) {
      p = static_cast<float>(random.unit());
    }
    const auto found = run_graph(small, lists, weights, pairs);
    double loss = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      const auto y = double{learn::ranking_score(small, weights, lists[i])};
      CHECK(double{found.scores[i]} == Approx(y).margin(1e-3));
      for (std::size_t k = 0; k < 6; ++k) {
        loss += double{pairs[6 * i + k]} * std::log1p(std::exp(double{found.scores[k]} - double{found.scores[i]}));
      }
    }
    CHECK(found.loss == Approx(loss).epsilon(1e-3));
  }
}

TEST_CASE("a ranker's gradient matches finite differences", "[law]") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  random_engine random{seed};
  const auto lists = random_lists(small, 4, 5, random);
  auto weights = random_numbers(learn::size_of(learn::weight_blocks(small)), random);
  for (auto& w : weights) {
    w *= 0.3F;
  }
  std::vector<float> pairs(16);
  pairs[1] = pairs[6] = pairs[11] = 1;
  const auto at = run_graph(small, lists, weights, pairs);
  for (int i = 0; i < 20; ++i) {
    const auto w = random.below(weights.size());
    constexpr float step = 1e-2F;
    auto more = weights;
    auto less = weights;
    more[w] += step;
    less[w] -= step;
    const auto slope =
        (run_graph(small, lists, more, pairs).loss - run_graph(small, lists, less, pairs).loss) / (2 * double{step});
    CHECK(double{at.gradient[w]} == Approx(slope).margin(0.02 + 0.05 * std::abs(slope)));
  }
}

TEST_CASE("the ranking loss does not overflow for distant scores") {
  random_engine random{3};
  auto lists = random_lists(small, 2, 2, random);
  lists[0].whole = {1e4F, 0, 0};
  lists[1].whole = {-1e4F, 0, 0};
  const auto weights = learn::initial_weights(small, std::vector<float>{1, 0, 0}, 1);
  CHECK(run_graph(small, lists, weights, {0, 1, 0, 0}).loss == Approx(0).margin(1e-6));
  CHECK(run_graph(small, lists, weights, {0, 0, 1, 0}).loss == Approx(2e4));
}

TEST_CASE("an untrained ranker scores with its fixed weights and ignores item order", "[law]") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  random_engine random{seed};
  const auto lists = random_lists(small, 3, 7, random);
  const std::vector<float> fixed{-1, 0.5F, 0};
  learn::ranker r{operators(), small, 7, fixed, seed};
  for (const auto& l : lists) {
    CHECK(double{r.score(l)} == Approx(double{-l.whole[0] + 0.5F * l.whole[1]}).margin(1e-5));
  }
  const auto weights = random_numbers(learn::size_of(learn::weight_blocks(small)), random);
  for (const auto& l : lists) {
    auto turned = l;
    std::rotate(turned.items.begin(), turned.items.begin() + 3 * 5, turned.items.end());
    CHECK(double{learn::ranking_score(small, weights, turned)} ==
          Approx(double{learn::ranking_score(small, weights, l)}).margin(1e-4));
  }
}

TEST_CASE("a ranker learns a sum over items deterministically") {
  const std::uint64_t seed = 21;
  CAPTURE(seed);
  constexpr std::size_t items = 12;
  random_engine random{seed};
  auto lists = random_lists(small, 300, items, random);
  std::vector<double> values;
  for (const auto& l : lists) {
    double sum = 10;
    for (std::size_t i = 0; i < items; ++i) {
      sum += std::max(0.0, double{l.items[i * 5]} - 0.5 * double{l.items[i * 5 + 1]});
    }
    values.push_back(sum);
  }
  const auto held = std::span{lists}.last(100);
  const auto accuracy = [&](const learn::ranker& r) {
    std::vector<float> scores;
    for (const auto& l : held) {
      scores.push_back(r.score(l));
    }
    return learn::accuracy_of(scores, std::span{values}.last(100), 0.005).share();
  };
  const std::vector<float> nothing(3);
  learn::ranker r{operators(), small, items, nothing, seed};
  learn::ranker same{operators(), small, items, nothing, seed};
  CHECK(accuracy(r) == Approx(0.5));
  const auto first = r.learn(std::span{lists}.first(200), std::span{values}.first(200), 20);
  const auto last = r.learn(std::span{lists}.first(200), std::span{values}.first(200), 300);
  CHECK(last < first / 2);
  CHECK(accuracy(r) > 0.9);
  same.learn(std::span{lists}.first(200), std::span{values}.first(200), 20);
  same.learn(std::span{lists}.first(200), std::span{values}.first(200), 300);
  CHECK(same.score(lists[0]) == r.score(lists[0]));
}

TEST_CASE("a ranker with one feature per item learns") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  const learn::ranking_shape one{1, 1, 8, 2};
  random_engine random{seed};
  const auto lists = random_lists(one, 40, 4, random);
  std::vector<double> values;
  for (const auto& l : lists) {
    values.push_back(10 + std::accumulate(l.items.begin(), l.items.end(), 0.0));
  }
  learn::ranker r{operators(), one, 4, std::vector<float>(1), seed};
  const auto first = r.learn(lists, values, 1);
  CHECK(r.learn(lists, values, 300) < first / 2);
}

TEST_CASE("a ranker learns nothing from equal values") {
  random_engine random{2};
  const auto lists = random_lists(small, 4, 3, random);
  learn::ranker r{operators(), small, 3, std::vector<float>(3), 1};
  CHECK(r.learn(lists, std::vector<double>(4, 1.0), 10) == 0);
  CHECK(r.score(lists[0]) == 0);
}

TEST_CASE("ranking accuracy counts pairs that differ by more than the tolerance") {
  const std::vector<double> values{1, 2, 2.001, 4};
  const auto right = learn::accuracy_of(std::vector<float>{4, 3, 2, 1}, values, 0.005);
  CHECK(right.pairs == 5);
  CHECK(right.share() == 1);
  CHECK(learn::accuracy_of(std::vector<float>{1, 2, 3, 4}, values, 0.005).share() == 0);
  CHECK(learn::accuracy_of(std::vector<float>{1, 1, 1, 1}, values, 0.005).share() == 0.5);
  CHECK(learn::accuracy_of(std::vector<float>{1, 1}, std::vector<double>{3, 3}, 0.005).pairs == 0);
}

TEST_CASE("ranker features are scaled to standard deviations within bounds") {
  std::vector<learn::ranked_list> lists{{{1, 7, 3, 7}, {5}}, {{5, 7, 7, 7}, {5}}};
  const learn::ranked_scaling scaling{{2, 1, 4, 1}, lists};
  for (auto& l : lists) {
    scaling.apply(l);
  }
  CHECK(lists[0].items[0] == Approx(-3 / std::sqrt(5.0)));
  CHECK(lists[0].items[1] == 0);
  CHECK(lists[1].whole[0] == 0);
  learn::ranked_list far{{1e6F, 7}, {5}};
  scaling.apply(far);
  CHECK(far.items[0] == 10);
}

TEST_CASE("ranker features of microseconds are scaled as those of seconds") {
  std::vector<learn::ranked_list> lists{{{2e-7F, 0}, {0.1F}}, {{6e-7F, 0}, {0.1F}}};
  const learn::ranked_scaling scaling{{2, 1, 4, 1}, lists};
  scaling.apply(lists[1]);
  CHECK(lists[1].items[0] == Approx(1));
  CHECK(lists[1].items[1] == 0);
  CHECK(lists[1].whole[0] == Approx(0).margin(1e-6));
}

}  // namespace tests_of_ranker
