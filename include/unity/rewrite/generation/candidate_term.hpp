// A term built at the current size, small enough to keep millions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

struct candidate_term {
  std::uint64_t fingerprint = 0;
  orbit_id left = 0;
  orbit_id right = 0;
  variable_map map{};  // of the right operand
  std::uint32_t program = 0;
  std::uint16_t op = 0;
  std::uint16_t type = 0;
  std::uint8_t arity : 2 = 0;
  std::uint8_t symmetric : 1 = 0;  // several namings of its variables yield the fingerprint
  std::uint8_t size = 0;
  std::uint8_t tree_size = 0;
  std::uint8_t repeats = 0;

  candidate_term() = default;
  candidate_term(const term& t, const term_facts& f, std::uint32_t computed_by)
      : left{t.operands[0].orbit},
        right{t.operands[1].orbit},
        map{t.operands[1].map},
        program{computed_by},
        op{t.op},
        type{f.type},
        arity{static_cast<std::uint8_t>(t.arity & 3U)},
        size{f.size},
        tree_size{f.tree_size},
        repeats{f.repeats} {}

  [[nodiscard]] term get(const term_store& store) const noexcept;
  [[nodiscard]] term_facts facts(const term_store& store) const;
  [[nodiscard]] auto order() const noexcept { return std::tuple{tree_size, repeats, op, left, right, map.bits()}; }
};
static_assert(sizeof(candidate_term) == 32);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_CANDIDATE_TERM)

#include <unity/rewrite/generation/known_rules.hpp>

namespace unity {

UNITY_INLINE term candidate_term::get(const term_store& store) const noexcept {
  term t;
  t.op = op;
  t.arity = arity;
  if (arity > 0) {
    t.operands[0] = {left, variable_map::identity().cut(store[left].facts.variables)};
    t.operands[1] = {right, map};
  }
  return t;
}

UNITY_INLINE term_facts candidate_term::facts(const term_store& store) const {
  auto f = facts_of(store, get(store), size);
  f.type = type;
  return f;
}

}  // namespace unity

#endif
