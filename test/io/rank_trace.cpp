#include <unity/io/rank_trace.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

namespace tests_of_rank_trace {

using namespace unity;

constexpr picoseconds us{1'000'000};

trace::step_window window(std::int64_t number, std::int64_t start, std::int64_t end) {
  return {number, start * us, end * us};
}
// An event of a rank, on its clock of microseconds.
std::string event(int rank, const std::string& name, int start, int end, int step, const std::string& about,
                  int ahead = 0) {
  return fmt::format(
      R"({{"ph":"X","pid":{},"tid":0,"name":"{}","ts":{},"dur":{},"args":{{"step":{},"clock_us":{},{}}}}})", rank, name,
      start, end - start, step, 5000 + ahead + start, about);
}
std::string document(const std::vector<std::string>& events) {
  std::string all;
  for (const auto& e : events) {
    all += (all.empty() ? "" : ",") + e;
  }
  return fmt::format(R"({{"displayTimeUnit":"ns","traceEvents":[{}]}})", all);
}
trace::job_trace job_of(const std::vector<std::string>& events) {
  trace::job_trace job;
  job.ranks = io::read_rank_traces(io::json_text{document(events), "ranks.json"}, job.names);
  trace::check_job(job);
  return job;
}
const std::string compute = R"("kind":"compute")";
const std::string whole = R"("kind":"step")";

TEST_CASE("steps of a rank trace keep their stated times whatever the gap between them") {
  const auto job = job_of({
      event(0, "step 3", 0, 100, 3, whole),
      event(0, "mm", 10, 80, 3, compute),
      event(0, "step 4", 250, 360, 4, whole),
      event(0, "mm", 260, 340, 4, compute),
  });
  CHECK(job.ranks[0].steps == std::vector<trace::step_window>{window(3, 0, 100), window(4, 250, 360)});
  const auto x = trace::match_transactions(job);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  const auto steps = trace::leave_one_out(aligned);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].measured == 100 * us);
  CHECK(steps[0].replayed == 110 * us);  // replayed with the durations of the other step
  CHECK(steps[1].replayed == 100 * us);
}

TEST_CASE("ranks with equal clocks are on one machine") {
  for (const int ahead : {0, 3}) {
    CAPTURE(ahead);
    const auto job = job_of({event(0, "mm", 10, 80, 3, compute), event(1, "mm", 90, 95, 3, compute, ahead)});
    CHECK(job.ranks[1].origin - job.ranks[0].origin == nanoseconds{1000 * ahead});
    CHECK((job.ranks[0].machine == job.ranks[1].machine) == (ahead == 0));
  }
}

TEST_CASE("rank trace clock offsets beyond the range of picoseconds are read") {
  const auto job = job_of({R"({"ph":"X","pid":0,"tid":0,"name":"mm","ts":0,"dur":1,"args":{"kind":"compute"}})",
                           R"({"ph":"X","pid":0,"tid":0,"name":"mm","ts":8000000000000,"dur":1,)"
                           R"("args":{"kind":"compute","clock_us":-9000000000000}})"});
  CHECK(job.ranks[0].origin == nanoseconds{-17'000'000'000'000'000});
}

TEST_CASE("rank trace clocks beyond the range of picoseconds are read") {
  const auto job = job_of({R"({"ph":"X","pid":0,"tid":0,"name":"mm","ts":0,"dur":1,"args":{"kind":"compute"}})",
                           R"({"ph":"X","pid":0,"tid":0,"name":"mm","ts":3,"dur":1,)"
                           R"("args":{"kind":"compute","clock_us":21600000000002.5}})"});
  CHECK(job.ranks[0].origin.count() == 21'599'999'999'999'500);
}

TEST_CASE("a message size above the limit in a rank trace is refused in one line") {
  CHECK_THROWS_WITH(job_of({event(0, "x", 0, 5, 1,
                                  R"("kind":"communication","direction":"all_reduce","bytes":9223372036854775807)")}),
                    "ranks.json: a message of 9223372036854775807 B; expected 4398046511104 B at most");
}

TEST_CASE("without step events the steps of a rank trace begin at their first events") {
  const auto job = job_of({event(0, "mm", 10, 80, 3, compute), event(0, "mm", 90, 95, 4, compute)});
  CHECK(job.ranks[0].steps == std::vector<trace::step_window>{window(3, 0, 80), window(4, 80, 85)});
}

TEST_CASE("rank trace memory is freed by the event of the stated number within its step") {
  std::vector<std::string> events{
      R"({"ph":"M","name":"process_memory","pid":0,"tid":0,"args":{"kept_bytes":1000,"arena_bytes":60}})"};
  for (const int step : {0, 1}) {
    const auto start = 100 * step;
    events.push_back(event(0, "step", start, start + 90, step, whole));
    events.push_back(event(0, "a", start, start + 10, step, compute + R"(,"number":3,"memory":[[10,5],[20,3]])"));
    events.push_back(event(0, "b", start + 10, start + 20, step, compute + R"(,"number":4,"memory":[[32,4]])"));
    events.push_back(event(0, "c", start + 20, start + 80, step, compute + R"(,"number":5,"memory":[[5,7]])"));
  }
  events.push_back(event(0, "d", 190, 195, 1, compute + R"(,"memory":["much",[1],[-4,5],[4,5.5]])"));
  const auto job = job_of(events);
  const auto& r = job.ranks[0];
  CHECK(r.held == bytes{1000});
  CHECK(r.unknown.at("memory that is no [bytes, number, ...]") == 4);
  const auto name = [&](std::uint32_t i) {
    return i == trace::no_event ? "" : job.names.text(r.events[i].name) + fmt::format(" {}", r.events[i].step);
  };
  std::vector<std::string> found;
  for (const auto& a : r.allocations) {
    found.push_back(fmt::format("{}: {} to {}", a.size.count(), name(a.made_by), name(a.freed_by)));
  }
  CHECK(found == std::vector<std::string>{"10: a 0 to c 0", "20: a 0 to a 0", "32: b 0 to b 0", "5: c 0 to ",
                                          "10: a 1 to c 1", "20: a 1 to a 1", "32: b 1 to b 1", "5: c 1 to "});
  const auto x = trace::match_transactions(job);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  const auto g = aligned.graph(0);
  CHECK(trace::memory_use(g, trace::replay(g, job.names))[0] ==
        trace::memory_peak{bytes{1000}, bytes{1042}, 10 * us, true});
}

// Rank 1 receives in each step what rank 0 sends: in the same step or, if delayed, in the next.
trace::job_trace sending(bool is_delayed) {
  std::vector<std::string> events;
  const std::string send = R"("kind":"communication","direction":"send","tag":1,"bytes":8,"peer":1)";
  const std::string receive = R"("kind":"waiting","direction":"receive","tag":1,"bytes":8,"peer":0)";
  for (const int step : {1, 2}) {
    const auto start = 100 * step;
    for (const int rank : {0, 1}) {
      events.push_back(event(rank, "step", start, start + 90, step, whole));
      events.push_back(event(rank, "mm", start, start + 60, step, compute));
    }
    events.push_back(event(0, "x", start + 60, start + 70, step, send));
    events.push_back(event(1, "x", start + 65, start + 75, is_delayed ? step - 1 : step, receive));
  }
  return job_of(events);
}

TEST_CASE("rank trace messages are matched within a step and not across steps") {
  const auto job = sending(false);
  CHECK(trace::match_transactions(job).messages.size() == 2);
  const auto delayed = sending(true);
  const auto x = trace::match_transactions(delayed);
  CHECK(x.messages.empty());
  for (const auto& e : delayed.ranks[1].events) {
    CHECK(e.kind != trace::event_kind::receive);
    CHECK(e.step == e.start.count() / 100'000'000 + 1);  // the step in which it happened; the first start is 0
  }
  const trace::aligned_job aligned{delayed, x, trace::stated_offsets(delayed)};
  CHECK(trace::replay(aligned.graph(2), delayed.names).iteration == 90 * us);
}

TEST_CASE("all-reduces of a group replay one after another; ones that ended unseen take no time") {
  // Both ranks begin three all-reduces at 10, 20 and 30 us, and wait for them from 100 us on: for the first until 400
  // us, for the second not at all, for the third until 500 us.
  std::vector<std::string> events;
  const auto sum = R"("direction":"all_reduce","group":0,"bytes":1000)";
  for (const int rank : {0, 1}) {
    events.push_back(event(rank, "step 0", 0, 600, 0, whole));
    for (const int k : {1, 2, 3}) {
      events.push_back(event(rank, fmt::format("weight {}", k), 10 * k, 10 * k + 1, 0,
                             fmt::format(R"("kind":"communication",{})", sum)));
    }
    events.push_back(event(rank, "mm", 40, 100, 0, compute + R"(,"phase":"backward")"));
    int from = 100;
    for (const auto& [k, to] : {std::pair{1, 400}, std::pair{2, 401}, std::pair{3, 500}}) {
      events.push_back(
          event(rank, fmt::format("weight {}", k), from, to, 0, fmt::format(R"("kind":"waiting",{})", sum)));
      from = to;
    }
    events.push_back(event(rank, "update", 500, 600, 0, R"("kind":"update")"));
  }
  const auto job = job_of(events);
  const auto x = trace::match_transactions(job);
  REQUIRE(x.collectives.size() == 3);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  const auto g = aligned.graph(0);
  std::vector<picoseconds> durations;
  for (const auto& t : g.tasks) {
    if (t.rank == 0 && t.type == trace::task_type::collective) {
      durations.push_back(t.duration);
    }
    if (t.type == trace::task_type::host && job.names.text(t.name) == "mm") {
      CHECK(t.part == trace::phase::backward);
    }
  }
  // The third has the network once the first has ended.
  CHECK(durations == std::vector<picoseconds>{390 * us, {}, 100 * us});
  CHECK(trace::replay(g, job.names).iteration == 600 * us);
}

TEST_CASE("rank trace events record which events read an allocation") {
  const auto job = job_of({
      event(0, "step 0", 0, 100, 0, whole),
      event(0, "a", 10, 20, 0, compute + R"(,"number":1,"memory":[[64,4,2]])"),
      event(0, "b", 20, 30, 0, compute + R"(,"number":2)"),
      event(0, "c", 30, 40, 0, compute + R"(,"number":3)"),
      event(0, "d", 40, 50, 0, compute + R"(,"number":4)"),
  });
  const auto& rank = job.ranks[0];
  REQUIRE(rank.allocations.size() == 1);
  std::vector<std::string> readers;
  for (const auto& r : rank.reads) {
    CHECK(r.allocation == 0);
    readers.push_back(job.names.text(rank.events[r.event].name));
  }
  CHECK(readers == std::vector<std::string>{"b", "d"});
  CHECK(job.names.text(rank.events[rank.allocations[0].freed_by].name) == "d");
}

}  // namespace tests_of_rank_trace
