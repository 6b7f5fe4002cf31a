// Fits T = C x + D to exact samples, to a machine's times, and to measured collectives.
#include <unity/fusion/reduction_times.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_program.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/measurements_csv.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>

#include "../support/shared_file.hpp"

namespace reduction_times_test {

using namespace unity;
using namespace unity::fusion;

TEST_CASE("fit_reductions finds a line from exact samples") {
  random_engine random{7};
  for (int round = 0; round < 20; ++round) {
    const auto slope = 1e-10 * static_cast<double>(random.between(1, 1000));
    const auto start = 1e-6 * static_cast<double>(random.between(1, 1000));
    std::vector<reduction_sample> samples;
    for (double size = 1000; size < 1e9; size *= 3) {
      samples.push_back({size, slope * size + start});
    }
    const auto line = fit_reductions(samples);
    CHECK(line.per_byte == Approx(slope * 1e12));
    CHECK(line.fixed == Approx(start * 1e12));
  }
}

TEST_CASE("fit_reductions gives a non-negative slope and offset") {
  const std::vector<reduction_sample> falling{{1e3, 2e-3}, {1e6, 1e-3}};
  CHECK(fit_reductions(falling).per_byte == 0);
  CHECK(fit_reductions(falling).fixed > 0);
  const std::vector<reduction_sample> steep{{1e6, 1e-3}, {1e7, 1e-1}};
  CHECK(fit_reductions(steep).fixed == 0);
}

TEST_CASE("a machine's reduction line is within 35% of its all-reduce times") {
  for (const char* name : {"1080ti:12x1", "1080ti:6x2", "t4:8x8", "p100:1x4"}) {
    INFO(name);
    const auto m = hardware::preset(name);
    const auto line = reduction_line_of(m);
    const auto time = reductions_on(m);
    for (const double size : {4e3, 1e6, 1e8}) {
      CHECK(to_seconds(line(size)) == Approx(to_seconds(time(size))).epsilon(0.35));
    }
  }
  CHECK_THROWS_WITH(reductions_on(hardware::preset("p100:1x1")),
                    Catch::Contains("1 devices; expected two at least, which all-reduce gradients"));
}

TEST_CASE("a lone all-reduce over simulated links takes the closed-form time") {
  for (const char* name : {"1080ti:4x1", "1080ti:3x2", "dgx_a100:1x8"}) {
    INFO(name);
    const auto m = hardware::preset(name);
    instruction_graph g;
    const auto add = [&](instruction_role role, double size, std::vector<instruction_operand> operands) {
      instruction i;
      i.role = role;
      i.size = size;
      i.duration = picoseconds{1'000'000};
      return g.add(i, operands);
    };
    const auto gradient = add(instruction_role::alone, 4e7, {});
    const auto sum = add(instruction_role::all_reduce, 4e7, {{gradient, 4e7}});
    static_cast<void>(add(instruction_role::alone, 4e7, {{sum, 4e7}}));
    g.finish();
    const auto p = fusion_program(g, unfused(g), [](std::uint32_t) { return picoseconds{1'000'000}; }, on_network(m));
    simulate::full_simulation full;
    full.run(p);
    const auto expected = static_cast<double>(reductions_on(m)(4e7).count()) + 2e6;
    CHECK(static_cast<double>(simulate::summarize(p, full.times()).iteration.count()) ==
          Approx(expected).epsilon(0.02));
  }
}

TEST_CASE("published all-reduces of held-out sizes are predicted within 10% on average", "[shared]") {
  const auto file = test::shared_file("data/collectives/v100_node.csv");
  if (!file) {
    return;
  }
  std::map<int, std::map<bytes, std::vector<double>>> groups;
  std::vector<hardware::collective_sample> all;
  for (const auto& s : io::read_collectives(*file)) {
    if (s.kind == hardware::exchange::all_reduce) {
      groups[s.ranks][s.size].push_back(s.seconds);
      all.push_back(s);
    }
  }
  REQUIRE_FALSE(groups.empty());
  const auto curves = hardware::held_out_errors(all);
  for (const auto& [ranks, sizes] : groups) {
    INFO(ranks << " devices");
    std::vector<reduction_sample> seen;
    std::vector<reduction_sample> unseen;
    std::size_t number = 0;
    for (const auto& [size, times] : sizes) {
      for (const auto t : times) {
        (number % 5 == 2 ? unseen : seen).push_back({static_cast<double>(size.count()), t});
      }
      ++number;
    }
    const auto line = fit_reductions(seen);
    double sum = 0;
    for (const auto& s : unseen) {
      sum += std::abs(to_seconds(line(s.bytes)) / s.seconds - 1);
    }
    const auto error = sum / static_cast<double>(unseen.size());
    CHECK(error <= 0.10);
    // A piecewise fit over ranges of sizes is better than one line.
    CHECK(curves.at(hardware::exchange::all_reduce).at(ranks).sizes < error);
    WARN("mean error of T = C x + D: " << 100 * error << "%, of ranges: "
                                       << 100 * curves.at(hardware::exchange::all_reduce).at(ranks).sizes << "%");
  }
}

}  // namespace reduction_times_test
