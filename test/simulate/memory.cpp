#include <unity/simulate/timeline.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>

#include "random_program.hpp"

namespace tests_of_memory {

using namespace unity;
using namespace unity::tasks;

namespace {

// The interval [from, to) in which a buffer is held.
struct lifetime {
  std::int64_t size;
  device_index device;
  std::int64_t from;
  std::int64_t to;
};

std::vector<lifetime> lifetimes(const unity::tasks::program& p, const simulate::full_simulation& s) {
  const auto times = [&](const task_ref& r, fragment_id own) {
    return s.times()[p.find(r.fragment.valid() ? r.fragment : own, r.index).index()];
  };
  std::vector<lifetime> all;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const fragment_id id{f};
    for (std::uint32_t b = 0; b < p[id].buffers.size(); ++b) {
      const auto& buffer = p[id].buffers[b];
      lifetime l{buffer.size.count(), buffer.device, 0, INT64_MAX};
      if (!buffer.permanent) {
        l.from = times(buffer.producer, id).start;
        l.to = times(buffer.producer, id).end;
        for (std::size_t other = 0; other < p.fragment_count(); ++other) {
          for (const auto& r : p[fragment_id{other}].reads) {
            const auto of = r.of.fragment.valid() ? r.of.fragment : fragment_id{other};
            l.to = of == id && r.of.index == b ? std::max(l.to, times(r.reader, fragment_id{other}).end) : l.to;
          }
        }
      }
      all.push_back(l);
    }
  }
  return all;
}

// Adds reads of buffers by tasks of other fragments, and permanent buffers, which random plans do not have.
void add_buffers(unity::tasks::program& p, random_engine& random, device_index devices) {
  const auto extra = p.add_fragment();
  fragment body;
  const auto fragments = p.fragment_count() - 1;
  for (int i = 0; i < 12; ++i) {
    const fragment_id f{random.below(fragments)};
    const auto tasks = p[f].tasks.size();
    const fragment_id g{random.below(fragments)};
    const auto buffers = p[g].buffers.size();
    if (tasks == 0) {
      continue;
    }
    const task_ref some{f, static_cast<std::uint32_t>(random.below(tasks))};
    const bool is_permanent = random.below(4) == 0;
    body.buffers.push_back(
        {bytes{random.between(0, 500)}, static_cast<device_index>(random.below(devices)), some, is_permanent});
    if (buffers > 0) {
      body.reads.push_back({{g, static_cast<std::uint32_t>(random.below(buffers))}, some});
    }
  }
  p.replace(extra, body);
  p.commit();
}

}  // namespace

TEST_CASE("memory profiles and bounds equal the sums of buffers alive", "[law]") {
  std::size_t changes = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    test::random_plan_options o;
    o.devices = 1 + random.below(4);
    o.longest = seed % 2 == 0 ? 3 : 1000;
    const test::random_plan plan{random, o};
    auto p = plan.lower(random);
    add_buffers(p, random, static_cast<device_index>(o.devices));
    simulate::full_simulation s;
    const auto end = s.run(p).count();
    const auto alive = lifetimes(p, s);
    const auto profiles = simulate::memory_profiles(p, s.times());
    REQUIRE(profiles.size() == o.devices);
    const auto bounds = simulate::memory_bounds(p, s.times(), o.devices, picoseconds{end});
    const auto part = end / 1024 + 1;
    std::vector<std::int64_t> instants{0, end};
    for (const auto& l : alive) {
      instants.push_back(l.from);
      instants.push_back(std::min(l.to, end));
      instants.push_back(l.from + 1);
    }
    for (device_index d = 0; d < o.devices; ++d) {
      std::int64_t peak = 0;
      for (const auto t : instants) {
        std::int64_t held = 0;
        for (const auto& l : alive) {
          held += l.device == d && l.from <= t && t < l.to ? l.size : 0;
        }
        peak = std::max(peak, held);
        const auto& levels = profiles[d].levels;
        const auto after =
            std::find_if(levels.begin(), levels.end(), [&](const auto& level) { return level.from.count() > t; });
        CAPTURE(d, t);
        REQUIRE((after == levels.begin() ? 0 : (after - 1)->held.count()) == held);
      }
      REQUIRE(profiles[d].peak.count() == peak);
      std::int64_t bound = 0;  // largest sum over parts of an iteration of all buffers held in it
      for (const auto t : instants) {
        std::int64_t held = 0;
        for (const auto& l : alive) {
          held += l.device == d && l.from / part <= t / part && t / part <= l.to / part ? l.size : 0;
        }
        bound = std::max(bound, held);
      }
      REQUIRE(bounds[d].count() == bound);
      REQUIRE(bounds[d].count() >= peak);
      for (std::size_t i = 1; i < profiles[d].levels.size(); ++i) {
        REQUIRE(profiles[d].levels[i - 1].from < profiles[d].levels[i].from);
        REQUIRE(profiles[d].levels[i - 1].held != profiles[d].levels[i].held);
      }
      changes += profiles[d].levels.size();
    }
  }
  CHECK(changes > 1000);
}

TEST_CASE("memory profiles of devices without buffers are empty") {
  unity::tasks::program p;
  p.add_resource({"a", resource_kind::stream, 0});
  p.add_resource({"b", resource_kind::stream, 1});
  simulate::full_simulation s;
  s.run(p);
  CHECK(simulate::memory_profiles(p, s.times()) == std::vector<simulate::memory_profile>(2));
}

}  // namespace tests_of_memory
