#include <unity/trace/replay.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace tests_of_trace_memory {

using namespace unity;

// Random tasks of several ranks on a few resources; times are short, so that many begin and end together.
trace::flow_graph random_graph(random_engine& random) {
  trace::flow_graph g;
  const auto ranks = static_cast<std::uint32_t>(random.between(1, 3));
  for (std::uint32_t r = 0; r < ranks; ++r) {
    g.ranks.push_back({"", trace::no_index, trace::no_index, {}, bytes{random.between(0, 20)}});
    for (int k = 0; k < 2; ++k) {
      g.resources.push_back({"", r, trace::lane_kind::host});
    }
  }
  const auto tasks = random.between(1, 12);
  for (std::int64_t i = 0; i < tasks; ++i) {
    trace::flow_task t;
    t.rank = static_cast<std::uint32_t>(random.below(ranks));
    t.resource = random.below(4) == 0 ? trace::no_index : 2 * t.rank + static_cast<std::uint32_t>(random.below(2));
    t.duration = picoseconds{random.between(0, 4)};
    const auto place = g.add(t);
    for (std::uint32_t b = 0; b < place; ++b) {
      if (random.below(4) == 0) {
        g.link(b, place);
      }
    }
  }
  for (auto n = random.between(0, 12); n > 0; --n) {
    const auto from = static_cast<std::uint32_t>(random.below(g.tasks.size()));
    auto last = static_cast<std::uint32_t>(random.below(g.tasks.size() + 1));
    last = last == g.tasks.size() ? trace::no_index : last;
    g.allocations.push_back({g.tasks[from].rank, from, last, bytes{random.between(1, 9)}});
  }
  return g;
}

// Sums the live allocations at every instant; an allocation of no duration is live at its start.
trace::memory_peak slow_peak(const trace::flow_graph& g, const trace::replayed_iteration& r, std::uint32_t rank) {
  trace::memory_peak all{g.ranks[rank].held, g.ranks[rank].held, {}, g.ranks[rank].held > bytes{}};
  for (std::int64_t now = 0; now <= r.last_end.count(); ++now) {
    auto sum = all.held;
    for (const auto& a : g.allocations) {
      if (a.rank != rank) {
        continue;
      }
      all.is_known = true;
      const auto start = r.times[a.from].start;
      const bool is_there = start <= now && (a.last == trace::no_index || now < r.times[a.last].end ||
                                             (now == start && r.times[a.last].end <= start));
      sum += is_there ? a.size : bytes{};
    }
    if (sum > all.peak) {
      all.peak = sum;
      all.time = picoseconds{now};
    }
  }
  return all;
}

TEST_CASE("a rank's peak memory equals the largest sum of live allocations over all instants") {
  const auto seed = GENERATE(range(0U, 300U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto g = random_graph(random);
  const auto r = trace::replay(g, {});
  const auto found = trace::memory_use(g, r);
  REQUIRE(found.size() == g.ranks.size());
  for (std::uint32_t k = 0; k < found.size(); ++k) {
    CHECK(found[k] == slow_peak(g, r, k));
  }
}

TEST_CASE("memory that is freed when other memory is allocated does not count with it") {
  trace::flow_graph g;
  g.ranks.push_back({"", trace::no_index, trace::no_index, {}, bytes{100}});
  g.ranks.push_back({});
  g.resources.push_back({"", 0, trace::lane_kind::host});
  for (int i = 0; i < 3; ++i) {
    trace::flow_task t;
    t.resource = 0;
    t.duration = picoseconds{10};
    if (g.add(t) > 0) {
      g.link(static_cast<std::uint32_t>(i) - 1, static_cast<std::uint32_t>(i));
    }
  }
  g.allocations = {{0, 0, 0, bytes{5}}, {0, 1, 1, bytes{7}}, {0, 1, 2, bytes{1}}, {0, 2, trace::no_index, bytes{3}}};
  const auto found = trace::memory_use(g, trace::replay(g, {}));
  CHECK(found[0] == trace::memory_peak{bytes{100}, bytes{108}, picoseconds{10}, true});
  CHECK(found[1] == trace::memory_peak{});
}

TEST_CASE("sort_events keeps allocations with their events") {
  trace::rank_trace t;
  t.lanes = {{"main", trace::lane_kind::host, 0}};
  for (const std::int64_t start : {30, 10, 20}) {
    trace::event e;
    e.start = picoseconds{start};
    e.duration = picoseconds{5};
    t.events.push_back(e);
  }
  t.allocations = {{1, 0, bytes{8}}, {2, trace::no_event, bytes{9}}, {trace::no_event, 2, bytes{10}}};
  trace::sort_events(t);
  CHECK(t.allocations == std::vector<trace::allocation>{
                             {0, 2, bytes{8}}, {1, trace::no_event, bytes{9}}, {trace::no_event, 1, bytes{10}}});
}

}  // namespace tests_of_trace_memory
