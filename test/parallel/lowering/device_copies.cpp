// Copies of offloaded results in pipelines: which of them the order of phases delays, and the effect on memory and
// time.
#include <unity/parallel/lowering/device_copies.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../held_results.hpp"
#include "../operators.hpp"
#include "../phase_clock.hpp"

namespace tests_of_device_copies {

namespace {

using namespace unity;
using parallel::detail::phase_sequence;
using parallel::test::operators;
using schedules = parallel::pipeline_schedule;

constexpr double slow = 1e8;  // bytes per second
constexpr double fast = 1e13;

// End of each task if fetches begin as early as their phase's lead allows, and then one after another.
std::vector<std::int64_t> ends_of(const phase_sequence& s) {
  std::vector<std::int64_t> ends;
  std::int64_t link = 0;
  std::int64_t now = 0;
  for (std::size_t k = 0; k < s.phases.size(); ++k) {
    const auto first = s.phases[k];
    const auto end = k + 1 < s.phases.size() ? s.phases[k + 1] : s.durations.size();
    std::vector<phase_sequence::fetch> own;
    std::copy_if(s.fetches.begin(), s.fetches.end(), std::back_inserter(own),
                 [&](const auto& f) { return f.needed >= first && f.needed < end; });
    const auto lead = parallel::detail::lead_of(std::span{s.durations}.subspan(first, end - first), own, first);
    for (auto t = first; t < end; ++t) {
      const auto phase_begins = first == 0 ? 0 : ends[first - 1];
      for (const auto& f : own) {
        if (f.needed == t) {
          link = std::max({link, phase_begins - lead, ends[f.begun]}) + f.takes;
          now = std::max(now, link);
        }
      }
      now += s.durations[t];
      ends.push_back(now);
    }
  }
  return ends;
}

// End of each task if fetch f waits for the previous fetch and for the first ended[f] tasks.
std::vector<std::int64_t> ends_with(const phase_sequence& s, const std::vector<std::size_t>& ended) {
  std::vector<std::int64_t> ends;
  std::int64_t link = 0;
  std::int64_t now = 0;
  std::size_t f = 0;
  for (std::size_t t = 0; t < s.durations.size(); ++t) {
    for (; f < s.fetches.size() && s.fetches[f].needed == t; ++f) {
      link = std::max(link, ended[f] == 0 ? 0 : ends[ended[f] - 1]) + s.fetches[f].takes;
      now = std::max(now, link);
    }
    now += s.durations[t];
    ends.push_back(now);
  }
  return ends;
}

phase_sequence sequence_at_random(random_engine& random) {
  phase_sequence s;
  const auto longest = 1 + random.below(40);  // time of a fetch
  std::size_t forward = 0;
  for (std::size_t phases = 1 + random.below(6); phases > 0; --phases) {
    s.phases.push_back(s.durations.size());
    const auto tasks = 1 + random.below(6);
    const auto is_forward = s.phases.size() == 1 || random.below(2) == 0;
    for (std::size_t t = 0; t < tasks; ++t) {
      for (auto fetches = is_forward ? 0 : random.below(3); fetches > 0; --fetches) {
        s.fetches.push_back({s.durations.size(), forward, static_cast<std::int64_t>(1 + random.below(longest))});
      }
      s.durations.push_back(static_cast<std::int64_t>(1 + random.below(20)));
    }
    forward = is_forward ? s.durations.size() - 1 : forward;
  }
  return s;
}

}  // namespace

TEST_CASE("the lead of fetches is the wait of the phase's tasks; at most the first two fetches") {
  const std::vector<std::int64_t> tasks{1, 1, 1, 10, 10};
  const std::vector<phase_sequence::fetch> all{{5, 0, 3}, {6, 0, 3}, {7, 0, 3}, {8, 0, 3}, {9, 0, 3}};
  CHECK(parallel::detail::lead_of(tasks, all, 5) == 6);
  CHECK(parallel::detail::lead_of(tasks, std::span{all}.first(2), 5) == 5);
  CHECK(parallel::detail::lead_of(tasks, std::span{all}.last(2), 5) == 0);
  CHECK(parallel::detail::lead_of(tasks, {}, 5) == 0);
}

TEST_CASE("fetches start as late as possible without delaying a task", "[law]") {
  const auto cases = unity::test::cases(500);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto s = sequence_at_random(random);
    const auto ended = parallel::detail::ended_before(s);
    REQUIRE(ended.size() == s.fetches.size());
    REQUIRE(std::is_sorted(ended.begin(), ended.end()));
    const auto expected = ends_of(s);
    for (std::size_t f = 0; f < ended.size(); ++f) {
      REQUIRE(ended[f] <= s.fetches[f].needed);
    }
    REQUIRE(ends_with(s, ended) == expected);
    for (std::size_t f = 0; f < ended.size(); ++f) {
      auto later = ended;
      for (auto g = f; g < ended.size() && later[g] < ended[f] + 1; ++g) {
        later[g] = ended[f] + 1;
      }
      bool can_run = true;
      for (auto g = f; g < ended.size(); ++g) {
        can_run = can_run && later[g] <= s.fetches[g].needed;
      }
      REQUIRE((!can_run || ends_with(s, later) != expected));
    }
  }
}

namespace {

struct staged_plan {
  tensor::tensor_graph graph{};
  parallel::strategy configurations{};
  hardware::machine machine{};
  parallel::pipeline stages{};
  parallel::recomputation again{};
  parallel::offloading away{};
};

// Each stage has one device or two.
staged_plan staged(const char* model, schedules schedule, std::uint32_t stages, std::int64_t microbatches,
                   std::uint32_t devices_of_stage, double rate, random_engine& random) {
  staged_plan p;
  const auto whole = tensor::zoo::build(operators(), model);
  p.graph =
      parallel::microbatch(operators(), whole, parallel::graph_dimensions{operators(), whole}, microbatches).value();
  p.machine = hardware::preset("p100:1x" + std::to_string(stages * devices_of_stage));
  for (auto& d : p.machine.devices) {
    d.host_bytes_per_second = rate;
  }
  p.stages = parallel::test::scheduled(schedule, stages, microbatches, schedule == schedules::interleaved ? 2 : 1);
  p.stages.stages.clear();
  for (std::uint32_t d = 0; d < stages * devices_of_stage; ++d) {
    p.stages.stages.push_back(d / devices_of_stage);
  }
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto stage = n.index() * stages * p.stages.chunks / p.graph.node_count() % stages;
    const hardware::device_id device{stage * devices_of_stage + random.below(devices_of_stage)};
    p.configurations.push_back(all[n].inputs.empty() ? parallel::configuration{} : parallel::on_device(all[n], device));
  }
  return p;
}

struct outcome {
  picoseconds iteration{};
  std::vector<bytes> peaks{};
  std::vector<bytes> results{};  // peak bytes of offloaded results per device, including those in transit
};

outcome outcome_of(const tasks::program& p, const staged_plan& of) {
  simulate::full_simulation s;
  outcome o{s.run(p), {}, parallel::test::held_results(p, of.away)};
  for (const auto& m : simulate::memory_profiles(p, s.times())) {
    o.peaks.push_back(m.peak);
  }
  return o;
}

// The program without the copies' constraints in its last fragment, the order of phases.
tasks::program without_order(const tasks::program& p) {
  std::vector<tasks::fragment> fragments;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    fragments.push_back(p[tasks::fragment_id{f}]);
  }
  const auto last = fragments.size() - 1;
  const auto is_copy = [&](const tasks::task_ref& t) {
    const auto& task = fragments[t.fragment.valid() ? t.fragment.index() : last].tasks[t.index];
    return task.resource.valid() && p.resources()[task.resource.index()].name.find(" its host") != std::string::npos;
  };
  auto own = fragments[last].dependencies;
  std::erase_if(own, [&](const tasks::dependency& d) { return is_copy(d.before) || is_copy(d.after); });
  fragments[last].dependencies = own;
  tasks::program other = p;
  other.replace(tasks::replacements_of(fragments));
  other.commit();
  return other;
}

// Outcomes without and with the delays by the order of phases.
std::pair<outcome, outcome> outcomes_of(const staged_plan& p) {
  parallel::lowering low{operators(), p.graph, p.machine};
  const auto with = low.run(p.configurations, {}, p.again, p.stages, p.away);
  return {outcome_of(without_order(with), p), outcome_of(with, p)};
}

constexpr const char* mlp = "zoo:mlp?layers=24&hidden=512&batch=4608";
constexpr const char* gpt = "zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=256&batch=48";

}  // namespace

TEST_CASE("delaying copies by pipeline phase saves memory and costs no time on fast links", "[law]") {
  const auto cases = unity::test::cases(40);
  std::int64_t less = 0;  // counts of devices
  std::int64_t more = 0;
  std::int64_t devices = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    random_engine random{seed};
    const auto schedule =
        std::vector{schedules::one_forward_one_backward, schedules::gpipe, schedules::interleaved}[seed % 3];
    const auto rate = std::vector{slow, 1e10, fast}[seed / 3 % 3];
    const auto stages = 2 + random.below(3);
    const auto microbatches = stages == 3 ? 6 : 4 + 4 * random.below(2);
    auto p = staged(random.below(3) == 0 ? gpt : mlp, schedule, static_cast<std::uint32_t>(stages),
                    static_cast<std::int64_t>(microbatches), 1, rate, random);
    for (const auto n : node_ids(p.graph)) {
      const auto draw = random.below(4);
      p.again.push_back(draw == 0 && parallel::can_recompute(p.graph, n));
      p.away.push_back(draw > 1 && parallel::can_offload(p.graph, n));
    }
    CAPTURE(seed, schedule, rate, stages, microbatches, p.graph.node_count());
    const auto [without, with] = outcomes_of(p);
    CAPTURE(without.iteration.count(), with.iteration.count());
    for (std::size_t d = 0; d < with.peaks.size(); ++d) {
      CAPTURE(d, with.peaks[d].count(), without.peaks[d].count());
      // Different task times may move the peak to another moment.
      CHECK(static_cast<double>(with.peaks[d].count()) <= 1.05 * static_cast<double>(without.peaks[d].count()));
      less += with.results[d] < without.results[d] ? 1 : 0;
      more += with.peaks[d] > without.peaks[d] ? 1 : 0;
      ++devices;
    }
    if (rate == fast) {
      // Independent tasks of a phase may run in another order than the fetches expect.
      CHECK(to_seconds(with.iteration) <= 1.005 * to_seconds(without.iteration));
    }
  }
  CAPTURE(less, more, devices);
  CHECK(2 * less > devices);
  CHECK(50 * more <= devices);
}

TEST_CASE("offloaded results held in a pipeline have the same bound for slow and fast host links") {
  const auto schedule = GENERATE(schedules::gpipe, schedules::one_forward_one_backward, schedules::interleaved);
  const auto layers = GENERATE(8, 32);
  random_engine random{0};
  const auto held = [&](double rate, std::int64_t microbatches, std::int64_t batch) {
    auto p = staged(("zoo:mlp?hidden=256&layers=" + std::to_string(layers) + "&batch=" + std::to_string(batch)).c_str(),
                    schedule, 4, microbatches, 1, rate, random);
    p.away = parallel::offloaded_results(operators(), p.graph, {}, false);
    const auto [without, with] = outcomes_of(p);
    return std::pair{*std::max_element(without.results.begin(), without.results.end()),
                     *std::max_element(with.results.begin(), with.results.end())};
  };
  const auto result = bytes{256 * 256 * 4};
  for (const auto microbatches : {8, 16}) {
    for (const auto rate : {slow, 1e10, fast}) {
      const auto [without, with] = held(rate, microbatches, 256 * microbatches);
      CAPTURE(schedule, layers, rate, microbatches, without.count() / result.count());
      CHECK(with.count() / result.count() <= 7);
      CHECK((schedule != schedules::gpipe || without.count() / result.count() >= microbatches));
    }
  }
}

}  // namespace tests_of_device_copies
