// Stored terms written out, node by node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

namespace detail {

class term_writer {
 public:
  term_writer(const term_store& store, const sort_list& sorts, variable_map names)
      : store_{store}, sorts_{sorts}, names_{names} {}

  void add(const term& t);
  [[nodiscard]] written_term take() { return std::move(nodes_); }

 private:
  // Instances that are equal by a symmetry are one node, written as the first of them.
  std::uint32_t add(const instance& i);
  std::uint32_t variable(std::size_t v) {
    return place(
        {term_node::variable, static_cast<std::uint16_t>(sorts_[v]), static_cast<std::uint16_t>(names_[v]), {}});
  }
  std::uint32_t place(const term_node& n);

  const term_store& store_;
  const sort_list& sorts_;
  variable_map names_;
  written_term nodes_;
  std::vector<std::pair<instance, std::uint32_t>> placed_;
};

}  // namespace detail

// The nodes of a term with variable i named names[i].
[[nodiscard]] written_term write_term(const term_store& store, const term& t, const sort_list& sorts,
                                      variable_map names);

// Terms over the variables of `f`, which are numbered from 0 within their sorts.
[[nodiscard]] std::vector<written_term> write_terms(const term_store& store, std::span<const term> terms,
                                                    const term_facts& f);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_WRITTEN)

#include <algorithm>
#include <array>

namespace unity::detail {

UNITY_INLINE void term_writer::add(const term& t) {
  if (t.op == term_node::variable) {
    variable(t.operands[0].map[0]);
    return;
  }
  term_node n;
  n.op = t.op;
  for (std::size_t i = 0; i < t.arity; ++i) {
    n.operands.push_back(add(t.operands[i]));
  }
  static_cast<void>(place(n));
}

UNITY_INLINE std::uint32_t term_writer::add(const instance& i) {
  const auto& o = store_[i.orbit];
  if (o.term.op == term_node::variable) {
    return variable(i.map[0]);
  }
  const auto same = store_.canonical(i);
  const auto found = std::find_if(placed_.begin(), placed_.end(), [&](const auto& p) { return p.first == same; });
  if (found != placed_.end()) {
    return found->second;
  }
  term_node n;
  n.op = o.term.op;
  for (std::size_t k = 0; k < o.term.arity; ++k) {
    const auto& part = o.term.operands[k];
    n.operands.push_back(add(instance{part.orbit, part.map.then(i.map, store_[part.orbit].facts.variables)}));
  }
  const auto at = place(n);
  placed_.emplace_back(same, at);
  return at;
}

UNITY_INLINE std::uint32_t term_writer::place(const term_node& n) {
  const auto found = std::find(nodes_.begin(), nodes_.end(), n);
  if (found == nodes_.end()) {
    nodes_.push_back(n);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  return static_cast<std::uint32_t>(found - nodes_.begin());
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE written_term write_term(const term_store& store, const term& t, const sort_list& sorts,
                                     variable_map names) {
  detail::term_writer writer{store, sorts, names};
  writer.add(t);
  return writer.take();
}

UNITY_INLINE std::vector<written_term> write_terms(const term_store& store, std::span<const term> terms,
                                                   const term_facts& f) {
  std::array<std::uint8_t, 16> used{};
  variable_map names;
  for (std::size_t i = 0; i < f.variables; ++i) {
    names.set(i, used[f.sorts[i]]++);
  }
  std::vector<written_term> all;
  for (const auto& t : terms) {
    all.push_back(write_term(store, t, f.sorts, names));
  }
  return all;
}

}  // namespace unity

#endif
