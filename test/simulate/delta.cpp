#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>

#include "../support/cases.hpp"
#include "as_full.hpp"
#include "random_program.hpp"
#include "slow_simulator.hpp"

namespace tests_of_delta {

using namespace unity;
using simulate::delta_simulation;
using test::random_plan;

namespace {

// UNITY_REPLACEMENTS=1000000 makes the random test longer.
std::uint64_t replacements() {
  const char* text = std::getenv("UNITY_REPLACEMENTS");
  return text == nullptr ? test::cases(20000) : std::strtoull(text, nullptr, 10);
}

void require_as_slow(const delta_simulation& delta) {
  for (const auto& [name, times] : test::slow_simulation(delta.program())) {
    REQUIRE(delta.times(delta.program().find(tasks::fragment_id{name.first}, name.second)) == times);
  }
}

}  // namespace

TEST_CASE("delta simulation equals full simulation, task by task", "[law]") {
  simulate::full_simulation full;
  std::uint64_t made = 0;
  std::uint64_t rolled_back = 0;
  std::uint64_t stopped = 0;
  for (std::uint64_t seed = 0; made < replacements(); ++seed) {
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 2 + random.below(seed % 5 == 0 ? 40 : 10);
    o.devices = 1 + random.below(6);
    o.longest = seed % 2 == 0 ? 3 : 1000;
    o.is_symmetric = seed % 3 == 0;
    o.has_meetings = seed % 4 == 3;
    random_plan plan{random, o};
    delta_simulation delta{plan.lower(random)};
    for (int step = 0; step < 100; ++step, ++made) {
      CAPTURE(seed, step);
      auto next = plan;
      const auto edit = next.propose(random);
      const auto before = delta.iteration_time();
      const auto choice = random.below(8);
      const auto bound =
          choice < 2 ? picoseconds{before.count() * (90 + random.between(0, 15)) / 100} : delta_simulation::no_bound;
      const auto time = delta.try_replace(random_plan::replacements(edit), bound);
      if (!time) {
        ++stopped;
        REQUIRE(delta.iteration_time() == before);
      } else if (choice < 5) {
        REQUIRE(*time <= bound);
        if (choice < 3) {
          test::require_as_full(delta, full);
        }
        delta.rollback();
        ++rolled_back;
      } else {
        delta.commit();
        plan = next;
      }
      if (choice < 3 || choice == 7 || step == 99) {
        test::require_as_full(delta, full);
      }
      if (step % 50 == 49 && delta.program().task_count() < 150) {
        require_as_slow(delta);
      }
    }
  }
  CAPTURE(made, rolled_back, stopped);
  CHECK(rolled_back > made / 10);
  CHECK(stopped > made / 50);
}

TEST_CASE("a delta simulation edit retimes only the tasks that are ready from its first change on") {
  tasks::program p;
  p.add_resource({"a", tasks::resource_kind::stream, 0});
  std::vector<tasks::fragment> fragments(10);
  for (std::uint32_t i = 0; i < 10; ++i) {
    p.add_fragment();
    fragments[i].add({tasks::resource_id{0u}, picoseconds{1}, {}, {}, tasks::task_kind::forward, 0});
    if (i > 0) {
      fragments[i].dependencies.push_back({{tasks::fragment_id{i - 1}, 0}, {{}, 0}, false});
    }
  }
  p.replace(tasks::replacements_of(fragments));
  p.commit();
  delta_simulation delta{p};
  auto longer = fragments[6];
  longer.tasks[0].duration = picoseconds{5};
  const tasks::replacement edit{tasks::fragment_id{6u}, &longer};
  CHECK(delta.try_replace({&edit, 1}) == picoseconds{14});
  CHECK(delta.counts() == simulate::delta_counters{1, 4, 0});
  delta.rollback();
  // The remaining work of the stream exceeds the bound once the first task is timed.
  CHECK(delta.try_replace({&edit, 1}, picoseconds{13}) == std::nullopt);
  CHECK(delta.counts() == simulate::delta_counters{2, 5, 1});
  CHECK(delta.iteration_time() == picoseconds{10});
  CHECK(delta.try_replace({&edit, 1}, picoseconds{14}) == picoseconds{14});
  CHECK(delta.counts() == simulate::delta_counters{3, 9, 1});
}

TEST_CASE("a delta simulation edit with a dependency cycle is an error and changes nothing") {
  tasks::program p;
  p.add_resource({"a", tasks::resource_kind::stream, 0});
  const auto f = p.add_fragment({tasks::owner_kind::node, 0, "relu 0"});
  const auto g = p.add_fragment();
  tasks::fragment one;
  one.add({tasks::resource_id{0u}, picoseconds{3}, {}, {}, tasks::task_kind::forward, 0});
  auto two = one;
  two.dependencies.push_back({{f, 0}, {{}, 0}, false});
  const std::vector<tasks::replacement> all{{f, &one}, {g, &two}};
  p.replace(all);
  p.commit();
  delta_simulation delta{p};
  const std::vector before(delta.times().begin(), delta.times().end());
  auto back = one;
  back.dependencies.push_back({{g, 0}, {{}, 0}, false});
  const tasks::replacement edit{f, &back};
  std::string what;
  try {
    (void)delta.try_replace({&edit, 1});
  } catch (const error& e) {
    what = e.what();
  }
  CHECK(what == "program: task 0 of fragment 0 (relu 0) waits for itself; expected dependencies without a cycle");
  CHECK(delta.times(delta.program().find(g, 0)) == simulate::task_times{3, 3, 6});
  CHECK(delta.iteration_time() == picoseconds{6});
  CHECK(delta.program()[f] == one);
  const tasks::replacement same{f, &one};
  CHECK(delta.try_replace({&same, 1}) == picoseconds{6});
  delta.rollback();
  CHECK(delta.times(delta.program().find(f, 0)) == before[delta.program().find(f, 0).index()]);
}

TEST_CASE("a delta simulation edit with a too long iteration is an error and changes nothing") {
  tasks::program p;
  p.add_resource({"a", tasks::resource_kind::stream, 0});
  const auto f = p.add_fragment();
  tasks::fragment one;
  one.add({tasks::resource_id{0u}, picoseconds{3}, {}, {}, tasks::task_kind::forward, 0});
  p.replace(f, one);
  p.commit();
  delta_simulation delta{p};
  auto endless = one;
  endless.tasks[0].duration = picoseconds{std::int64_t{1} << 62U};
  const tasks::replacement edit{f, &endless};
  CHECK_THROWS_WITH(delta.try_replace({&edit, 1}),
                    "program: an iteration of more than 2305843 s; expected times that fit");
  CHECK(delta.iteration_time() == picoseconds{3});
  CHECK(delta.program()[f] == one);
  const tasks::replacement same{f, &one};
  CHECK(delta.try_replace({&same, 1}) == picoseconds{3});
}

TEST_CASE("an empty delta simulation edit keeps the iteration time") {
  random_engine random{3};
  const random_plan plan{random, {}};
  delta_simulation delta{plan.lower(random)};
  const auto time = delta.iteration_time();
  CHECK(delta.try_replace({}) == time);
  delta.commit();
  CHECK(delta.try_replace({}, picoseconds{time.count() - 1}) == std::nullopt);
  CHECK(delta.counts().retimed == 0);
}

}  // namespace tests_of_delta
