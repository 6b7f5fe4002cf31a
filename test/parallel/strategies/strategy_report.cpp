#include <unity/parallel/strategies/strategy_report.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../lowered_graph.hpp"
#include "../operators.hpp"

namespace tests_of_strategy_report {

using namespace unity;
using parallel::configuration;
using parallel::test::lowered_graph;
using parallel::test::operators;

namespace {

parallel::strategy_report report_of(lowered_graph& x, const parallel::strategy& s) {
  return report_on(x.lower, x.graph, x.machine, s);
}

tensor::tensor_graph two_products(tensor::dtype element) {
  tensor::builder b{operators()};
  const auto h = b.matmul(b.input("x", {64, 128}, element), b.weight("w", {128, 256}, element));
  return std::move(b).finish({b.matmul(h, b.weight("v", {256, 32}, element))});
}

}  // namespace

TEST_CASE("strategy report: data parallelism on k devices moves 2 (k - 1) times the weights") {
  for (const auto element : {tensor::dtype::float32, tensor::dtype::float16}) {
    lowered_graph x{two_products(element), "dgx_a100:1x4"};
    const auto r = report_of(x, parallel::data_parallel(x.lower.dimensions(), x.machine.network));
    // An all-reduce among k devices moves 2 (k - 1) times the weight.
    const std::int64_t elements = 2 * 3 * (128 * 256 + 256 * 32);
    CHECK(r.communicated_elements == elements);
    CHECK(r.communicated.count() == elements * static_cast<std::int64_t>(tensor::size_of(element)));
    CHECK(r.memory_peaks.size() == 4);
    CHECK(r.excess.empty());
  }
}

TEST_CASE("strategy report: two layers on two devices move the activation and its gradient") {
  lowered_graph x{two_products(tensor::dtype::float32), "p100:1x2"};
  const auto start = hardware::start_of(x.machine, hardware::device_id{std::size_t{0}}).start;
  auto s = parallel::data_parallel(x.lower.dimensions(), x.machine.network);
  std::size_t device = 0;
  for (auto& c : s) {
    c = c.devices.empty() ? configuration{} : configuration{{1, 1}, {hardware::device_id{device++}}};
  }
  REQUIRE(device == 2);
  const auto r = report_of(x, s);
  CHECK(r.communicated_elements == 2 * 64 * 256);
  CHECK(r.communicated.count() == 4 * 2 * 64 * 256);
  CHECK(r.communication > picoseconds{});
  CHECK(r.compute > picoseconds{});
  // On a chain only updates overlap; a message and its return begin a start later each.
  CHECK(r.compute + r.communication + start + start >= r.iteration);
}

TEST_CASE("strategy report: one device moves nothing and its iteration is its compute time") {
  lowered_graph x{"zoo:lenet?batch=16", "p100:1x1"};
  const auto r = report_of(x, parallel::data_parallel(x.lower.dimensions(), x.machine.network));
  CHECK(r.communicated == bytes{});
  CHECK(r.communicated_elements == 0);
  CHECK(r.communication == picoseconds{});
  CHECK(r.iteration == r.compute);
  CHECK(r.memory_peak() == r.memory_peaks[0]);
}

TEST_CASE("strategy report lists devices over their memory and by how many bytes") {
  lowered_graph x{"zoo:lenet?batch=16", "p100:1x2"};
  auto s = parallel::data_parallel(x.lower.dimensions(), x.machine.network);
  const auto fits = report_of(x, s);
  x.machine.devices[0].memory = fits.memory_peak() - bytes{1};
  const auto r = report_of(x, s);
  REQUIRE(!r.excess.empty());
  for (const auto& e : r.excess) {
    CHECK(e.over == fits.memory_peaks[e.device] - x.machine.devices[0].memory);
  }
  CHECK(r.iteration == fits.iteration);
}

TEST_CASE("strategy report: a device that needs exactly its memory is not over it") {
  lowered_graph x{two_products(tensor::dtype::float32), "p100:1x2"};
  auto s = parallel::data_parallel(x.lower.dimensions(), x.machine.network);
  std::size_t device = 0;
  for (auto& c : s) {
    c = c.devices.empty() ? configuration{} : configuration{{1, 1}, {hardware::device_id{device++}}};
  }
  const auto fits = report_of(x, s);
  CHECK(fits.excess.empty());
  REQUIRE(fits.memory_peaks.size() == 2);
  // The first product's weight is four times as large as the second's.
  REQUIRE(fits.memory_peaks[0] > fits.memory_peaks[1]);
  CHECK(fits.memory_peak() == fits.memory_peaks[0]);
  x.machine.devices[0].memory = fits.memory_peaks[1];
  CHECK(report_of(x, s).excess ==
        std::vector<parallel::memory_excess>{{0, fits.memory_peaks[0] - fits.memory_peaks[1]}});
  x.machine.devices[0].memory = fits.memory_peaks[0];
  CHECK(report_of(x, s).excess.empty());
  x.machine.devices[0].memory = fits.memory_peaks[1] - bytes{1};
  const auto both = report_of(x, s).excess;
  REQUIRE(both.size() == 2);
  CHECK(both[1] == parallel::memory_excess{1, bytes{1}});
}

TEST_CASE("strategy reports agree with the timeline and with delta simulation", "[law]") {
  using example = std::pair<std::string_view, std::string_view>;
  for (const auto& [model, on] : {example{"zoo:lenet?batch=16", "p100:1x4"},
                                  example{"zoo:rnnlm?batch=8&hidden=32&vocab=40&seq=3", "k80:1x4"},
                                  example{"zoo:nmt?batch=6&hidden=24&vocab=36&seq=2", "summit:1x6"}}) {
    lowered_graph x{model, on};
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(model, on, seed);
      random_engine random{seed};
      const auto s = parallel::random_strategy(x.lower.dimensions(), x.machine.network.device_count(), random);
      const auto r = report_of(x, s);
      const simulate::delta_simulation simulation{x.lower.run(s)};
      const auto& p = simulation.program();
      const auto line = simulate::summarize(p, simulation.times());
      REQUIRE(r.iteration == simulation.iteration_time());
      REQUIRE(r.tasks == line.tasks);
      picoseconds compute{};
      picoseconds links{};
      for (std::size_t i = 0; i < line.resources.size(); ++i) {
        const bool computes = p.resources()[i].kind == tasks::resource_kind::stream;
        compute += computes ? line.resources[i].busy : picoseconds{};
        links += !computes && line.resources[i].moved > bytes{} ? line.resources[i].busy : picoseconds{};
      }
      REQUIRE(r.compute.count() == compute.count());
      // A link that a message crosses after a slower one is occupied longer than it transmits.
      REQUIRE(r.communication.count() <= links.count());
      REQUIRE((on != "p100:1x4" || r.communication == links));
      REQUIRE(r.communicated == parallel::message_bytes(p));
      REQUIRE(r.communicated <= line.communicated);  // line.communicated counts every link of a route
      // A ring's messages are whole bytes, less than one byte above their share.
      const auto rest = r.communicated.count() - r.communicated_elements * 4;
      REQUIRE(rest >= 0);
      REQUIRE(rest < 4 * static_cast<std::int64_t>(x.lower.training().weights().size()));
      for (std::size_t d = 0; d < line.memory.size(); ++d) {
        REQUIRE(r.memory_peaks[d] == line.memory[d].peak);
      }
    }
  }
}

}  // namespace tests_of_strategy_report
