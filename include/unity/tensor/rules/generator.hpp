// Random instances of a substitution, and systematic variations of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/rules/partial_instance.hpp>
#include <unity/tensor/rules/proposals.hpp>
#include <unity/tensor/rules/rule_hints.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// One attempt: walks the source from its variables up and guesses what each operator leaves open.
class instance_draft {
 public:
  instance_draft(const algebra& a, const substitution& s, random_engine& random, const rule_hints& hints)
      : algebra_{a}, s_{s}, random_{random}, proposer_{random, hints}, hints_{hints} {}

  // Nothing if the guesses are inconsistent.
  std::optional<rule_instance> make(std::size_t repetitions);

 private:
  void meet(const proposal& p, std::span<const tensor_type> results);

  const algebra& algebra_;
  const substitution& s_;
  random_engine& random_;
  proposer proposer_;
  const rule_hints& hints_;
};

}  // namespace detail

// Generates distinct instances of a substitution. The algebra and the substitution must outlive the generator.
class instance_generator {
 public:
  // chained: often draws shapes from those of earlier operands and results.
  instance_generator(const algebra& a, const substitution& s, std::uint64_t seed, bool chained = false);

  // An instance that was not returned before; nothing after this many attempts.
  // Mostly sizes of 1 to 5, heights and widths of images of 3 to 8, and ranks of up to 4; up to four repetitions. More
  // of both, up to 8, if conditions name such numbers.
  [[nodiscard]] std::optional<rule_instance> next(std::size_t attempts);

  // The instances that differ from `base` in one size of one variable and the sizes that must change with it (up to
  // four, equal before and after), or in one integer of an attribute: random ones may miss these.
  [[nodiscard]] std::vector<rule_instance> variations(const rule_instance& base);

  // Gives the operations of the source their bound or computed attributes; false if they do not accept these.
  [[nodiscard]] bool remake(rule_instance& at) const;

  // Whether an instance with these values says nothing about the operators.
  [[nodiscard]] bool only_scalars(const rule_instance& i, const tensor_graph& side) const {
    return detail::only_scalars(hints_.fixed, i, side);
  }

  // The instances in which one or two sizes of `base` become 1, so that they broadcast where `base` does not.
  [[nodiscard]] std::vector<rule_instance> collapses(const rule_instance& base);

 private:
  struct place {
    std::size_t variable;
    std::size_t repetition;
    std::size_t dimension;
  };
  static constexpr std::size_t most_together = 4;
  // Of changes of sizes, in equal shares for each first size: with 20 equal sizes and more, not all are tried.
  static constexpr std::size_t most_tries = 20000;

  [[nodiscard]] static std::vector<place> all_places(const rule_instance& base);
  // Returns whether this changes anything.
  static bool collapse(rule_instance& at, const place& p);
  void vary_sizes(const rule_instance& base, std::vector<rule_instance>& all);

  // Changes one more size; stops at valid instances, and when `tries` are used up.
  void grow(rule_instance& at, std::span<const place> places, std::size_t from, std::size_t left, std::size_t& tries,
            std::vector<rule_instance>& all);
  void vary_attributes(const rule_instance& base, std::vector<rule_instance>& all);
  [[nodiscard]] bool holds(const rule_instance& i) const {
    return source_graph(algebra_, s_, i).has_value() && conditions_hold(algebra_, s_, i);
  }
  bool fresh(const rule_instance& instance);

  // Instances with many repetitions are much rarer, so the numbers of repetitions take turns.
  struct repetition_kind {
    std::size_t repetitions;
    std::size_t patience;  // attempts before the next kind's turn
  };
  static constexpr std::size_t most_patience = 2000;

  const algebra& algebra_;
  const substitution& s_;
  random_engine random_;
  detail::rule_hints hints_;
  std::vector<repetition_kind> repetitions_;
  std::size_t turn_ = 0;
  std::set<std::uint64_t> seen_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_GENERATOR)

#include <algorithm>
#include <functional>

#include <unity/core/hash.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<rule_instance> instance_draft::make(std::size_t repetitions) {
  const auto constant_percent = random_.between(0, 2) * 45 + 5;
  partial_instance made{algebra_, s_, repetitions};
  const auto type_of_variable = [&](std::size_t variable, dtype element, shape dims) {
    fix_sizes(hints_.fixed, variable, dims);
    relate_sizes(hints_.related, variable, dims, [&](std::size_t v) { return made.known_dims(v); });
    return tensor_type{element, layout::row_major, random_.between(1, 100) <= constant_percent, std::move(dims)};
  };
  for (std::size_t slot = 0; slot < s_.source.nodes.size(); ++slot) {
    for (std::size_t i = 0; i < made.times(slot); ++i) {
      auto p = made.ask(slot, i);
      if (!p) {
        return std::nullopt;
      }
      proposer_.fill_in(*p);
      if (!made.add(slot, i, *p, type_of_variable) || (hints_.chained && !made.conditions_may_hold())) {
        return std::nullopt;
      }
      meet(*p, made.last_results(slot));
    }
  }
  return made.finish();
}

UNITY_INLINE void instance_draft::meet(const proposal& p, std::span<const tensor_type> results) {
  for (const auto& o : p.operands) {
    proposer_.meet(*o);
  }
  for (const auto& t : results) {
    proposer_.meet(t.dims);
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE instance_generator::instance_generator(const algebra& a, const substitution& s, std::uint64_t seed,
                                                    bool chained)
    : algebra_{a}, s_{s}, random_{seed}, hints_{a, s, chained} {
  const auto& root = s.source.roots[0];
  const bool repeats = s.repeats() || root.repeated;
  const bool siblings = s.source.roots.size() == 1 && root.repeated && s.source.nodes[root.slot].indexed;
  const auto most = hints_.counts.repetitions.empty() ? detail::usual_count : hints_.counts.repetitions.back();
  for (std::size_t n = siblings ? 2 : 1; n <= (repeats ? most : 1); ++n) {
    if (detail::partial_instance{a, s, n}.accepts_operand_counts()) {
      repetitions_.push_back({n, most_patience});
    }
  }
}

UNITY_INLINE std::optional<rule_instance> instance_generator::next(std::size_t attempts) {
  while (attempts > 0 && !repetitions_.empty()) {
    auto& kind = repetitions_[turn_++ % repetitions_.size()];
    const bool only = repetitions_.size() == 1;
    for (auto patience = only ? attempts : kind.patience; attempts > 0 && patience > 0; --attempts, --patience) {
      auto instance = detail::instance_draft{algebra_, s_, random_, hints_}.make(kind.repetitions);
      if (instance && fresh(*instance)) {
        kind.patience = most_patience;
        return instance;
      }
    }
    kind.patience = kind.patience / 2 + 1;
  }
  return std::nullopt;
}

UNITY_INLINE std::vector<rule_instance> instance_generator::variations(const rule_instance& base) {
  std::vector<rule_instance> all;
  vary_sizes(base, all);
  vary_attributes(base, all);
  return all;
}

UNITY_INLINE std::vector<rule_instance> instance_generator::collapses(const rule_instance& base) {
  const auto places = all_places(base);
  std::vector<rule_instance> all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      auto changed = base;
      if (collapse(changed, places[i]) && (i == j || collapse(changed, places[j])) && holds(changed) &&
          fresh(changed)) {
        all.push_back(std::move(changed));
      }
    }
  }
  return all;
}

UNITY_INLINE auto instance_generator::all_places(const rule_instance& base) -> std::vector<place> {
  std::vector<place> places;
  for (std::size_t v = 0; v < base.values.size(); ++v) {
    for (std::size_t i = 0; i < base.values[v].size(); ++i) {
      for (std::size_t d = 0; d < base.values[v][i].rank(); ++d) {
        places.push_back({v, i, d});
      }
    }
  }
  return places;
}

UNITY_INLINE bool instance_generator::collapse(rule_instance& at, const place& p) {
  auto& size = at.values[p.variable][p.repetition].dims[p.dimension];
  const bool changes = size > 1;
  size = 1;
  return changes;
}

UNITY_INLINE void instance_generator::vary_sizes(const rule_instance& base, std::vector<rule_instance>& all) {
  const auto places = all_places(base);
  for (std::size_t first = 0; first < places.size(); ++first) {
    auto changed = base;
    auto tries = std::max<std::size_t>(1, most_tries / places.size());
    grow(changed, places, first, most_together, tries, all);
  }
}

UNITY_INLINE void instance_generator::grow(rule_instance& at, std::span<const place> places, std::size_t from,
                                           std::size_t left, std::size_t& tries, std::vector<rule_instance>& all) {
  --tries;
  const auto& p = places[from];
  auto& size = at.values[p.variable][p.repetition].dims[p.dimension];
  const auto before = size;
  size = before + 1;
  if (holds(at)) {
    if (fresh(at)) {
      all.push_back(at);
    }
  } else if (left > 1) {
    for (auto next = from + 1; next < places.size() && tries > 0; ++next) {
      const auto& q = places[next];
      if (at.values[q.variable][q.repetition].dims[q.dimension] == before) {
        grow(at, places, next, left - 1, tries, all);
      }
    }
  }
  at.values[p.variable][p.repetition].dims[p.dimension] = before;
}

UNITY_INLINE void instance_generator::vary_attributes(const rule_instance& base, std::vector<rule_instance>& all) {
  for (std::size_t slot = 0; slot < base.attributes.size(); ++slot) {
    for (std::size_t k = 0; k < base.attributes[slot].size(); ++k) {
      for (const std::int64_t step : {-1, 1}) {
        auto changed = base;
        changed.attributes[slot][k] += step;
        if (remake(changed) && holds(changed) && fresh(changed)) {
          all.push_back(std::move(changed));
        }
      }
    }
  }
}

UNITY_INLINE bool instance_generator::remake(rule_instance& at) const {
  for (std::size_t slot = 0; slot < at.source.size(); ++slot) {
    const auto& n = s_.source.nodes[slot];
    for (std::size_t i = 0; i < at.source[slot].size(); ++i) {
      auto attributes = at.source[slot][i].attributes;
      for (std::size_t k = 0; k < attributes.size(); ++k) {
        const detail::instance_environment env{algebra_, at};
        const auto& a = n.attributes[k];
        const auto computed = a.kind == pattern_attribute::form::value ? evaluate(a.value, env, i) : std::nullopt;
        attributes[k] =
            a.kind == pattern_attribute::form::bind ? at.attributes[a.slot] : computed.value_or(attributes[k]);
      }
      const auto op = algebra_.make(n.kind, attributes);
      if (!op) {
        return false;
      }
      at.source[slot][i] = *op;
    }
  }
  return true;
}

UNITY_INLINE bool instance_generator::fresh(const rule_instance& instance) {
  auto h = instance.repetitions;
  for (const auto& types : instance.values) {
    for (const auto& t : types) {
      h = hash_combine(h, std::hash<tensor_type>{}(t));
    }
  }
  for (const auto& ops : instance.source) {
    for (const auto& op : ops) {
      h = hash_combine(h, std::hash<operation>{}(op));
    }
  }
  return seen_.insert(h).second;
}

}  // namespace unity::tensor

#endif
