#include <unity/parallel/lowering/network.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/collectives.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

#include "../../support/machine_without_starts.hpp"

namespace tests_of_lowered_collectives {

using namespace unity;
using hardware::collective_algorithm;
using hardware::device_id;
using hardware::exchange;

std::vector<device_id> first_devices(std::size_t count) {
  std::vector<device_id> all;
  for (std::size_t d = 0; d < count; ++d) {
    all.push_back(device_id{d});
  }
  return all;
}

picoseconds simulated(const parallel::network& n, tasks::fragment f) {
  tasks::program p;
  n.declare(p);
  p.replace(p.add_fragment(), f);
  return simulate::full_simulation{}.run(p);
}

// Lowers every transfer to a message of its own.
tasks::fragment transfers_of(parallel::network& n, const hardware::machine& m, const hardware::collective& c) {
  tasks::fragment f;
  const auto g = hardware::lower(m.network, c);
  std::vector<tasks::task_ref> ends;
  for (std::size_t i = 0; i < g.size(); ++i) {
    std::vector<tasks::task_ref> before;
    for (const auto d : g.dependencies(i)) {
      before.push_back(ends[d]);
    }
    ends.push_back(tasks::add_transfer(f, n.flow_hops(g[i].from, g[i].to, g[i].size, 1), g[i].size, 0, before));
  }
  static_cast<void>(parallel::add_meeting(f, ends, 0));
  return f;
}

tasks::fragment flows_of(parallel::network& n, const hardware::machine& m, const hardware::collective& c) {
  tasks::fragment f;
  const auto flows = hardware::flows_of(m.network, c);
  auto ready = parallel::add_meeting(f, {}, 0);
  for (const auto& phase : flows.phases) {
    std::vector<parallel::flow_message> messages;
    for (const auto& flow : phase.flows) {
      messages.push_back({flow.from, flow.to, flows.volume(c.size, flow.parts)});
    }
    ready = parallel::add_phase(n, f, messages, phase.rounds, ready, c.devices.front().index());
  }
  return f;
}

TEST_CASE("simulated flows and transfers of the fastest collective match its closed form") {
  for (const auto* preset : {"dgx_h100:1x8", "dgx_a100:4x8", "dgx_a100:3x4", "p100:4x4", "t4:2x8", "summit:2x6"}) {
    const auto m = unity::test::machine_without_starts(preset);
    const hardware::route_table routes{m.network};
    const auto devices = first_devices(m.network.device_count());
    for (const auto kind : {exchange::all_reduce, exchange::reduce_scatter, exchange::all_gather}) {
      for (std::size_t a = 0; a < hardware::collective_algorithm_names.size(); ++a) {
        const auto algorithm = static_cast<collective_algorithm>(a);
        for (const auto size : {std::int64_t{96} << 6U, std::int64_t{96} << 20U}) {
          const hardware::collective c{kind, algorithm, devices, bytes{size}};
          if (!hardware::applies(m.network, c)) {
            continue;
          }
          CAPTURE(preset, hardware::exchange_names[static_cast<std::size_t>(kind)],
                  hardware::collective_algorithm_names[a], size);
          parallel::network n{m};
          const auto closed = to_seconds(hardware::collective_time(m.network, routes, c));
          const auto flows = to_seconds(simulated(n, flows_of(n, m, c)));
          const auto transfers = to_seconds(simulated(n, transfers_of(n, m, c)));
          // The chosen algorithm takes the time of its closed form. Others may take longer: their messages contend for
          // several links in different orders and leave some idle, which the load of the busiest link does not show.
          const bool is_chosen = hardware::fastest_algorithm(m.network, routes, c).first == algorithm;
          CHECK(flows >= closed * 0.99);
          CHECK(flows <= closed * (is_chosen ? 1.005 : 1.7));
          CHECK(transfers >= closed * 0.9);
          CHECK(transfers <= closed * (is_chosen ? 1.02 : 2.1));
        }
      }
    }
  }
}

TEST_CASE("an added collective takes its closed-form time with at most 4 flows per device") {
  for (const auto* preset : {"dgx_h100:1x8", "dgx_a100:4x8", "p100:4x4", "k80:16x4", "t4:2x8", "summit:2x6"}) {
    const auto m = hardware::preset(preset);
    const hardware::route_table routes{m.network};
    const auto devices = first_devices(m.network.device_count());
    for (const auto kind : {exchange::all_reduce, exchange::reduce_scatter, exchange::all_gather}) {
      for (const auto size : {bytes{6'000}, bytes{4'000'000}, bytes{400'000'000}}) {
        CAPTURE(preset, hardware::exchange_names[static_cast<std::size_t>(kind)], size.count());
        parallel::network n{m};
        tasks::fragment f;
        static_cast<void>(add_collective(n, f, kind, devices, size, {}));
        const auto& way = n.collective(kind, devices).at(size);
        const auto closed = to_seconds(way.line(size));
        CHECK(to_seconds(simulated(n, f)) >= closed * 0.99);
        CHECK(to_seconds(simulated(n, f)) <= closed * 1.05);
        std::size_t flows = 0;
        for (const auto& phase : way.flows.phases) {
          flows += phase.flows.size();
        }
        CHECK(flows <= 4 * devices.size());
      }
    }
  }
}

TEST_CASE("a lowered collective waits for its contributions and ends after all its messages") {
  const auto m = unity::test::machine_without_starts("p100:1x4");
  parallel::network n{m};
  tasks::fragment f;
  const auto devices = first_devices(3);
  const std::vector<tasks::task_ref> contributions{{tasks::fragment_id{7U}, 0}, {tasks::fragment_id{7U}, 1}};
  const auto done = add_collective(n, f, exchange::all_reduce, devices, bytes{3'000'000}, contributions);
  std::size_t first = 0;
  std::size_t last = 0;
  for (const auto& d : f.dependencies) {
    first += d.before.fragment == tasks::fragment_id{7U} ? 1U : 0U;
    last += d.after == done ? 1U : 0U;
  }
  CHECK(first == 2);
  CHECK(last == 3);
  CHECK(parallel::message_bytes(f).count() == 3 * 4'000'000);
}

TEST_CASE("a ring all-reduce moves 2(k-1)/k of the data over each link in whole bytes") {
  const auto volume = [](std::int64_t size, std::uint32_t ranks) {
    return hardware::collective_flows{ranks, {}}.volume(bytes{size}, 2 * (ranks - 1)).count();
  };
  CHECK(volume(1000, 4) == 1500);
  CHECK(volume(10, 3) == 14);  // 13.33, rounded up
  CHECK(volume(7, 2) == 7);
  CHECK(volume(1'000'000'000'000'000, 1000) == 1'998'000'000'000'000);
}

TEST_CASE("collectives on the same devices start in sequence; on disjoint devices at once") {
  const auto m = hardware::preset("dgx_a100:1x8");
  const auto& a100 = m.devices[0];  // two rounds each
  const auto start = from_seconds(a100.collective_start_seconds + 2 * a100.collective_round_seconds);
  const auto takes = [&](const std::vector<std::vector<device_id>>& groups) {
    parallel::network n{m};
    tasks::fragment f;
    for (const auto& g : groups) {
      static_cast<void>(add_collective(n, f, exchange::all_reduce, g, bytes{8}, {}));
    }
    return simulated(n, f);
  };
  const std::vector<device_id> low{device_id{0U}, device_id{1U}};
  const std::vector<device_id> high{device_id{2U}, device_id{3U}};
  const auto one = takes({low});
  CHECK(takes({low, low, low}) - one >= start + start);
  CHECK(takes({low, low, low}) - one <= start + start + picoseconds{1'000'000});
  CHECK(takes({low, high}) == one);
}

TEST_CASE("a measured link cost prices its kind of collective; other kinds use the closed form") {
  auto m = hardware::preset("host:1x4");
  m.links.push_back({"local", 4, {{exchange::all_reduce, {{hardware::cost_range::no_end, 1e-5, 1e-9}}}}});
  parallel::network n{m};
  tasks::fragment f;
  const auto devices = first_devices(4);
  static_cast<void>(add_collective(n, f, exchange::all_reduce, devices, bytes{1'000'000}, {}));
  CHECK(to_seconds(simulated(n, f)) == Approx(1e-5 + 1e-3));
  tasks::fragment other;
  static_cast<void>(add_collective(n, other, exchange::all_gather, devices, bytes{1'000'000}, {}));
  CHECK(simulated(n, other) == hardware::ways_of(m, hardware::route_table{m.network}, exchange::all_gather, devices)
                                   .at(bytes{1'000'000})
                                   .line(bytes{1'000'000}));
}

TEST_CASE("in-switch reduction is the fastest all-reduce of 256 MiB within a DGX H100") {
  const auto m = hardware::preset("dgx_h100:1x8");
  const hardware::route_table routes{m.network};
  const auto ways = hardware::ways_of(m, routes, exchange::all_reduce, first_devices(8));
  const bytes size{256 << 20};
  CHECK(ways.at(size).algorithm == collective_algorithm::in_switch);
  CHECK(to_seconds(ways.at(size).line(size)) < 0.7 * to_seconds(ways.ways.front().line(size)));
}

}  // namespace tests_of_lowered_collectives
