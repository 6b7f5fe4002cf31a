// State that the steps of Unity's search share.
#include <unity/systems/unity/search_context.hpp>

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/options.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_search_context {

namespace {

using namespace unity;
using systems::detail::search_context;
using systems::detail::search_time;
using unity::test::training::operators;

constexpr auto no_limit = std::numeric_limits<double>::infinity();

search_context context(const hardware::machine& m, const systems::unity_options& o) {
  return {operators(), m, parallel::analytic_durations(operators(), m), o};
}

parallel::strategy_report report(std::int64_t picoseconds_of_iteration, std::int64_t over) {
  parallel::strategy_report r;
  r.iteration = picoseconds{picoseconds_of_iteration};
  if (over > 0) {
    r.excess.resize(1);
    r.excess[0].over = bytes{over};
  }
  return r;
}

}  // namespace

TEST_CASE("search_time without limits has no late steps and unlimited time") {
  search_time t{no_limit, no_limit};
  CHECK_FALSE(t.is_past_deadline());
  CHECK_FALSE(t.is_past_deadline(1e9));
  CHECK_FALSE(t.is_over(1e9));
  CHECK(t.left() == no_limit);
  CHECK(t.own_left() == no_limit);
  CHECK(t.seconds_for(0.1) == no_limit);
  CHECK_FALSE(t.ended_early());
}

TEST_CASE("search_time notes steps that are too long and separates the polish's own time") {
  search_time t{no_limit, 1000};
  CHECK_FALSE(t.is_past_deadline());
  CHECK(t.seconds_for(0.25) == 250);  // at most the time that is left
  CHECK(t.seconds_for(2) <= 1000);
  CHECK_FALSE(t.is_over(2000));
  CHECK_FALSE(t.ended_early());
  CHECK(t.is_past_deadline(2000));
  CHECK(t.ended_early());

  search_time none{0, 0};
  CHECK(none.seconds_for(1) == 0);
  CHECK(none.is_over());
  CHECK(none.ended_early());

  search_time later{no_limit, 0};
  later.set_own(1000);
  CHECK_FALSE(later.is_past_deadline());
  CHECK_FALSE(later.note(false));
  CHECK_FALSE(later.ended_early());
  CHECK(later.note(true));
  CHECK_FALSE(later.note(false));
  CHECK(later.ended_early());
}

TEST_CASE("search_time's phases stay within the total time") {
  search_time t{no_limit, no_limit};
  CHECK(t.timed([] { return report(7, 0); }).iteration == picoseconds{7});
  const auto first = t.reported();
  CHECK(first >= 0);
  static_cast<void>(t.timed([] { return report(8, 0); }));
  CHECK(t.reported() >= first);
  const auto one = t.end_phase("one");
  const auto two = t.end_phase("two");
  CHECK(one.name == "one");
  CHECK(one.seconds >= 0);
  CHECK(two.seconds >= 0);
  CHECK(one.seconds + two.seconds <= t.seconds());
}

TEST_CASE("a report with less memory excess is better and at equal excess one with less time") {
  using systems::detail::is_better;
  CHECK(is_better(report(5, 0), report(6, 0)));
  CHECK_FALSE(is_better(report(6, 0), report(6, 0)));
  CHECK_FALSE(is_better(report(7, 0), report(6, 0)));
  CHECK(is_better(report(9, 0), report(6, 1)));
  CHECK(is_better(report(9, 1), report(6, 2)));
  CHECK(is_better(report(5, 2), report(6, 2)));
}

TEST_CASE("search_context derives its sizes from the machine and the options") {
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.limits.seconds = 100;
  o.known_share = 0.2;
  o.program_tasks = 800;
  o.uses = systems::detail::bit(parallel::index_use::data) | systems::detail::bit(parallel::index_use::pipeline);
  auto c = context(m, o);
  CHECK(c.devices() == 4);
  CHECK(c.models == std::vector<std::uint32_t>{m.network.devices()[0].model});
  CHECK(c.time.own() == Approx(0.75 * 0.8 * 100));
  CHECK(c.allows(parallel::index_use::data));
  CHECK_FALSE(c.allows(parallel::index_use::model));
  // Two tasks per operator and device, of which a stage has its share; once per micro-batch.
  CHECK_FALSE(c.is_large(100, 1, 1));
  CHECK(c.is_large(101, 1, 1));
  CHECK_FALSE(c.is_large(101, 2, 1));
  CHECK(c.is_large(101, 2, 2));
  CHECK(c.is_small(256));
  CHECK_FALSE(c.is_small(257));
  CHECK(c.is_tiny(16));
  CHECK_FALSE(c.is_tiny(17));
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?layers=3");
  CHECK(c.computing_of(g) > picoseconds{});
  c.end_phase("first");
  REQUIRE(c.record.phases.size() == 1);
  CHECK(c.record.phases[0].name == "first");
}

}  // namespace tests_of_search_context
