#include <unity/parallel/lowering/delays.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace tests_of_delays {

using namespace unity;
using parallel::delay_matrix;
using tasks::fragment_id;
using tasks::task_ref;

namespace {

constexpr task_ref source{fragment_id{0U}, 0};
constexpr task_ref target{fragment_id{1U}, 0};

tasks::fragment message(std::int64_t first, std::int64_t second) {
  tasks::fragment f;
  const std::array<tasks::hop, 2> route{{{tasks::resource_id{2U}, picoseconds{first}, picoseconds{3}},
                                         {tasks::resource_id{3U}, picoseconds{second}, picoseconds{4}}}};
  const auto last = tasks::add_transfer(f, route, bytes{8}, 0, {&source, 1});
  f.dependencies.push_back({last, target, false});
  return f;
}

// Fragments 0 and 1 have one task each; fragment 2 lies between them, with one resource per task. Not all of its tasks
// follow the source.
struct random_fragment {
  std::size_t tasks = 0;
  tasks::fragment between{};

  explicit random_fragment(random_engine& random) : tasks{1 + random.below(8)} {
    for (std::uint32_t i = 0; i < tasks; ++i) {
      const auto duration = picoseconds{static_cast<std::int64_t>(1 + random.below(30))};
      const auto latency = picoseconds{static_cast<std::int64_t>(1 + random.below(9))};
      between.add({tasks::resource_id{2 + i}, duration, latency, {}, tasks::task_kind::transfer, 0});
      if (random.below(3) == 0) {
        between.dependencies.push_back({source, {{}, i}, false});
      }
      for (std::uint32_t before = 0; before < i; ++before) {
        if (random.below(3) == 0) {
          between.dependencies.push_back({{{}, before}, {{}, i}, random.below(2) == 0});
        }
      }
      if (random.below(3) == 0) {
        between.dependencies.push_back({{{}, i}, target, false});
      }
    }
  }

  [[nodiscard]] tasks::program with_source(std::int64_t duration) const {
    tasks::program p;
    for (std::size_t r = 0; r < tasks + 2; ++r) {
      p.add_resource({"r" + std::to_string(r), tasks::resource_kind::link, 0});
    }
    tasks::fragment ends;
    ends.add({tasks::resource_id{0U}, picoseconds{duration}, {}, {}, tasks::task_kind::forward, 0});
    tasks::fragment last;
    last.add({tasks::resource_id{1U}, picoseconds{1}, {}, {}, tasks::task_kind::forward, 0});
    for (int f = 0; f < 3; ++f) {
      p.add_fragment();
    }
    const std::array<tasks::replacement, 3> all{
        {{fragment_id{0U}, &ends}, {fragment_id{1U}, &last}, {fragment_id{2U}, &between}}};
    p.replace(all);
    p.commit();
    return p;
  }
};

}  // namespace

TEST_CASE("the delay of a message over two links is both latencies and the slower transfer") {
  REQUIRE(parallel::fragment_delays{message(10, 20), source}.until(target) == 3 + 20 + 4);
  REQUIRE(parallel::fragment_delays{message(20, 10), source}.until(target) == 20 + 3 + 4);
  REQUIRE(parallel::fragment_delays{message(20, 10), target}.until(target) == delay_matrix::none);
}

TEST_CASE("delays through a random fragment match a simulation of it alone") {
  const std::uint64_t seed = 61;
  INFO("seed " << seed);
  random_engine random{seed};
  int reached = 0;
  for (int i = 0; i < 500; ++i) {
    const random_fragment f{random};
    const parallel::fragment_delays delays{f.between, source};
    constexpr std::int64_t late = 100000;  // so that tasks that do not follow the source end before it does
    const auto p = f.with_source(late);
    simulate::full_simulation full;
    full.run(p);
    const auto ready_of = [&](const task_ref& t) { return full.times()[p.find(t.fragment, t.index).index()].ready; };
    for (std::uint32_t t = 0; t < f.tasks; ++t) {
      const auto ready = ready_of({fragment_id{2U}, t});
      if (delays.until_ready(t) == delay_matrix::none) {
        REQUIRE(ready < late);
      } else {
        REQUIRE(ready == late + delays.until_ready(t));
      }
    }
    if (delays.until(target) == delay_matrix::none) {
      REQUIRE(ready_of(target) < late);
    } else {
      REQUIRE(ready_of(target) == late + delays.until(target));
      ++reached;
    }
  }
  REQUIRE(reached > 100);
}

TEST_CASE("chained delay matrices take the longest path; limit_to and raise_to are min and max") {
  delay_matrix a{2, 2};
  a(0, 0) = 1;
  a(0, 1) = 5;
  a(1, 1) = 0;
  delay_matrix b{2, 2};
  b(0, 0) = 10;
  b(1, 0) = 2;
  const std::vector<std::int64_t> between{100, 103};
  const auto c = parallel::chained(a, between, b);
  REQUIRE(c(0, 0) == 111);
  REQUIRE(c(1, 0) == 105);
  REQUIRE(c(0, 1) == delay_matrix::none);
  REQUIRE(c(1, 1) == delay_matrix::none);
  auto least = c;
  least.limit_to(a);
  REQUIRE(least(0, 0) == 1);
  REQUIRE(least(0, 1) == delay_matrix::none);
  REQUIRE(least(1, 0) == delay_matrix::none);
  auto greatest = c;
  greatest.raise_to(a);
  REQUIRE(greatest(0, 0) == 111);
  REQUIRE(greatest(0, 1) == 5);
  REQUIRE(greatest(1, 1) == 0);
}

}  // namespace tests_of_delays
