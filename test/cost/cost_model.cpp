// Static tests: the smallest cost models, and models that each lack one requirement.
#include <cstdint>
#include <span>
#include <string>

#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>

#include "../support/circuits.hpp"

namespace tests_of_cost_model {

namespace archetype {

// The part of an algebra that cost models use.
struct algebra {
  struct op_type {
    op_type() = delete;
  };
  struct value_type {
    value_type() = delete;
  };
};
struct total {
  total& operator+=(const total&);
  total& operator-=(const total&);
  friend bool operator==(const total&, const total&) = default;
};
using types = std::span<const algebra::value_type>;

struct additive_cost_model {
  additive_cost_model() = delete;
  additive_cost_model(const additive_cost_model&) = delete;
  using cost_type = total;
  total node_cost(const algebra::op_type&, types, types) const;
  unity::cost_value objective(const total&) const;
};
struct bounded_cost_model : additive_cost_model {
  unity::cost_value lower_bound(const total&) const;
};

struct staged_cost_model : additive_cost_model {
  bool computed_before(const algebra::value_type&) const;
};

struct graph {
  graph() = delete;
};
struct cost_model {
  unity::cost_value cost(const graph&) const;
};

}  // namespace archetype

static_assert(unity::additive_cost<archetype::total> && unity::additive_cost<std::int64_t> &&
              unity::additive_cost<unity::picoseconds>);
static_assert(unity::additive_cost_model<archetype::additive_cost_model, archetype::algebra>);
static_assert(unity::bounded_cost_model<archetype::bounded_cost_model, archetype::algebra>);
static_assert(!unity::bounded_cost_model<archetype::additive_cost_model, archetype::algebra>);
static_assert(unity::staged_cost_model<archetype::staged_cost_model, archetype::algebra>);
static_assert(!unity::staged_cost_model<archetype::additive_cost_model, archetype::algebra>);
static_assert(unity::cost_model<archetype::cost_model, archetype::graph>);

namespace near_miss {

using namespace archetype;

struct no_subtraction {
  no_subtraction& operator+=(const no_subtraction&);
  friend bool operator==(const no_subtraction&, const no_subtraction&) = default;
};
struct no_equality {
  no_equality& operator+=(const no_equality&);
  no_equality& operator-=(const no_equality&);
};
struct sums_only : archetype::additive_cost_model {
  using cost_type = no_subtraction;
  no_subtraction node_cost(const algebra::op_type&, types, types) const;
  unity::cost_value objective(const no_subtraction&) const;
};
struct objective_as_double : archetype::additive_cost_model {
  double objective(const total&) const;
};
struct sees_inputs_alone : archetype::additive_cost_model {
  total node_cost(const algebra::op_type&, types) const;
};
struct learns_while_pricing : archetype::additive_cost_model {
  total node_cost(const algebra::op_type&, types, types);
};
struct cost_as_double {
  double cost(const graph&) const;
};

}  // namespace near_miss

static_assert(!unity::additive_cost<near_miss::no_subtraction> && !unity::additive_cost<near_miss::no_equality>);
static_assert(!unity::additive_cost<std::string>);
static_assert(!unity::additive_cost_model<near_miss::sums_only, archetype::algebra>);
static_assert(!unity::additive_cost_model<near_miss::objective_as_double, archetype::algebra>);
static_assert(!unity::additive_cost_model<near_miss::sees_inputs_alone, archetype::algebra>);
static_assert(!unity::additive_cost_model<near_miss::learns_while_pricing, archetype::algebra>);
static_assert(!unity::cost_model<near_miss::cost_as_double, archetype::graph>);

// Combinators of models are models.
using unity::test::circuits;
using unity::test::gate_count;
static_assert(unity::additive_cost_model<gate_count, circuits>);
static_assert(unity::additive_cost_model<unity::constrained_cost<gate_count, gate_count>, circuits>);
static_assert(unity::additive_cost_model<
              unity::weighted_cost<gate_count, unity::constrained_cost<gate_count, gate_count>>, circuits>);

}  // namespace tests_of_cost_model
