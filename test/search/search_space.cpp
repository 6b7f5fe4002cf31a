// Static tests: the smallest spaces that the concepts accept, and spaces that each lack one requirement.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/search_space.hpp>

#include "../support/explicit_space.hpp"

namespace tests_of_search_space {

using unity::candidate;
using unity::cost_value;
using unity::fingerprint;

namespace archetype {

// States are only movable, and a scratch is only default-constructible.
struct state {
  state(state&&) = default;
  state& operator=(state&&) = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
};
struct scratch {
  scratch() = default;
  scratch(const scratch&) = delete;
};
struct move {
  std::uint64_t id;
  friend bool operator==(move, move) = default;
};

struct search_space {
  using state_type = state;
  using move_type = move;
  using scratch_type = scratch;
  search_space(const search_space&) = delete;

  state initial();
  cost_value cost(const state&);
  fingerprint fingerprint_of(const state&);
  std::span<const move> moves(const state&);
  void prepare(const state&, scratch&) const;
  std::optional<candidate> price(const state&, move, scratch&) const;
  state apply(const state&, move, scratch&, scratch&);
};
struct canonical_space : search_space {
  fingerprint canonical_fingerprint(const state&, scratch&) const;
};
struct commuting_space : search_space {
  bool independent(move, move) const;
};
struct bounded_space : search_space {
  cost_value lower_bound(const state&) const;
};
struct measured_space : search_space {
  std::size_t memory() const;
  std::size_t memory(const state&) const;
};

}  // namespace archetype

static_assert(unity::search_space<archetype::search_space>);
static_assert(unity::canonical_space<archetype::canonical_space> && !unity::canonical_space<archetype::search_space>);
static_assert(unity::commuting_space<archetype::commuting_space> && !unity::commuting_space<archetype::search_space>);
static_assert(unity::bounded_space<archetype::bounded_space> && !unity::bounded_space<archetype::search_space>);
static_assert(unity::measured_space<archetype::measured_space> && !unity::measured_space<archetype::search_space>);
static_assert(unity::search_space<unity::test::explicit_space> &&
              unity::bounded_space<unity::test::bounded_explicit_space>);
static_assert(!unity::bounded_space<unity::test::explicit_space> &&
              !unity::commuting_space<unity::test::explicit_space>);

namespace near_miss {

using namespace archetype;

struct pinned_state {
  pinned_state(pinned_state&&) = delete;
};
struct big {
  std::uint64_t id[2];
  friend bool operator==(const big&, const big&) = default;
};
struct owning {
  std::vector<int> path;
  friend bool operator==(const owning&, const owning&) = default;
};
struct unequal {
  int id;
};

struct without_initial : archetype::search_space {
  void initial() = delete;
};
struct cost_as_double : archetype::search_space {
  double cost(const state&);
};
struct fingerprint_of_64_bits : archetype::search_space {
  std::uint64_t fingerprint_of(const state&);
};
struct moves_one_by_one : archetype::search_space {
  std::optional<move> moves(const state&);
};
struct pricing_that_always_applies : archetype::search_space {
  candidate price(const state&, move, scratch&) const;
};
struct pricing_that_changes_the_space : archetype::search_space {
  std::optional<candidate> price(const state&, move, scratch&);
};
struct application_in_place : archetype::search_space {
  void apply(state&, move, scratch&, scratch&);
};
struct application_with_one_scratch : archetype::search_space {
  state apply(const state&, move, scratch&);
};
struct scratch_with_arguments : archetype::search_space {
  struct scratch_type {
    explicit scratch_type(int);
  };
};
struct bound_as_double : archetype::search_space {
  double lower_bound(const state&) const;
};
struct memory_of_states_alone : archetype::search_space {
  std::size_t memory(const state&) const;
};
struct independence_by_degrees : archetype::search_space {
  int independent(move, move) const;
};

}  // namespace near_miss

static_assert(unity::small_move<archetype::move> && unity::small_move<std::uint32_t>);
static_assert(!unity::small_move<near_miss::big> && !unity::small_move<near_miss::owning> &&
              !unity::small_move<near_miss::unequal>);
static_assert(!unity::has_states<near_miss::without_initial> && unity::has_moves<near_miss::without_initial>);
static_assert(!unity::has_states<near_miss::cost_as_double> && unity::has_pricing<near_miss::cost_as_double>);
static_assert(!unity::has_states<near_miss::fingerprint_of_64_bits>);
static_assert(!unity::has_moves<near_miss::moves_one_by_one> && unity::has_states<near_miss::moves_one_by_one>);
static_assert(!unity::has_pricing<near_miss::pricing_that_always_applies> &&
              unity::has_application<near_miss::pricing_that_always_applies>);
static_assert(!unity::has_pricing<near_miss::pricing_that_changes_the_space>);
static_assert(!unity::has_application<near_miss::application_in_place> &&
              unity::has_pricing<near_miss::application_in_place>);
static_assert(!unity::has_application<near_miss::application_with_one_scratch>);
static_assert(!unity::has_pricing<near_miss::scratch_with_arguments>);
static_assert(!unity::search_space<near_miss::without_initial> && !unity::search_space<near_miss::moves_one_by_one> &&
              !unity::search_space<near_miss::pricing_that_changes_the_space> &&
              !unity::search_space<near_miss::application_in_place> && !unity::search_space<int>);
static_assert(unity::search_space<near_miss::bound_as_double> && !unity::bounded_space<near_miss::bound_as_double>);
static_assert(unity::search_space<near_miss::memory_of_states_alone> &&
              !unity::measured_space<near_miss::memory_of_states_alone>);
static_assert(unity::search_space<near_miss::independence_by_degrees> &&
              !unity::commuting_space<near_miss::independence_by_degrees>);

}  // namespace tests_of_search_space
