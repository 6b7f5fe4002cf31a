// Folded programs: one resource stands for all that do the same, with the times and memory of the whole program.

#include <unity/tasks/representatives.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>

#include "../support/cases.hpp"

namespace tests_of_representatives {

using namespace unity;
using tasks::fragment_id;

namespace {

// A ring of equal devices, each with a stream and a link. Tasks wait for those of a neighbour over its link. has_odd:
// one task of one device takes longer.
tasks::program ring(random_engine& random, std::uint32_t devices, bool has_odd) {
  tasks::program p;
  const auto stream = [](std::uint32_t d) { return tasks::resource_id{2 * std::size_t{d}}; };
  const auto link = [](std::uint32_t d) { return tasks::resource_id{2 * std::size_t{d} + 1}; };
  for (std::uint32_t d = 0; d < devices; ++d) {
    p.add_resource({"device", tasks::resource_kind::stream, d});
    p.add_resource({"link", tasks::resource_kind::link, d});
  }
  std::vector<tasks::fragment> fragments;
  const auto steps = 2 + random.below(6);
  const auto odd = random.below(steps);
  for (std::size_t f = 0; f < steps; ++f) {
    const auto tasks_of_one = 1 + static_cast<std::uint32_t>(random.below(3));
    const bool sends = f > 0 && random.below(2) == 0;
    const picoseconds takes{random.between(1, 50)};
    const picoseconds moves{random.between(1, 90)};
    const picoseconds late{random.between(0, 9)};
    const auto back = random.below(2) == 0 ? 1U : devices - 1;  // which neighbour
    const auto before = [&](std::uint32_t d) { return tasks::task_ref{fragment_id{f - 1}, d}; };
    tasks::fragment fragment;
    for (std::uint32_t d = 0; d < devices; ++d) {  // first the first task of each device
      fragment.add({stream(d), takes, {}, {}, tasks::task_kind::forward, d});
      fragment.buffers.push_back({bytes{static_cast<std::int64_t>(f) + 1}, d, {{}, d}, false});
    }
    if (has_odd && f == odd) {
      fragment.tasks[random.below(devices)].duration += picoseconds{7};
    }
    for (std::uint32_t d = 0; d < devices; ++d) {
      for (std::uint32_t k = 1; k < tasks_of_one; ++k) {
        const auto t = fragment.add({stream(d), picoseconds{k + 3}, {}, {}, tasks::task_kind::backward, d});
        fragment.dependencies.push_back({{{}, d}, {{}, t}, false});
      }
      if (f > 0) {
        fragment.dependencies.push_back({before(d), {{}, d}, false});
        fragment.reads.push_back({{fragment_id{f - 1}, d}, {{}, d}});
      }
      if (sends) {
        const auto t = fragment.add({link(d), moves, late, bytes{9}, tasks::task_kind::transfer, d});
        fragment.dependencies.push_back({before((d + back) % devices), {{}, t}, false});
        fragment.dependencies.push_back({{{}, t}, {{}, d}, false});
      }
    }
    fragments.push_back(fragment);
    p.add_fragment();
  }
  p.replace(tasks::replacements_of(fragments));
  p.commit();
  return p;
}

struct simulated {
  picoseconds iteration{};
  std::vector<simulate::memory_profile> memory{};

  explicit simulated(const tasks::program& p) {
    simulate::full_simulation simulation;
    iteration = simulation.run(p);
    memory = simulate::memory_profiles(p, simulation.times());
  }
};

// The longest chain of tasks that wait for one another, whatever their resources do besides. Fragments wait only for
// those before them or for themselves, but not always for tasks that are listed earlier.
picoseconds longest_chain(const tasks::program& p) {
  std::vector<picoseconds> ends(p.capacity());
  bool is_changed = true;
  while (is_changed) {
    is_changed = false;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        picoseconds start{};
        for (const auto link : p.before(t)) {
          start = std::max(start, ends[link.task()] + picoseconds{p.timed(link.task()).latency});
        }
        const auto end = start + picoseconds{p.timed(t).duration};
        is_changed = is_changed || end != ends[t];
        ends[t] = end;
      }
    }
  }
  return *std::max_element(ends.begin(), ends.end());
}

// The time that each resource is busy.
std::vector<std::int64_t> loads_of(const tasks::program& p) {
  std::vector<std::int64_t> loads(p.resources().size());
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& t : p[fragment_id{f}].tasks) {
      loads[t.resource.index()] += t.duration.count();
    }
  }
  return loads;
}

}  // namespace

TEST_CASE("representatives have the times and memory of all even with one longer task", "[law]") {
  std::size_t parted = 0;
  std::size_t joined = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(300); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto devices = 2 + static_cast<std::uint32_t>(random.below(7));
    const bool has_odd = seed % 3 == 0;
    const auto whole = ring(random, devices, has_odd);
    const auto folded = tasks::representatives(whole);
    CHECK(folded.is_exact);
    if (!has_odd) {
      CHECK(folded.program.task_count() * devices == whole.task_count());
    }
    parted += folded.program.task_count() * devices > whole.task_count() ? 1 : 0;
    const simulated all{whole};
    const simulated one{folded.program};
    CHECK(one.iteration == all.iteration);
    REQUIRE(folded.device.size() == all.memory.size());
    for (std::size_t d = 0; d < folded.device.size(); ++d) {
      CHECK(one.memory[folded.device[d]] == all.memory[d]);
    }
    // With fewer tasks than that requires, all devices wait for the slowest: resources have the tasks of those that
    // they represent, and no chain of tasks becomes shorter.
    const auto rough = tasks::representatives(whole, 0);
    CHECK(rough.program.task_count() <= folded.program.task_count());
    CHECK_FALSE(rough.is_exact);
    const auto loads = loads_of(whole);
    const auto rough_loads = loads_of(rough.program);
    REQUIRE(rough.resource.size() == loads.size());
    for (std::size_t r = 0; r < loads.size(); ++r) {
      const auto by = rough.resource[r].index();
      CHECK(rough_loads[by] == loads[r]);
      CHECK((by == r || rough_loads[r] == 0));
      joined += by == r ? 0 : 1;
    }
    CHECK(longest_chain(rough.program) >= longest_chain(whole));
    CHECK(simulated{rough.program}.iteration >= longest_chain(whole));
  }
  CHECK(parted > 0);
  CHECK(joined > 0);
}

TEST_CASE("representatives of an empty program are empty and exact") {
  const auto folded = tasks::representatives({}, 0);
  CHECK(folded.is_exact);
  CHECK(folded.program.task_count() == 0);
}

TEST_CASE("representatives do not join tasks that wait for others of their kind") {
  tasks::program p;
  tasks::fragment fragment;
  for (std::uint32_t d = 0; d < 8; ++d) {
    p.add_resource({"device", tasks::resource_kind::stream, d});
    fragment.add({tasks::resource_id{std::size_t{d}}, picoseconds{10}, {}, {}, tasks::task_kind::forward, d});
    if (d > 0) {
      fragment.dependencies.push_back({{{}, d - 1}, {{}, d}, false});
    }
  }
  p.add_fragment();
  p.replace(tasks::replacements_of({&fragment, 1}));
  p.commit();
  CHECK(simulated{p}.iteration == picoseconds{80});
  CHECK(simulated{tasks::representatives(p, 0).program}.iteration == picoseconds{80});
  CHECK(simulated{tasks::representatives(p).program}.iteration == picoseconds{80});
}

TEST_CASE("representatives keep tasks that wait for each other apart so that simulations report them") {
  tasks::program p;
  tasks::fragment fragment;
  for (std::uint32_t d = 0; d < 2; ++d) {  // each device waits for the other one
    p.add_resource({"device", tasks::resource_kind::stream, d});
    fragment.add({tasks::resource_id{std::size_t{d}}, picoseconds{10}, {}, {}, tasks::task_kind::forward, d});
    fragment.dependencies.push_back({{{}, d}, {{}, 1 - d}, false});
  }
  p.add_fragment();
  p.replace(tasks::replacements_of({&fragment, 1}));
  p.commit();
  for (const std::size_t most : {std::size_t{0}, std::size_t{100}}) {
    CAPTURE(most);
    const auto folded = tasks::representatives(p, most).program;
    CHECK(folded.task_count() == 2);
    CHECK_THROWS_AS(simulate::full_simulation{}.run(folded), error);
  }
}

TEST_CASE("representatives of a chain of 100000 transfers are exact") {
  constexpr std::uint32_t length = 100'000;
  tasks::program p;
  p.add_resource({"link", tasks::resource_kind::link, 0});
  tasks::fragment fragment;
  for (std::uint32_t t = 0; t < length; ++t) {  // the last task in the order of ties runs first
    fragment.add({tasks::resource_id{0U}, picoseconds{1}, {}, bytes{1}, tasks::task_kind::transfer, t});
    if (t > 0) {
      fragment.dependencies.push_back({{{}, t}, {{}, t - 1}, false});
    }
  }
  p.add_fragment();
  p.replace(tasks::replacements_of({&fragment, 1}));
  p.commit();
  const auto folded = tasks::representatives(p);
  CHECK(folded.is_exact);
  CHECK(simulated{folded.program}.iteration == picoseconds{length});
}

}  // namespace tests_of_representatives
