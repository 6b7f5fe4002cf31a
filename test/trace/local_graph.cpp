#include <unity/trace/local_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace tests_of_local_graph {

using namespace unity;
using kind = trace::event_kind;
using texts = std::vector<std::string>;

constexpr picoseconds us{1'000'000};

std::int64_t in_us(picoseconds t) { return t.count() / us.count(); }

// A rank built by hand. Times are in microseconds.
struct hand_made {
  trace::name_table names{};
  trace::rank_trace t{};

  std::uint32_t lane(const std::string& name, trace::lane_kind k) {
    t.lanes.push_back({name, k, 0});
    return static_cast<std::uint32_t>(t.lanes.size() - 1);
  }
  std::uint32_t add(std::uint32_t on, kind k, const std::string& name, std::int64_t start, std::int64_t end,
                    std::uint64_t correlation = 0) {
    trace::event e;
    e.start = start * us;
    e.duration = (end - start) * us;
    e.correlation = correlation;
    e.name = names.intern(name);
    e.lane = on;
    e.kind = k;
    t.events.push_back(e);
    return static_cast<std::uint32_t>(t.events.size() - 1);
  }
  std::uint32_t add_message(std::uint32_t on, kind k, const std::string& tensor, std::int64_t start, std::int64_t end,
                            trace::exchange way, std::uint32_t chunk = 0, std::uint32_t round = 0) {
    trace::message m;
    m.tensor = names.intern(tensor);
    m.way = way;
    m.chunk = chunk;
    m.round = round;
    t.messages.push_back(m);
    const auto e = add(on, k, tensor, start, end);
    t.events[e].message = static_cast<std::uint32_t>(t.messages.size() - 1);
    return e;
  }
  // Marks a step on a lane.
  void step(std::uint32_t on, std::int64_t number, std::int64_t start, std::int64_t end) {
    t.events[add(on, kind::step, "", start, end)].step = number;
  }

  [[nodiscard]] trace::flow_graph graph(std::int64_t step = 0, std::int64_t lead = 0, std::int64_t shift = 0) {
    trace::complete(t);
    trace::flow_graph g;
    g.ranks.push_back({"rank", trace::no_index, trace::no_index});
    std::vector<picoseconds> durations;
    for (const auto& e : t.events) {
      durations.push_back(e.duration);
    }
    const auto w = std::find_if(t.steps.begin(), t.steps.end(), [&](const auto& s) { return s.number == step; });
    REQUIRE(w != t.steps.end());
    const trace::step_events events{t};
    trace::add_local_graph(g, 0, t, *w, durations, lead * us, shift * us, events.of(step));
    return g;
  }
  // "kernel gemm"; later tasks with the same label are "kernel gemm (2)", ...
  [[nodiscard]] texts labels(const trace::flow_graph& g) const {
    texts all;
    std::map<std::string, int> counts;
    for (const auto& task : g.tasks) {
      const auto type = trace::task_type_names[static_cast<std::size_t>(task.type)];
      const auto& name = names.text(task.name);
      auto text = fmt::format("{}{}{}", type, name.empty() ? "" : " ", name);
      const auto count = ++counts[text];
      all.push_back(count == 1 ? text : fmt::format("{} ({})", text, count));
    }
    return all;
  }
  // "kernel gemm: 15 for 20" (start and duration), by start, without tasks of no duration.
  [[nodiscard]] texts times(const trace::flow_graph& g) const {
    const auto label = labels(g);
    std::vector<std::pair<picoseconds, std::string>> all;
    for (std::size_t i = 0; i < g.tasks.size(); ++i) {
      const auto& task = g.tasks[i];
      if (task.duration > picoseconds{}) {
        all.emplace_back(task.recorded_start,
                         fmt::format("{}: {} for {}", label[i], in_us(task.recorded_start), in_us(task.duration)));
      }
    }
    std::sort(all.begin(), all.end());
    texts lines;
    for (const auto& [start, text] : all) {
      lines.push_back(text);
    }
    return lines;
  }
  // "host a > kernel b", or "host a > 5 > kernel b" with a delay between; sorted.
  [[nodiscard]] texts edges(const trace::flow_graph& g) const {
    const auto label = labels(g);
    std::vector<std::uint32_t> into(g.tasks.size(), trace::no_index);
    for (const auto& e : g.edges) {
      into[e.after] = e.before;
    }
    texts all;
    for (const auto& e : g.edges) {
      if (g.tasks[e.after].type == trace::task_type::delay) {
        continue;
      }
      const auto& before = g.tasks[e.before];
      all.push_back(before.type == trace::task_type::delay
                        ? fmt::format("{} > {} > {}", label[into[e.before]], in_us(before.duration), label[e.after])
                        : fmt::format("{} > {}", label[e.before], label[e.after]));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_CASE("a host operation excludes the time of inner operations and gaps count as work") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  r.step(main, 0, 0, 100);
  r.add(main, kind::operation, "outer", 10, 60);
  r.add(main, kind::operation, "inner", 20, 40);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"gap: 0 for 10", "host outer: 10 for 10", "host inner: 20 for 20",
                            "host outer (2): 40 for 20", "gap outer: 60 for 40"});
  CHECK(r.edges(g) == texts{"begin > gap", "gap > host outer", "gap outer > finish", "host inner > host outer (2)",
                            "host outer (2) > gap outer", "host outer > host inner"});
  CHECK(g.ranks[0].measured == 100 * us);
}

TEST_CASE("a rank begins after its lead and its recorded times are shifted") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  r.step(main, 0, 50, 100);
  r.add(main, kind::operation, "a", 50, 100);
  const auto g = r.graph(0, 7, -43);
  CHECK(r.times(g) == texts{"begin: 0 for 7", "host a: 7 for 50"});
}

TEST_CASE("a kernel runs after its launch and after the previous kernel of its stream") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto stream = r.lane("stream", trace::lane_kind::stream);
  r.step(main, 0, 0, 100);
  r.add(main, kind::operation, "op", 0, 100);
  r.add(main, kind::launch, "l1", 10, 15, 1);
  r.add(main, kind::launch, "l2", 20, 25, 2);
  r.add(stream, kind::kernel, "k1", 18, 48, 1);
  r.add(stream, kind::kernel, "k2", 48, 58, 2);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"host op: 0 for 10", "launch l1: 10 for 5", "delay k1: 15 for 3", "host op (2): 15 for 5",
                            "kernel k1: 18 for 30", "launch l2: 20 for 5", "delay k2: 25 for 3",
                            "host op (3): 25 for 75", "kernel k2: 48 for 10"});
  // The second kernel could have started 3 us after its launch, like the first.
  CHECK(r.edges(g) == texts{"begin > host op", "begin > kernel k1", "host op (2) > launch l2", "host op (3) > finish",
                            "host op > launch l1", "kernel k1 > kernel k2", "launch l1 > 3 > kernel k1",
                            "launch l1 > host op (2)", "launch l2 > 3 > kernel k2", "launch l2 > host op (3)"});
  for (std::size_t i = 0; i < g.tasks.size(); ++i) {
    if (g.tasks[i].type == trace::task_type::kernel) {
      CHECK(r.names.text(g.tasks[i].operation) == "op");
    }
  }
}

TEST_CASE("a kernel that starts during its launch call does not wait for the rest of the call") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto stream = r.lane("stream", trace::lane_kind::stream);
  r.step(main, 0, 0, 40);
  r.add(main, kind::launch, "l", 10, 20, 1);
  r.add(stream, kind::kernel, "k", 14, 30, 1);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"gap: 0 for 10", "launch l: 10 for 4", "kernel k: 14 for 16", "launch l (2): 14 for 6",
                            "gap l: 20 for 20"});
  CHECK(r.edges(g) == texts{"begin > gap", "begin > kernel k", "gap > launch l", "gap l > finish",
                            "launch l (2) > gap l", "launch l > kernel k", "launch l > launch l (2)"});
}

TEST_CASE("a kernel right after one of another stream depends on it; longer waits are delays") {
  for (const std::int64_t start : {52, 90}) {
    CAPTURE(start);
    hand_made r;
    const auto main = r.lane("main", trace::lane_kind::host);
    const auto one = r.lane("one", trace::lane_kind::stream);
    const auto other = r.lane("other", trace::lane_kind::stream);
    r.step(main, 0, 0, 20);
    r.add(main, kind::launch, "l1", 0, 10, 1);
    r.add(main, kind::launch, "l2", 10, 20, 2);
    r.add(one, kind::kernel, "k1", 12, 50, 1);
    r.add(other, kind::kernel, "k2", start, 100, 2);
    const auto g = r.graph();
    texts expected{"begin > kernel k1",         "begin > kernel k2",     "begin > launch l1",
                   "launch l1 > 2 > kernel k1", "launch l1 > launch l2", "launch l2 > finish"};
    if (start == 52) {
      expected.push_back("kernel k1 > 2 > kernel k2");
      expected.push_back("launch l2 > 32 > kernel k2");  // the median of 2 and 32 is the second
    } else {                                             // 40 us behind the other kernel: longer than streams hand over
      expected.push_back("launch l2 > 70 > kernel k2");
    }
    std::sort(expected.begin(), expected.end());
    CHECK(r.edges(g) == expected);
  }
}

TEST_CASE("a kernel that starts while another stream runs depends on its previous kernel") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto one = r.lane("one", trace::lane_kind::stream);
  const auto other = r.lane("other", trace::lane_kind::stream);
  r.step(main, 0, 0, 30);
  r.add(main, kind::launch, "l1", 0, 10, 1);
  r.add(main, kind::launch, "l2", 10, 20, 2);
  r.add(main, kind::launch, "l3", 20, 30, 3);
  r.add(one, kind::kernel, "k1", 10, 50, 1);
  r.add(one, kind::kernel, "k2", 50, 120, 2);
  r.add(other, kind::kernel, "k3", 80, 130, 3);
  const auto g = r.graph();
  // k1 ended 30 us before k3 started, longer than a handover between streams takes, but k2 was running.
  CHECK(r.edges(g) == texts{"begin > kernel k1", "begin > kernel k3", "begin > launch l1", "kernel k1 > 30 > kernel k3",
                            "kernel k1 > kernel k2", "launch l1 > kernel k1", "launch l1 > launch l2",
                            "launch l2 > 30 > kernel k2", "launch l2 > launch l3", "launch l3 > 50 > kernel k3",
                            "launch l3 > finish"});
}

TEST_CASE("a synchronizing call continues after the last task that ends in it") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto stream = r.lane("stream", trace::lane_kind::stream);
  r.step(main, 0, 0, 100);
  r.add(main, kind::launch, "l", 0, 10, 1);
  r.add(main, kind::synchronization, "sync", 30, 70, 9);
  r.add(main, kind::synchronization, "late", 80, 100, 10);  // nothing ends during it
  r.add(stream, kind::kernel, "k", 10, 65, 1);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"launch l: 0 for 10", "gap l: 10 for 20", "kernel k: 10 for 55",
                            "synchronization sync: 30 for 5", "delay sync: 65 for 5", "gap sync: 70 for 10",
                            "synchronization late: 80 for 20"});
  CHECK(r.edges(g) == texts{"begin > kernel k", "begin > launch l", "gap l > synchronization sync",
                            "gap sync > synchronization late", "kernel k > 5 > synchronization sync (2)",
                            "launch l > gap l", "launch l > kernel k", "synchronization late > finish",
                            "synchronization sync (2) > gap sync", "synchronization sync > synchronization sync (2)"});
}

TEST_CASE("a call whose copy ends within it returns after the copy") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto stream = r.lane("stream", trace::lane_kind::stream);
  r.step(main, 0, 0, 40);
  r.add(main, kind::launch, "cudaMemcpy", 10, 40, 1);
  r.add(stream, kind::copy, "HtoD", 20, 38, 1);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"gap: 0 for 10", "launch cudaMemcpy: 10 for 5", "delay HtoD: 15 for 5",
                            "copy HtoD: 20 for 18", "delay cudaMemcpy: 38 for 2"});
  CHECK(r.edges(g) == texts{"begin > copy HtoD", "begin > gap", "copy HtoD > 2 > synchronization cudaMemcpy",
                            "gap > launch cudaMemcpy", "launch cudaMemcpy > 5 > copy HtoD",
                            "launch cudaMemcpy > synchronization cudaMemcpy", "synchronization cudaMemcpy > finish"});
}

TEST_CASE("a thread that is idle for long depends on another thread that became idle") {
  for (const std::int64_t end : {95, 5}) {
    CAPTURE(end);
    hand_made r;
    const auto main = r.lane("main", trace::lane_kind::host);
    const auto other = r.lane("other", trace::lane_kind::host);
    r.step(main, 0, 0, 110);
    r.add(main, kind::operation, "a", 0, 10);
    r.add(main, kind::operation, "b", 100, 110);
    r.add(other, kind::operation, "c", 0, end);
    const auto g = r.graph();
    texts expected{"begin > host a", "begin > host c", "gap a > host b", "host a > gap a", "host b > finish"};
    if (end == 95) {
      expected.push_back("host c > 5 > host b");
      CHECK(r.times(g) == texts{"host a: 0 for 10", "host c: 0 for 95", "delay b: 95 for 5", "host b: 100 for 10"});
    } else {  // the lane is idle before the gap begins: the gap counts as work
      CHECK(r.times(g) == texts{"host a: 0 for 10", "host c: 0 for 5", "gap a: 10 for 90", "host b: 100 for 10"});
    }
    std::sort(expected.begin(), expected.end());
    CHECK(r.edges(g) == expected);
  }
}

TEST_CASE("a thread that is idle for long depends on a collective that ends meanwhile") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto channel = r.lane("channel", trace::lane_kind::channel);
  r.step(main, 0, 0, 100);
  r.add(main, kind::operation, "a", 0, 10);
  r.add(main, kind::operation, "b", 93, 100);
  r.add_message(channel, kind::collective, "sum", 12, 90, trace::exchange::all_reduce);
  const auto g = r.graph();
  CHECK(r.times(g) == texts{"host a: 0 for 10", "delay sum: 10 for 2", "collective sum: 12 for 78", "delay b: 90 for 3",
                            "host b: 93 for 7"});
  // Without a launch, it depends on the last task that ended before its start.
  CHECK(r.edges(g) == texts{"begin > host a", "begin > in sum", "collective sum > out sum", "gap a > host b",
                            "host a > 2 > in sum", "host a > gap a", "host b > finish", "in sum > collective sum",
                            "out sum > 3 > host b"});
}

TEST_CASE("a task without a launch depends on the last task of any lane that ended before it") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto one = r.lane("one", trace::lane_kind::stream);
  const auto other = r.lane("other", trace::lane_kind::stream);
  r.step(main, 0, 0, 60);
  r.add(main, kind::operation, "a", 0, 10);
  r.add(main, kind::operation, "b", 10, 60);
  r.add(one, kind::kernel, "k1", 15, 30);
  r.add(other, kind::kernel, "k2", 34, 50);
  const auto g = r.graph();
  CHECK(r.edges(g) == texts{"begin > host a", "begin > kernel k1", "begin > kernel k2", "host a > 5 > kernel k1",
                            "host a > host b", "host b > finish", "kernel k1 > 4 > kernel k2"});
}

TEST_CASE("a kernel left running by an earlier iteration occupies its stream until it ends") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  const auto stream = r.lane("stream", trace::lane_kind::stream);
  r.step(main, 0, 0, 100);
  r.step(main, 1, 100, 200);
  r.add(main, kind::launch, "l1", 80, 90, 1);
  r.add(main, kind::launch, "l2", 100, 110, 2);
  r.add(main, kind::operation, "a", 110, 200);
  r.add(stream, kind::kernel, "k1", 90, 130, 1);
  r.add(stream, kind::kernel, "k2", 130, 150, 2);
  const auto g = r.graph(1, 0, -100);
  CHECK(r.times(g) ==
        texts{"earlier k1: 0 for 30", "launch l2: 0 for 10", "host a: 10 for 90", "kernel k2: 30 for 20"});
  CHECK(r.edges(g) == texts{"begin > earlier k1", "begin > launch l2", "earlier k1 > kernel k2", "host a > finish",
                            "launch l2 > host a", "launch l2 > kernel k2"});
}

TEST_CASE("step_events holds a step's events and earlier ones that still run on a device") {
  const auto seed = GENERATE(range(0U, 50U));
  CAPTURE(seed);
  random_engine random{seed};
  hand_made r;
  const std::vector<std::uint32_t> lanes{r.lane("host", trace::lane_kind::host),
                                         r.lane("stream", trace::lane_kind::stream)};
  for (std::int64_t s = 0; s < 5; ++s) {  // some overlap
    const auto start = 20 * s + random.between(0, 5);
    r.step(0, s, start, start + random.between(1, 40));
  }
  for (auto n = random.between(1, 20); n > 0; --n) {
    const auto start = random.between(0, 120);
    const auto i = r.add(lanes[random.below(2)], kind::kernel, "k", start, start + random.between(0, 60));
    r.t.events[i].step = random.between(-1, 4);
  }
  trace::sort_events(r.t);
  trace::assign_steps(r.t);
  const trace::step_events events{r.t};
  for (const auto& w : r.t.steps) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < r.t.events.size(); ++i) {
      const auto& e = r.t.events[i];
      const bool is_running = e.lane == 1 && e.step < w.number && e.end() > w.start && e.start < w.end;
      if (e.step == w.number || is_running) {
        expected.push_back(i);
      }
    }
    const auto found = events.of(w.number);
    CHECK(std::vector<std::uint32_t>{found.begin(), found.end()} == expected);
  }
  CHECK(events.of(99).empty());
}

TEST_CASE("stated dependencies are edges from the end of one event to the start of the other") {
  hand_made r;
  const auto one = r.lane("one", trace::lane_kind::host);
  const auto other = r.lane("other", trace::lane_kind::host);
  const auto a = r.add(one, kind::operation, "a", 0, 10);
  const auto b = r.add(other, kind::operation, "b", 20, 40);
  const auto c = r.add(other, kind::operation, "c", 22, 30);
  r.t.dependencies = {{a, c}, {b, a}};
  const auto g = r.graph();
  const auto edges = r.edges(g);
  CHECK(std::count(edges.begin(), edges.end(), "host a > host c") == 1);
  CHECK(std::count(edges.begin(), edges.end(), "host b (2) > host a") == 1);
  // Without marked steps, a rank finishes when all its lanes do.
  CHECK(std::count(edges.begin(), edges.end(), "host b (2) > finish") == 1);
  CHECK(std::count(edges.begin(), edges.end(), "host a > finish") == 1);
}

TEST_CASE("a ring forwards a chunk only after receiving it") {
  hand_made r;
  const auto to = r.lane("to", trace::lane_kind::channel);
  const auto from = r.lane("from", trace::lane_kind::channel);
  r.add_message(to, kind::send, "g", 0, 10, trace::exchange::chunk, 0, 0);
  r.add_message(from, kind::receive, "g", 0, 10, trace::exchange::chunk, 1, 0);
  r.add_message(to, kind::send, "g", 12, 20, trace::exchange::chunk, 1, 1);
  const auto g = r.graph();
  // The second send waits for the received chunk, and for the previous send on its channel.
  CHECK(r.edges(g) == texts{"begin > finish", "begin > in g", "begin > in g (3)", "in g (2) > send g (2)",
                            "in g (3) > receive g", "in g > send g", "out g (2) > finish", "out g (3) > finish",
                            "out g (3) > in g (2)", "out g > 2 > in g (2)", "receive g > out g (3)",
                            "send g (2) > out g (2)", "send g > out g"});
}

TEST_CASE("a server sends a tensor back only after receiving all of its pushes") {
  hand_made r;
  const auto a = r.lane("from a", trace::lane_kind::channel);
  const auto b = r.lane("from b", trace::lane_kind::channel);
  const auto to = r.lane("to", trace::lane_kind::channel);
  r.add_message(a, kind::receive, "w", 0, 10, trace::exchange::push);
  r.add_message(b, kind::receive, "w", 0, 30, trace::exchange::push);
  r.add_message(b, kind::receive, "v", 30, 40, trace::exchange::push);
  r.add_message(to, kind::send, "w", 32, 45, trace::exchange::pull);
  r.t.messages[0].sender = r.names.intern("a");
  r.t.messages[1].sender = r.t.messages[2].sender = r.names.intern("b");
  const auto g = r.graph();
  const auto edges = r.edges(g);
  CHECK(std::count(edges.begin(), edges.end(), "out w > in w (3)") == 1);
  // Two edges: it was also the last task to end before.
  CHECK(std::count_if(edges.begin(), edges.end(), [](const std::string& e) {
          return e.starts_with("out w (2) >") && e.ends_with("> in w (3)");
        }) == 2);
  CHECK(std::none_of(edges.begin(), edges.end(),
                     [](const std::string& e) { return e.starts_with("out v") && e.ends_with("in w (3)"); }));
}

TEST_CASE("messages repeated within a step wait for those of their own turn") {
  hand_made server;
  const auto from = server.lane("from", trace::lane_kind::channel);
  const auto to = server.lane("to", trace::lane_kind::channel);
  for (const int start : {0, 100}) {
    server.add_message(from, kind::receive, "w", start, start + 10, trace::exchange::push);
    server.add_message(to, kind::send, "w", start + 20, start + 30, trace::exchange::pull);
  }
  hand_made ring;
  const auto before = ring.lane("from", trace::lane_kind::channel);
  const auto next = ring.lane("to", trace::lane_kind::channel);
  for (const int start : {0, 100}) {
    ring.add_message(before, kind::receive, "w", start, start + 10, trace::exchange::chunk, 1, 0);
    ring.add_message(next, kind::send, "w", start + 20, start + 30, trace::exchange::chunk, 1, 1);
  }
  for (auto* const r : {&server, &ring}) {
    const auto g = r->graph();
    std::vector<std::uint32_t> received;
    std::vector<std::uint32_t> sent;
    for (std::uint32_t k = 0; k < g.tasks.size(); ++k) {
      if (g.tasks[k].type == trace::task_type::in) {
        (g.tasks[k + 1].type == trace::task_type::receive ? received : sent).push_back(k);
      }
    }
    REQUIRE((received.size() == 2 && sent.size() == 2));
    for (const std::size_t i : {0U, 1U}) {
      for (const std::size_t k : {0U, 1U}) {
        const auto waits = std::count_if(g.edges.begin(), g.edges.end(), [&](const auto& e) {
          return e.before == received[i] + 2 && e.after == sent[k];  // on the last task of the receive
        });
        CHECK((waits > 0) == (i == k));
      }
    }
  }
}

TEST_CASE("events of channels that take no time do not wait for each other") {
  hand_made r;
  for (const auto* const name : {"u", "v"}) {
    r.add_message(r.lane(name, trace::lane_kind::channel), kind::send, name, 30, 30, trace::exchange::push);
  }
  const auto edges = r.edges(r.graph());
  CHECK(std::none_of(edges.begin(), edges.end(),
                     [](const std::string& e) { return e.find(" u ") != std::string::npos && e.ends_with(" v"); }));
  CHECK(std::none_of(edges.begin(), edges.end(),
                     [](const std::string& e) { return e.find(" v ") != std::string::npos && e.ends_with(" u"); }));
}

TEST_CASE("memory of an iteration lives from its allocating event to its freeing event") {
  hand_made r;
  const auto main = r.lane("main", trace::lane_kind::host);
  r.step(main, 0, 0, 50);
  r.step(main, 1, 50, 100);
  r.step(main, 2, 100, 150);
  const auto late = r.add(main, kind::operation, "late", 110, 120);  // events are sorted later
  const auto early = r.add(main, kind::operation, "early", 10, 20);
  const auto a = r.add(main, kind::operation, "a", 60, 80);
  r.add(main, kind::operation, "inner", 65, 70);
  const auto b = r.add(main, kind::operation, "b", 85, 95);
  const auto none = trace::no_event;
  r.t.allocations = {{a, b, bytes{1}},        {early, a, bytes{2}},       {a, late, bytes{4}},
                     {early, late, bytes{8}}, {none, none, bytes{16}},    {none, b, bytes{32}},
                     {b, none, bytes{64}},    {early, early, bytes{128}}, {late, none, bytes{256}}};
  r.t.held = bytes{1000};
  const auto g = r.graph(1);
  CHECK(g.ranks[0].held == bytes{1000});
  const auto label = r.labels(g);
  std::map<std::int64_t, std::string> found;
  for (const auto& x : g.allocations) {
    CHECK(x.rank == 0);
    found[x.size.count()] = label[x.from] + (x.last == trace::no_index ? "" : " to " + label[x.last]);
  }
  CHECK(found == std::map<std::int64_t, std::string>{{1, "host a to host b"},
                                                     {2, "begin to host a (2)"},
                                                     {4, "host a"},
                                                     {8, "begin"},
                                                     {16, "begin"},
                                                     {32, "begin to host b"},
                                                     {64, "host b"}});
}

}  // namespace tests_of_local_graph
