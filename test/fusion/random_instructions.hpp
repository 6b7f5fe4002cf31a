// Random training iterations as instructions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>

namespace unity::test {

// Sources, then instructions of all classes that read recent values; some gradients are all-reduced, and updates read
// these.
inline fusion::instruction_graph random_instructions(random_engine& random, std::size_t count) {
  using namespace fusion;
  instruction_graph g;
  std::vector<instruction_id> values;
  const auto number = [&](std::int64_t lo, std::int64_t hi) { return static_cast<double>(random.between(lo, hi)); };
  const auto add = [&](instruction_role role, operator_class kind, std::vector<instruction_operand> operands) {
    instruction i;
    i.role = role;
    i.kind = kind;
    i.is_folding = kind == operator_class::reduction && random.below(2) == 0;
    i.domain = random.below(8) == 0 ? 1U : random.below(8) == 0 ? instruction::any_domain : 0U;
    i.flops = number(1, 1000);
    i.arithmetic = number(1, 2000);
    i.size = number(1, 1000);
    i.duration = picoseconds{random.between(1, 5000)};
    i.leaves = random.below(20) == 0;
    return g.add(i, operands);
  };
  for (int s = 0; s < 3; ++s) {
    values.push_back(add(instruction_role::source, operator_class::other, {}));
  }
  while (g.size() < count) {
    std::vector<instruction_operand> operands;
    for (std::uint64_t o = 1 + random.below(3); o-- > 0;) {
      const auto from = values[values.size() - 1 - random.below(std::min<std::uint64_t>(values.size(), 9))];
      const bool is_new = std::none_of(operands.begin(), operands.end(), [&](const auto& x) { return x.from == from; });
      if (is_new) {
        operands.push_back({from, number(1, 1000)});
      }
    }
    const auto made = add(random.below(12) == 0 ? instruction_role::alone : instruction_role::fusible,
                          static_cast<operator_class>(random.below(operator_class_names.size())), operands);
    if (random.below(4) != 0) {
      values.push_back(made);
    } else {
      const auto sum = add(instruction_role::all_reduce, operator_class::other, {{made, 1}});
      const auto update = add(instruction_role::alone, operator_class::elementwise, {{sum, 1}});
      if (random.below(6) == 0) {
        values.push_back(update);
      }
    }
  }
  g.finish();
  return g;
}

inline fusion::fusion_target random_target(random_engine& random) {
  fusion::fusion_target t;
  t.limits.operators = static_cast<std::uint32_t>(random.between(2, 12));
  t.limits.operands = static_cast<std::uint32_t>(random.between(4, 12));
  t.limits.may_follow_heads = random.below(2) == 0;
  t.limits.may_follow_reductions = random.below(2) == 0;
  t.kernels.bytes_per_picosecond = 0.5;
  t.kernels.launch = picoseconds{1000};
  const fusion::reduction_line line{static_cast<double>(random.between(1, 5)),
                                    static_cast<double>(random.between(1, 9000))};
  t.all_reduce = line;
  return t;
}

// Tries one random change at a random place; returns whether it was possible.
inline bool change_at_random(fusion::fusion_session& s, const fusion::instruction_graph& g, random_engine& random) {
  using namespace fusion;
  const auto i = static_cast<instruction_id>(random.below(g.size()));
  const auto to = s.groups().group_of(i);
  if (random.below(5) == 0) {
    return s.separate(i);
  }
  if (g.reduces(i)) {
    const auto other = static_cast<instruction_id>(random.below(g.size()));
    return g.reduces(other) && s.join(to, s.groups().group_of(other));
  }
  const auto operands = g.operands(i);
  if (!g.computes(i) || operands.empty()) {
    return false;
  }
  const auto from = operands[random.below(operands.size())].from;
  if (!g.computes(from)) {
    return false;
  }
  return random.below(3) == 0 ? s.duplicate(s.groups().group_of(from), to) : s.fuse(s.groups().group_of(from), to);
}

// A strategy after `tries` attempted random changes.
inline fusion::fusion_strategy random_strategy(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                               random_engine& random, int tries) {
  fusion::fusion_session s{g, t};
  s.reset(fusion::unfused(g));
  for (int k = 0; k < tries; ++k) {
    change_at_random(s, g, random);
  }
  return s.groups().strategy();
}

}  // namespace unity::test
