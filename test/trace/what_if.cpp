#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/trace/buckets.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>
#include <unity/trace/what_if.hpp>

#include "generated_job.hpp"

namespace tests_of_what_if {

using namespace unity;

// Each rank runs `layers` backward operators of 10 us, each followed by an all-reduce of 1000 bytes on a channel, and
// then an operator of 5 us that waits for all of them. An all-reduce takes 4 us plus 1 ns per byte; all sizes differ by
// a byte.
class backward_pass {
 public:
  explicit backward_pass(std::uint32_t ranks, std::uint32_t layers = 3) {
    for (std::uint32_t r = 0; r < ranks; ++r) {
      add_rank(r, ranks, layers);
    }
    for (std::uint32_t l = 0; ranks > 1 && l < layers; ++l) {
      trace::flow_task meeting;
      meeting.type = trace::task_type::meeting;
      const auto place = graph.add(meeting);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        graph.link(arrivals_[r * layers + l], place);
        graph.link(place, arrivals_[r * layers + l] + 1);
      }
    }
  }

  trace::flow_graph graph;
  trace::name_table names;

  // The time of an iteration in whole microseconds.
  [[nodiscard]] std::int64_t time() const { return trace::replay(graph, names).iteration.count() / 1'000'000; }

 private:
  std::uint32_t add(trace::task_type type, std::uint32_t rank, std::uint32_t resource, std::int64_t us,
                    std::int64_t start, const std::string& name) {
    trace::flow_task t;
    t.type = type;
    t.rank = rank;
    t.resource = resource;
    t.duration = t.recorded_duration = picoseconds{us * 1'000'000};
    t.recorded_start = picoseconds{start * 1'000'000};
    t.name = names.intern(name);
    t.part = trace::phase::backward;
    return graph.add(t);
  }
  void add_rank(std::uint32_t r, std::uint32_t ranks, std::uint32_t layers) {
    const auto host = static_cast<std::uint32_t>(graph.resources.size());
    graph.resources.push_back({"host", r, trace::lane_kind::host});
    graph.resources.push_back({"channel", r, trace::lane_kind::channel});
    const auto begin = add(trace::task_type::begin, r, trace::no_index, 0, 0, "");
    auto last = begin;
    std::vector<std::uint32_t> ends;
    for (std::uint32_t l = 0; l < layers; ++l) {
      const auto op = add(trace::task_type::host, r, host, 10, 10 * l, "op" + std::to_string(l));
      graph.link(last, op);
      last = op;
      trace::communication c;
      c.way = trace::exchange::all_reduce;
      c.size = bytes{1000 + l};
      c.group_size = ranks;
      c.tensor = names.intern("gradient" + std::to_string(l));
      graph.communications.push_back(c);
      const auto start = static_cast<std::int64_t>(10 * (l + 1));
      const auto in = add(trace::task_type::in, r, trace::no_index, 0, start, "sum");
      const auto main = add(trace::task_type::collective, r, host + 1, 0, start, "sum");
      const auto out = add(trace::task_type::out, r, trace::no_index, 0, start + 5, "sum");
      graph.tasks[main].duration = picoseconds{4'000'000 + 1000 * c.size.count()};
      for (const auto t : {in, main, out}) {
        graph.tasks[t].communication = static_cast<std::uint32_t>(graph.communications.size() - 1);
        graph.tasks[t].part = trace::phase::communication;
      }
      graph.link(op, in);
      graph.link(in, main);
      graph.link(main, out);
      arrivals_.push_back(in);
      ends.push_back(out);
    }
    const auto update = add(trace::task_type::host, r, host, 5, 10 * layers + 5, "update");
    graph.link(last, update);
    for (const auto e : ends) {
      graph.link(e, update);
    }
    const auto finish = add(trace::task_type::finish, r, trace::no_index, 0, 10 * layers + 10, "");
    graph.link(update, finish);
    graph.ranks.push_back({"rank " + std::to_string(r), begin, finish});
  }

  std::vector<std::uint32_t> arrivals_;
};

TEST_CASE("communication times are fitted as a latency and a time per byte") {
  const backward_pass b{2};
  const auto cost = trace::cost_of(trace::fit_communication(b.graph), trace::exchange::all_reduce);
  REQUIRE(cost);
  CHECK(cost->latency == Approx(4e6).epsilon(1e-3));
  CHECK(cost->per_byte == Approx(1000).epsilon(1e-3));
  CHECK(cost->samples == 6);
}

TEST_CASE("scaling links and devices and removing operators changes the replayed time") {
  CHECK(backward_pass{2}.time() == 40);  // 30 backward, 5 for the last all-reduce, 5 for the update
  backward_pass slow_link{2};
  trace::scale_bandwidth(slow_link.graph, 0.25);
  CHECK(slow_link.time() == 43);  // an all-reduce takes 4 + 4 us
  backward_pass slow_start{2};
  trace::scale_latency(slow_start.graph, 2);
  CHECK(slow_start.time() == 44);
  backward_pass fast{2};
  trace::speed_up_devices(fast.graph, 2);
  CHECK(fast.time() == 22);  // 15 + 5 + 2.5
  backward_pass without{2};
  CHECK(trace::remove_operator(without.graph, without.names.find("op1")) == 2);
  CHECK(without.time() == 30);
  CHECK(trace::remove_operator(without.graph, without.names.find("no such operator")) == 0);
}

TEST_CASE("more workers need more rounds of a ring and halving-doubling needs fewer") {
  backward_pass ring{2};
  trace::scale_workers(ring.graph, 5);
  // 2 (k - 1) rounds instead of 2 and 8/5 of the data: 17.6 us for each all-reduce, one after the other from 10 us on
  CHECK(ring.time() == 67);
  backward_pass tree{4};
  trace::use_algorithm(tree.graph, trace::collective_algorithm::halving_doubling);
  CHECK(tree.time() == 38);  // 4 rounds instead of 6
  CHECK(trace::algorithm_named("tree") == trace::collective_algorithm::tree);
  CHECK_FALSE(trace::algorithm_named("star"));
}

TEST_CASE("rebucket joins gradients up to a size and cuts larger ones") {
  for (const std::uint32_t ranks : {1U, 3U}) {
    backward_pass one{ranks};
    CHECK(trace::rebucket(one.graph, bytes{10'000}) == 1);
    CHECK(one.time() == 42);  // one all-reduce of 3 KB after the last operator: 7 us
    backward_pass same{ranks};
    CHECK(trace::rebucket(same.graph, bytes{1002}) == 3);
    CHECK(same.time() == 40);
    backward_pass two{ranks};
    CHECK(trace::rebucket(two.graph, bytes{2100}) == 2);
    CHECK(two.time() == 40);
    backward_pass halves{ranks};
    CHECK(trace::rebucket(halves.graph, bytes{510}) == 6);
    CHECK(halves.time() == 39);  // the last half takes 4.5 us
  }
}

TEST_CASE("parts of a cut bucket have at most the asked size and begin within the backward pass") {
  for (const std::int64_t size : {4, 5, 1000, 1500}) {
    CAPTURE(size);
    backward_pass one{1, 1};
    for (auto& c : one.graph.communications) {
      c.size = bytes{1501};
    }
    const picoseconds begin{100'000'000};
    for (auto& task : one.graph.tasks) {
      task.recorded_start += begin;
      task.part = trace::phase::backward;
    }
    const auto parts = trace::rebucket(one.graph, bytes{size});
    CHECK(parts == static_cast<std::size_t>((1501 + size - 1) / size));
    bytes all;
    for (const auto& c : one.graph.communications) {
      CHECK((c.size > bytes{} && c.size <= bytes{size}));
      all += c.size;
    }
    CHECK(all == bytes{1501});
    for (const auto& task : one.graph.tasks) {
      CHECK(task.recorded_start >= begin);
    }
  }
}

TEST_CASE("rebucket handles extreme sizes without overflow") {
  backward_pass any{1};
  CHECK(trace::rebucket(any.graph, bytes{std::numeric_limits<std::int64_t>::max()}) == 1);
  backward_pass large{1};
  for (auto& c : large.graph.communications) {
    c.size = bytes{(std::int64_t{1} << 62U) + 1};  // the sum of two exceeds 63 bits
  }
  CHECK(trace::rebucket(large.graph, bytes{std::numeric_limits<std::int64_t>::max()}) == 3);
  CHECK(trace::rebucket(large.graph, bytes{std::int64_t{1} << 61U}) == 9);
}

TEST_CASE("without communication detail no rank waits for a straggler") {
  backward_pass b{2};
  for (auto& t : b.graph.tasks) {
    t.duration *= t.rank == 1 && t.type == trace::task_type::host ? 2 : 1;
  }
  const auto detailed = trace::replay(b.graph, b.names);
  CHECK(detailed.rank_time[0] == detailed.rank_time[1] - picoseconds{5'000'000});
  const auto late = trace::stragglers(b.graph, detailed);
  REQUIRE(late.size() == 1);
  CHECK(late[0].rank == 1);
  CHECK(late[0].waited == picoseconds{(10 + 20 + 30) * 1'000'000});
  trace::drop_communication_detail(b.graph, 1e9);
  const auto coarse = trace::replay(b.graph, b.names, trace::replay_rule::global_queue);
  CHECK(coarse.rank_time[0] == picoseconds{36'002'000});  // 1002 bytes at 1 GB/s
  CHECK(coarse.rank_time[1] == picoseconds{71'002'000});
  CHECK(trace::stragglers(b.graph, coarse).empty());
}

TEST_CASE("fit_transfers counts all time as bandwidth or as latency if samples cannot tell them apart") {
  using samples = std::vector<std::pair<double, double>>;  // bytes and picoseconds
  const auto fitted = [](const samples& s) {
    const auto c = trace::fit_transfers(trace::exchange::chunk, s);
    CHECK(c.way == trace::exchange::chunk);
    CHECK(c.samples == s.size());
    return std::pair{c.latency, c.per_byte};
  };
  const auto check = [&](const samples& s, double latency, double per_byte) {
    const auto found = fitted(s);
    CHECK(found.first == Approx(latency).margin(1e-9));
    CHECK(found.second == Approx(per_byte).margin(1e-9));
  };
  check({{100, 1200}, {200, 1400}, {400, 1800}}, 1000, 2);
  check({{100, 500}, {100, 700}}, 0, 6);                 // one size
  check({{0, 500}, {0, 700}}, 600, 0);                   // unknown sizes
  check({{100, 500}, {300, 100}}, 0, 1.5);               // larger is faster: 300 picoseconds for 200 bytes on average
  check({{100, 50}, {200, 300}}, 0, 65'000.0 / 50'000);  // through 0, as a line of least squares begins below it
}

TEST_CASE("speed_up_devices shortens device work and host work only of ranks without devices") {
  trace::flow_graph g;
  g.ranks.resize(2);
  const auto add = [&](trace::task_type what, std::uint32_t rank) {
    trace::flow_task t;
    t.type = what;
    t.rank = rank;
    t.duration = picoseconds{40};
    return g.add(t);
  };
  using type = trace::task_type;
  const std::vector<std::pair<type, std::int64_t>> with_device{
      {type::host, 40},  {type::kernel, 10},     {type::copy, 10}, {type::earlier, 10}, {type::gap, 40},
      {type::launch, 40}, {type::collective, 40}, {type::delay, 40}};
  for (const auto& [t, duration] : with_device) {
    add(t, 0);
  }
  const auto host = add(type::host, 1);
  const auto gap = add(type::gap, 1);
  trace::speed_up_devices(g, 4);
  for (std::size_t i = 0; i < with_device.size(); ++i) {
    CAPTURE(trace::task_type_names[static_cast<std::size_t>(with_device[i].first)]);
    CHECK(g.tasks[i].duration == picoseconds{with_device[i].second});
  }
  CHECK(g.tasks[host].duration == picoseconds{10});
  CHECK(g.tasks[gap].duration == picoseconds{40});
}

TEST_CASE("without a stated bandwidth communication detail is dropped at that of the largest one") {
  backward_pass b{2};
  trace::drop_communication_detail(b.graph, 0);
  std::size_t seen = 0;
  for (const auto& t : b.graph.tasks) {
    if (t.type == trace::task_type::collective) {
      const auto size = static_cast<double>(b.graph.communications[t.communication].size.count());
      CHECK(t.duration == picoseconds{std::llround(size * 5'002'000 / 1002)});  // 4 us and 1002 ns for 1002 bytes
      ++seen;
    }
  }
  CHECK(seen == 6);
  for (const auto& e : b.graph.edges) {
    CHECK(b.graph.tasks[e.before].rank == b.graph.tasks[e.after].rank);
    CHECK(b.graph.tasks[e.before].type != trace::task_type::meeting);
    CHECK(b.graph.tasks[e.after].type != trace::task_type::meeting);
  }
}

TEST_CASE("busy and idle time add up to each rank's time in generated jobs", "[law]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::generated_job_options o;
    o.most_drift = {};
    o.machines = 2 + seed % 5;
    const auto g = test::job_generator{random, o}.run();
    const auto x = trace::match_transactions(g.job);
    const trace::aligned_job aligned{g.job, x, trace::stated_offsets(g.job)};
    for (const auto s : trace::common_steps(g.job)) {
      const auto graph = aligned.graph(s);
      const auto r = trace::replay(graph, g.job.names);
      // Replaying the recorded durations of a step gives the measured time of the step.
      CHECK(to_seconds(r.iteration) == Approx(to_seconds(aligned.measured(s))).epsilon(0.02));
      const auto uses = trace::rank_uses(graph, r);
      for (std::size_t k = 0; k < uses.size(); ++k) {
        auto sum = uses[k].busy;
        for (const auto idle : uses[k].idle) {
          CHECK(idle >= picoseconds{});
          sum += idle;
        }
        CHECK(sum == r.rank_time[k]);
      }
      picoseconds path;
      for (const auto& step : trace::critical_path(graph, r)) {
        path += step.time;
      }
      CHECK(path == r.iteration);
    }
  }
}

}  // namespace tests_of_what_if
