// Claim: the closed form of the algorithm chosen for a size equals the simulated time of its transfers on the links of
// the machine. Algorithms that are not chosen may take longer: their messages contend for several links, in a different
// order on each.
// Each row gives the simulated time over the closed form (contention), the simulated time over that of the same
// transfers on links that are never busy (waiting), and whether the algorithm is chosen (chosen). The event loop is the
// bench's own; simulate/ has the library's.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/collectives.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>

namespace {

using namespace unity;
using hardware::collective_algorithm;
using hardware::device_id;
using hardware::exchange;

// Links are cut-through: the next link begins one latency later and ends no earlier. A resource serves transfers in
// order of arrival, ties by number.
class event_loop {
 public:
  event_loop(const hardware::topology& t, const hardware::route_table& routes, const hardware::transfer_graph& g,
             bool contended)
      : t_{t},
        g_{g},
        contended_{contended},
        free_(t.resource_count()),
        missing_(g.size()),
        first_user_(g.size() + 1, 0),
        tail_(g.size()) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      auto& route = routes_.emplace_back();
      hardware::for_each_link(t, routes, {g[i].from, g[i].to, 0}, [&](hardware::link_id l) { route.push_back(l); });
      missing_[i] = g.dependencies(i).size();
      for (const auto before : g.dependencies(i)) {
        ++first_user_[before + 1];
      }
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      first_user_[i + 1] += first_user_[i];
    }
    auto next = first_user_;
    users_.resize(first_user_.back());
    for (std::size_t i = 0; i < g.size(); ++i) {
      for (const auto before : g.dependencies(i)) {
        users_[next[before]++] = static_cast<std::uint32_t>(i);
      }
    }
  }

  [[nodiscard]] picoseconds run() {
    for (std::size_t i = 0; i < g_.size(); ++i) {
      if (missing_[i] == 0) {
        arrivals_.emplace(0, i, 0);
      }
    }
    std::int64_t last = 0;
    while (!arrivals_.empty()) {
      const auto [time, number, hop] = arrivals_.top();
      arrivals_.pop();
      last = std::max(last, hop < routes_[number].size() ? enter(time, number, hop) : leave(time, number));
    }
    return picoseconds{last};
  }

 private:
  using arrival = std::tuple<std::int64_t, std::size_t, std::size_t>;  // time, transfer, position in its route

  std::int64_t enter(std::int64_t time, std::size_t number, std::size_t hop) {
    const auto l = routes_[number][hop];
    auto& free = free_[t_.resource(l).index()];
    const auto start = contended_ ? std::max(time, free) : time;
    const auto taken = start + hardware::transfer_time(g_[number].size, t_.bytes_per_second(l)).count();
    free = taken;
    tail_[number] = std::max(tail_[number], taken) + t_.latency(l).count();
    const bool last = hop + 1 == routes_[number].size();
    arrivals_.emplace(last ? tail_[number] : start + t_.latency(l).count(), number, hop + 1);
    return taken;
  }
  std::int64_t leave(std::int64_t time, std::size_t number) {
    for (auto u = first_user_[number]; u < first_user_[number + 1]; ++u) {
      if (--missing_[users_[u]] == 0) {
        arrivals_.emplace(time, users_[u], 0);
      }
    }
    return time;
  }

  const hardware::topology& t_;
  const hardware::transfer_graph& g_;
  bool contended_;
  std::vector<hardware::route> routes_{};
  std::vector<std::int64_t> free_;  // by resource: when it becomes free
  std::vector<std::size_t> missing_;
  std::vector<std::size_t> first_user_;
  std::vector<std::uint32_t> users_{};
  std::vector<std::int64_t> tail_;  // when the last byte has passed the links so far
  std::priority_queue<arrival, std::vector<arrival>, std::greater<>> arrivals_{};
};

void agrees_but_for_contention(benchmark::State& state, const std::string& preset, exchange kind,
                               collective_algorithm algorithm, std::int64_t size) {
  const auto m = hardware::preset(preset);
  const hardware::route_table routes{m.network};
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < m.network.device_count(); ++i) {
    devices.emplace_back(i);
  }
  const hardware::collective c{kind, algorithm, devices, bytes{size}, 0};
  for (auto _ : state) {
    const auto g = hardware::lower(m.network, c);
    const auto closed = to_seconds(hardware::collective_time(m.network, routes, c));
    const auto timed = to_seconds(event_loop{m.network, routes, g, true}.run());
    const auto free = to_seconds(event_loop{m.network, routes, g, false}.run());
    state.counters["closed_us"] = closed * 1e6;
    state.counters["contention"] = timed / closed;
    state.counters["waiting"] = timed / free;
    state.counters["chosen"] = hardware::fastest_algorithm(m.network, routes, c).first == algorithm ? 1 : 0;
  }
}

void add_rows() {
  for (const auto* preset : {"dgx_h100:1x8", "dgx_h100:4x8", "p100:4x4", "k80:4x4", "summit:4x6", "t4:4x8"}) {
    for (const auto kind : {exchange::all_reduce, exchange::all_gather, exchange::all_to_all, exchange::broadcast}) {
      for (std::size_t a = 0; a < hardware::collective_algorithm_names.size(); ++a) {
        for (const std::int64_t size : {std::int64_t{1} << 13U, std::int64_t{3} << 25U}) {
          const auto algorithm = static_cast<collective_algorithm>(a);
          const auto m = hardware::preset(preset);
          std::vector<device_id> devices;
          for (std::size_t i = 0; i < m.network.device_count(); ++i) {
            devices.emplace_back(i);
          }
          if (!hardware::applies(m.network, {kind, algorithm, devices})) {
            continue;
          }
          const auto name = fmt::format("{}/{}/{}/{}", preset, hardware::exchange_names[static_cast<std::size_t>(kind)],
                                        hardware::collective_algorithm_names[a], size);
          benchmark::RegisterBenchmark(
              name.c_str(), [=](benchmark::State& s) { agrees_but_for_contention(s, preset, kind, algorithm, size); })
              ->Iterations(1)
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
