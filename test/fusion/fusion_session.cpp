// Fusion strategies changed step by step, against the same strategies built and simulated from scratch.
#include <unity/fusion/fusion_session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_program.hpp>
#include <unity/simulate/full.hpp>

#include "../support/cases.hpp"
#include "random_instructions.hpp"

namespace fusion_session_test {

using namespace unity;
using namespace unity::fusion;

// Whether the groups depend on each other in a cycle.
bool is_cyclic(const instruction_graph& g, const fusion_strategy& s) {
  const auto members = members_of(s);
  std::vector<std::set<std::uint32_t>> before(members.size());
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    for (const auto m : members[k]) {
      for (const auto& o : g.operands(m)) {
        if (std::find(members[k].begin(), members[k].end(), o.from) == members[k].end()) {
          before[k].insert(s.group_of[o.from]);
        }
      }
    }
  }
  std::vector<int> state(members.size());
  const auto visit = [&](const auto& self, std::uint32_t k) -> bool {
    if (state[k] != 0) {
      return state[k] == 1;
    }
    state[k] = 1;
    const bool found = std::any_of(before[k].begin(), before[k].end(), [&](std::uint32_t b) { return self(self, b); });
    state[k] = 2;
    return found;
  };
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    if (visit(visit, k)) {
      return true;
    }
  }
  return false;
}

// Invariants of every strategy, checked from the definition.
void check_groups(const instruction_graph& g, const kernel_limits& limits, const fusion_strategy& s) {
  const auto members = members_of(s);
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    const auto& all = members[k];
    if (all.empty()) {
      continue;
    }
    REQUIRE(*std::find_if(all.begin(), all.end(), [&](auto m) { return s.group_of[m] == k; }) == k);
    if (all.size() == 1 || g.reduces(k)) {
      REQUIRE(std::all_of(all.begin(), all.end(), [&](auto m) { return g[m].role == g[k].role; }));
      continue;
    }
    REQUIRE(all.size() <= limits.operators);
    std::optional<std::uint32_t> domain;
    std::set<instruction_id> read;
    std::size_t written = 0;
    for (const auto m : all) {
      REQUIRE(g[m].role == instruction_role::fusible);
      if (g[m].domain != instruction::any_domain) {
        REQUIRE(domain.value_or(g[m].domain) == g[m].domain);
        domain = g[m].domain;
      }
      for (const auto& o : g.operands(m)) {
        if (std::find(all.begin(), all.end(), o.from) == all.end()) {
          read.insert(o.from);
        } else {
          REQUIRE(!g[m].is_head());
          REQUIRE(!g[o.from].is_folding);
          REQUIRE((limits.may_follow_reductions || g[o.from].kind != operator_class::reduction));
        }
      }
      bool leaves = g[m].leaves && s.group_of[m] == k;
      bool is_used = leaves || s.group_of[m] == k;
      for (const auto r : g.readers(m)) {
        for (std::uint32_t c = 0; c < members.size(); ++c) {
          const bool reads = std::find(members[c].begin(), members[c].end(), r) != members[c].end();
          const bool has = std::find(members[c].begin(), members[c].end(), m) != members[c].end();
          leaves = leaves || (reads && !has && s.group_of[m] == k);
          is_used = is_used || (c == k && reads);
        }
      }
      REQUIRE(is_used);
      written += leaves ? 1 : 0;
    }
    REQUIRE(read.size() + written <= limits.operands);
    REQUIRE(std::count_if(all.begin(), all.end(), [&](auto m) { return g[m].is_head(); }) <=
            (limits.may_follow_heads ? 1 : 0));
  }
}

TEST_CASE("a fusion session after random changes equals a new one for the same strategy") {
  const auto seed = GENERATE(range(std::uint64_t{1}, 1 + test::cases(60)));
  INFO("seed " << seed);
  random_engine random{seed};
  const auto g = test::random_instructions(random, 12 + random.below(120));
  const auto target = test::random_target(random);
  fusion_session s{g, target};
  s.reset(unfused(g));
  fusion_session other{g, target};
  std::size_t made = 0;
  REQUIRE(s.groups().strategy() == unfused(g));
  for (int step = 0; step < 150; ++step) {
    const auto print = s.groups().print();
    const bool changed = test::change_at_random(s, g, random);
    REQUIRE(changed == (print != s.groups().print()));
    made += changed ? 1 : 0;
    if (step % 3 == 2) {
      const auto now = s.groups().strategy();
      REQUIRE_FALSE(is_cyclic(g, now));
      check_groups(g, target.limits, now);
      REQUIRE(now.print() == s.groups().print());
      other.reset(now);
      REQUIRE(other.groups().strategy() == now);
      REQUIRE(other.groups().print() == s.groups().print());
      REQUIRE(other.iteration() == s.iteration());
    }
    if (random.below(30) == 0) {
      s.reset(s.groups().strategy());
    } else if (random.below(30) == 0) {
      s.undo();
    }
  }
  CHECK(made > 0);
}

TEST_CASE("undo restores a fusion session's groups and times") {
  const auto seed = GENERATE(range(std::uint64_t{1}, 1 + test::cases(40)));
  INFO("seed " << seed);
  random_engine random{seed};
  const auto g = test::random_instructions(random, 100);
  const auto target = test::random_target(random);
  fusion_session s{g, target};
  s.reset(unfused(g));
  for (int round = 0; round < 8; ++round) {
    const auto before = s.groups().strategy();
    const auto iteration = s.iteration();
    std::vector<picoseconds> durations;
    for (instruction_id i = 0; i < g.size(); ++i) {
      durations.push_back(s.duration(s.groups().group_of(i)));
    }
    for (int step = 0; step < 40; ++step) {
      test::change_at_random(s, g, random);
    }
    const auto after = s.groups().strategy();
    REQUIRE(s.iteration() > picoseconds{});
    s.undo();
    REQUIRE(s.groups().strategy() == before);
    REQUIRE(s.groups().print() == before.print());
    REQUIRE(s.iteration() == iteration);
    for (instruction_id i = 0; i < g.size(); ++i) {
      REQUIRE(s.duration(s.groups().group_of(i)) == durations[i]);
    }
    s.reset(after);
  }
}

TEST_CASE("a fusion session's times equal the full simulation of its program") {
  const auto seed = GENERATE(range(std::uint64_t{1}, 1 + test::cases(60)));
  INFO("seed " << seed);
  random_engine random{seed};
  const auto g = test::random_instructions(random, 12 + random.below(150));
  const auto target = test::random_target(random);
  fusion_session s{g, target};
  s.reset(unfused(g));
  for (int step = 0; step < 60; ++step) {
    test::change_at_random(s, g, random);
  }
  const auto strategy = s.groups().strategy();
  s.reset(strategy);
  const auto p = fusion_program(
      g, strategy, [&](std::uint32_t group) { return s.duration(s.groups().group_of(group)); },
      on_channels(1, [&](bytes b) {
        return std::max(target.all_reduce(static_cast<double>(b.count())), picoseconds{1});
      }));
  simulate::full_simulation full;
  full.run(p);
  REQUIRE(full.is_complete());
  picoseconds end{};
  for (const auto& group : s.schedule()) {
    bool found = false;
    for (std::size_t f = 0; f < p.fragment_count() && !found; ++f) {
      if (p.owner_of(tasks::fragment_id{f}).index == group.group) {
        found = true;
        const auto task = p.find(tasks::fragment_id{f}, g.reduces(group.group) ? 1 : 0);
        const auto& t = full.times()[task.index()];
        REQUIRE(t.start == group.start.count());
        REQUIRE(t.end == group.end.count());
      }
    }
    REQUIRE(found);
    end = std::max(end, group.end);
  }
  REQUIRE(end == s.iteration());
  const auto t = s.times();
  REQUIRE(t.iteration >= std::max(t.compute, t.communication));
}

}  // namespace fusion_session_test
