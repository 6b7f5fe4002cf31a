#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/tasks/program.hpp>

#include "random_program.hpp"

namespace tests_of_device_queues {

using namespace unity;

// A direct implementation of the rules in the comment of device_queues: it searches all tasks for each one that runs.
class plain_queues {
 public:
  explicit plain_queues(const tasks::program& p) : program_{p}, times_(p.capacity()), done_(p.capacity()) {
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        places_.push_back(t);
      }
    }
    clocks_.resize(p.resources().size());
  }

  std::vector<simulate::task_times> run() {
    for (std::size_t left = places_.size(); left > 0; --left) {
      run_one();
    }
    return times_;
  }

 private:
  [[nodiscard]] bool is_ready(std::uint32_t t) const {
    const auto before = program_.before(t);
    return !done_[t] && std::all_of(before.begin(), before.end(), [&](auto link) { return done_[link.task()]; });
  }
  [[nodiscard]] simulate::task_times earliest(std::uint32_t t) const {
    simulate::task_times all;
    for (const auto link : program_.before(t)) {
      const auto& by = times_[link.task()];
      const auto latency = program_.timed(link.task()).latency;
      all.ready = std::max(all.ready, (link.cut_through() ? by.start : by.end) + latency);
      all.end = link.cut_through() ? std::max(all.end, by.end + latency) : all.end;
    }
    return all;
  }
  void run_one() {
    std::vector<std::uint32_t> ready;
    for (const auto t : places_) {
      if (is_ready(t)) {
        if (!program_.timed(t).resource.valid()) {
          finish(t, earliest(t).ready);
          return;
        }
        ready.push_back(t);
      }
    }
    const auto key = [&](std::uint32_t t) {
      const auto on = program_.timed(t).resource.index();
      return std::tuple{clocks_[on], on, simulate::by_kind::rank(program_, t), earliest(t).ready, program_.tie(t)};
    };
    const auto t = *std::min_element(ready.begin(), ready.end(), [&](auto a, auto b) { return key(a) < key(b); });
    auto& clock = clocks_[program_.timed(t).resource.index()];
    finish(t, std::max(clock, earliest(t).ready));
    clock = times_[t].end;
  }
  void finish(std::uint32_t t, std::int64_t start) {
    times_[t] = earliest(t);
    times_[t].start = start;
    times_[t].end = std::max(times_[t].end, start + program_.timed(t).duration);
    done_[t] = true;
  }

  const tasks::program& program_;
  std::vector<simulate::task_times> times_;
  std::vector<bool> done_;
  std::vector<std::uint32_t> places_;
  std::vector<std::int64_t> clocks_;
};

TEST_CASE("device queues equal a reference implementation on 1000 random programs", "[law]") {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.operators = 2 + random.below(6);
    o.devices = 1 + random.below(4);
    o.longest = 1 + static_cast<std::int64_t>(random.below(20));
    o.has_meetings = seed % 2 == 1;
    const test::random_plan plan{random, o};
    const auto p = plan.lower(random);
    simulate::device_queues<simulate::by_kind> fast;
    const auto end = fast.run(p);
    const auto slow = plain_queues{p}.run();
    std::int64_t latest = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        REQUIRE(fast.times()[t] == slow[t]);
        latest = std::max(latest, slow[t].end);
      }
    }
    REQUIRE(end == picoseconds{latest});
    REQUIRE(fast.order().size() == p.task_count());
  }
}

TEST_CASE("a device queue waits for a task of lower rank though others are ready first") {
  tasks::program p;
  p.add_resource({"a", tasks::resource_kind::stream, 0});
  p.add_resource({"b", tasks::resource_kind::stream, 1});
  const auto f = p.add_fragment();
  tasks::fragment fragment;
  fragment.add({tasks::resource_id{0u}, picoseconds{5}, {}, {}, tasks::task_kind::forward, 0});
  fragment.add({tasks::resource_id{1u}, picoseconds{2}, {}, {}, tasks::task_kind::forward, 0});
  fragment.add({tasks::resource_id{1u}, picoseconds{3}, {}, {}, tasks::task_kind::forward, 1});
  fragment.add({tasks::resource_id{1u}, picoseconds{10}, {}, {}, tasks::task_kind::backward, 0});
  fragment.dependencies.push_back({{{}, 0}, {{}, 2}, false});
  fragment.dependencies.push_back({{{}, 1}, {{}, 3}, false});
  p.replace(f, fragment);
  p.commit();
  simulate::device_queues<simulate::by_kind> queues;
  // Device a runs at clock 0, before b's clock is 2, so both remaining tasks of b are in its queue by then.
  CHECK(queues.run(p) == picoseconds{18});
  CHECK(queues.times()[2] == simulate::task_times{5, 5, 8});
  simulate::list_simulation<simulate::by_kind> list;
  CHECK(list.run(p) == picoseconds{15});
}

TEST_CASE("device queues with a dependency cycle are an error that names a task") {
  tasks::program p;
  const auto f = p.add_fragment({tasks::owner_kind::other, 0, "knot"});
  tasks::fragment fragment;
  fragment.add({});
  fragment.add({});
  fragment.dependencies.push_back({{{}, 0}, {{}, 1}, false});
  fragment.dependencies.push_back({{{}, 1}, {{}, 0}, false});
  p.replace(f, fragment);
  p.commit();
  simulate::device_queues<simulate::by_kind> queues;
  CHECK_THROWS_WITH(queues.run(p),
                    "program: task 0 of fragment 0 (knot) waits for itself; expected dependencies without a cycle");
}

}  // namespace tests_of_device_queues
