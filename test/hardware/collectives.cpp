#include <unity/hardware/collectives.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>

#include "random_topology.hpp"

namespace tests_of_collectives {

namespace {

using namespace unity;
using hardware::collective;
using hardware::collective_algorithm;
using hardware::device_id;
using hardware::exchange;

device_id d(std::size_t i) { return device_id{i}; }

// The ranks' data, symbolically: per chunk, how often it contains each rank's own data. All zero: no data.
class symbolic_ranks {
 public:
  using value = std::vector<int>;

  // A switch that reduces in the network is an extra rank that begins without data.
  symbolic_ranks(const hardware::topology& t, const collective& c)
      : c_{c},
        chunks_{hardware::chunk_count(t, c)},
        held_(c.devices.size() + 1, std::vector<value>(chunks_, value(c.devices.size(), 0))) {
    for (std::size_t r = 0; r < c.devices.size(); ++r) {
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        held_[r][chunk][r] = begins_with(r, chunk) ? 1 : 0;
      }
    }
  }

  [[nodiscard]] const value& of(std::size_t rank, std::size_t chunk) const { return held_[rank][chunk]; }
  void give(std::size_t rank, std::size_t chunk, const value& v, bool reduces) {
    auto& mine = held_[rank][chunk];
    for (std::size_t r = 0; r < v.size(); ++r) {
      mine[r] = v[r] + (reduces ? mine[r] : 0);
    }
  }
  // Whether every rank ends with the data that the collective defines.
  [[nodiscard]] bool complete() const {
    const auto ranks = c_.devices.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        if (!promised(r, chunk)) {
          continue;
        }
        for (std::size_t s = 0; s < ranks; ++s) {
          if (held_[r][chunk][s] != (belongs(s, chunk) ? 1 : 0)) {
            return false;
          }
        }
      }
    }
    return true;
  }

 private:
  [[nodiscard]] bool begins_with(std::size_t rank, std::size_t chunk) const {
    switch (c_.kind) {
      case exchange::all_gather: return chunk / chunks_each() == rank;
      case exchange::broadcast: return rank == c_.root;
      case exchange::message: return rank == 0;
      case exchange::all_to_all: return chunk / c_.devices.size() == rank;
      default: return true;
    }
  }
  // Chunks of the data that a rank begins or ends with.
  [[nodiscard]] std::size_t chunks_each() const { return chunks_ / c_.devices.size(); }
  // Whether the rank must have the chunk at the end.
  [[nodiscard]] bool promised(std::size_t rank, std::size_t chunk) const {
    switch (c_.kind) {
      case exchange::reduce_scatter: return chunk / chunks_each() == rank;
      case exchange::message: return rank == 1;
      case exchange::all_to_all: return chunk % c_.devices.size() == rank;
      default: return true;
    }
  }
  // Whether the final chunk must contain the data of rank s.
  [[nodiscard]] bool belongs(std::size_t s, std::size_t chunk) const { return begins_with(s, chunk); }

  const collective& c_;
  std::size_t chunks_;
  std::vector<std::vector<value>> held_;
};

// Runs the transfers: each reads when it begins and delivers when it ends. Starts and ends happen in random order, so
// only dependencies guarantee the result.
bool keeps_promise(const hardware::topology& t, const hardware::transfer_graph& g, const collective& c,
                   random_engine& random) {
  symbolic_ranks ranks{t, c};
  const auto rank_of = [&](hardware::vertex_id v) {
    const auto device = std::find(c.devices.begin(), c.devices.end(), device_id{v.index()});
    return static_cast<std::size_t>(device - c.devices.begin());
  };
  struct running {
    std::size_t number;
    std::vector<symbolic_ranks::value> values;
  };
  std::vector<std::size_t> missing(g.size());
  std::vector<std::vector<std::size_t>> users(g.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < g.size(); ++i) {
    missing[i] = g.dependencies(i).size();
    for (const auto before : g.dependencies(i)) {
      users[before].push_back(i);
    }
    if (missing[i] == 0) {
      ready.push_back(i);
    }
  }
  std::vector<running> under_way;
  std::size_t ended = 0;
  while (!ready.empty() || !under_way.empty()) {
    if (!ready.empty() && (under_way.empty() || random.below(2) == 0)) {
      const auto pick = random.below(ready.size());
      const auto i = ready[pick];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
      running r{i, {}};
      for (const auto chunk : g.chunks(i)) {
        r.values.push_back(ranks.of(rank_of(g[i].from), chunk));
        const auto& v = r.values.back();
        if (std::all_of(v.begin(), v.end(), [](int n) { return n == 0; })) {
          return false;  // sends a chunk that it does not have
        }
      }
      under_way.push_back(std::move(r));
    } else {
      const auto pick = random.below(under_way.size());
      const auto r = under_way[pick];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(pick));
      for (std::size_t k = 0; k < r.values.size(); ++k) {
        ranks.give(rank_of(g[r.number].to), g.chunks(r.number)[k], r.values[k], g[r.number].reduces);
      }
      for (const auto u : users[r.number]) {
        if (--missing[u] == 0) {
          ready.push_back(u);
        }
      }
      ++ended;
    }
  }
  return ended == g.size() && ranks.complete();
}

bytes moved(const hardware::transfer_graph& g) {
  bytes sum{};
  for (const auto& t : g.transfers()) {
    sum += t.size;
  }
  return sum;
}
hardware::route_cost cost_between(const hardware::topology& t, const hardware::route_table& routes,
                                  hardware::vertex_id from, hardware::vertex_id to) {
  if (t.is_device(from) && t.is_device(to)) {
    return routes.cost(t, device_id{from.index()}, device_id{to.index()});
  }
  const auto link = t.link_between(from, to).value();
  return {t.latency(link), t.bytes_per_second(link)};
}
// The longest chain of dependent transfers, without contention.
picoseconds longest_chain(const hardware::topology& t, const hardware::route_table& routes,
                          const hardware::transfer_graph& g) {
  std::vector<picoseconds> ends(g.size());
  picoseconds last{};
  for (std::size_t i = 0; i < g.size(); ++i) {
    picoseconds start{};
    for (const auto before : g.dependencies(i)) {
      start = std::max(start, ends[before]);
    }
    ends[i] = start + hardware::transfer_time(cost_between(t, routes, g[i].from, g[i].to), g[i].size);
    last = std::max(last, ends[i]);
  }
  return last;
}
std::vector<device_id> some_devices(random_engine& random, const hardware::topology& t, std::size_t count) {
  std::vector<device_id> all;
  for (std::size_t i = 0; i < t.device_count(); ++i) {
    all.push_back(d(i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(all[i], all[i + random.below(all.size() - i)]);
  }
  all.resize(count);
  return all;
}
template <class F>
void for_all_kinds(const F& f) {
  for (std::size_t k = 0; k < hardware::exchange_names.size(); ++k) {
    for (std::size_t a = 0; a < hardware::collective_algorithm_names.size(); ++a) {
      CAPTURE(hardware::exchange_names[k], hardware::collective_algorithm_names[a]);
      f(static_cast<exchange>(k), static_cast<collective_algorithm>(a));
    }
  }
}
hardware::topology some_machine(random_engine& random) {
  switch (random.below(6)) {
    case 0: return hardware::preset("p100:3x4").network;
    case 1: return hardware::preset("summit:2x6").network;
    case 2: return hardware::preset("dgx_a100:2x8").network;
    case 3: return hardware::preset("dgx_h100:1x5").network;
    case 4: return hardware::preset(fmt::format("dgx_a100:{}x{}", 2 + random.below(4), 2 + random.below(3))).network;
    default: return test::random_topology(random, 9, 4);
  }
}

TEST_CASE("lowered transfers deliver exactly the data of the collective in any allowed order") {
  const auto seed = GENERATE(range(1U, 40U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto t = some_machine(random);
  // Half of the time all devices, so that both levels of a hierarchy occur.
  const auto count = random.below(2) == 0 ? t.device_count() : 1 + random.below(t.device_count());
  const auto devices = some_devices(random, t, count);
  for_all_kinds([&](exchange kind, collective_algorithm algorithm) {
    auto used = std::span<const device_id>{devices};
    if (kind == exchange::message) {
      used = used.first(std::min<std::size_t>(2, used.size()));
    }
    if (kind == exchange::message && used.size() < 2) {
      return;
    }
    const collective c{kind, algorithm, used, bytes{random.between(0, 5000)}, random.below(used.size())};
    const auto g = hardware::lower(t, c);
    CAPTURE(c.devices.size(), c.size.count(), c.root);
    CHECK(keeps_promise(t, g, c, random));
    for (std::size_t i = 0; i < g.size(); ++i) {
      bytes sum{};
      for (const auto chunk : g.chunks(i)) {
        sum += hardware::chunk_size(t, c, chunk);
      }
      CHECK(sum == g[i].size);
      CHECK(g[i].from != g[i].to);
    }
  });
}

TEST_CASE("the delivery check of collectives detects a missing transfer or missing dependencies") {
  const auto t = hardware::preset("p100:2x4").network;
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < 8; ++i) {
    devices.push_back(d(i));
  }
  random_engine random{1};
  for_all_kinds([&](exchange kind, collective_algorithm algorithm) {
    if (kind == exchange::message) {
      return;
    }
    const collective c{kind, algorithm, devices, bytes{800}, 3};
    const auto g = hardware::lower(t, c);
    const auto changed = [&](std::size_t dropped, bool without_dependencies) {
      hardware::transfer_graph other;
      std::vector<std::uint32_t> number(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        std::vector<std::uint32_t> before;
        for (const auto b : g.dependencies(i)) {
          if (b != dropped && !without_dependencies) {
            before.push_back(number[b]);
          }
        }
        if (i != dropped) {
          number[i] = other.add(g[i], before, g.chunks(i));
        }
      }
      return other;
    };
    for (std::size_t i = 0; i < g.size(); ++i) {
      REQUIRE_FALSE(keeps_promise(t, changed(i, false), c, random));
    }
    const bool ordered =
        std::any_of(g.transfers().begin(), g.transfers().end(), [](const auto& x) { return x.reduces; });
    if (ordered) {
      CHECK_FALSE(keeps_promise(t, changed(g.size(), true), c, random));
    }
  });
}

TEST_CASE("ring and hierarchical collectives move the least possible number of bytes") {
  const auto t = hardware::preset("p100:4x4").network;
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < 16; ++i) {
    devices.push_back(d(i));
  }
  constexpr std::int64_t n = 16 * 1024;
  for (const auto algorithm : {collective_algorithm::ring, collective_algorithm::hierarchical}) {
    const auto volume = [&](exchange kind) {
      return moved(hardware::lower(t, {kind, algorithm, devices, bytes{n}, 0})).count();
    };
    CHECK(volume(exchange::all_reduce) == 2 * 15 * n);
    CHECK(volume(exchange::reduce_scatter) == 15 * n);
    CHECK(volume(exchange::all_gather) == 15 * n);
    CHECK(volume(exchange::broadcast) == 15 * n);
  }
  CHECK(moved(hardware::lower(t, {exchange::all_to_all, collective_algorithm::ring, devices, bytes{n}, 0})).count() ==
        15 * n);
}

TEST_CASE("a hierarchical all-to-all crosses between nodes less often than a ring") {
  const auto t = hardware::preset("p100:4x4").network;
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < 16; ++i) {
    devices.push_back(d(i));
  }
  const auto crossings = [&](exchange kind, collective_algorithm algorithm) {
    const auto g = hardware::lower(t, {kind, algorithm, devices, bytes{16384}, 0});
    return std::count_if(g.transfers().begin(), g.transfers().end(), [&](const auto& x) {
      return t[device_id{x.from.index()}].node != t[device_id{x.to.index()}].node;
    });
  };
  CHECK(crossings(exchange::all_to_all, collective_algorithm::hierarchical) == 16 * 3);
  CHECK(crossings(exchange::all_to_all, collective_algorithm::ring) == 16 * 12);
  CHECK(crossings(exchange::broadcast, collective_algorithm::tree) == 3);
  CHECK(crossings(exchange::all_reduce, collective_algorithm::ring) == 2 * 15 * 4);
}

TEST_CASE("a collective of one rank has no transfers and takes no time") {
  const auto m = hardware::preset("p100:1x1");
  const hardware::route_table routes{m.network};
  const std::vector<device_id> one{d(0)};
  const collective c{exchange::all_reduce, collective_algorithm::ring, one, bytes{100}, 0};
  CHECK(hardware::lower(m.network, c).size() == 0);
  CHECK(hardware::collective_time(m.network, routes, c) == picoseconds{0});
}

TEST_CASE("collective_time is the longest chain of transfers if all links are equal") {
  const auto m = hardware::preset("dgx_h100:1x8");
  const hardware::route_table routes{m.network};
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < 8; ++i) {
    devices.push_back(d(7 - i));
  }
  for_all_kinds([&](exchange kind, collective_algorithm algorithm) {
    if (kind == exchange::all_reduce && algorithm == collective_algorithm::in_switch) {
      return;  // its chunks wait for links, not for one another: see parallel/lowering/collectives
    }
    auto used = std::span<const device_id>{devices};
    const collective c{kind, algorithm, kind == exchange::message ? used.first(2) : used, bytes{8 << 20}, 0};
    const auto g = hardware::lower(m.network, c);
    const auto rounding = static_cast<std::int64_t>(g.size());  // one picosecond per transfer
    const auto difference = hardware::collective_time(m.network, routes, c) - longest_chain(m.network, routes, g);
    CHECK(std::abs(difference.count()) <= rounding);
  });
  const collective ring{exchange::all_reduce, collective_algorithm::ring, devices, bytes{8 << 20}, 0};
  const auto step = picoseconds{700'000} + hardware::transfer_time(bytes{1 << 20}, 450'000'000'000);
  CHECK(std::abs(hardware::collective_time(m.network, routes, ring).count() - 14 * step.count()) <= 14);
}

TEST_CASE("collective_time is at least the longest chain of transfers") {
  const auto seed = GENERATE(range(1U, 40U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto t = some_machine(random);
  const hardware::route_table routes{t};
  const auto devices = some_devices(random, t, 2 + random.below(t.device_count() - 1));
  for_all_kinds([&](exchange kind, collective_algorithm algorithm) {
    auto used = std::span<const device_id>{devices};
    used = kind == exchange::message ? used.first(2) : used;
    const collective c{kind, algorithm, used, bytes{random.between(0, 1'000'000)}, random.below(used.size())};
    // Each chunk is rounded up to bytes; a flow is rounded once.
    const auto most = bytes{c.size.count() + static_cast<std::int64_t>(4 * hardware::chunk_count(t, c))};
    const auto bound = hardware::collective_time(t, routes, {kind, algorithm, used, most, c.root});
    CHECK(bound + picoseconds{1000} >= longest_chain(t, routes, hardware::lower(t, c)));
  });
}

TEST_CASE("fastest_algorithm has the least closed-form time") {
  const auto m = hardware::preset("dgx_a100:4x8");
  const hardware::route_table routes{m.network};
  std::vector<device_id> devices;
  for (std::size_t i = 0; i < 32; ++i) {
    devices.push_back(d(i));
  }
  const hardware::collective_start nccl{picoseconds{39'700'000}, picoseconds{2'000'000}};
  std::vector<collective_algorithm> chosen;
  for (const auto& start : {hardware::collective_start{}, nccl}) {
    for (const auto size : {std::int64_t{64}, std::int64_t{1} << 30U}) {
      collective c{exchange::all_reduce, {}, devices, bytes{size}, 0};
      const auto [algorithm, time] = hardware::fastest_algorithm(m.network, routes, c, start);
      for (std::size_t a = 0; a < hardware::collective_algorithm_names.size(); ++a) {
        c.algorithm = static_cast<collective_algorithm>(a);
        CHECK(hardware::collective_time(m.network, routes, c, start) >= time);
      }
      c.algorithm = algorithm;
      CHECK(hardware::collective_time(m.network, routes, c, start) == time);
      chosen.push_back(algorithm);
    }
  }
  CHECK(chosen == std::vector{collective_algorithm::tree, collective_algorithm::rails, collective_algorithm::tree,
                              collective_algorithm::rails});
}

TEST_CASE("chosen_way is the first within a sixteenth of the fastest at the size") {
  using hardware::collective_line;
  const auto chosen = [](std::int64_t first, std::int64_t size) {
    const std::vector<collective_line> ways{{picoseconds{first}, 1}, {picoseconds{1700}, 1}, {picoseconds{1600}, 9}};
    const auto& way = hardware::chosen_way(ways, bytes{size}, [](const collective_line& w) { return w; });
    return &way - ways.data();
  };
  CHECK(chosen(1700, 0) == 0);  // 1600 + 100 picoseconds at most
  CHECK(chosen(1701, 0) == 1);
  CHECK(chosen(1801, 0) == 1);
  CHECK(chosen(1801, 20) == 0);  // 1720 is the least, 1827 the most
  CHECK(chosen(1808, 20) == 1);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::vector<collective_line> longest{{picoseconds{most}, 0}, {picoseconds{most - most / 20}, 0}};
  CHECK(&hardware::chosen_way(longest, bytes{0}, [](const collective_line& w) { return w; }) == longest.data());
}

TEST_CASE("an empty all-reduce takes the times measured on 2 and 8 A100") {
  const auto m = hardware::preset("dgx_a100:1x8");
  const hardware::route_table routes{m.network};
  const hardware::collective_start start{from_seconds(m.devices[0].collective_start_seconds),
                                         from_seconds(m.devices[0].collective_round_seconds)};
  const auto microseconds = [&](std::size_t ranks) {
    std::vector<device_id> devices;
    for (std::size_t i = 0; i < ranks; ++i) {
      devices.push_back(d(i));
    }
    const collective c{exchange::all_reduce, collective_algorithm::ring, devices, bytes{0}, 0};
    return to_seconds(hardware::collective_time(m.network, routes, c, start)) * 1e6;
  };
  CHECK(std::abs(microseconds(2) - 45) < 1);
  CHECK(std::abs(microseconds(8) - 77) < 1);
}

TEST_CASE("rails carry at least the measured 85 GB/s where a ring through one adapter carries 25") {
  // 3 nodes of 8 A100; every two GPUs share an adapter of 25 GB/s.
  std::vector<hardware::placed_device> devices;
  std::vector<std::string> switches{"fabric"};
  std::vector<hardware::cable> cables;
  const auto vertex = [](std::size_t i) { return hardware::vertex_id{i}; };
  for (std::uint32_t n = 0; n < 3; ++n) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      devices.push_back({fmt::format("n{}/gpu{}", n, i), 0, n});
    }
  }
  for (std::size_t n = 0; n < 3; ++n) {
    switches.push_back(fmt::format("n{}/nvswitch", n));
    const auto inside = vertex(24 + switches.size() - 1);
    for (std::size_t a = 0; a < 4; ++a) {
      switches.push_back(fmt::format("n{}/adapter{}", n, a));
      const auto adapter = vertex(24 + switches.size() - 1);
      cables.push_back({adapter, vertex(24), 25'000'000'000, picoseconds{600'000}});
      for (std::size_t i = 2 * a; i < 2 * a + 2; ++i) {
        cables.push_back({vertex(8 * n + i), inside, 300'000'000'000, picoseconds{350'000}});
        cables.push_back({vertex(8 * n + i), adapter, 31'500'000'000, picoseconds{400'000}});
      }
    }
  }
  const hardware::topology t{devices, switches, cables};
  const hardware::route_table routes{t};
  std::vector<device_id> all;
  for (std::size_t i = 0; i < 24; ++i) {
    all.push_back(d(i));
  }
  const auto bus_rate = [&](collective_algorithm algorithm) {  // bytes per second across the slowest cut
    constexpr double size = 1 << 30;
    const collective c{exchange::all_reduce, algorithm, all, bytes{1 << 30}, 0};
    return 2.0 * 23 / 24 * size / to_seconds(hardware::collective_time(t, routes, c)) * 1e-9;
  };
  CHECK(bus_rate(collective_algorithm::ring) == Approx(25).epsilon(0.01));
  const auto measured = 85.0;
  CHECK(bus_rate(collective_algorithm::rails) > measured);
  CHECK(bus_rate(collective_algorithm::rails) < 1.2 * measured);
}

}  // namespace

}  // namespace tests_of_collectives
