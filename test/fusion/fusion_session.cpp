// Fusion strategies changed step by step, against the same strategies built and simulated from scratch.
#include <unity/fusion/fusion_session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
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
      REQUIRE(std::all_of(all.begin(), all.end(),
                          [&](auto m) { return g[m].role == g[k].role && g[m].domain == g[k].domain; }));
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

// What kernels read, compute and write, from the definition.
class defined_kernels {
 public:
  defined_kernels(const instruction_graph& g, const fusion_strategy& s)
      : graph_{g}, strategy_{s}, members_{members_of(s)}, computed_by_(g.size()) {
    for (std::uint32_t k = 0; k < members_.size(); ++k) {
      for (const auto m : members_[k]) {
        computed_by_[m].insert(k);
      }
    }
  }

  [[nodiscard]] const std::vector<instruction_id>& members(std::uint32_t k) const { return members_[k]; }
  [[nodiscard]] kernel_description description(std::uint32_t k) const {
    const auto& all = members_[k];
    const auto place = [&](instruction_id i) {
      return static_cast<std::uint16_t>(std::find(all.begin(), all.end(), i) - all.begin());
    };
    kernel_description d;
    for (const auto m : all) {
      kernel_part p;
      p.kind = graph_[m].kind;
      p.is_folding = graph_[m].is_folding;
      p.flops = graph_[m].flops;
      p.writes = graph_[m].size;
      p.writes_outside = is_needed_outside(m, k) ? graph_[m].size : 0;
      p.duration = graph_[m].duration;
      for (const auto& o : graph_.operands(m)) {
        p.reads += o.bytes;
        if (computed_by_[o.from].contains(k)) {
          d.edges.emplace_back(place(o.from), place(m));
        } else {
          p.reads_outside += o.bytes;
        }
      }
      d.parts.push_back(p);
    }
    std::sort(d.edges.begin(), d.edges.end());
    return d;
  }
  // A launch, plus the arithmetic or the traffic, where a value that several members read is read once.
  [[nodiscard]] picoseconds roofline(std::uint32_t k, const kernel_model& model) const {
    double arithmetic = 0;
    double traffic = 0;
    std::map<instruction_id, double> read;
    for (const auto m : members_[k]) {
      arithmetic += graph_[m].arithmetic;
      traffic += is_needed_outside(m, k) ? graph_[m].size : 0;
      for (const auto& o : graph_.operands(m)) {
        if (!computed_by_[o.from].contains(k)) {
          read[o.from] = std::max(read[o.from], o.bytes);
        }
      }
    }
    for (const auto& [from, most] : read) {
      traffic += most;
    }
    const auto longer = std::max(arithmetic, traffic / model.bytes_per_picosecond);
    return model.launch + picoseconds{static_cast<std::int64_t>(longer + 0.5)};
  }

 private:
  // Whether a kernel that does not compute it reads the result that this one provides, or it is needed afterwards.
  [[nodiscard]] bool is_needed_outside(instruction_id m, std::uint32_t k) const {
    const auto readers = graph_.readers(m);
    return strategy_.group_of[m] == k &&
           (graph_[m].leaves || std::any_of(readers.begin(), readers.end(), [&](instruction_id r) {
              return std::any_of(computed_by_[r].begin(), computed_by_[r].end(),
                                 [&](std::uint32_t c) { return !computed_by_[m].contains(c); });
            }));
  }

  const instruction_graph& graph_;
  const fusion_strategy& strategy_;
  std::vector<std::vector<instruction_id>> members_;
  std::vector<std::set<std::uint32_t>> computed_by_;  // by instruction: the groups that compute it
};

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
    const auto before = s.groups().fingerprint();
    const bool changed = test::change_at_random(s, g, random);
    REQUIRE(changed == (before != s.groups().fingerprint()));
    made += changed ? 1 : 0;
    if (step % 3 == 2) {
      const auto now = s.groups().strategy();
      REQUIRE_FALSE(is_cyclic(g, now));
      check_groups(g, target.limits, now);
      REQUIRE(now.fingerprint() == s.groups().fingerprint());
      other.reset(now);
      REQUIRE(other.groups().strategy() == now);
      REQUIRE(other.groups().fingerprint() == s.groups().fingerprint());
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
    REQUIRE(s.groups().fingerprint() == before.fingerprint());
    REQUIRE(s.iteration() == iteration);
    for (instruction_id i = 0; i < g.size(); ++i) {
      REQUIRE(s.duration(s.groups().group_of(i)) == durations[i]);
    }
    s.reset(after);
  }
}

TEST_CASE("a fusion session takes the time of each group from what it reads and computes and writes", "[law]") {
  std::size_t fused = 0;
  std::size_t copies = 0;
  for (std::uint64_t seed = 1; seed <= test::cases(60); ++seed) {
    INFO("seed " << seed);
    random_engine random{seed};
    const auto g = test::random_instructions(random, 12 + random.below(120));
    const auto plain = test::random_target(random);
    const auto strategy = test::random_strategy(g, plain, random, 100);
    const defined_kernels kernels{g, strategy};
    auto estimating = plain;
    estimating.kernels.estimate = [](const kernel_description& d) {
      return picoseconds{1 + static_cast<std::int64_t>(fingerprint_of(d).low % 5000)};
    };
    const fusion_target* const targets[]{&plain, &estimating};
    for (const auto* const target : targets) {
      fusion_session s{g, *target};
      s.reset(strategy);
      fusion_times sums;
      for (std::uint32_t k = 0; k < g.size(); ++k) {
        const auto& all = kernels.members(k);
        if (all.empty() || g[k].role == instruction_role::source) {
          continue;
        }
        picoseconds expected = g[k].duration;
        if (g.reduces(k)) {
          double size = 0;
          for (const auto m : all) {
            size += g[m].size;
          }
          expected = target->all_reduce(size);
        } else {
          const auto d = kernels.description(k);
          REQUIRE(s.groups().description(k) == d);
          if (all.size() > 1) {
            expected = target->kernels.estimate ? target->kernels.estimate(d) : kernels.roofline(k, target->kernels);
          }
        }
        REQUIRE(s.duration(k) == std::max(expected, picoseconds{1}));
        (g.reduces(k) ? sums.communication : sums.compute) += s.duration(k);
      }
      REQUIRE(s.times().compute == sums.compute);
      REQUIRE(s.times().communication == sums.communication);
    }
    const auto counts = count_groups(g, strategy);
    fused += counts.fused;
    copies += counts.copies;
  }
  CHECK(fused > test::cases(60) / 2);
  CHECK(copies > 0);
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
