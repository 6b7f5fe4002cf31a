// Which variables the elements of a sample value are computed from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/sample_program.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

// For every element the set of variables, bit i for variable i.
using variable_marks = std::vector<std::uint8_t>;

// The same with variable i renamed to map[i].
[[nodiscard]] variable_marks renamed(variable_marks marks, variable_map map);

// The marks of what a program computes from operands.
[[nodiscard]] variable_marks marks_of(const sample_program& p,
                                      const std::array<variable_marks, sample_program::most_operands>& operands);

// The marks of a stored term. Complexity: that of the programs of all of its operators.
template <term_language L>
[[nodiscard]] variable_marks marks_of(const L& language, const term_store& store, orbit_id id) {
  const auto& o = store[id];
  if (o.term.op == term_node::variable) {
    return variable_marks(language.elements(o.facts.type), std::uint8_t{1});
  }
  std::array<variable_marks, sample_program::most_operands> operands;
  for (std::size_t i = 0; i < o.term.arity; ++i) {
    operands[i] = renamed(marks_of(language, store, o.term.operands[i].orbit), o.term.operands[i].map);
  }
  return marks_of(language.program(o.program), operands);
}

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_VARIABLE_MARKS)

namespace unity {

UNITY_INLINE variable_marks renamed(variable_marks marks, variable_map map) {
  for (auto& m : marks) {
    unsigned bits = 0;
    for (std::size_t v = 0; v < variable_map::most; ++v) {
      bits |= (m >> v & 1U) << map[v];
    }
    m = static_cast<std::uint8_t>(bits);
  }
  return marks;
}

UNITY_INLINE variable_marks marks_of(const sample_program& p,
                                     const std::array<variable_marks, sample_program::most_operands>& operands) {
  variable_marks temporaries(p.temporaries());
  variable_marks out(p.output_count());
  p.collect_marks({operands[0].data(), operands[1].data()}, temporaries.data(), out.data());
  return out;
}

}  // namespace unity

#endif
