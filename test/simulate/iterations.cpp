#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/iterations.hpp>
#include <unity/simulate/launches.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/repeated.hpp>

#include "random_program.hpp"

namespace tests_of_iterations {

using namespace unity;
using test::random_plan;

namespace {

// Tasks with these durations, one after the other, each on its own stream.
tasks::program chain(const std::vector<std::int64_t>& durations) {
  tasks::program p;
  tasks::fragment fragment;
  for (std::uint32_t i = 0; i < durations.size(); ++i) {
    p.add_resource({"gpu", tasks::resource_kind::stream, i});
    fragment.add({tasks::resource_id{i}, picoseconds{durations[i]}, {}, {}, tasks::task_kind::forward, i});
    if (i > 0) {
      fragment.dependencies.push_back({{{}, i - 1}, {{}, i}, false});
    }
  }
  p.replace(p.add_fragment(), fragment);
  p.commit();
  return p;
}

}  // namespace

TEST_CASE("the steady iteration time is that of the slowest resource or the tightest cycle", "[law]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<std::int64_t> durations;
    std::int64_t sum = 0;
    std::int64_t most = 0;
    for (auto i = 1 + random.below(5); i > 0; --i) {
      durations.push_back(random.between(1, 20));
      sum += durations.back();
      most = std::max(most, durations.back());
    }
    const auto p = chain(durations);
    // The first task waits for the last task of `reach` iterations earlier, so `reach` iterations are in flight.
    const auto reach = static_cast<std::uint32_t>(1 + random.below(durations.size()));
    const tasks::fragment_id f{0u};
    const tasks::carried_dependency back{{f, static_cast<std::uint32_t>(durations.size() - 1)}, {f, 0}, reach};
    const auto found = simulate::run_until_steady(p, {&back, 1});
    CHECK(found.first == picoseconds{sum});
    if (reach == 1) {
      CHECK(found.is_steady);
      CHECK(found.time == picoseconds{sum});
      CHECK(found.before == 0);
    } else {  // a cycle of several iterations may have no steady state, but has this mean time
      const auto expected = std::max(static_cast<double>(most), static_cast<double>(sum) / reach);
      CHECK(static_cast<double>(found.time.count()) <= expected + 1);
      CHECK(static_cast<double>(found.time.count()) >= expected * 0.9 - 1);
    }
  }
}

TEST_CASE("independent iterations take the time of the slowest resource") {
  const auto p = chain({3, 5});
  const auto found = simulate::run_until_steady(p, {}, 16);
  CHECK_FALSE(found.is_steady);  // the first stream runs ahead without limit
  CHECK(found.time == picoseconds{5});
  CHECK(found.first == picoseconds{8});
}

TEST_CASE("iterations are steady after more equal ones than carried dependencies reach back") {
  const auto p = chain({3, 5});
  const tasks::fragment_id f{0u};
  const tasks::carried_dependency back{{f, 1}, {f, 0}, 2};
  // The first stream starts at 0, 3, 8, 13, .., the second at 3, 8, 13, ..
  CHECK(simulate::run_until_steady(p, {&back, 1}) ==
        simulate::steady_iteration{picoseconds{8}, picoseconds{5}, 1, true});
  CHECK(simulate::run_until_steady(p, {&back, 1}, 4) ==
        simulate::steady_iteration{picoseconds{8}, picoseconds{5}, 4, false});
}

TEST_CASE("a repeated program has its fragments per iteration and holds weights once") {
  random_engine random{7};
  const random_plan plan{random, {}};
  auto p = plan.lower(random);
  auto fragment = p[tasks::fragment_id{0u}];
  fragment.buffers.push_back({bytes{1000}, 0, {}, true});
  p.replace(tasks::fragment_id{0u}, fragment);
  p.commit();
  const auto once = tasks::repeated(p, {}, 1);
  simulate::full_simulation full;
  CHECK(full.run(once) == full.run(p));
  const auto thrice = tasks::repeated(p, {}, 3);
  CHECK(thrice.fragment_count() == 3 * p.fragment_count());
  CHECK(thrice.task_count() == 3 * p.task_count());
  // Sequential iterations: every task waits for the last tasks of the iteration before.
  std::vector<tasks::carried_dependency> carried;
  std::vector<tasks::task_ref> first;
  std::vector<tasks::task_ref> last;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(tasks::fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      const tasks::task_ref here{tasks::fragment_id{f}, t - range.first};
      if (p.before(t).empty()) {
        first.push_back(here);
      }
      if (p.after(t).empty()) {
        last.push_back(here);
      }
    }
  }
  for (const auto& a : last) {
    for (const auto& b : first) {
      carried.push_back({a, b, 1});
    }
  }
  const auto alone = full.run(p);
  const auto levels = simulate::memory_profiles(p, full.times());
  const auto in_turn = tasks::repeated(p, carried, 3);
  CHECK(full.run(in_turn) == picoseconds{3 * alone.count()});
  const auto profiles = simulate::memory_profiles(in_turn, full.times());
  for (std::size_t d = 0; d < levels.size(); ++d) {
    CHECK(profiles[d].peak == levels[d].peak);
  }
  const auto steady = simulate::run_until_steady(p, carried);
  CHECK(steady.is_steady);
  CHECK(steady.time == alone);
  simulate::list_simulation<simulate::by_order> policy;
  const auto by_order = simulate::run_until_steady(p, carried, 16, [&](const tasks::program& some) {
    policy.run(some);
    return policy.times();
  });
  CHECK(by_order.is_steady);
  CHECK(by_order.first == policy.run(p));
  CHECK(by_order.time == by_order.first);
}

TEST_CASE("with_launches adds sequential host launches before the tasks of streams", "[law]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 2 + random.below(20);
    o.longest = 20;
    const random_plan plan{random, o};
    const auto p = plan.lower(random);
    simulate::full_simulation full;
    const auto before = full.run(p);
    CHECK(full.run(simulate::with_launches(p, picoseconds{})) == before);
    const auto takes = picoseconds{1 + static_cast<std::int64_t>(random.below(30))};
    const auto launched = simulate::with_launches(p, takes);
    full.run(launched);
    REQUIRE(launched.fragment_count() == p.fragment_count());
    std::vector<std::int64_t> launches(launched.resources().size());
    for (const auto t : full.order()) {
      const auto on = launched.timed(t).resource;
      if (launched.resources()[on.index()].kind == tasks::resource_kind::host) {
        CHECK(launched.name_of(launched[tasks::task_id{t}].kind) == "launch");
        CHECK(full.times()[t].end == ++launches[on.index()] * takes.count());
      }
    }
    std::size_t of_streams = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      for (std::uint32_t i = 0; i < p[tasks::fragment_id{f}].tasks.size(); ++i) {
        const auto on = p[tasks::fragment_id{f}].tasks[i].resource;
        const bool is_launched = p.resources()[on.index()].kind == tasks::resource_kind::stream;
        of_streams += is_launched ? 1 : 0;
        const auto& times = full.times()[launched.find(tasks::fragment_id{f}, i).index()];
        CHECK((!is_launched || times.ready >= takes.count()));
      }
    }
    CHECK(launched.task_count() == p.task_count() + of_streams);
    // The k-th task that a stream starts waits for the k-th launch of the stream's host thread.
    simulate::full_simulation alone;
    alone.run(p);
    std::vector<std::int64_t> started(p.resources().size());
    for (const auto t : alone.order()) {
      const auto on = p.timed(t).resource;
      if (p.resources()[on.index()].kind != tasks::resource_kind::stream) {
        continue;
      }
      ++started[on.index()];
      const auto at = p.where(tasks::task_id{t});
      std::size_t waits = 0;
      for (const auto link : launched.before(launched.find(at.fragment, at.index).index())) {
        const auto& by = launched.resources()[launched.timed(link.task()).resource.index()];
        if (by.kind == tasks::resource_kind::host) {
          ++waits;
          REQUIRE(by.device == p.resources()[on.index()].device);
          REQUIRE(full.times()[link.task()].end == started[on.index()] * takes.count());
        }
      }
      REQUIRE(waits == 1);
    }
  }
}

TEST_CASE("a device with short tasks waits for the launches of its host") {
  const auto p = chain({2, 2, 2});
  const auto launched = simulate::with_launches(p, picoseconds{10});
  // Each stream has its own host thread here, so all are launched at 10.
  CHECK(simulate::full_simulation{}.run(launched) == picoseconds{16});
  tasks::program one;
  one.add_resource({"gpu", tasks::resource_kind::stream, 0});
  tasks::fragment fragment;
  for (std::uint32_t i = 0; i < 3; ++i) {
    fragment.add({tasks::resource_id{0u}, picoseconds{2}, {}, {}, tasks::task_kind::forward, i});
  }
  one.replace(one.add_fragment(), fragment);
  one.commit();
  CHECK(simulate::full_simulation{}.run(simulate::with_launches(one, picoseconds{10})) == picoseconds{32});
  fragment.tasks[0].launches = 0;
  fragment.tasks[1].launches = 5;
  one.replace(tasks::fragment_id{0U}, fragment);
  one.commit();
  const auto several = simulate::with_launches(one, picoseconds{10});
  CHECK(several.task_count() == 5);
  CHECK(simulate::full_simulation{}.run(several) == picoseconds{62});
}

}  // namespace tests_of_iterations
