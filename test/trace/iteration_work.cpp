#include <unity/trace/iteration_work.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>
#include <unity/trace/flow_graph.hpp>

namespace tests_of_iteration_work {

using namespace unity;
using trace::phase;
using trace::task_type;

// A job whose tasks have given times.
struct timed_job {
  trace::flow_graph graph{};
  std::vector<simulate::task_times> times{};

  void add(task_type type, std::uint32_t rank, phase part, std::int64_t start, std::int64_t end) {
    trace::flow_task t;
    t.type = type;
    t.rank = rank;
    t.part = part;
    graph.add(t);
    times.push_back({start, start, end});
  }
};

picoseconds computing(const trace::iteration_work& w, phase part) {
  return w.computing[static_cast<std::size_t>(part)];
}

TEST_CASE("work_of counts overlapping operators once, and what runs between operators apart") {
  timed_job job;
  job.graph.ranks.resize(3);  // the last one does nothing
  job.add(task_type::host, 0, phase::forward, 0, 10);
  job.add(task_type::launch, 0, phase::forward, 5, 12);
  job.add(task_type::gap, 0, phase::forward, 10, 20);
  job.add(task_type::host, 0, phase::backward, 13, 18);
  job.add(task_type::synchronization, 0, phase::backward, 18, 30);
  job.add(task_type::collective, 0, phase::communication, 18, 28);
  job.add(task_type::collective, 1, phase::communication, 20, 30);
  // This rank computes on a stream, so its host thread does not count.
  job.add(task_type::host, 1, phase::forward, 0, 100);
  job.add(task_type::kernel, 1, phase::forward, 2, 10);
  job.add(task_type::copy, 1, phase::update, 10, 16);
  const auto w = trace::work_of(job.graph, job.times);
  CHECK(computing(w, phase::forward) == picoseconds{(12 + 8) / 2});
  CHECK(computing(w, phase::backward) == picoseconds{5 / 2});
  CHECK(computing(w, phase::update) == picoseconds{6 / 2});
  CHECK(w.between == picoseconds{(1 + 2) / 2});
  CHECK(w.communicating == picoseconds{12});
  CHECK(trace::work_of({}, {}) == trace::iteration_work{});
}

TEST_CASE("collectives_per_rank counts by exchange") {
  trace::flow_graph g;
  g.ranks.resize(2);
  g.communications.resize(2);
  g.communications[0].way = trace::exchange::all_gather;
  g.communications[1].way = trace::exchange::all_reduce;
  const auto add = [&](std::uint32_t rank, std::uint32_t of, task_type type) {
    trace::flow_task t;
    t.type = type;
    t.rank = rank;
    t.communication = of;
    g.add(t);
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    add(rank, 0, task_type::in);  // is no collective
    add(rank, 0, task_type::collective);
    add(rank, 0, task_type::collective);
  }
  add(1, 1, task_type::collective);
  const auto counts = trace::collectives_per_rank(g);
  CHECK(counts[static_cast<std::size_t>(trace::exchange::all_gather)] == 2);
  CHECK(counts[static_cast<std::size_t>(trace::exchange::all_reduce)] == 0.5);
  CHECK(std::count(counts.begin(), counts.end(), 0.0) == static_cast<std::ptrdiff_t>(counts.size()) - 2);
}

TEST_CASE("the work of a simulated program is that of its timeline", "[law]") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (int round = 0; round < 100; ++round) {
    tasks::program p;
    const auto devices = random.between(1, 3);
    for (std::int64_t d = 0; d < devices; ++d) {
      p.add_resource({"device " + std::to_string(d), tasks::resource_kind::stream, static_cast<std::uint32_t>(d)});
    }
    p.add_resource({"link", tasks::resource_kind::link, 0});
    std::vector<tasks::fragment> bodies(3);
    for (auto& f : bodies) {
      p.add_fragment({tasks::owner_kind::node, 0, "matmul"});
      for (std::int64_t n = random.between(0, 6); n > 0; --n) {
        const auto on = random.between(-1, devices);
        const auto kind =
            on == devices ? tasks::task_kind::transfer : static_cast<tasks::task_kind>(random.between(0, 3));
        const auto t = f.add({on < 0 ? tasks::resource_id{} : tasks::resource_id{static_cast<std::size_t>(on)},
                              picoseconds{random.between(0, 50)},
                              {},
                              {},
                              kind,
                              0});
        if (t > 0 && random.between(0, 1) == 1) {
          f.dependencies.push_back({{{}, t - 1}, {{}, t}, false});
        }
      }
    }
    p.replace(tasks::replacements_of(bodies));
    p.commit();
    simulate::full_simulation simulation;
    simulation.run(p);
    const auto line = simulate::summarize(p, simulation.times());
    trace::name_table names;
    const auto as_job = trace::to_flow_graph(p, simulation.times(), names);
    REQUIRE(as_job.graph.tasks.size() == as_job.times.size());
    CHECK(as_job.graph.ranks.back().name == "links");
    const auto w = trace::work_of(as_job.graph, as_job.times);
    picoseconds busy;
    std::int64_t ranks = 0;
    for (std::int64_t d = 0; d < devices; ++d) {
      const auto& use = line.resources[static_cast<std::size_t>(d)];
      busy += use.busy;
      ranks += use.tasks > 0 ? 1 : 0;
    }
    picoseconds sum;
    for (const auto& c : w.computing) {
      sum += c;
    }
    // Each of five means is rounded down.
    CHECK(sum * ranks <= busy);
    CHECK(sum * ranks + picoseconds{5 * ranks} >= busy);
    CHECK(w.between == picoseconds{});
    CHECK(w.communicating == line.resources.back().busy);
    for (const auto& t : as_job.graph.tasks) {
      CHECK(names.text(t.name).starts_with("matmul "));
      CHECK((t.type == trace::task_type::send) == (as_job.graph.ranks[t.rank].name == "links"));
    }
  }
}

}  // namespace tests_of_iteration_work
