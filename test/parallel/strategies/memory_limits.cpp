#include <unity/parallel/strategies/memory_limits.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_memory_limits {

using namespace unity;
using parallel::excess_over;
using parallel::memory_excess;

namespace {

std::vector<bytes> sizes(std::initializer_list<std::int64_t> all) {
  std::vector<bytes> b;
  for (const auto s : all) {
    b.push_back(bytes{s});
  }
  return b;
}

}  // namespace

TEST_CASE("memory limits are the memories of the devices' models") {
  auto m = hardware::preset("p100:2x2");
  CHECK(parallel::memory_limits(m) == sizes({16'000'000'000, 16'000'000'000, 16'000'000'000, 16'000'000'000}));
  m.devices[0].memory = bytes{5};
  CHECK(parallel::memory_limits(m) == sizes({5, 5, 5, 5}));
}

TEST_CASE("excess_over lists devices over their memory limit in order; 0 is no limit") {
  CHECK(excess_over(sizes({10, 10, 0, 10}), sizes({11, 10, 1000, 25})) ==
        std::vector<memory_excess>{{0, bytes{1}}, {3, bytes{15}}});
  CHECK(excess_over({}, sizes({7})).empty());
  CHECK(excess_over(sizes({10, 10}), sizes({0, 10})).empty());
}

TEST_CASE("the device with the largest memory excess is described in one line") {
  const auto m = hardware::preset("p100:2x2");
  CHECK(parallel::describe(m, {}).empty());
  const std::vector<memory_excess> one{{3, bytes{12}}};
  CHECK(describe(m, one) == "n1/gpu1 needs 12 bytes more than its 16000000000");
  const std::vector<memory_excess> several{{0, bytes{11}}, {2, bytes{40}}, {3, bytes{12}}};
  CHECK(describe(m, several) == "n1/gpu0 needs 40 bytes more than its 16000000000, and so do 2 others");
  const std::vector<memory_excess> two{{0, bytes{11}}, {2, bytes{40}}};
  CHECK(describe(m, two) == "n1/gpu0 needs 40 bytes more than its 16000000000, and so does 1 other");
}

TEST_CASE("buffer sums are at least the simulated peaks and return to 0 after removal", "[law]") {
  const auto& a = parallel::test::operators();
  for (const auto* model : {"zoo:lenet?batch=16", "zoo:rnnlm?batch=8&hidden=32&vocab=40&seq=3"}) {
    const auto g = tensor::zoo::build(a, model);
    const auto m = hardware::preset("p100:2x2");
    parallel::lowering lower{a, g, m};
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(model, seed);
      random_engine random{seed};
      const auto s = parallel::random_strategy(lower.dimensions(), 4, random);
      const auto p = lower.run(s);
      simulate::full_simulation simulation;
      simulation.run(p);
      parallel::buffer_sums sums{4};
      std::vector<std::int64_t> expected(4);
      for (std::size_t f = 0; f < p.fragment_count(); ++f) {
        sums.add(p[tasks::fragment_id{f}]);
        for (const auto& b : p[tasks::fragment_id{f}].buffers) {
          expected[b.device] += b.size.count();
        }
      }
      bool is_above = false;
      const auto profiles = simulate::memory_profiles(p, simulation.times());
      for (std::size_t d = 0; d < 4; ++d) {
        REQUIRE(sums.sums()[d] == bytes{expected[d]});
        REQUIRE(sums.sums()[d] >= profiles[d].peak);
        is_above = is_above || sums.sums()[d] > profiles[d].peak;
      }
      REQUIRE(is_above);  // otherwise nothing would have to be freed
      for (std::size_t f = 0; f < p.fragment_count(); ++f) {
        sums.remove(p[tasks::fragment_id{f}]);
      }
      for (const auto left : sums.sums()) {
        REQUIRE(left == bytes{});
      }
    }
  }
}

}  // namespace tests_of_memory_limits
