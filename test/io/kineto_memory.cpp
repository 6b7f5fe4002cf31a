#include <unity/io/kineto_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/io/json_events.hpp>
#include <unity/io/kineto_trace.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/trace_files.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

namespace tests_of_kineto_memory {

using namespace unity;

std::string work(const std::string& name, int tid, int start, int end) {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{},"dur":{}}})",
                     name.starts_with("Profiler") ? "user_annotation" : "cpu_op", name, tid, start, end - start);
}
// An event of memory as profile_memory=True writes it.
std::string memory(int tid, int time, std::int64_t bytes, std::int64_t address, std::int64_t total, int type = 0,
                   int device = -1) {
  return fmt::format(
      R"({{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":{},"ts":{},"args":)"
      R"({{"Total Reserved":0,"Total Allocated":{},"Bytes":{},"Addr":{},"Device Id":{},"Device Type":{},"Ev Idx":1}}}})",
      tid, time, total, bytes, address, device, type);
}
struct read_trace {
  trace::name_table names{};
  trace::rank_trace rank{};
  explicit read_trace(const std::vector<std::string>& events) {
    std::string all;
    for (const auto& e : events) {
      all += (all.empty() ? "" : ",") + e;
    }
    rank = io::read_kineto(
        io::json_text{fmt::format(R"({{"schemaVersion":1,"traceEvents":[{}]}})", all), "memory.json"}, names);
  }
  // "8: mm to add": the bytes, the allocating operation and the releasing operation.
  [[nodiscard]] std::vector<std::string> found() const {
    const auto name = [&](std::uint32_t i) {
      return i == trace::no_event ? std::string{"-"} : names.text(rank.events[i].name);
    };
    std::vector<std::string> all;
    for (const auto& a : rank.allocations) {
      all.push_back(fmt::format("{}: {} to {}", a.size.count(), name(a.made_by), name(a.freed_by)));
    }
    return all;
  }
};

TEST_CASE("Kineto memory is attributed to the innermost operation of its thread") {
  const read_trace r{{
      work("ProfilerStep#1", 5, 0, 100), work("linear", 5, 10, 50), work("addmm", 5, 20, 30), work("relu", 5, 60, 70),
      work("backward", 6, 40, 90), memory(5, 12, 8, 1000, 508),  // before the inner operation
      memory(5, 25, 16, 2000, 524),                              // within it
      memory(5, 31, -16, 2000, 508),                             // after it, in the outer one
      memory(5, 55, 32, 2000, 540),    // the same address, after an operation: belongs to that one
      memory(6, 45, -8, 1000, 532),    // on another thread
      memory(6, 20, 4, 3000, 528),     // before the thread's first operation
      memory(5, 65, -100, 9000, 500),  // allocated before the trace
  }};
  CHECK(r.rank.unknown.empty());
  CHECK(r.found() == std::vector<std::string>{"8: linear to backward", "4: backward to -", "16: addmm to linear",
                                              "32: linear to -", "100: - to relu"});
  CHECK(r.rank.held == bytes{400});  // 500 before the first event, minus 100 released later
}

TEST_CASE("Kineto host memory is ignored where a device reports memory") {
  const read_trace r{{
      work("add", 5, 0, 5), work("mm", 5, 10, 50), memory(5, 12, 8, 1000, 8), memory(5, 13, 64, 1000, 164, 1, 0),
      memory(5, 14, 32, 1000, 232, 1, 1), memory(5, 60, -64, 1000, 100, 1, 0),  // after the second of two operations
  }};
  CHECK(r.found() == std::vector<std::string>{"64: mm to mm", "32: mm to -"});
  CHECK(r.rank.held == bytes{300});  // on both devices
}

TEST_CASE("Kineto memory events without operators or of impossible sizes are not allocations") {
  const read_trace r{{work("mm", 5, 10, 50), memory(7, 12, 8, 1000, 8), memory(5, 12, 0, 1000, 8),
                      memory(5, 13, std::int64_t{1} << 60U, 1000, 8)}};
  CHECK(r.found().empty());
  CHECK(r.rank.unknown.at("memory of threads without operators") == 1);
}

TEST_CASE("the replayed peak memory of DDP traces is within 5% of the profiler's count") {
  const auto packed = io::read_packed(UNITY_TEST_SOURCE_DIR "/examples/traces/ddp_2_memory.tar.gz");
  REQUIRE(packed.size() == 2);
  trace::job_trace job;
  for (const auto& p : packed) {
    io::add_trace(job, io::json_text{p.text, p.name});
  }
  trace::check_job(job);
  const auto x = trace::match_transactions(job);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  std::size_t checked = 0;
  for (const auto step : trace::common_steps(job)) {
    const auto g = aligned.graph(step);
    const auto found = trace::memory_use(g, trace::replay(g, job.names));
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      CAPTURE(step, r);
      const auto& steps = job.ranks[r].steps;
      const auto window = std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.number == step; });
      const io::json_text document{packed[r].text, packed[r].name};
      std::int64_t counted = 0;
      io::for_each_event(document, io::first_time(document).value_or(nanoseconds{}),
                         [&](const io::json_event& e, std::size_t) {
                           if (e.name == "[memory]" && e.time >= window->start && e.time < window->end) {
                             counted = std::max(counted, io::integer_of(e, "Total Allocated").value_or(0));
                           }
                         });
      REQUIRE(counted > 1'000'000);
      CHECK(found[r].is_known);
      CHECK(static_cast<double>(found[r].peak.count()) == Approx(static_cast<double>(counted)).epsilon(0.05));
      ++checked;
    }
  }
  CHECK(checked == 6);
}

}  // namespace tests_of_kineto_memory
