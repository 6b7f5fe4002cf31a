#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/list_scheduling.hpp>

#include "random_program.hpp"
#include "slow_simulator.hpp"

namespace tests_of_full {

using namespace unity;
using namespace unity::tasks;
using simulate::task_times;

namespace {

// Streams 0 and 1, links 2 and 3.
unity::tasks::program machine() {
  unity::tasks::program p;
  p.add_resource({"a", resource_kind::stream, 0});
  p.add_resource({"b", resource_kind::stream, 1});
  p.add_resource({"l", resource_kind::link, 0});
  p.add_resource({"m", resource_kind::link, 0});
  return p;
}

task work(std::uint32_t resource, std::int64_t duration, std::uint32_t shard = 0) {
  return {resource_id{resource}, picoseconds{duration}, {}, {}, task_kind::forward, shard};
}

std::vector<task_times> run(const unity::tasks::program& p, fragment_id f) {
  simulate::full_simulation s;
  s.run(p);
  const auto range = p.tasks_of(f);
  return {s.times().begin() + range.first, s.times().begin() + range.first + range.count};
}

}  // namespace

TEST_CASE("a task starts when its dependencies have ended and its resource is free") {
  auto p = machine();
  const auto f = p.add_fragment();
  fragment body;
  const auto a = body.add(work(0, 10));
  const auto b = body.add(work(1, 4));
  const auto c = body.add(work(1, 3));
  const auto d = body.add(work(1, 1));
  body.dependencies = {{{{}, a}, {{}, c}, false}, {{{}, b}, {{}, d}, false}};
  p.replace(f, body);
  p.commit();
  CHECK(run(p, f) == std::vector<task_times>{{0, 0, 10}, {0, 0, 4}, {10, 10, 13}, {4, 4, 5}});
}

TEST_CASE("a resource runs tasks by ready time; ties by fragment then shard then kind then place") {
  auto p = machine();
  const auto f = p.add_fragment();
  const auto g = p.add_fragment();
  fragment first;
  first.add(work(0, 3, 2));
  first.add(work(0, 3, 1));
  auto backward = work(0, 3, 1);
  backward.kind = task_kind::backward;
  first.add(backward);
  first.add(work(0, 3, 1));
  fragment second;
  second.add(work(0, 3, 0));
  p.replace(g, second);
  p.commit();
  p.replace(f, first);
  p.commit();
  CHECK(run(p, f) == std::vector<task_times>{{0, 9, 12}, {0, 0, 3}, {0, 6, 9}, {0, 3, 6}});
  CHECK(run(p, g) == std::vector<task_times>{{0, 12, 15}});
}

TEST_CASE("a simulated message crosses its route cut-through and arrives after all latencies") {
  auto p = machine();
  const auto f = p.add_fragment();
  fragment body;
  const task_ref from{{}, body.add(work(0, 10))};
  const std::vector<hop> route{{resource_id{2u}, picoseconds{100}, picoseconds{5}},
                               {resource_id{3u}, picoseconds{20}, picoseconds{7}}};
  const auto last = add_transfer(body, route, bytes{64}, 0, {&from, 1});
  const auto to = body.add(work(1, 1));
  body.dependencies.push_back({last, {{}, to}, false});
  p.replace(f, body);
  p.commit();
  // The second hop is faster, but ends only after the last byte has arrived over the first hop.
  CHECK(run(p, f) == std::vector<task_times>{{0, 0, 10}, {10, 10, 110}, {15, 15, 115}, {122, 122, 123}});
}

TEST_CASE("simulated messages that share a link run one after another") {
  auto p = machine();
  const auto f = p.add_fragment();
  fragment body;
  const hop one{resource_id{2u}, picoseconds{10}, picoseconds{1}};
  add_transfer(body, {&one, 1}, bytes{64}, 0, {});
  add_transfer(body, {&one, 1}, bytes{64}, 1, {});
  p.replace(f, body);
  p.commit();
  CHECK(run(p, f) == std::vector<task_times>{{0, 0, 10}, {0, 10, 20}});
}

TEST_CASE("full simulation of an empty program takes no time") {
  simulate::full_simulation s;
  CHECK(s.run(unity::tasks::program{}) == picoseconds{0});
  CHECK(s.run(machine()) == picoseconds{0});
}

TEST_CASE("full simulation of a dependency cycle is an error that names the first task of the cycle") {
  auto p = machine();
  const auto f = p.add_fragment({owner_kind::node, 3, "matmul 3"});
  fragment body;
  body.add(work(0, 1));
  body.add(work(0, 1));
  body.add(work(1, 1));
  // Task 0 waits for the cycle, but is not part of it.
  body.dependencies = {{{{}, 1}, {{}, 2}, false}, {{{}, 2}, {{}, 1}, false}, {{{}, 2}, {{}, 0}, false}};
  p.replace(f, body);
  p.commit();
  simulate::full_simulation s;
  try {
    s.run(p);
    FAIL("no error");
  } catch (const error& e) {
    CHECK(std::string{e.what()} ==
          "program: task 1 of fragment 0 (matmul 3) waits for itself; expected dependencies without a cycle");
  }
}

TEST_CASE("every simulation refuses an iteration of more than 2^61 picoseconds") {
  constexpr auto longest = std::int64_t{1} << 61U;
  const auto one_task = [](std::int64_t duration, bool has_resource) {
    auto p = machine();
    const auto f = p.add_fragment();
    fragment body;
    auto task = work(0, duration);
    task.resource = has_resource ? task.resource : resource_id{};
    body.add(task);
    p.replace(f, body);
    p.commit();
    return p;
  };
  const auto try_both = [&](auto simulation) {
    for (const bool has_resource : {true, false}) {
      CAPTURE(has_resource);
      CHECK(simulation.run(one_task(longest, has_resource)) == picoseconds{longest});
      CHECK_THROWS_WITH(simulation.run(one_task(longest + 1, has_resource)),
                        "program: an iteration of more than 2305843 s; expected times that fit");
    }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    for (const bool has_latency : {true, false}) {  // sums that do not fit in 64 bits
      CAPTURE(has_latency);
      auto p = machine();
      const auto f = p.add_fragment();
      fragment body;
      body.add(work(0, longest));
      body.add(work(1, has_latency ? 1 : most));
      body.tasks[0].latency = picoseconds{has_latency ? most : 0};
      body.dependencies.push_back({{{}, 0}, {{}, 1}, false});
      p.replace(f, body);
      p.commit();
      CHECK_THROWS_WITH(simulation.run(p), "program: an iteration of more than 2305843 s; expected times that fit");
    }
  };
  try_both(simulate::full_simulation{});
  try_both(simulate::list_simulation<simulate::first_in_first_out>{});
  try_both(simulate::device_queues<simulate::by_kind>{});
}

TEST_CASE("full simulation equals a slow reference on random programs", "[law]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 1 + random.below(8);
    o.devices = 1 + random.below(4);
    o.longest = seed % 2 == 0 ? 3 : 1000;
    o.is_symmetric = seed % 3 == 0;
    const test::random_plan plan{random, o};
    const auto p = plan.lower(random);
    const auto slow = test::slow_simulation(p);
    REQUIRE(slow.size() == p.task_count());
    simulate::full_simulation s;
    const auto latest = s.run(p);
    std::int64_t end = 0;
    for (const auto& [name, times] : slow) {
      REQUIRE(s.times()[p.find(fragment_id{name.first}, name.second).index()] == times);
      end = std::max(end, times.end);
    }
    REQUIRE(latest == picoseconds{end});
  }
}

}  // namespace tests_of_full
