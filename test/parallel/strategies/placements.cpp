#include <unity/parallel/strategies/placements.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../operators.hpp"

namespace tests_of_placements {

using namespace unity;
using parallel::aligned_blocks;
using parallel::block_strides;
using parallel::configuration;
using parallel::degree_list;
using parallel::device_block;
using parallel::placements;
using parallel::test::operators;
using parallel::test::type;

namespace {

std::vector<std::size_t> devices_of(const device_block& b) {
  std::vector<std::size_t> all;
  for (std::size_t k = 0; k < b.size; ++k) {
    all.push_back(b[k].index());
  }
  return all;
}

// Tries every list of degrees.
std::set<std::vector<std::int64_t>> tried_degrees(const parallel::operator_dimensions& o, std::size_t devices) {
  std::set<std::vector<std::int64_t>> valid;
  std::vector<std::int64_t> degrees;
  const auto next = [&](const auto& self, std::int64_t tasks) -> void {
    if (degrees.size() < o.divisible.size()) {
      for (std::int64_t d = 1; tasks * d <= static_cast<std::int64_t>(devices); ++d) {
        degrees.push_back(d);
        self(self, tasks * d);
        degrees.pop_back();
      }
      return;
    }
    configuration c;
    for (const auto d : degrees) {
      c.degrees.push_back(d);
    }
    c.devices.resize(static_cast<std::size_t>(tasks), hardware::device_id{std::size_t{0}});
    if (static_cast<std::int64_t>(devices) % tasks == 0 && why_not(o, c, devices).empty()) {
      valid.insert(degrees);
    }
  };
  next(next, 1);
  return valid;
}

// The chi-square statistic for equally likely outcomes: sum of (observed - expected)^2 / expected.
double chi_square(const std::vector<std::size_t>& observed) {
  double sum = 0;
  for (const auto n : observed) {
    sum += static_cast<double>(n);
  }
  const auto expected = sum / static_cast<double>(observed.size());
  double all = 0;
  for (const auto n : observed) {
    all += (static_cast<double>(n) - expected) * (static_cast<double>(n) - expected) / expected;
  }
  return all;
}

constexpr std::size_t machines[] = {1, 2, 3, 4, 6, 8, 12, 16, 96};

}  // namespace

TEST_CASE("aligned blocks of one size and stride partition the devices") {
  for (const auto devices : machines) {
    for (std::size_t size = 1; size <= devices; ++size) {
      if (devices % size != 0) {
        continue;
      }
      CAPTURE(devices, size);
      std::map<std::size_t, std::multiset<std::size_t>> covered;  // by stride
      std::set<std::vector<std::size_t>> different;
      const auto all = aligned_blocks(devices, size, block_strides::all);
      for (const auto& b : all) {
        REQUIRE(b.size == size);
        const auto on = devices_of(b);
        covered[b.stride].insert(on.begin(), on.end());
        different.insert(on);
      }
      REQUIRE(different.size() == all.size());
      std::set<std::size_t> expected{1};
      for (std::size_t stride = 2; size > 1 && stride <= devices; ++stride) {
        if (devices % (size * stride) == 0) {
          expected.insert(stride);
        }
      }
      std::set<std::size_t> strides;
      for (const auto& [stride, on] : covered) {
        strides.insert(stride);
        REQUIRE(on.size() == devices);
        REQUIRE(std::set<std::size_t>(on.begin(), on.end()).size() == devices);
        REQUIRE(*on.rbegin() == devices - 1);
      }
      REQUIRE(strides == expected);

      const auto near = aligned_blocks(devices, size, block_strides::one);
      REQUIRE(near.size() == devices / size);
      for (std::size_t i = 0; i < near.size(); ++i) {
        REQUIRE(near[i] == device_block{static_cast<std::uint32_t>(i * size), 1, static_cast<std::uint32_t>(size)});
      }
    }
  }
}

TEST_CASE("aligned blocks of two of six devices are adjacent or three apart") {
  std::set<std::vector<std::size_t>> found;
  for (const auto& b : aligned_blocks(6, 2, block_strides::all)) {
    found.insert(devices_of(b));
  }
  CHECK(found == std::set<std::vector<std::size_t>>{{0, 1}, {2, 3}, {4, 5}, {0, 3}, {1, 4}, {2, 5}});
}

TEST_CASE("placements of an operator are exactly its valid degrees on aligned blocks") {
  using subject = std::pair<std::string_view, std::size_t>;
  for (const auto& [model, devices] : {subject{"zoo:lenet?batch=24", 4}, subject{"zoo:lenet?batch=24", 6},
                                       subject{"zoo:lenet?batch=96", unity::test::all_or(96, 24)},
                                       subject{"zoo:rnnlm?batch=12&hidden=36&vocab=60&seq=2", 6},
                                       subject{"zoo:nmt?batch=4&hidden=8&vocab=12&seq=2", 8},
                                       subject{"zoo:bert?layers=1&batch=2&hidden=24&heads=4&seq=6&vocab=30", 12}}) {
    CAPTURE(model, devices);
    const auto g = tensor::zoo::build(operators(), model);
    const parallel::graph_dimensions all{operators(), g};
    const placements near{all, devices, block_strides::one};
    const placements every{all, devices};
    for (const auto id : node_ids(all)) {
      CAPTURE(id.index());
      if (g.operands(id).empty()) {
        REQUIRE(every.degrees(id).empty());
        REQUIRE(every.all(id).empty());
        continue;
      }
      const auto expected = tried_degrees(all[id], devices);
      std::set<std::vector<std::int64_t>> degrees;
      std::size_t near_count = 0;
      std::size_t every_count = 0;
      for (const auto& d : every.degrees(id)) {
        degrees.insert({d.begin(), d.end()});
        const auto tasks = placements::tasks_of(d);
        near_count += devices / tasks;
        for (std::size_t stride = 1; stride <= devices; ++stride) {
          every_count += devices % (tasks * stride) == 0 && (tasks > 1 || stride == 1) ? devices / tasks : 0;
        }
      }
      REQUIRE(degrees == expected);
      REQUIRE(every.degrees(id).size() == expected.size());
      REQUIRE(near.all(id).size() == near_count);
      const auto configurations = every.all(id);
      REQUIRE(configurations.size() == every_count);
      for (const auto& c : configurations) {
        REQUIRE(why_not(all[id], c, devices).empty());
        REQUIRE(std::count(configurations.begin(), configurations.end(), c) == 1);
      }
    }
  }
}

TEST_CASE("degrees of a matmul on four devices are in lexicographic order") {
  const auto o = parallel::test::dimensions("matmul", {{"activation", "none"}}, {type({8, 8}), type({8, 8}, true)});
  const auto degrees = parallel::degrees_of(o, 4);
  std::vector<std::vector<std::int64_t>> found;
  for (const auto& d : degrees) {
    found.emplace_back(d.begin(), d.end());
  }
  CHECK(found == std::vector<std::vector<std::int64_t>>{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}});
}

TEST_CASE("placement sampling draws degrees uniformly and then blocks uniformly", "[law]") {
  const auto g = tensor::zoo::build(operators(), "zoo:lenet?batch=24");
  const parallel::graph_dimensions all{operators(), g};
  for (const std::size_t devices : {4U, 6U, 8U}) {
    const placements from{all, devices};
    node_id n{};  // the operator with the most degrees
    for (const auto i : node_ids(all)) {
      n = !n.valid() || from.degrees(i).size() > from.degrees(n).size() ? i : n;
    }
    const std::uint64_t seed = 51;
    CAPTURE(devices, seed);
    random_engine random{seed};
    const auto degrees = from.degrees(n);
    REQUIRE(degrees.size() > 5);
    std::vector<std::size_t> drawn(degrees.size());
    std::vector<std::vector<std::size_t>> blocks;
    for (const auto& d : degrees) {
      blocks.emplace_back(from.blocks(placements::tasks_of(d)).size());
    }
    const std::size_t samples = unity::test::all_or(20000, 4000);
    for (std::size_t i = 0; i < samples; ++i) {
      const auto c = from.sample(n, random);
      REQUIRE(why_not(all[n], c, devices).empty());
      const auto at = static_cast<std::size_t>(std::find(degrees.begin(), degrees.end(), c.degrees) - degrees.begin());
      REQUIRE(at < degrees.size());
      ++drawn[at];
      const auto fitting = from.blocks(c.task_count());
      const auto block = std::find_if(fitting.begin(), fitting.end(),
                                      [&](const device_block& b) { return on_block(c.degrees, b) == c; });
      REQUIRE(block != fitting.end());
      ++blocks[at][static_cast<std::size_t>(block - fitting.begin())];
    }
    // The statistic of k equally likely outcomes has mean k - 1 and variance 2 (k - 1).
    const auto limit = [](std::size_t k) {
      return static_cast<double>(k - 1) + 6 * std::sqrt(2.0 * static_cast<double>(k - 1)) + 6;
    };
    CHECK(chi_square(drawn) < limit(drawn.size()));
    for (const auto& b : blocks) {
      CHECK(chi_square(b) < limit(b.size()));
    }
  }
}

}  // namespace tests_of_placements
