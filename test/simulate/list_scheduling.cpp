#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/simulate/timeline.hpp>

#include "random_program.hpp"
#include "slow_simulator.hpp"

namespace tests_of_list_scheduling {

using namespace unity;
using test::random_plan;

struct longest_first {
  static std::int64_t rank(const tasks::program& p, std::uint32_t place) { return -p.timed(place).duration; }
};

static_assert(simulate::scheduling_policy<longest_first>);
static_assert(simulate::scheduling_policy<simulate::first_in_first_out>);
static_assert(simulate::scheduling_policy<simulate::by_kind>);
static_assert(simulate::scheduling_policy<simulate::by_order>);
static_assert(simulate::scheduling_policy<simulate::by_path>);

namespace {

using name = test::named_tasks::name;

// A reference implementation on fragments that steps time by one picosecond; rank(name, task) is the policy's priority.
template <class Rank>
std::map<name, simulate::task_times> slow_list_simulation(const tasks::program& p, const Rank& rank) {
  auto [all, edges] = test::named_tasks{p};
  auto& tasks = all;  // lambdas do not capture structured bindings
  const auto& links = edges;
  std::map<name, simulate::task_times> done;
  // Computes when a task is ready and the earliest end that cut-through allows; false if a predecessor has not started.
  const auto asked = [&](const name& n, simulate::task_times& times) {
    for (const auto& [from, to, cut] : links) {
      if (to == n) {
        const auto by = done.find(from);
        if (by == done.end()) {
          return false;
        }
        const auto latency = tasks[from].latency.count();
        times.ready = std::max(times.ready, (cut ? by->second.start : by->second.end) + latency);
        times.end = std::max(times.end, cut ? by->second.end + latency : 0);
      }
    }
    return true;
  };
  for (std::int64_t now = 0; done.size() < tasks.size(); ++now) {
    for (bool again = true; again;) {  // tasks without duration make others ready now
      again = false;
      std::map<tasks::resource_id, std::vector<std::pair<name, simulate::task_times>>> ready;
      for (const auto& [n, t] : tasks) {
        simulate::task_times times;
        if (!done.contains(n) && asked(n, times) && times.ready <= now) {
          ready[t.resource].emplace_back(n, times);
        }
      }
      const auto start = [&](const name& n, simulate::task_times times) {
        times.start = now;
        times.end = std::max(times.end, now + tasks[n].duration.count());
        done[n] = times;
        again = true;
      };
      if (ready.contains(tasks::resource_id{})) {  // tasks without a resource first, so that all ready tasks are known
        for (const auto& [n, times] : ready[tasks::resource_id{}]) {
          start(n, times);
        }
        continue;
      }
      for (auto& [r, list] : ready) {
        const bool is_busy = std::any_of(done.begin(), done.end(), [&, resource = r](const auto& d) {
          return tasks[d.first].resource == resource && d.second.end > now;
        });
        if (!is_busy) {
          const auto key = [&](const auto& entry) {
            const auto& t = tasks[entry.first];
            return std::tuple{rank(entry.first, t), entry.second.ready, entry.first.first, t.shard, t.kind,
                              entry.first.second};
          };
          const auto best = *std::min_element(list.begin(), list.end(),
                                              [&](const auto& a, const auto& b) { return key(a) < key(b); });
          start(best.first, best.second);
        }
      }
    }
  }
  return done;
}

template <class Policy, class Rank>
void require_as_slow(const tasks::program& p, const Policy& policy, const Rank& rank) {
  simulate::list_simulation<Policy> fast{policy};
  const auto end = fast.run(p);
  std::int64_t latest = 0;
  for (const auto& [n, times] : slow_list_simulation(p, rank)) {
    REQUIRE(fast.times()[p.find(tasks::fragment_id{n.first}, n.second).index()] == times);
    latest = std::max(latest, times.end);
  }
  REQUIRE(end == picoseconds{latest});
}

// How long after its start each task and everything that waits for it has ended and arrived, if nothing else delays
// them.
std::map<name, std::int64_t> remaining_paths(const tasks::program& p) {
  const test::named_tasks all{p};
  std::map<name, std::int64_t> left;
  for (const auto& [first, own] : all.tasks) {
    std::map<name, std::pair<std::int64_t, std::int64_t>> times{{first, {0, own.duration.count()}}};  // start and end
    for (bool again = true; again;) {
      again = false;
      for (const auto& [from, to, cut] : all.edges) {
        if (!times.contains(from)) {
          continue;
        }
        const auto [start, end] = times.at(from);
        const auto latency = all.tasks.at(from).latency.count();
        const auto before = times.contains(to) ? times.at(to) : std::pair<std::int64_t, std::int64_t>{-1, -1};
        auto now = before;
        now.first = std::max(now.first, (cut ? start : end) + latency);
        now.second = std::max({now.second, now.first + all.tasks.at(to).duration.count(), cut ? end + latency : 0});
        times[to] = now;
        again = again || now != before;
      }
    }
    for (const auto& [n, t] : times) {
      left[first] = std::max(left[first], t.second + all.tasks.at(n).latency.count());
    }
  }
  return left;
}

test::random_plan_options small(random_engine& random, bool has_meetings) {
  test::random_plan_options o;
  o.operators = 2 + random.below(3);
  o.devices = 1 + random.below(3);
  o.longest = 4;
  o.has_meetings = has_meetings;
  return o;
}

}  // namespace

TEST_CASE("list scheduling by arrival or kind or order equals a reference in picosecond steps", "[law]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto o = small(random, seed % 2 == 1);
    const random_plan plan{random, o};
    const auto p = plan.lower(random);
    require_as_slow(p, simulate::first_in_first_out{}, [](const name&, const tasks::task&) { return 0; });
    require_as_slow(p, simulate::by_kind{}, [](const name&, const tasks::task& t) { return static_cast<int>(t.kind); });
    require_as_slow(p, simulate::by_order{}, [](const name& n, const tasks::task&) { return n.first; });
  }
}

TEST_CASE("list scheduling by path equals a reference in picosecond steps", "[law]") {
  std::size_t differ = 0;  // from scheduling by arrival
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto o = small(random, seed % 2 == 1);
    const random_plan plan{random, o};
    const auto p = plan.lower(random);
    const auto left = remaining_paths(p);
    const simulate::by_path policy{p};
    for (const auto& [n, path] : left) {
      REQUIRE(policy.rank(p, p.find(tasks::fragment_id{n.first}, n.second).index()) == -path);
    }
    require_as_slow(p, policy, [&](const name& n, const tasks::task&) { return -left.at(n); });
    simulate::list_simulation by_path{policy};
    by_path.run(p);
    simulate::list_simulation<simulate::first_in_first_out> by_arrival;
    by_arrival.run(p);
    const auto a = by_path.times();
    const auto b = by_arrival.times();
    differ += std::equal(a.begin(), a.end(), b.begin(), b.end()) ? 0 : 1;
  }
  CHECK(differ > 0);
}

TEST_CASE("first-in-first-out list scheduling equals full simulation if each task takes time", "[law]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 2 + random.below(30);
    o.devices = 1 + random.below(6);
    o.longest = seed % 2 == 0 ? 3 : 1000;
    const random_plan plan{random, o};
    const auto p = plan.lower(random);
    simulate::full_simulation full;
    simulate::list_simulation<simulate::first_in_first_out> list;
    REQUIRE(full.run(p) == list.run(p));
    for (const auto t : full.order()) {
      REQUIRE(full.times()[t] == list.times()[t]);
    }
  }
}

TEST_CASE("an urgent task overtakes tasks that were ready earlier and the critical path shows it") {
  tasks::program p;
  p.add_resource({"link", tasks::resource_kind::link, 0});
  p.add_resource({"gpu", tasks::resource_kind::stream, 0});
  const auto front = p.add_fragment({tasks::owner_kind::node, 0, "front"});
  const auto back = p.add_fragment({tasks::owner_kind::node, 1, "back"});
  tasks::fragment a;
  a.add({tasks::resource_id{1u}, picoseconds{5}, {}, {}, tasks::task_kind::backward, 0});
  a.add({tasks::resource_id{0u}, picoseconds{3}, {}, {}, tasks::task_kind::transfer, 0});
  a.dependencies.push_back({{{}, 0}, {{}, 1}, false});
  tasks::fragment b;
  b.add({tasks::resource_id{0u}, picoseconds{10}, {}, {}, tasks::task_kind::transfer, 0});
  b.add({tasks::resource_id{0u}, picoseconds{10}, {}, {}, tasks::task_kind::transfer, 1});
  const std::vector<tasks::replacement> all{{front, &a}, {back, &b}};
  p.replace(all);
  p.commit();
  simulate::full_simulation in_turn;
  CHECK(in_turn.run(p) == picoseconds{23});
  CHECK(in_turn.times()[p.find(front, 1).index()] == simulate::task_times{5, 20, 23});
  simulate::list_simulation<simulate::by_order> urgent;
  CHECK(urgent.run(p) == picoseconds{23});
  CHECK(urgent.times()[p.find(front, 1).index()] == simulate::task_times{5, 10, 13});
  const auto line = simulate::summarize(p, urgent.times());
  REQUIRE(line.critical_path.size() == 3);
  CHECK(line.critical_path[0].task == p.find(back, 0));
  CHECK(line.critical_path[1].task == p.find(front, 1));
  CHECK(line.critical_path[1].reason == simulate::wait_reason::resource);
  CHECK(line.critical_path[2].task == p.find(back, 1));
}

TEST_CASE("list scheduling by path runs the task with the longest remaining path first") {
  tasks::program p;
  p.add_resource({"gpu 0", tasks::resource_kind::stream, 0});
  p.add_resource({"gpu 1", tasks::resource_kind::stream, 1});
  const auto f = p.add_fragment();
  tasks::fragment fragment;
  fragment.add({tasks::resource_id{0u}, picoseconds{4}, {}, {}, tasks::task_kind::forward, 0});
  fragment.add({tasks::resource_id{0u}, picoseconds{2}, {}, {}, tasks::task_kind::forward, 1});
  fragment.add({tasks::resource_id{1u}, picoseconds{9}, {}, {}, tasks::task_kind::forward, 2});
  fragment.dependencies.push_back({{{}, 1}, {{}, 2}, false});
  p.replace(f, fragment);
  p.commit();
  CHECK(simulate::full_simulation{}.run(p) == picoseconds{15});
  CHECK(simulate::list_simulation{simulate::by_path{p}}.run(p) == picoseconds{11});
}

TEST_CASE("the remaining path of a message counts the time of its links once") {
  tasks::program p;
  const auto f = p.add_fragment();
  for (std::uint32_t i = 0; i < 5; ++i) {
    p.add_resource({"resource", i < 2 ? tasks::resource_kind::stream : tasks::resource_kind::link, i});
  }
  tasks::fragment fragment;
  const tasks::task_ref before_message{{}, fragment.add({tasks::resource_id{0U}, picoseconds{10}})};
  fragment.add({tasks::resource_id{0U}, picoseconds{10}});
  fragment.add({tasks::resource_id{1U}, picoseconds{200}});
  fragment.dependencies.push_back({{{}, 1}, {{}, 2}, false});
  std::vector<tasks::hop> route;
  for (std::uint32_t link = 2; link < 5; ++link) {
    route.push_back({tasks::resource_id{link}, picoseconds{100}, picoseconds{1}});
  }
  tasks::add_transfer(fragment, route, bytes{1}, 0, {&before_message, 1});
  p.replace(f, fragment);
  p.commit();
  const simulate::by_path policy{p};
  CHECK(policy.rank(p, p.find(f, 0).index()) == -113);
  CHECK(policy.rank(p, p.find(f, 1).index()) == -210);
}

TEST_CASE("list simulation of a dependency cycle is an error that names a task") {
  tasks::program p;
  const auto f = p.add_fragment({tasks::owner_kind::other, 0, "knot"});
  tasks::fragment fragment;
  fragment.add({});
  fragment.add({});
  fragment.dependencies.push_back({{{}, 0}, {{}, 1}, false});
  fragment.dependencies.push_back({{{}, 1}, {{}, 0}, false});
  p.replace(f, fragment);
  p.commit();
  simulate::list_simulation<simulate::by_kind> list;
  CHECK_THROWS_WITH(list.run(p),
                    "program: task 0 of fragment 0 (knot) waits for itself; expected dependencies without "
                    "a cycle");
}

}  // namespace tests_of_list_scheduling
