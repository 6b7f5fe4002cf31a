#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/json_events.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/trace_files.hpp>
#include <unity/trace/eigen_alignment.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_trace_files {

using namespace unity;

const std::filesystem::path data{UNITY_TEST_SOURCE_DIR "/examples/traces"};

trace::job_trace job_of(const std::vector<std::string>& texts) {
  trace::job_trace job;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    io::add_trace(job, io::json_text{texts[i], fmt::format("file{}.json", i)});
  }
  trace::check_job(job);
  return job;
}
trace::job_trace job_in(const std::filesystem::path& file) { return io::read_traces(std::vector{file}); }

std::string event(const std::string& category, const std::string& name, const std::string& tid, double ts, double dur,
                  const std::string& args = "") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", category,
                     name, tid, ts, dur, args);
}
std::string kineto(const std::vector<std::string>& events, int rank = 0, int size = 1) {
  std::string all;
  for (const auto& e : events) {
    all += (all.empty() ? "" : ",") + e;
  }
  return fmt::format(R"({{"schemaVersion":1,"distributedInfo":{{"rank":{},"world_size":{}}},"traceEvents":[{}]}})",
                     rank, size, all);
}

TEST_CASE("PyTorch profiler kernels are joined with their launches in old and new formats") {
  for (const bool is_old : {true, false}) {
    const auto job = job_of({kineto({
        event("user_annotation", "ProfilerStep#7", "5", 1000, 100),
        event(is_old ? "Operator" : "cpu_op", "aten::mm", "5", 1010, 30),
        event(is_old ? "Runtime" : "cuda_runtime", "cudaLaunchKernel", "5", 1015, 10, R"("correlation":9)"),
        event(is_old ? "Kernel" : "kernel", "gemm", "7", 1022, 40, R"("correlation":9,"device":0,"stream":7)"),
        event(is_old ? "Runtime" : "cuda_runtime", "cudaDeviceSynchronize", "5", 1045, 20, R"("correlation":10)"),
        R"({"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{"name":"main"}})",
    })});
    const auto& r = job.ranks[0];
    CHECK(r.unknown.empty());
    REQUIRE(r.steps.size() == 1);
    CHECK(r.steps[0].number == 7);
    CHECK(r.steps[0].duration() == picoseconds{100'000'000});
    const auto x = trace::match_transactions(job);
    const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
    const auto g = aligned.graph(7);
    const auto replayed = trace::replay(g, job.names);
    CHECK(replayed.iteration == picoseconds{100'000'000});
    const auto kernel =
        std::find_if(g.tasks.begin(), g.tasks.end(), [](const auto& t) { return t.type == trace::task_type::kernel; });
    REQUIRE(kernel != g.tasks.end());
    CHECK(job.names.text(kernel->operation) == "aten::mm");
    const auto at = static_cast<std::size_t>(kernel - g.tasks.begin());
    CHECK(replayed.times[at].start == 22'000'000);  // during its launch
    // The host waits for the kernel, so doubling its duration makes the iteration 40 us longer.
    auto slow = g;
    slow.tasks[at].duration *= 2;
    CHECK(trace::replay(slow, job.names).iteration == picoseconds{140'000'000});
  }
}

TEST_CASE("DTensor's collectives over gloo are launched by their calls, and their waits end with them") {
  const auto dims = [](const std::string& all) {
    return R"("Input Dims":[)" + all + R"(],"Input type":["TensorList"])";
  };
  // A call of an all-gather or a reduce-scatter states its results first; both calls below have results of 64 numbers.
  const auto job = job_of({kineto({
      event("user_annotation", "ProfilerStep#1", "5", 0, 1000),
      event("cpu_op", "c10d::allgather_into_tensor_coalesced_", "5", 10, 20, dims("[[8,8]],[[4,8]]")),
      event("user_annotation", "gloo:all_gather", "6", 25, 200, R"("Input Dims":[[4,8]],"Input type":["float"])"),
      event("cpu_op", "_c10d_functional::wait_tensor", "5", 40, 200),
      event("cpu_op", "c10d::reduce_scatter_tensor_coalesced_", "5", 300, 250, dims("[[8,8]],[[16,8]]")),
      event("user_annotation", "gloo:all_reduce", "6", 310, 230, R"("Input Dims":[[16,8]],"Input type":["float"])"),
      event("cpu_op", "c10d::allreduce_", "5", 600, 20, dims("[[16,8]]")),
      event("user_annotation", "gloo:all_reduce", "6", 610, 90, R"("Input Dims":[[16,8]],"Input type":["float"])"),
  })});
  const auto& r = job.ranks[0];
  std::vector<trace::exchange> ways;
  for (const auto& e : r.events) {
    if (e.kind == trace::event_kind::collective) {
      ways.push_back(r.messages[e.message].way);
      CHECK(std::count_if(r.events.begin(), r.events.end(), [&](const auto& call) {
              return call.kind == trace::event_kind::launch && call.correlation == e.correlation;
            }) == 1);
    }
  }
  CHECK(ways == std::vector{trace::exchange::all_gather, trace::exchange::reduce_scatter, trace::exchange::all_reduce});
  const auto x = trace::match_transactions(job);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  auto g = aligned.graph(1);
  const auto before = trace::replay(g, job.names).iteration;
  for (auto& t : g.tasks) {
    if (t.type == trace::task_type::collective && t.duration == picoseconds{200'000'000}) {
      t.duration = {};
    }
  }
  // Without its 200 us, the wait ends at once, 15 us after the call.
  CHECK(before - trace::replay(g, job.names).iteration > picoseconds{180'000'000});
}

TEST_CASE("kernels without correlation are joined by flow arrows and unknown events are counted") {
  const auto job = job_of({kineto({
      event("cuda_runtime", "cudaLaunchKernel", "5", 10, 10),
      event("kernel", "gemm", "7", 25, 40, R"("stream":7)"),
      R"({"ph":"s","id":3,"pid":1,"tid":5,"ts":10,"cat":"ac2g","name":"ac2g"})",
      R"({"ph":"f","id":3,"pid":1,"tid":7,"ts":25,"cat":"ac2g","name":"ac2g","bp":"e"})",
      event("something_new", "x", "5", 12, 1),
      "17",
  })});
  const auto& r = job.ranks[0];
  REQUIRE(r.events.size() == 2);
  CHECK(r.events[0].correlation != 0);
  CHECK(r.events[0].correlation == r.events[1].correlation);
  CHECK(r.unknown.at("category something_new") == 1);
  CHECK(r.unknown.at("events that are not objects") == 1);
}

TEST_CASE("invalid traces and traces of other jobs are refused in one line") {
  const auto refused = [](const std::vector<std::string>& texts, const std::string& with) {
    CAPTURE(with);
    CHECK_THROWS_WITH(job_of(texts), Catch::Contains(with) && !Catch::Contains("\n"));
  };
  const auto step = event("user_annotation", "ProfilerStep#1", "5", 0, 10);
  const auto work = event("cpu_op", "aten::mm", "5", 1, 5);
  refused({kineto({work}).substr(0, 120)}, "file0.json: ends at byte 120 within its JSON; expected a whole trace");
  refused({"{\"traceEvents\": [}"}, "file0.json: is not JSON");
  refused({"{\"a\": 1}"}, "file0.json: JSON without a list of events");
  refused({"[]"}, "file0.json: no event");
  refused({kineto({})}, "file0.json: no event that is understood");
  refused({kineto({event("cpu_op", "aten::mm", "5", 1, -5)})}, "file0.json, event 0: a duration of -5 us; expected 0");
  refused({kineto({event("cpu_op", "aten::mm", "5", 1e300, 5)})}, "file0.json, event 0: a member ts that is no time");
  refused(
      {kineto({work, event("cpu_op", "aten::mm", "5", 8e12, 8e12)})},
      "file0.json, event 1: an end that is no time of this trace; expected a number of microseconds within 100 days");
  refused({fmt::format(R"({{"schemaVersion":1,"baseTimeNanoseconds":9223372036854775807,"traceEvents":[{}]}})", work)},
          "file0.json: a baseTimeNanoseconds of 9223372036854775807; expected the time at 0 of the clock");
  refused({kineto({event("user_annotation", "ProfilerStep#1", "5", 0, 0), work})}, "step 1 takes no time");
  refused({kineto({work, event("cuda_runtime", "cudaLaunchKernel", "5", 2, 1)})},
          "1 launches of kernels and no kernel; expected a trace with the activities of the GPU");
  refused({kineto({work}, 0, 2), kineto({work}, 0, 2)}, "file1.json: rank 0, which file0.json has, too");
  refused({kineto({work}, 0, 2), kineto({work}, 1, 4)}, "file1.json: a job of 4 ranks; expected one of 2, as before");
  refused({kineto({step, work}, 0, 2), kineto({event("user_annotation", "ProfilerStep#2", "5", 0, 10), work}, 1, 2)},
          "none of the steps of file0.json; expected ranks that recorded the same step");
  refused({R"({"workload_graph":[{"Id":1,"Name":"a","runtime":1,"data_deps":[2]},
                                 {"Id":2,"Name":"b","runtime":1,"data_deps":[1]}]})"},
          "nodes that depend on each other");
  refused({R"({"workload_graph":[{"Id":1,"Name":"a"}]})"}, "no node with a runtime");
  refused({R"({"workload_graph":[{"Id":1,"Name":"a","runtime":2.2e12},{"Id":2,"Name":"b","runtime":7.9e12}]})"},
          "more than 26 days");
}

std::string dpro(const std::string& pid, const std::string& name, double ts, double dur, const std::string& args) {
  return fmt::format(R"({{"ph":"X","pid":"{}","tid":"0","name":"{}","ts":{},"dur":{},"args":{{"step":1{}}}}})", pid,
                     name, ts, dur, args);
}

TEST_CASE("dPRO push and pull messages between worker and server are matched") {
  const std::string to_server = R"(,"peer":"host1.server0","bytes":1000)";
  const std::string to_worker = R"(,"peer":"host0.worker0","bytes":1000)";
  std::vector<std::string> events{
      dpro("host0.worker0", "FW.a", 0, 10, ""),
      dpro("host0.worker0", "BW.a", 10, 20, ""),
      dpro("host0.worker0", "Comm.a.PUSH.SEND", 30, 5, to_server),
      dpro("host1.server0", "Comm.a.PUSH.RECV", 5, 35, to_worker),
      dpro("host1.server0", "Comm.a.PULL.SEND", 42, 5, to_worker),
      dpro("host0.worker0", "Comm.a.PULL.RECV", 31, 22, to_server),
      dpro("host0.worker0", "UPDATE.a", 60, 10, ""),
  };
  const auto text = [](const std::vector<std::string>& all) {
    std::string list;
    for (const auto& e : all) {
      list += (list.empty() ? "" : ",") + e;
    }
    return fmt::format("[{}]", list);
  };
  const auto job = job_of({text(events)});
  REQUIRE(job.ranks.size() == 2);
  CHECK(job.ranks[1].machine == "host1");
  const auto x = trace::match_transactions(job);
  REQUIRE(x.messages.size() == 2);
  const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
  const auto g = aligned.graph(1);
  const auto replayed = trace::replay(g, job.names);
  const auto of = [&](const char* name) {
    return static_cast<std::size_t>(std::find_if(g.tasks.begin(), g.tasks.end(),
                                                 [&](const auto& t) {
                                                   return job.names.text(t.name) == name &&
                                                          t.type != trace::task_type::delay;
                                                 }) -
                                    g.tasks.begin());
  };
  CHECK(replayed.times[of("Comm.a.PUSH.RECV")].end == 40'000'000);  // 10 us after it was sent
  CHECK(replayed.times[of("UPDATE.a")].start == 60'000'000);
  CHECK(trace::replay_tensor(g, job.names, job.names.find("a")) > picoseconds{});
  CHECK(trace::replay_tensor(g, job.names, job.names.find("a")) < replayed.last_end);
  events.erase(events.begin() + 3);
  CHECK_THROWS_WITH(
      trace::match_transactions(job_of({text(events)})),
      Catch::Contains("push of a from host0.worker0 to host1.server0 in step 1, of which the end is missing"));
  events[2] = dpro("host0.worker0", "Comm.a.PUSH.SEND", 30, 5, "");
  CHECK_THROWS_WITH(job_of({text(events)}), Catch::Contains("event 2: a message without a peer"));
}

TEST_CASE("a byte order mark before a trace is skipped") {
  const io::json_text marked{"\xef\xbb\xbf[1, 2]", "marked.json"};
  CHECK(io::event_list(marked).has_value());
}

TEST_CASE("trace archives are unpacked; truncated or empty or oversized ones are refused") {
  const auto all = io::read_packed(data / "ddp_2.tar.gz");
  REQUIRE(all.size() == 2);
  CHECK(all[0].name.ends_with("ddp_2.tar.gz:rank0.json"));
  CHECK(all[0].text.starts_with("{"));
  auto bytes = read_file(data / "ddp_2.tar.gz");
  CHECK_THROWS_WITH(io::unpack(bytes.substr(0, bytes.size() / 2), "half"), Catch::Contains("half: cannot be unpacked"));
  CHECK_THROWS_WITH(io::unpack(bytes, "big", 1000), Catch::Contains("big: holds more than 1000 bytes"));
  CHECK_THROWS_WITH(io::unpack("", "nothing"), Catch::Contains("nothing: holds nothing"));
}

TEST_CASE("DDP traces replay within 5% per rank with clock corrections below 200 us") {
  for (const auto* name : {"ddp_2.tar.gz", "ddp_4.tar.gz"}) {
    CAPTURE(name);
    const auto job = job_in(data / name);
    const auto x = trace::match_transactions(job);
    CHECK(x.alone.empty());
    CHECK(x.collectives.size() == 15);
    const auto stated = trace::stated_offsets(job);
    const auto found = trace::align_clocks(job, x);
    const trace::aligned_job aligned{job, x, found};
    const auto average = trace::average_steps(aligned);
    const auto replayed = trace::replay(average.graph, job.names);
    const auto steps = trace::leave_one_out(aligned);
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      CHECK(std::abs((found[r] - stated[r]).count()) < 200'000'000);
      double measured = 0;
      for (const auto& s : steps) {
        measured += to_seconds(s.rank_measured[r]) / static_cast<double>(steps.size());
      }
      CHECK(to_seconds(replayed.rank_time[r]) == Approx(measured).epsilon(0.05));
    }
  }
}

TEST_CASE("artificial clock shifts of DDP traces are found within 200 us") {
  for (const auto shift : {nanoseconds{-7'000'000}, nanoseconds{400'000}, nanoseconds{5'000'000}}) {
    CAPTURE(shift.count());
    auto job = job_in(data / "ddp_4.tar.gz");
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      job.ranks[r].origin += static_cast<std::int64_t>(r) * shift;
    }
    const auto found = trace::align_clocks(job, trace::match_transactions(job));
    const auto stated = trace::stated_offsets(job);
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      const auto correction = found[r] - stated[r];
      const auto error = correction + to_picoseconds(static_cast<std::int64_t>(r) * shift);
      CHECK(std::abs(error.count()) < 200'000'000);
    }
  }
}

TEST_CASE("each step of published traces replays within 5% from the times of the other steps", "[shared]") {
  for (const auto* name : {"hta_trace_diff_control_control.json.gz", "hta_trace_diff_test_test.json.gz",
                           "hta_trace_filter_sampled_rank-0.json.gz", "hta_trace_filter_sampled_rank-1.json.gz"}) {
    const auto path = test::shared_file(std::string{"data/traces/"} + name);
    if (!path) {
      return;
    }
    CAPTURE(name);
    const auto job = job_in(*path);
    const auto x = trace::match_transactions(job);
    const trace::aligned_job aligned{job, x, trace::stated_offsets(job)};
    for (const auto& s : trace::leave_one_out(aligned)) {
      CAPTURE(s.number);
      CHECK(to_seconds(s.replayed) == Approx(to_seconds(s.measured)).epsilon(0.05));
      CHECK(trace::replay(aligned.graph(s.number), job.names).iteration == s.measured);
    }
  }
}

TEST_CASE("collectives of unnamed groups with missing ranks are matched only if all-reduces") {
  const auto trace_of = [](int rank, int size, const std::string& type) {
    return kineto({event("user_annotation", "ProfilerStep#1", "5", 0, 100),
                   event("cuda_runtime", "cudaLaunchKernel", "5", 15, 10, R"("correlation":9)"),
                   event("user_annotation", "nccl:x", "5", 10, 20, R"("Input Dims":[[10]],"Input type":["float"])"),
                   event("kernel", "ncclKernel_" + type, "7", 30, 40, R"("correlation":9,"stream":7)")},
                  rank, size);
  };
  const auto matched = [&](int size, const std::string& type) {
    return trace::match_transactions(job_of({trace_of(0, size, type), trace_of(1, size, type)})).collectives.size();
  };
  CHECK(matched(2, "SendRecv") == 1);
  CHECK(matched(8, "SendRecv") == 0);
  CHECK(matched(8, "AllReduce") == 1);
}

TEST_CASE("published traces of 2 of 128 ranks replay within 5% on aligned clocks", "[shared]") {
  std::vector<std::filesystem::path> files;
  for (const auto* name :
       {"data/traces/hta_trace_filter_sampled_rank-0.json.gz", "data/traces/hta_trace_filter_sampled_rank-1.json.gz"}) {
    const auto path = test::shared_file(name);
    if (!path) {
      return;
    }
    files.push_back(*path);
  }
  const auto job = io::read_traces(files);
  const auto x = trace::match_transactions(job);
  const trace::aligned_job aligned{job, x, trace::align_clocks(job, x)};
  for (const auto& s : trace::leave_one_out(aligned)) {
    CHECK(to_seconds(s.replayed) == Approx(to_seconds(s.measured)).epsilon(0.05));
  }
}

}  // namespace tests_of_trace_files
