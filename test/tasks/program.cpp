#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tasks/program.hpp>

#include "../simulate/random_program.hpp"
#include "../support/child.hpp"

namespace tests_of_program {

using namespace unity;
using tasks::fragment;
using tasks::fragment_id;
using tasks::task;
using tasks::task_id;
using tasks::task_kind;
using test::random_plan;

namespace {

using name = std::pair<std::uint32_t, std::uint32_t>;
using arrow = std::tuple<name, name, bool>;

name name_of(const tasks::program& p, std::uint32_t place) {
  const auto r = p.where(task_id{place});
  return {r.fragment.index(), r.index};
}

// The dependencies as the fragments list them.
std::multiset<arrow> listed(const tasks::program& p) {
  std::multiset<arrow> all;
  for (std::uint32_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& d : p[fragment_id{f}].dependencies) {
      const auto full = [&](const tasks::task_ref& r) {
        return name{r.fragment.valid() ? r.fragment.index() : f, r.index};
      };
      all.emplace(full(d.before), full(d.after), d.cut_through);
    }
  }
  return all;
}

// The dependencies as the tasks are linked, read from the tasks' successors (forward) or predecessors.
std::multiset<arrow> linked(const tasks::program& p, bool forward) {
  std::multiset<arrow> all;
  for (std::uint32_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      for (const auto l : forward ? p.after(t) : p.before(t)) {
        all.emplace(name_of(p, forward ? t : l.task()), name_of(p, forward ? l.task() : t), l.cut_through());
      }
    }
  }
  return all;
}

void require_sound(const tasks::program& p) {
  const auto expected = listed(p);
  REQUIRE(linked(p, true) == expected);
  REQUIRE(linked(p, false) == expected);
  std::set<std::uint64_t> ties;
  std::set<std::uint32_t> places;
  for (std::uint32_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(fragment_id{f});
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const auto t = p.find(fragment_id{f}, i);
      REQUIRE(name_of(p, t.index()) == name{f, i});
      const auto& own = p[fragment_id{f}].tasks[i];
      REQUIRE(p[t] == own);
      REQUIRE(p.timed(t.index()).duration == own.duration.count());
      REQUIRE(p.timed(t.index()).resource == own.resource);
      ties.insert(p.tie(t.index()));
      places.insert(t.index());
    }
  }
  REQUIRE(ties.size() == p.task_count());
  REQUIRE(places.size() == p.task_count());
}

task work(std::uint32_t shard = 0) {
  return {tasks::resource_id{0u}, picoseconds{1}, {}, {}, task_kind::forward, shard};
}

tasks::program small() {
  tasks::program p;
  p.add_resource({"a", tasks::resource_kind::stream, 0});
  p.add_fragment();
  p.add_fragment();
  fragment first;
  first.add(work());
  first.add(work(1));
  fragment second;
  second.add(work());
  second.dependencies.push_back({{fragment_id{0u}, 1}, {{}, 0}, false});
  const std::vector<tasks::replacement> all{{fragment_id{0u}, &first}, {fragment_id{1u}, &second}};
  p.replace(all);
  p.commit();
  return p;
}

}  // namespace

TEST_CASE("random program edits keep the links of tasks equal to the listed dependencies", "[law]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 2 + random.below(12);
    o.devices = 1 + random.below(5);
    random_plan plan{random, o};
    auto p = plan.lower(random);
    require_sound(p);
    for (int step = 0; step < 30; ++step) {
      CAPTURE(seed, step);
      auto next = plan;
      const auto edit = next.propose(random);
      const auto before = listed(p);
      std::vector<std::vector<std::uint32_t>> places;
      random_plan::apply(p, edit);
      require_sound(p);
      for (const auto& [f, body] : edit) {
        REQUIRE(p[f] == body);
      }
      if (random.below(2) == 0) {
        p.rollback();
        REQUIRE(listed(p) == before);
      } else {
        p.commit();
        plan = next;
      }
      require_sound(p);
    }
  }
}

TEST_CASE("program reuses the places of removed tasks") {
  auto p = small();
  const auto once = p.capacity();
  fragment again;
  again.add(work());
  again.add(work(3));
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    p.replace(fragment_id{0u}, again);
    p.commit();
    most = std::max(most, p.capacity());
  }
  CHECK(most <= once + 2);
  CHECK(p.task_count() == 3);
}

TEST_CASE("rollback of a program edit leaves each task in its place") {
  auto p = small();
  const auto place = p.find(fragment_id{0u}, 1);
  fragment other;
  for (std::uint32_t i = 0; i < 9; ++i) {
    other.add(work(i));
  }
  p.replace(fragment_id{0u}, other);
  CHECK(p.task_count() == 10);
  CHECK(p.find(fragment_id{0u}, 1) != place);
  CHECK(!p.where(place).fragment.valid());
  p.rollback();
  CHECK(p.find(fragment_id{0u}, 1) == place);
  CHECK(p.task_count() == 3);
}

TEST_CASE("a program edit lists added and removed and relinked tasks") {
  auto p = small();
  const auto old = p.tasks_of(fragment_id{0u});
  fragment other;
  other.add(work());
  other.add(work());
  other.add(work());
  p.replace(fragment_id{0u}, other);
  REQUIRE(p.edit().removed.size() == 1);
  CHECK(p.edit().removed[0].first == old.first);
  CHECK(p.edit().removed[0].count == 2);
  REQUIRE(p.edit().added.size() == 1);
  CHECK(p.edit().added[0].count == 3);
  CHECK(p.edit().relinked == std::vector<std::uint32_t>{p.find(fragment_id{1u}, 0).index()});
  p.commit();
  CHECK(p.edit().relinked.empty());
}

TEST_CASE("ties of tasks follow fragment then shard then kind then place") {
  auto p = small();
  fragment other;
  other.add(work(1));
  auto backward = work(0);
  backward.kind = task_kind::backward;
  other.add(backward);
  other.add(work(0));
  other.add(work(1));
  p.replace(fragment_id{0u}, other);
  const auto tie = [&](std::uint32_t f, std::uint32_t i) { return p.tie(p.find(fragment_id{f}, i).index()); };
  CHECK(tie(0, 2) < tie(0, 1));
  CHECK(tie(0, 1) < tie(0, 0));
  CHECK(tie(0, 0) < tie(0, 3));
  CHECK(tie(0, 3) < tie(1, 0));
}

TEST_CASE("the new body of a fragment may be that of one of the program") {
  tasks::program p;
  const auto first = p.add_fragment();
  const auto second = p.add_fragment();
  fragment one;
  one.add(task{});
  fragment two = one;
  two.add(task{});
  two.dependencies.push_back({{{}, 0}, {{}, 1}});
  const std::vector<fragment> bodies{one, two};
  p.replace(tasks::replacements_of(bodies));
  p.commit();
  p.replace(second, p[second]);
  p.commit();
  CHECK(p[second] == two);
  const std::vector<tasks::replacement> exchanged{{first, &p[second]}, {second, &p[first]}};
  p.replace(exchanged);
  CHECK(p[first] == two);
  CHECK(p[second] == one);
  CHECK(listed(p) == linked(p, true));
  p.rollback();
  CHECK(p[first] == one);
  CHECK(p[second] == two);
  CHECK(listed(p) == linked(p, true));
}

TEST_CASE("edits of 150000 tasks that one task waits for, or that wait for one, take linear time") {
  constexpr std::uint32_t count = 150'000;  // quadratic time: a minute
  tasks::program p;
  std::vector<fragment> bodies(count + 2);
  for (const auto& b : bodies) {
    static_cast<void>(b);
    p.add_fragment();
  }
  const fragment_id hub{0u};
  const fragment_id last{count + 1U};
  bodies.front().add({});
  bodies.back().add({});
  for (std::uint32_t i = 1; i <= count; ++i) {
    bodies[i].add({});
    bodies[i].dependencies.push_back({{hub, 0}, {{}, 0}});
    bodies.back().dependencies.push_back({{fragment_id{i}, 0}, {last, 0}});
  }
  auto all = tasks::replacements_of(bodies);
  p.replace(all);
  p.commit();
  all.pop_back();
  all.erase(all.begin());
  for (int round = 0; round < 2; ++round) {
    p.replace(all);
    p.rollback();
    CHECK(p.after(p.find(hub, 0).index()).size() == count);
    CHECK(p.before(p.find(last, 0).index()).size() == count);
  }
  p.replace(all);
  p.commit();
  CHECK(p.after(p.find(hub, 0).index()).size() == count);
  CHECK(p.before(p.find(last, 0).index()).size() == count);
}

TEST_CASE("fragments with invalid references or times break a contract") {
  const auto dies = [](auto body) { return test::in_child(body).aborted; };
  CHECK(dies([] {
    auto p = small();
    p.replace(fragment_id{0u}, fragment{});  // fragment 1 refers to task 1 of fragment 0
  }));
  CHECK(dies([] {
    auto p = small();
    fragment f;
    f.add(work());
    f.tasks[0].duration = picoseconds{-1};
    p.replace(fragment_id{1u}, f);
  }));
  CHECK(dies([] {
    auto p = small();
    fragment f;
    f.add(work());
    f.add(work());
    f.dependencies.push_back({{{}, 0}, {{}, 1}, true});  // cut-through, but no latency
    p.replace(fragment_id{1u}, f);
  }));
  CHECK(dies([] {
    auto p = small();
    fragment f;
    f.add(work());
    f.tasks[0].resource = tasks::resource_id{1u};
    p.replace(fragment_id{1u}, f);
  }));
  CHECK(dies([] {
    auto p = small();
    p.replace(fragment_id{1u}, fragment{});
    p.replace(fragment_id{1u}, fragment{});
  }));
  CHECK(!dies([] {
    auto p = small();
    p.replace(fragment_id{1u}, fragment{});
    p.commit();
    p.replace(fragment_id{0u}, fragment{});
    p.commit();
  }));
}

}  // namespace tests_of_program
