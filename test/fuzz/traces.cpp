// Any bytes are traces of a job that can be replayed, or a one-line error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/io/json_events.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/trace_files.hpp>
#include <unity/trace/eigen_alignment.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace trace = unity::trace;
  try {
    trace::job_trace job;
    constexpr std::uint64_t most = std::uint64_t{1} << 20U;
    for (auto& one : unity::io::unpack({reinterpret_cast<const char*>(data), size}, "fuzz", most)) {
      unity::io::add_trace(job, unity::io::json_text{std::move(one.text), std::move(one.name)});
    }
    trace::check_job(job);
    const auto x = trace::match_transactions(job);
    const trace::aligned_job aligned{job, x, trace::align_clocks(job, x)};
    const auto average = trace::average_steps(aligned);
    const auto replayed = trace::replay(average.graph, job.names);
    for (std::size_t r = 0; r < replayed.rank_time.size(); ++r) {
      if (replayed.rank_time[r] < unity::picoseconds{} || replayed.rank_time[r] > replayed.last_end) {
        __builtin_trap();
      }
    }
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
  }
  return 0;
}
