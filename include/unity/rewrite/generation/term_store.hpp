// Terms up to renaming of variables: each stored once, as an operator on stored terms and how their variables are
// shared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

using orbit_id = std::uint32_t;

// A stored term under a naming of its variables.
struct instance {
  orbit_id orbit = 0;
  variable_map map{};

  friend bool operator==(instance, instance) noexcept = default;
};

// An operator on instances. Its variables are numbered by first occurrence, the left operand's first.
struct term {
  std::uint16_t op = term_node::variable;
  std::uint16_t arity = 0;
  std::array<instance, 2> operands{};

  friend bool operator==(const term&, const term&) noexcept = default;
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

struct orbit {
  static constexpr std::uint64_t not_kept = ~std::uint64_t{0};

  unity::term term{};
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
  [[nodiscard]] const orbit& operator[](orbit_id o) const noexcept { return orbits_[o]; }
  [[nodiscard]] orbit& at(orbit_id o) noexcept { return orbits_[o]; }
  [[nodiscard]] std::span<const instance> nodes(const orbit& o) const noexcept {
    return std::span{nodes_}.subspan(o.nodes, o.facts.size);
  }
  [[nodiscard]] std::span<const variable_map> automorphisms(const orbit& o) const noexcept {
    return std::span{automorphisms_}.subspan(o.automorphisms, o.automorphism_count);
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return orbits_.capacity() * sizeof(orbit) + nodes_.capacity() * sizeof(instance) +
           automorphisms_.capacity() * sizeof(variable_map);
  }

  // The instance with the least name among those that are equal by a symmetry of its orbit.
  [[nodiscard]] instance canonical(instance i) const noexcept;

  // The number of operators that two instances share.
  [[nodiscard]] std::size_t shared(instance left, instance right) const noexcept;

  // The distinct operators of a term that is not stored, without itself.
  void collect_nodes(const term& t, std::vector<instance>& out) const;

  // Effects: stores a new term. automorphisms: all of them, the identity first.
  orbit_id add(const term& t, const term_facts& facts, std::uint32_t program,
               std::span<const variable_map> automorphisms);

 private:
  std::vector<orbit> orbits_;
  std::vector<instance> nodes_;
  std::vector<variable_map> automorphisms_;
  std::vector<instance> scratch_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_TERM_STORE)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity {

UNITY_INLINE term_store::term_store(std::span<const std::uint16_t> sorts) {
  for (std::size_t s = 0; s < sorts.size(); ++s) {
    term_facts facts;
    facts.sorts.set(0, s);
    facts.type = sorts[s];
    facts.variables = 1;
    orbits_.push_back({{}, facts, 0, orbit::not_kept, 0, 0, 1});
  }
  automorphisms_.push_back(variable_map::identity());
}

UNITY_INLINE instance term_store::canonical(instance i) const noexcept {
  const auto& o = orbits_[i.orbit];
  auto best = i.map.cut(o.facts.variables);
  for (std::uint32_t k = 1; k < o.automorphism_count; ++k) {
    best = std::min(best, automorphisms_[o.automorphisms + k].then(i.map, o.facts.variables));
  }
  return {i.orbit, best};
}

UNITY_INLINE std::size_t term_store::shared(instance left, instance right) const noexcept {
  const auto named = [&](const instance& n, const instance& of) {
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

UNITY_INLINE void term_store::collect_nodes(const term& t, std::vector<instance>& out) const {
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

UNITY_INLINE orbit_id term_store::add(const term& t, const term_facts& facts, std::uint32_t program,
                                      std::span<const variable_map> automorphisms) {
  const auto id = static_cast<orbit_id>(orbits_.size());
  orbit o;
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

#endif
