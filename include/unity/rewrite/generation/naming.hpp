// The ways to share variables between two terms, and the canonical form of a term over stored terms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

// A term in stored form, and the names of its variables where it was found.
struct canonical_term {
  stored_term term{};
  variable_map names{};
  std::size_t variables = 0;
};

namespace detail {

// The right operand's map if the left operand's variables come first and new ones follow in order.
[[nodiscard]] canonical_term join_names(const term_store& store, std::uint16_t op, term_instance left,
                                        term_instance right);

}  // namespace detail

// The stored form of op(operands). Of all forms that symmetries of the operands (and of a commutative operator) allow,
// it chooses one whose operands share the most operators, because that determines its size, and among those the least
// map.
// Complexity: the product of the numbers of symmetries.
[[nodiscard]] canonical_term canonical(const term_store& store, std::uint16_t op, bool commutative,
                                       std::span<const term_instance> operands);

// The renamings of a stored term to itself that follow from commutativity and the symmetries of its operands, including
// the identity.
[[nodiscard]] std::vector<variable_map> plain_symmetries(const term_store& store, const stored_term& t,
                                                         bool commutative);

// Calls found(map, variables) for every way to identify variables of `right` with variables of `left` or make them new,
// with at most `most` per sort. forced[j] >= 0: fixes variable j of `right` to that number.
template <class Found>
void for_each_naming(const term_facts& left, const term_facts& right, std::span<const std::int8_t> forced,
                     std::size_t most, Found&& found) {
  std::array<std::uint8_t, 16> of_sort{};
  for (std::size_t i = 0; i < left.variables; ++i) {
    ++of_sort[left.sorts[i]];
  }
  std::array<bool, variable_map::most> taken{};
  for (std::size_t j = 0; j < forced.size(); ++j) {
    if (forced[j] >= 0) {
      taken[static_cast<std::size_t>(forced[j])] = true;
    }
  }
  const auto choose = [&](const auto& self, std::size_t j, variable_map map, std::size_t variables) -> void {
    if (j == right.variables) {
      found(map, variables);
      return;
    }
    if (j < forced.size() && forced[j] >= 0) {
      map.set(j, static_cast<std::size_t>(forced[j]));
      self(self, j + 1, map, variables);
      return;
    }
    const auto sort = right.sorts[j];
    if (of_sort[sort] < most && variables < variable_map::most) {
      ++of_sort[sort];
      map.set(j, variables);
      self(self, j + 1, map, variables + 1);
      --of_sort[sort];
    }
    for (std::size_t i = 0; i < left.variables; ++i) {
      if (!taken[i] && left.sorts[i] == sort) {
        taken[i] = true;
        map.set(j, i);
        self(self, j + 1, map, variables);
        taken[i] = false;
      }
    }
  };
  choose(choose, 0, variable_map{}, left.variables);
}

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_NAMING)

#include <algorithm>

namespace unity::detail {

UNITY_INLINE canonical_term join_names(const term_store& store, std::uint16_t op, term_instance left,
                                       term_instance right) {
  canonical_term t;
  const auto left_count = store[left.orbit].facts.variables;
  const auto right_count = store[right.orbit].facts.variables;
  std::array<std::int8_t, 16> local{};
  local.fill(-1);
  for (std::size_t i = 0; i < left_count; ++i) {
    local[left.map[i]] = static_cast<std::int8_t>(i);
    t.names.set(i, left.map[i]);
  }
  t.variables = left_count;
  variable_map map;
  for (std::size_t j = 0; j < right_count; ++j) {
    auto& mine = local[right.map[j]];
    if (mine < 0) {
      mine = static_cast<std::int8_t>(t.variables);
      t.names.set(t.variables++, right.map[j]);
    }
    map.set(j, static_cast<std::size_t>(mine));
  }
  t.term = {
      op, 2, {term_instance{left.orbit, variable_map::identity().cut(left_count)}, term_instance{right.orbit, map}}};
  return t;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE canonical_term canonical(const term_store& store, std::uint16_t op, bool commutative,
                                      std::span<const term_instance> operands) {
  if (operands.size() < 2) {
    canonical_term t;
    t.term.op = op;
    t.term.arity = static_cast<std::uint16_t>(operands.size());
    if (!operands.empty()) {
      const auto& o = store[operands[0].orbit];
      t.variables = o.facts.variables;
      t.names = operands[0].map.cut(t.variables);
      t.term.operands[0] = {operands[0].orbit, variable_map::identity().cut(t.variables)};
    }
    return t;
  }
  auto left = operands[0];
  auto right = operands[1];
  if (commutative && right.orbit < left.orbit) {
    std::swap(left, right);
  }
  auto best = detail::join_names(store, op, left, right);
  auto most_shared = store.shared(left, right);
  const auto consider = [&](term_instance l, term_instance r) {
    const auto& lo = store[l.orbit];
    const auto& ro = store[r.orbit];
    for (const auto a : store.automorphisms(lo)) {
      for (const auto b : store.automorphisms(ro)) {
        const term_instance x{l.orbit, a.then(l.map, lo.facts.variables)};
        const term_instance y{r.orbit, b.then(r.map, ro.facts.variables)};
        const auto t = detail::join_names(store, op, x, y);
        const auto shared = store.shared(x, y);
        if (shared > most_shared || (shared == most_shared && t.term.operands[1].map < best.term.operands[1].map)) {
          best = t;
          most_shared = shared;
        }
      }
    }
  };
  if (store[left.orbit].automorphism_count > 1 || store[right.orbit].automorphism_count > 1) {
    consider(left, right);
  }
  if (commutative && left.orbit == right.orbit) {
    consider(right, left);
  }
  return best;
}

UNITY_INLINE std::vector<variable_map> plain_symmetries(const term_store& store, const stored_term& t,
                                                        bool commutative) {
  std::vector<variable_map> all;
  const auto consider = [&](variable_map names, std::size_t variables, const stored_term& written) {
    if (written == t && std::find(all.begin(), all.end(), names.cut(variables)) == all.end()) {
      all.push_back(names.cut(variables));
    }
  };
  if (t.arity == 0) {
    return {variable_map{}};
  }
  const auto& left = store[t.operands[0].orbit];
  if (t.arity == 1) {
    return {store.automorphisms(left).begin(), store.automorphisms(left).end()};
  }
  const auto& right = store[t.operands[1].orbit];
  for (const auto a : store.automorphisms(left)) {
    for (const auto b : store.automorphisms(right)) {
      const term_instance l{t.operands[0].orbit, a.then(t.operands[0].map, left.facts.variables)};
      const term_instance r{t.operands[1].orbit, b.then(t.operands[1].map, right.facts.variables)};
      const auto straight = detail::join_names(store, t.op, l, r);
      consider(straight.names, straight.variables, straight.term);
      if (commutative && l.orbit == r.orbit) {
        const auto swapped = detail::join_names(store, t.op, r, l);
        consider(swapped.names, swapped.variables, swapped.term);
      }
    }
  }
  return all;
}

}  // namespace unity

#endif
