// Terms up to renaming of variables: each stored once, as an operator on stored terms and how their variables are
// shared.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/rewrite/generation/language.hpp>

namespace unity {

// Entry i is the new number of variable i. At most 8 variables, numbered below 16. The number of variables is known to
// the term.
class variable_map {
 public:
  static constexpr std::size_t most = 8;

  constexpr variable_map() noexcept = default;
  [[nodiscard]] static constexpr variable_map identity() noexcept {
    variable_map m;
    m.bits_ = 0x76543210U;
    return m;
  }
  [[nodiscard]] static constexpr variable_map from_bits(std::uint32_t bits) noexcept {
    variable_map m;
    m.bits_ = bits;
    return m;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_; }

  [[nodiscard]] constexpr std::size_t operator[](std::size_t i) const noexcept { return bits_ >> 4U * i & 15U; }
  constexpr void set(std::size_t i, std::size_t to) noexcept {
    bits_ = (bits_ & ~(15U << 4U * i)) | static_cast<std::uint32_t>(to) << 4U * i;
  }
  // Composition, this first: entry i is next[this[i]]. Entries from `count` on become 0.
  [[nodiscard]] constexpr variable_map then(variable_map next, std::size_t count) const noexcept {
    variable_map m;
    for (std::size_t i = 0; i < count; ++i) {
      m.set(i, next[(*this)[i]]);
    }
    return m;
  }
  // Only the first `count` entries.
  [[nodiscard]] constexpr variable_map cut(std::size_t count) const noexcept {
    return from_bits(count >= most ? bits_ : bits_ & ((std::uint32_t{1} << 4U * count) - 1));
  }
  // The inverse of a permutation of `count` variables.
  [[nodiscard]] constexpr variable_map inverse(std::size_t count) const noexcept {
    variable_map m;
    for (std::size_t i = 0; i < count; ++i) {
      m.set((*this)[i], i);
    }
    return m;
  }

  friend constexpr auto operator<=>(variable_map, variable_map) noexcept = default;
  friend constexpr bool operator==(variable_map, variable_map) noexcept = default;

 private:
  std::uint32_t bits_ = 0;
};

using orbit_id = std::uint32_t;

// A stored term under a naming of its variables.
struct term_instance {
  orbit_id orbit = 0;
  variable_map map{};

  friend bool operator==(term_instance, term_instance) noexcept = default;
};

// A term in the form that is stored, before or after it is: an operator on instances. Its variables are numbered by
// first occurrence, the left operand's first.
struct stored_term {
  std::uint16_t op = term_node::variable;
  std::uint16_t arity = 0;
  std::array<term_instance, 2> operands{};

  friend bool operator==(const stored_term&, const stored_term&) noexcept = default;
};

// The sorts of a term's variables, four bits each.
class sort_list {
 public:
  constexpr sort_list() noexcept = default;
  [[nodiscard]] constexpr std::size_t operator[](std::size_t i) const noexcept { return bits_ >> 4U * i & 15U; }
  constexpr void set(std::size_t i, std::size_t sort) noexcept {
    bits_ = (bits_ & ~(15U << 4U * i)) | static_cast<std::uint32_t>(sort) << 4U * i;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_; }

 private:
  std::uint32_t bits_ = 0;
};

// Properties of a term besides its operands.
struct term_facts {
  sort_list sorts{};
  std::uint16_t type = 0;
  std::uint8_t variables = 0;
  std::uint8_t size = 0;       // operators, shared ones once
  std::uint8_t tree_size = 0;  // operators, counted as often as they are used
  std::uint8_t repeats = 0;    // occurrences of variables beyond the first
};

struct term_orbit {
  static constexpr std::uint64_t not_kept = ~std::uint64_t{0};

  stored_term term{};
  term_facts facts{};
  std::uint32_t program = 0;        // computes it from its operands
  std::uint64_t values = not_kept;  // offset of its sample values, for the first naming
  std::uint32_t nodes = 0;          // offset of its subterms, itself last; as many as its size
  std::uint32_t automorphisms = 0;  // offset of its renamings to itself, the identity first
  std::uint32_t automorphism_count = 0;
};

// Orbits by number, the variables of each sort first.
class term_store {
 public:
  explicit term_store(std::span<const std::uint16_t> sorts);

  [[nodiscard]] std::size_t size() const noexcept { return orbits_.size(); }
  [[nodiscard]] const term_orbit& operator[](orbit_id o) const noexcept { return orbits_[o]; }
  [[nodiscard]] term_orbit& at(orbit_id o) noexcept { return orbits_[o]; }
  [[nodiscard]] std::span<const term_instance> nodes(const term_orbit& o) const noexcept {
    return std::span{nodes_}.subspan(o.nodes, o.facts.size);
  }
  [[nodiscard]] std::span<const variable_map> automorphisms(const term_orbit& o) const noexcept {
    return std::span{automorphisms_}.subspan(o.automorphisms, o.automorphism_count);
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return orbits_.capacity() * sizeof(term_orbit) + nodes_.capacity() * sizeof(term_instance) +
           automorphisms_.capacity() * sizeof(variable_map);
  }

  // The instance with the least name among those that are equal by a symmetry of its orbit.
  [[nodiscard]] term_instance canonical(term_instance i) const noexcept;

  // The number of operators that two instances share.
  [[nodiscard]] std::size_t shared(term_instance left, term_instance right) const noexcept;

  // The distinct operators of a term that is not stored, without itself.
  void collect_nodes(const stored_term& t, std::vector<term_instance>& out) const;

  // Effects: stores a new term. automorphisms: all of them, the identity first.
  orbit_id add(const stored_term& t, const term_facts& facts, std::uint32_t program,
               std::span<const variable_map> automorphisms);

 private:
  std::vector<term_orbit> orbits_;
  std::vector<term_instance> nodes_;
  std::vector<variable_map> automorphisms_;
  std::vector<term_instance> scratch_;
};

namespace detail {

class term_writer {
 public:
  term_writer(const term_store& store, const sort_list& sorts, variable_map names)
      : store_{store}, sorts_{sorts}, names_{names} {}

  void add(const stored_term& t);
  [[nodiscard]] written_term take() { return std::move(nodes_); }

 private:
  // Instances that are equal by a symmetry are one node, written as the first of them.
  std::uint32_t add(const term_instance& i);
  std::uint32_t variable(std::size_t v) {
    return place(
        {term_node::variable, static_cast<std::uint16_t>(sorts_[v]), static_cast<std::uint16_t>(names_[v]), {}});
  }
  std::uint32_t place(const term_node& n);

  const term_store& store_;
  const sort_list& sorts_;
  variable_map names_;
  written_term nodes_;
  std::vector<std::pair<term_instance, std::uint32_t>> placed_;
};

}  // namespace detail

// The nodes of a term with variable i named names[i].
[[nodiscard]] written_term write_term(const term_store& store, const stored_term& t, const sort_list& sorts,
                                      variable_map names);

// Terms over the variables of `f`, which are numbered from 0 within their sorts.
[[nodiscard]] std::vector<written_term> write_terms(const term_store& store, std::span<const stored_term> terms,
                                                    const term_facts& f);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_TERM_STORE)

#include <algorithm>

namespace unity {

UNITY_INLINE term_store::term_store(std::span<const std::uint16_t> sorts) {
  for (std::size_t s = 0; s < sorts.size(); ++s) {
    term_facts facts;
    facts.sorts.set(0, s);
    facts.type = sorts[s];
    facts.variables = 1;
    orbits_.push_back({{}, facts, 0, term_orbit::not_kept, 0, 0, 1});
  }
  automorphisms_.push_back(variable_map::identity());
}

UNITY_INLINE term_instance term_store::canonical(term_instance i) const noexcept {
  const auto& o = orbits_[i.orbit];
  auto best = i.map.cut(o.facts.variables);
  for (std::uint32_t k = 1; k < o.automorphism_count; ++k) {
    best = std::min(best, automorphisms_[o.automorphisms + k].then(i.map, o.facts.variables));
  }
  return {i.orbit, best};
}

UNITY_INLINE std::size_t term_store::shared(term_instance left, term_instance right) const noexcept {
  const auto named = [&](const term_instance& n, const term_instance& of) {
    return canonical({n.orbit, n.map.then(of.map, orbits_[n.orbit].facts.variables)});
  };
  std::size_t count = 0;
  for (const auto& r : nodes(orbits_[right.orbit])) {
    for (const auto& l : nodes(orbits_[left.orbit])) {
      count += l.orbit == r.orbit && named(l, left) == named(r, right) ? 1U : 0U;
    }
  }
  return count;
}

UNITY_INLINE void term_store::collect_nodes(const stored_term& t, std::vector<term_instance>& out) const {
  out.clear();
  for (std::size_t i = 0; i < t.arity; ++i) {
    const auto& o = orbits_[t.operands[i].orbit];
    for (const auto& n : nodes(o)) {
      const auto moved = canonical({n.orbit, n.map.then(t.operands[i].map, orbits_[n.orbit].facts.variables)});
      if (i == 0 || std::find(out.begin(), out.end(), moved) == out.end()) {
        out.push_back(moved);
      }
    }
  }
}

UNITY_INLINE orbit_id term_store::add(const stored_term& t, const term_facts& facts, std::uint32_t program,
                                      std::span<const variable_map> automorphisms) {
  const auto id = static_cast<orbit_id>(orbits_.size());
  term_orbit o;
  o.term = t;
  o.facts = facts;
  o.program = program;
  o.nodes = static_cast<std::uint32_t>(nodes_.size());
  o.automorphism_count = static_cast<std::uint32_t>(automorphisms.size());
  if (automorphisms.size() > 1) {
    o.automorphisms = static_cast<std::uint32_t>(automorphisms_.size());
    automorphisms_.insert(automorphisms_.end(), automorphisms.begin(), automorphisms.end());
  }
  collect_nodes(t, scratch_);
  orbits_.push_back(o);
  scratch_.push_back(canonical({id, variable_map::identity()}));
  UNITY_EXPECTS(scratch_.size() == facts.size, "a term of the size that its facts say");
  nodes_.insert(nodes_.end(), scratch_.begin(), scratch_.end());
  return id;
}

}  // namespace unity

namespace unity::detail {

UNITY_INLINE void term_writer::add(const stored_term& t) {
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

UNITY_INLINE std::uint32_t term_writer::add(const term_instance& i) {
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
    n.operands.push_back(add(term_instance{part.orbit, part.map.then(i.map, store_[part.orbit].facts.variables)}));
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

UNITY_INLINE written_term write_term(const term_store& store, const stored_term& t, const sort_list& sorts,
                                     variable_map names) {
  detail::term_writer writer{store, sorts, names};
  writer.add(t);
  return writer.take();
}

UNITY_INLINE std::vector<written_term> write_terms(const term_store& store, std::span<const stored_term> terms,
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
