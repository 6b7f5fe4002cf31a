#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/trace/alignment.hpp>
#include <unity/trace/eigen_alignment.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "generated_job.hpp"

namespace tests_of_eigen_alignment {

using namespace unity;

double worst_microseconds(const test::generated_job& g, const trace::clock_offsets& found) {
  double worst = 0;
  for (std::size_t m = 0; m < found.size(); ++m) {
    worst = std::max(worst, std::abs(static_cast<double>((found[m] + g.drift[m] - g.drift[0]).count())) * 1e-6);
  }
  return worst;
}

double replay_error(const test::generated_job& g, const trace::transactions& x, const trace::clock_offsets& offsets) {
  const trace::aligned_job aligned{g.job, x, offsets};
  const auto average = trace::average_steps(aligned);
  double mean = 0;
  for (const auto t : g.step_times) {
    mean += static_cast<double>(t.count()) / static_cast<double>(g.step_times.size());
  }
  return std::abs(static_cast<double>(trace::replay(average.graph, g.job.names).iteration.count()) - mean) / mean;
}

TEST_CASE("clocks of 8 machines are aligned within 50 us and the job replays within 5%", "[law]") {
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

TEST_CASE("ranks of one machine get the same clock") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::generated_job_options o;
    o.most_drift = {};
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

TEST_CASE("alignment_problem finds offsets that satisfy all constraints") {
  random_engine random{7};
  const test::generated_job_options o;
  const auto g = test::job_generator{random, o}.run();
  const auto x = trace::match_transactions(g.job);
  const trace::alignment_problem problem{g.job, x};
  const auto feasible = problem.feasible(trace::clock_offsets(8));
  REQUIRE(feasible.size() == 8);
  CHECK(feasible[0] == picoseconds{});
  for (const auto& c : problem.constraints()) {
    CHECK(feasible[c.before] - feasible[c.after] <= c.bound);
  }
}

TEST_CASE("contradictory messages in clock alignment are reported by name") {
  random_engine random{3};
  test::generated_job_options o;
  o.machines = 2;
  auto g = test::job_generator{random, o}.run();
  // One message ends long before it begins, by any clock: other messages in both directions bound the clocks then.
  for (auto& e : g.job.ranks[1].events) {
    if (e.kind == trace::event_kind::receive && e.step == 2) {
      e.start -= picoseconds{400'000'000'000};
    }
  }
  const auto x = trace::match_transactions(g.job);
  CHECK_THROWS_WITH(trace::align_clocks(g.job, x),
                    Catch::Contains("clocks of the ranks: no offsets put these in order: chunk") &&
                        Catch::Contains("in step 2") && Catch::Contains("host0.rank0 to host1.rank1"));
}

TEST_CASE("a job without messages keeps its stated clocks") {
  random_engine random{1};
  test::generated_job_options o;
  o.machines = 1;
  const auto g = test::job_generator{random, o}.run();
  CHECK(trace::align_clocks(g.job, trace::match_transactions(g.job)) == trace::stated_offsets(g.job));
}

TEST_CASE("least_offsets minimizes a quadratic function within its constraints") {
  trace::quadratic_function f{4};
  f.add_square(1, -3, {{1, 1}});
  f.add_square(1, -2, {{2, 1}, {1, -1}});
  f.add_square(1, 1, {{3, 1}, {2, -1}});
  const auto free = trace::least_offsets(f, {{1, 0, picoseconds{100'000'000}, {}, {}}}, {0, 0, 0, 0});
  CHECK(free[1] == Approx(3));
  CHECK(free[2] == Approx(5));
  CHECK(free[3] == Approx(4));
  const auto bound = trace::least_offsets(f, {{1, 0, picoseconds{1'000'000}, {}, {}}}, {0, 0, 0, 0});
  CHECK(bound[1] == Approx(1));
  CHECK(bound[2] == Approx(3));
  CHECK(bound[3] == Approx(2));
}

TEST_CASE("least_offsets keeps the clock of a rank without data and terminates") {
  trace::quadratic_function f{5};
  f.add_square(1, -3, {{1, 1}, {0, -1}});
  f.add_square(1, -2, {{4, 1}, {3, -1}});
  const auto found = trace::least_offsets(f, {{1, 0, picoseconds{1'000'000}, {}, {}}}, {0, 0, 7, 5, 0});
  CHECK(found[0] == 0);
  CHECK(found[1] == Approx(1));
  CHECK(found[2] == 7);
  CHECK(found[3] == 5);
  CHECK(found[4] == Approx(7));
}

// Hildreth's method: adjusts the multiplier of one constraint at a time until all hold. Slow, but shares no code with
// the library. Rank 0 is fixed at 0; H without its row and column is invertible, by elimination.
std::vector<double> least_by_prices(const trace::quadratic_function& f,
                                    const std::vector<trace::difference_constraint>& all) {
  const auto n = f.size;
  std::vector<std::vector<double>> rows(n, std::vector<double>(2 * n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      rows[i][j] = i == 0 || j == 0 ? (i == j ? 1.0 : 0.0) : f.quadratic[i * n + j];
    }
    rows[i][n + i] = 1;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto pivot = rows[i][i];
    for (auto& v : rows[i]) {
      v /= pivot;
    }
    for (std::size_t k = 0; k < n; ++k) {
      const auto factor = k == i ? 0 : rows[k][i];
      for (std::size_t j = 0; j < 2 * n; ++j) {
        rows[k][j] -= factor * rows[i][j];
      }
    }
  }
  const auto inverse = [&](std::size_t i, std::size_t j) { return i == 0 || j == 0 ? 0.0 : rows[i][n + j]; };
  std::vector<double> x(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      x[i] -= inverse(i, j) * f.linear[j];
    }
  }
  std::vector<double> prices(all.size(), 0);
  for (int sweep = 0; sweep < 20'000; ++sweep) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      const auto a = all[c].before;
      const auto b = all[c].after;
      const auto steep = inverse(a, a) - inverse(a, b) - inverse(b, a) + inverse(b, b);
      const auto over = x[a] - x[b] - static_cast<double>(all[c].bound.count()) * 1e-6;
      const auto change = std::max(over / steep, -prices[c]);
      prices[c] += change;
      for (std::size_t i = 0; i < n; ++i) {
        x[i] -= (inverse(i, a) - inverse(i, b)) * change;
      }
    }
  }
  return x;
}

TEST_CASE("least_offsets agrees with Hildreth's method on random functions", "[law]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto n = 2 + random.below(5);
    trace::quadratic_function f{n};
    std::vector<trace::difference_constraint> all;
    for (std::uint32_t i = 0; i < n; ++i) {
      for (std::uint32_t j = 0; j < n; ++j) {
        if (j != i && (j == i + 1 || random.below(2) == 0)) {
          // The start, all 0, is feasible; some constraints are active there.
          const picoseconds bound{static_cast<std::int64_t>(random.below(4)) * 1'000'000};
          all.push_back({i, j, bound, {}, {}});
          f.add_square(0.1 + random.unit(), 20 * random.unit() - 10, {{j, 1}, {i, -1}});
        }
      }
    }
    const auto found = trace::least_offsets(f, all, std::vector<double>(n, 0));
    const auto expected = least_by_prices(f, all);
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(found[i] == Approx(expected[i]).margin(1e-4));
    }
  }
}

}  // namespace tests_of_eigen_alignment
