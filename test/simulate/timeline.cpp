#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/simulate/timeline.hpp>

#include "random_program.hpp"

namespace tests_of_timeline {

using namespace unity;
using namespace unity::tasks;
using simulate::wait_reason;

namespace {

task work(std::uint32_t resource, std::int64_t duration) {
  return {resource_id{resource}, picoseconds{duration}, {}, {}, task_kind::forward, 0};
}

struct example {
  unity::tasks::program program;
  fragment_id all;
  simulate::timeline seen;
};

// Two devices and a link; a (10) on device 0 sends to d (4) on device 1, where c (12) is first; b (5) follows a.
example run() {
  example e;
  auto& p = e.program;
  p.add_resource({"a", resource_kind::stream, 0});
  p.add_resource({"b", resource_kind::stream, 1});
  p.add_resource({"l", resource_kind::link, 0});
  e.all = p.add_fragment();
  fragment body;
  const auto a = body.add(work(0, 10));
  const auto b = body.add(work(0, 5));
  const auto c = body.add(work(1, 12));
  const auto d = body.add(work(1, 4));
  const task_ref from{{}, a};
  const hop one{resource_id{2u}, picoseconds{3}, picoseconds{2}};
  const auto last = add_transfer(body, {&one, 1}, bytes{64}, 0, {&from, 1});
  body.dependencies.push_back({last, {{}, d}, false});
  body.buffers = {{bytes{100}, 0, {{}, a}, false}, {bytes{10}, 0, {{}, b}, false}, {bytes{7}, 1, {}, true},
                  {bytes{20}, 1, last, false}};
  body.reads = {{{{}, 0}, last}, {{{}, 3}, {{}, d}}};
  (void)c;
  p.replace(e.all, body);
  p.commit();
  simulate::full_simulation s;
  s.run(p);
  e.seen = simulate::summarize(p, s.times());
  return e;
}

}  // namespace

TEST_CASE("a timeline has the busy time and moved bytes of each resource") {
  const auto e = run();
  CHECK(e.seen.iteration == picoseconds{19});
  CHECK(e.seen.tasks == 5);
  CHECK(e.seen.resources == std::vector<simulate::resource_use>{{picoseconds{15}, {}, 2}, {picoseconds{16}, {}, 2},
                                                                 {picoseconds{3}, bytes{64}, 1}});
  CHECK(e.seen.communicated == bytes{64});
}

TEST_CASE("the critical path states what each task waited for") {
  const auto e = run();
  const auto t = [&](std::uint32_t i) { return e.program.find(e.all, i); };
  CHECK(e.seen.critical_path == std::vector<simulate::critical_step>{{t(0), wait_reason::nothing, {}},
                                                                      {t(4), wait_reason::dependency, t(0)},
                                                                      {t(3), wait_reason::dependency, t(4)}});
}

TEST_CASE("memory is held from the start of its producer to the last end of its readers") {
  const auto e = run();
  using simulate::memory_level;
  const auto at = [](std::int64_t t, std::int64_t held) { return memory_level{picoseconds{t}, bytes{held}}; };
  REQUIRE(e.seen.memory.size() == 2);
  // The second task's buffer is held from 10 to 15; the message reads the first task's buffer until 13.
  CHECK(e.seen.memory[0].levels == std::vector<memory_level>{at(0, 100), at(10, 110), at(13, 10), at(15, 0)});
  CHECK(e.seen.memory[0].peak == bytes{110});
  CHECK(e.seen.memory[1].levels == std::vector<memory_level>{at(0, 7), at(10, 27), at(19, 7)});
  CHECK(e.seen.memory[1].peak == bytes{27});
}

TEST_CASE("an empty program has an empty timeline") {
  const auto t = simulate::summarize(unity::tasks::program{}, {});
  CHECK(t.iteration == picoseconds{0});
  CHECK(t.critical_path.empty());
  CHECK(t.memory.empty());
}

TEST_CASE("a critical path ends where the order of tasks of zero duration on a device is unknown") {
  struct late_first {  // the second task of the program before its first one
    static std::int64_t rank(const tasks::program&, std::uint32_t place) { return place == 0 ? 1 : 0; }
  };
  tasks::program p;
  for (const auto* const name : {"a", "b", "c"}) {
    p.add_resource({name, resource_kind::stream, 0});
  }
  fragment body;
  body.add(work(2, 0));  // ready at 1, but runs after the next one, which is ready at 5
  body.add(work(2, 0));
  body.add(work(0, 1));
  body.add(work(1, 5));
  body.dependencies = {{{{}, 2}, {{}, 0}, false}, {{{}, 3}, {{}, 1}, false}};
  p.replace(p.add_fragment(), body);
  p.commit();
  simulate::device_queues<late_first> s;
  REQUIRE(s.run(p) == picoseconds{5});
  REQUIRE(s.times()[0].start == 5);
  const auto path = simulate::summarize(p, s.times()).critical_path;
  REQUIRE(path.size() == 1);
  CHECK(path[0].reason == wait_reason::resource);
  CHECK(!path[0].cause.valid());
}

TEST_CASE("random critical paths begin at 0 and end with the iteration without gaps", "[law]") {
  std::size_t waited_for_resource = 0;
  std::size_t cut_through = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.devices = 1 + random.below(5);
    o.longest = seed % 2 == 0 ? 3 : 1000;
    const test::random_plan plan{random, o};
    const simulate::delta_simulation s{plan.lower(random)};
    const auto times = s.times();
    const auto seen = simulate::summarize(s.program(), times);
    REQUIRE(seen.iteration == s.iteration_time());
    const auto& path = seen.critical_path;
    REQUIRE(!path.empty());
    REQUIRE(s.times(path.front().task).start == 0);
    REQUIRE(path.front().reason == wait_reason::nothing);
    REQUIRE(picoseconds{s.times(path.back().task).end} == seen.iteration);
    for (std::size_t i = 1; i < path.size(); ++i) {
      const auto before = s.times(path[i - 1].task);
      const auto now = s.times(path[i].task);
      REQUIRE(path[i].cause == path[i - 1].task);
      if (path[i].reason == wait_reason::resource) {
        ++waited_for_resource;
        REQUIRE(now.start == before.end);
        REQUIRE(s.program()[path[i].task].resource == s.program()[path[i].cause].resource);
        continue;
      }
      REQUIRE(path[i].reason == wait_reason::dependency);
      const auto latency = s.program()[path[i].cause].latency.count();
      const auto links = s.program().before(path[i].task.index());
      const auto link =
          std::find_if(links.begin(), links.end(), [&](auto l) { return l.task() == path[i].cause.index(); });
      REQUIRE(link != links.end());
      cut_through += link->cut_through() ? 1 : 0;
      const bool by_end = before.end + latency == (link->cut_through() ? now.end : now.start);
      const bool by_start = link->cut_through() && before.start + latency == now.start;
      REQUIRE((by_end || by_start));
    }
  }
  CHECK(waited_for_resource > 100);
  CHECK(cut_through > 20);
}

}  // namespace tests_of_timeline
