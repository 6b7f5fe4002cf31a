#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/trace/alignment.hpp>
#include <unity/trace/clp_alignment.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "generated_job.hpp"

namespace tests_of_clp_alignment {

using namespace unity;

double worst_microseconds(const test::generated_job& g, const trace::clock_offsets& found) {
  double worst = 0;
  for (std::size_t m = 0; m < found.size(); ++m) {
    worst = std::max(worst, std::abs(static_cast<double>(found[m] + g.drift[m] - g.drift[0])) * 1e-6);
  }
  return worst;
}

double replay_error(const test::generated_job& g, const trace::transactions& x, const trace::clock_offsets& offsets) {
  const trace::aligned_job aligned{g.job, x, offsets};
  const auto average = trace::average_steps(aligned);
  double mean = 0;
  for (const auto t : g.step_times) {
    mean += static_cast<double>(t) / static_cast<double>(g.step_times.size());
  }
  return std::abs(static_cast<double>(trace::replay(average.graph, g.job.names).iteration) - mean) / mean;
}

TEST_CASE("clocks of 8 machines that are up to 5 ms apart are found within 50 us, and the job replays", "[law]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::generated_job_options o;
    o.late = seed % 4 == 0 ? 0 : 0.1 * static_cast<double>(seed % 10);
    o.jitter = seed % 3 == 0 ? 0.2 : 0.05;
    const auto g = test::job_generator{random, o}.run();
    const auto x = trace::match_transactions(g.job);
    const auto stated = trace::stated_offsets(g.job);
    const auto found = trace::align_clocks(g.job, x);
    CHECK(worst_microseconds(g, found) < 50);
    CHECK(trace::violations(g.job, x, found) == 0);
    CHECK(trace::violations(g.job, x, stated) > 0);
    CHECK(replay_error(g, x, found) < 0.05);
    CHECK(replay_error(g, x, stated) > 0.15);
  }
}

TEST_CASE("ranks of one machine have one clock, whatever ends of messages suggest") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::generated_job_options o;
    o.most_drift = 0;
    o.jitter = 0.2;
    auto g = test::job_generator{random, o}.run();
    const auto x = trace::match_transactions(g.job);
    const auto apart = worst_microseconds(g, trace::align_clocks(g.job, x));
    for (auto& r : g.job.ranks) {
      r.machine = "one";
    }
    const auto together = worst_microseconds(g, trace::align_clocks(g.job, x));
    CHECK(together < 0.05);
    CHECK(together < apart);
  }
}

TEST_CASE("offsets that fulfil all constraints are found before the best ones") {
  random_engine random{7};
  const test::generated_job_options o;
  const auto g = test::job_generator{random, o}.run();
  const auto x = trace::match_transactions(g.job);
  const trace::alignment_problem problem{g.job, x};
  const auto feasible = problem.feasible();
  REQUIRE(feasible.size() == 8);
  CHECK(feasible[0] == 0);
  for (const auto& c : problem.constraints()) {
    CHECK(feasible[c.before] - feasible[c.after] <= c.bound);
  }
}

TEST_CASE("messages that no clocks bring together are named") {
  random_engine random{3};
  test::generated_job_options o;
  o.machines = 2;
  auto g = test::job_generator{random, o}.run();
  // One message ends long before it begins: by any clock, as others go the other way at that time.
  for (auto& e : g.job.ranks[1].events) {
    if (e.kind == trace::event_kind::receive && e.step == 2) {
      e.start -= 400'000'000'000;
    }
  }
  const auto x = trace::match_transactions(g.job);
  CHECK_THROWS_WITH(trace::align_clocks(g.job, x),
                    Catch::Contains("clocks of the ranks: no offsets put these in order: chunk") &&
                        Catch::Contains("in step 2") && Catch::Contains("host0.rank0 to host1.rank1"));
}

TEST_CASE("a job whose ranks exchange nothing keeps the clocks that they state") {
  random_engine random{1};
  test::generated_job_options o;
  o.machines = 1;
  const auto g = test::job_generator{random, o}.run();
  CHECK(trace::align_clocks(g.job, trace::match_transactions(g.job)) == trace::stated_offsets(g.job));
}

TEST_CASE("a quadratic function is least where its squares are, within the constraints") {
  trace::quadratic_function f{4};
  f.add_square(1, -3, {{1, 1}});
  f.add_square(1, -2, {{2, 1}, {1, -1}});
  f.add_square(1, 1, {{3, 1}, {2, -1}});
  const auto free = trace::detail::solve_by_clp(f, {{1, 0, 100'000'000, {}, {}}}, {0, 0, 0, 0});
  CHECK(free[1] == Approx(3));
  CHECK(free[2] == Approx(5));
  CHECK(free[3] == Approx(4));
  const auto bound = trace::detail::solve_by_clp(f, {{1, 0, 1'000'000, {}, {}}}, {0, 0, 0, 0});
  CHECK(bound[1] == Approx(1));
  CHECK(bound[2] == Approx(3));
  CHECK(bound[3] == Approx(2));
}

}  // namespace tests_of_clp_alignment
