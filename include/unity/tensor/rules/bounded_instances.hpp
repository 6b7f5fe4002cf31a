// Instances of a substitution within bounds: all of them, or random ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/completions.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/rules/parallel_sizes.hpp>
#include <unity/tensor/rules/partial_instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The highest rank that is tried, even if a condition requires a higher one: there would be too many shapes.
inline constexpr int most_tried_rank = 6;

namespace detail {

// Fixed values of some attribute variables in a part of the instances.
struct bound_attribute {
  std::size_t slot;
  attribute value;
};

// Depth-first search over the nodes of the source: completes each node in every way.
class instance_search {
 public:
  using visitor = std::function<bool(const rule_instance&)>;

  // effort: the number of operators that it may complete. random: if not null, the order is random.
  instance_search(const algebra& a, const substitution& s, const instance_bounds& b,
                  std::span<const bound_attribute> bound, const size_menus& menus, const visitor& visit,
                  std::size_t effort = static_cast<std::size_t>(-1), random_engine* random = nullptr);

  // False if visit returned false or the effort did not suffice.
  bool run();
  // The same for instances in which `...` stands for `repetitions` terms.
  bool run(std::size_t repetitions);
  // The most terms that `...` stands for.
  [[nodiscard]] std::size_t most_repetitions() const {
    return s_.repeats() || s_.source.roots[0].repeated ? bounds_.repetitions : 1;
  }
  [[nodiscard]] std::size_t effort_left() const noexcept { return effort_; }

 private:
  void descend(partial_instance made, std::size_t slot, std::size_t i);
  // Whether the nodes that read this one may still accept their operands.
  [[nodiscard]] bool readers_may_fit(partial_instance& made, std::size_t slot, std::size_t i) const;

  const algebra& algebra_;
  const substitution& s_;
  const instance_bounds& bounds_;
  std::span<const bound_attribute> bound_;
  const size_menus& menus_;
  const visitor& visit_;
  std::size_t effort_;
  std::vector<double> reals_;
  completions ways_;
  std::vector<std::vector<std::size_t>> readers_;  // readers with several operands, by node
  bool stopped_ = false;
};

// The instances of a substitution with some attributes bound, except those that smaller ones represent.
class exhaustive_part {
 public:
  exhaustive_part(const algebra& a, const substitution& s, const instance_bounds& b, std::vector<bound_attribute> bound)
      : algebra_{a}, s_{s}, bounds_{b}, bound_{std::move(bound)}, menus_{a, s, b}, sizes_{a, s, menus_.named()} {}

  // Determines menus in which a dimension is narrow only if its index is parallel in all instances within them. Reduces
  // `effort`; false if it does not suffice. Can be called again.
  bool settle(std::size_t& effort);

  // Returns whether `visit` never returned false.
  bool visit(const instance_search::visitor& visit);

 private:
  struct dimension {
    std::size_t variable;
    std::size_t rank;
    std::size_t number;
  };
  template <class Visit>
  static void for_each_place(const rule_instance& instance, Visit visit) {
    std::size_t place = 0;
    for (std::size_t v = 0; v < instance.values.size(); ++v) {
      for (const auto& t : instance.values[v]) {
        for (std::size_t d = 0; d < t.rank(); ++d) {
          visit(place++, dimension{v, t.rank(), d}, t.dims[d]);
        }
      }
    }
  }

  const algebra& algebra_;
  const substitution& s_;
  instance_bounds bounds_;
  std::vector<bound_attribute> bound_;
  size_menus menus_;
  parallel_sizes sizes_;
  std::vector<dimension> mixed_;
  bool settled_ = false;
};

// The instances of a substitution, partitioned by the axes that its attribute variables name: sizes along other axes
// are narrow.
class exhaustive_instances {
 public:
  exhaustive_instances(const algebra& a, const substitution& s, const instance_bounds& b);

  bool settle(std::size_t effort) {
    return std::all_of(parts_.begin(), parts_.end(), [&](auto& p) { return p.settle(effort); });
  }
  void visit(const instance_search::visitor& visit) {
    std::all_of(parts_.begin(), parts_.end(), [&](auto& p) { return p.visit(visit); });
  }

 private:
  // Widens the bounds if a condition requires a higher rank; otherwise it would never hold. Ranks above most_tried_rank
  // stay out of bounds.
  static void name_rank(const algebra& a, const compiled_expression& e, instance_bounds& b);
  void add_parts(const algebra& a, const substitution& s, const instance_bounds& b, std::span<const std::size_t> axes,
                 std::vector<bound_attribute>& bound);

  std::vector<exhaustive_part> parts_;
};

}  // namespace detail

// Sizes up to 2, and ranks from 4 down to 1: bounds within which numbers or provers of real arithmetic can be tried.
[[nodiscard]] std::vector<instance_bounds> small_ladder();

// Calls visit(instance) for instances within bounds in a random order until it returns false or `effort` operators were
// completed. Of the shapes of a variable within the bounds, each is tried first equally often.
class random_instances {
 public:
  random_instances(const algebra& a, const substitution& s, instance_bounds b, std::uint64_t seed);

  void visit(std::size_t effort, const std::function<bool(const rule_instance&)>& visit);

 private:
  const algebra& algebra_;
  const substitution& s_;
  instance_bounds bounds_;
  detail::size_menus menus_;
  random_engine random_;
};

// Calls visit(substitution, instance) for all instances of the rule within bounds, until it returns false. Variables
// are constants if conditions ask for that. `directions`: the one or two substitutions of the rule, which have the same
// instances; uses the cheaper one. `ladder`: bounds from wide to narrow; uses the first that need at most `most`
// completed operators (rounded down to 20,000 times a power of three). If these are too narrow for any instance, or
// none needs so few, the ones before them, or the last, may need 30 times as many. Returns the index of the bounds, or
// nothing if these need more; visit was not called then. Includes instances in which the target does not fit.
//
// If every operator of both sides is parallel in an index, its positions do not interact, so size 2 represents all
// larger sizes, which are left out. The order is deterministic.
std::optional<std::size_t> for_each_instance(
    const algebra& a, std::span<const substitution> directions, std::span<const instance_bounds> ladder,
    std::size_t most, const std::function<bool(const substitution&, const rule_instance&)>& visit);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_BOUNDED_INSTANCES)

#include <limits>

#include <unity/tensor/rules/rule_hints.hpp>

namespace unity::tensor::detail {

UNITY_INLINE instance_search::instance_search(const algebra& a, const substitution& s, const instance_bounds& b,
                                              std::span<const bound_attribute> bound, const size_menus& menus,
                                              const visitor& visit, std::size_t effort, random_engine* random)
    : algebra_{a},
      s_{s},
      bounds_{b},
      bound_{bound},
      menus_{menus},
      visit_{visit},
      effort_{effort},
      ways_{b, reals_, random} {
  for (const auto& c : s.conditions) {
    collect_reals(c, reals_);
  }
  readers_.resize(s.source.nodes.size());
  for (std::size_t slot = 0; slot < s.source.nodes.size(); ++slot) {
    for (const auto& o : s.source.nodes[slot].operands) {
      if (!o.is_variable && (o.repeated || s.source.nodes[slot].operands.size() > 1)) {
        readers_[o.slot].push_back(slot);
      }
    }
  }
}

UNITY_INLINE bool instance_search::run() {
  for (std::size_t n = 1; n <= most_repetitions() && !stopped_; ++n) {
    run(n);
  }
  return !stopped_;
}

UNITY_INLINE bool instance_search::run(std::size_t repetitions) {
  partial_instance first{algebra_, s_, repetitions};
  for (const auto& b : bound_) {
    first.bind(b.slot, b.value);
  }
  if (first.accepts_operand_counts()) {
    descend(std::move(first), 0, 0);
  }
  return !stopped_;
}

UNITY_INLINE void instance_search::descend(partial_instance made, std::size_t slot, std::size_t i) {
  if (slot == s_.source.nodes.size()) {
    const auto instance = made.finish();
    stopped_ = instance && !visit_(*instance);
    return;
  }
  auto p = made.ask(slot, i);
  if (!p) {
    return;
  }
  std::vector<const std::vector<shape>*> menus;
  for (const auto& o : s_.source.nodes[slot].operands) {
    menus.insert(menus.end(), o.repeated ? made.repetitions() : 1,
                 o.is_variable ? &menus_.of(o.slot, made.repetitions()) : nullptr);
  }
  const bool last = i + 1 == made.times(slot);
  const auto as_proposed = [&](std::size_t variable, dtype element, const shape& dims) {
    return tensor_type{element, layout::row_major, menus_.constant(variable), dims};
  };
  ways_.each(*p, menus, [&](const proposal& filled) {
    if (effort_ == 0) {
      stopped_ = true;
      return false;
    }
    --effort_;
    auto next = made;
    if (next.add(slot, i, filled, as_proposed) && next.conditions_may_hold() && readers_may_fit(next, slot, i)) {
      descend(std::move(next), last ? slot + 1 : slot, last ? 0 : i + 1);
    }
    return !stopped_;
  });
}

UNITY_INLINE bool instance_search::readers_may_fit(partial_instance& made, std::size_t slot, std::size_t i) const {
  for (const auto r : readers_[slot]) {
    const auto p = made.ask_early(r, s_.source.nodes[r].indexed ? i : 0);
    if (!p.is_well_formed() || !completions::may_fit(p)) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool exhaustive_part::settle(std::size_t& effort) {
  const instance_search::visitor find_mixed = [&](const rule_instance& instance) {
    const auto& parallel = sizes_.of(instance);
    for_each_place(instance, [&](std::size_t place, const dimension& d, std::int64_t size) {
      if (!parallel[place] && size > 1 && !menus_.wide(d.variable, d.rank, d.number)) {
        mixed_.push_back(d);
      }
    });
    return mixed_.empty();
  };
  while (!settled_ && effort > 0) {
    instance_search search{algebra_, s_, bounds_, bound_, menus_, find_mixed, effort};
    settled_ = search.run();
    effort = search.effort_left();
    for (const auto& d : mixed_) {
      menus_.widen(d.variable, d.rank, d.number);
    }
    mixed_.clear();
  }
  return settled_;
}

UNITY_INLINE bool exhaustive_part::visit(const instance_search::visitor& visit) {
  const instance_search::visitor filter = [&](const rule_instance& instance) {
    const auto& parallel = sizes_.of(instance);
    bool represented = false;
    for_each_place(instance, [&](std::size_t place, const dimension&, std::int64_t size) {
      represented = represented || (parallel[place] && size > 2);
    });
    return represented || visit(instance);
  };
  return instance_search{algebra_, s_, bounds_, bound_, menus_, filter}.run();
}

UNITY_INLINE exhaustive_instances::exhaustive_instances(const algebra& a, const substitution& s,
                                                        const instance_bounds& b) {
  std::vector<std::size_t> axes;
  for (const auto& n : s.source.nodes) {
    const auto& fields = a.definition_of(n.kind).fields;
    for (const auto& [field, written] : ranges::views::zip(fields, n.attributes)) {
      const bool binds = written.kind == pattern_attribute::form::bind && field.signature.name == "axis";
      if (binds && std::find(axes.begin(), axes.end(), written.slot) == axes.end()) {
        axes.push_back(written.slot);
      }
    }
  }
  auto own = b;
  for (const auto& c : s.conditions) {
    name_rank(a, c, own);
  }
  std::vector<bound_attribute> bound;
  add_parts(a, s, own, axes, bound);
}

UNITY_INLINE void exhaustive_instances::name_rank(const algebra& a, const compiled_expression& e, instance_bounds& b) {
  if (e.kind == compiled_expression::form::call && e.callee == rule_function::equal &&
      e.arguments[1].kind == compiled_expression::form::literal && e.arguments[1].literal.size() == 1) {
    const auto& counted = e.arguments[0];
    const auto number = e.arguments[1].literal[0];
    const auto asked = static_cast<std::size_t>(number > 0 && number <= most_tried_rank ? number : 0);
    const bool is_rank =
        counted.kind == compiled_expression::form::measure && std::optional{counted.measure} == a.find_measure("rank");
    const bool is_length = counted.kind == compiled_expression::form::call && counted.callee == rule_function::length;
    b.rank = is_rank ? std::max(b.rank, asked) : b.rank;
    b.new_rank = is_length || is_rank ? std::max(b.new_rank, asked) : b.new_rank;
  }
  for (const auto& argument : e.arguments) {
    name_rank(a, argument, b);
  }
}

UNITY_INLINE void exhaustive_instances::add_parts(const algebra& a, const substitution& s, const instance_bounds& b,
                                                  std::span<const std::size_t> axes,
                                                  std::vector<bound_attribute>& bound) {
  if (bound.size() == axes.size()) {
    parts_.emplace_back(a, s, b, bound);
    return;
  }
  for (std::size_t axis = 0; axis < b.rank; ++axis) {
    bound.push_back({axes[bound.size()], {static_cast<std::int64_t>(axis)}});
    add_parts(a, s, b, axes, bound);
    bound.pop_back();
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<instance_bounds> small_ladder() {
  instance_bounds b;
  b.size = 2;
  b.kernel = 2;
  b.repetitions = 2;
  b.reals = {0.5, 2.0, -0.5};
  b.strides = {{1, 1}};
  b.dilations = {{1, 1}};
  std::vector<instance_bounds> ladder;
  for (; b.rank > 0; --b.rank) {
    ladder.push_back(b);
  }
  return ladder;
}

UNITY_INLINE std::optional<std::size_t> for_each_instance(
    const algebra& a, std::span<const substitution> directions, std::span<const instance_bounds> ladder,
    std::size_t most, const std::function<bool(const substitution&, const rule_instance&)>& visit) {
  // The number of visited instances; nothing if the effort does not suffice.
  const auto visited = [&](const instance_bounds& bounds, std::size_t limit) -> std::optional<std::size_t> {
    std::vector<detail::exhaustive_instances> ways;
    for (const auto& s : directions) {
      ways.emplace_back(a, s, bounds);
    }
    for (std::size_t effort = std::min<std::size_t>(limit, 20000); effort <= limit; effort *= 3) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        if (ways[i].settle(effort)) {
          std::size_t count = 0;
          ways[i].visit([&](const rule_instance& instance) {
            ++count;
            return visit(directions[i], instance);
          });
          return count;
        }
      }
    }
    return std::nullopt;
  };
  std::size_t rung = 0;
  for (; rung < ladder.size(); ++rung) {
    if (const auto count = visited(ladder[rung], most)) {
      if (*count > 0 || rung == 0) {
        return rung;
      }
      break;  // narrower bounds have no instances, either
    }
  }
  constexpr std::size_t more = 30;
  const auto limit = std::min(most, std::numeric_limits<std::size_t>::max() / (3 * more)) * more;
  return visited(ladder[rung - 1], limit) ? std::optional{rung - 1} : std::nullopt;
}

UNITY_INLINE random_instances::random_instances(const algebra& a, const substitution& s, instance_bounds b,
                                                std::uint64_t seed)
    : algebra_{a}, s_{s}, bounds_{std::move(b)}, menus_{a, s, bounds_, true}, random_{seed} {}

UNITY_INLINE void random_instances::visit(std::size_t effort, const std::function<bool(const rule_instance&)>& visit) {
  detail::instance_search search{algebra_, s_, bounds_, {}, menus_, visit, effort, &random_};
  search.run(1 + static_cast<std::size_t>(random_.below(search.most_repetitions())));
}

}  // namespace unity::tensor

#endif
