// Checks whether properties of operators are true, before anything is proved from them.
//
// A property is validated in three ways: on all instances within bounds by exact polynomials, with functions like
// sigmoid uninterpreted; on all instances of sizes up to 2 by a prover of real arithmetic, if given; and on larger
// random shapes modulo a prime, and on integers of 8 bits where it accepts them (tensor/rule_test.hpp).
// Source: Jia's dissertation (TASO, 2020), section 2.4.
//
// Properties marked `real` may hold only to the precision of float32 (a root that programs round). If provers do not
// decide them, doubles at random points do; the report counts these separately.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/rules/bounded_instances.hpp>
#include <unity/tensor/rules/comparison.hpp>
#include <unity/tensor/rules/completions.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/rules/rule_hints.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/verification/exact.hpp>

namespace unity::tensor {

// Bounds from wide to narrow: a property with many variables and parameters is validated on fewer parameters, then on
// smaller sizes, then on lower ranks.
[[nodiscard]] std::vector<instance_bounds> default_ladder();

struct validation_options {
  std::vector<instance_bounds> ladder = default_ladder();
  std::size_t effort = 500'000;  // operators to fill in before narrower bounds are used
  std::vector<instance_bounds> real_ladder = small_ladder();
  std::size_t real_effort = 20'000;
  rule_test_options random{};
};

struct validation_report {
  enum class verdict : std::uint8_t {
    holds,
    refuted,  // `because` states shapes, values and results
    unknown,  // `because` states what could not be decided
  };

  std::string name{};
  verdict found = verdict::holds;
  std::size_t rung = 0;     // index in the ladder of the bounds that were used
  std::size_t exact = 0;    // instances decided by exact polynomials
  std::size_t real = 0;     // instances decided by the prover of real arithmetic
  std::size_t rounded = 0;  // undecided instances of properties that hold to the precision of float32
  std::size_t random = 0;   // instances compared at random points
  int bits = 0;             // for the random ones: see rule_test.hpp
  std::string because{};
};

namespace detail {

// Stands for the absence of a prover of real arithmetic.
struct no_prover {
  [[nodiscard]] static std::string name() { return {}; }
  [[nodiscard]] static side_verdict compare(const algebra&, const tensor_graph&, const tensor_graph&) { return {}; }
};

template <equality_prover Reals>
class validator {
 public:
  validator(const algebra& a, const syntax::rule& r, const validation_options& o, Reals& reals)
      : algebra_{a},
        directions_{compile_rule(a, r)},
        fixed_{size_reader{a}.read(directions_.front())},
        options_{o},
        reals_{reals} {
    report_.name = r.name;
  }

  [[nodiscard]] validation_report run() {
    compare_exactly();
    if constexpr (!std::same_as<Reals, no_prover>) {
      const auto rung = for_each_instance(
          algebra_, directions_, options_.real_ladder, options_.real_effort,
          [&](const substitution& s, const rule_instance& i) { return compare(s, i, reals_, report_.real); });
      if (holds() && !rung) {
        conclude(validation_report::verdict::unknown, too_many);
      } else if (holds() && too_large_) {
        conclude(validation_report::verdict::unknown, "an instance that is too large for real arithmetic");
      }
    }
    if (holds() && report_.exact + report_.rounded == 0) {
      conclude(validation_report::verdict::unknown,
               fmt::format("no instance within bounds, of rank {} at most, in which the target fits", most_tried_rank));
    }
    if (holds() && only_scalars_) {
      conclude(validation_report::verdict::unknown, "no instance within bounds but scalars");
    }
    test();
    return std::move(report_);
  }

 private:
  static constexpr auto too_many = "more instances within the narrowest bounds than can be tried";

  [[nodiscard]] bool holds() const { return report_.found == validation_report::verdict::holds; }
  void conclude(validation_report::verdict v, std::string because) {
    report_.found = v;
    report_.because = std::move(because);
  }

  // Narrows the bounds if there are too many instances or normal forms become too large.
  void compare_exactly() {
    polynomial_prover exact;
    std::span<const instance_bounds> ladder{options_.ladder};
    bool was_too_large = false;
    do {
      too_large_ = false;
      report_.exact = 0;
      report_.rounded = 0;
      const auto rung = for_each_instance(
          algebra_, directions_, ladder, options_.effort,
          [&](const substitution& s, const rule_instance& i) { return compare(s, i, exact, report_.exact); });
      if (!rung) {
        conclude(validation_report::verdict::unknown, too_many);
        return;
      }
      was_too_large = was_too_large || too_large_;
      report_.rung += *rung + (too_large_ ? 1 : 0);
      ladder = ladder.subspan(*rung + 1);
    } while (too_large_ && !ladder.empty());
    if (too_large_ || (was_too_large && holds() && report_.exact + report_.rounded == 0)) {
      conclude(validation_report::verdict::unknown, "normal forms that are too large");
    }
  }

  template <class Prover>
  bool compare(const substitution& s, const rule_instance& instance, Prover& prover, std::size_t& count) {
    if (!holds()) {
      return false;
    }
    const auto source = source_graph(algebra_, s, instance);
    const auto target = target_graph(algebra_, s, instance);
    if (!source || !target || !same_types(*source, *target)) {
      return true;
    }
    if (!are_small(*source, *target)) {
      too_large_ = true;
      return false;
    }
    only_scalars_ = only_scalars_ && detail::only_scalars(fixed_, instance, *source);
    const auto v = prover.compare(algebra_, *source, *target);
    too_large_ = v.found == side_verdict::answer::too_large;
    if (too_large_) {
      return false;
    }
    if (v.found != side_verdict::answer::equal && s.rule.real_only &&
        !side_comparison{algebra_, options_.random, *source, *target}.run(true, options_.random.seed)) {
      ++report_.rounded;
      return true;
    }
    ++count;
    if (v.found != side_verdict::answer::equal) {
      conclude(v.found == side_verdict::answer::different ? validation_report::verdict::refuted
                                                          : validation_report::verdict::unknown,
               fmt::format("{}; ", to_string(algebra_, s, instance)) + v.because);
    }
    return holds();
  }
  [[nodiscard]] static bool same_types(const tensor_graph& a, const tensor_graph& b) {
    for (const auto& [left, right] : ranges::views::zip(a.outputs(), b.outputs())) {
      if (a.type(left) != b.type(right)) {
        return false;
      }
    }
    return true;
  }

  // Both directions have the same instances, but one may be far easier to find.
  void test() {
    report_.bits = std::numeric_limits<int>::max();
    for (std::size_t d = 0; d < directions_.size() && holds(); ++d) {
      const auto tested = test_rule(algebra_, directions_[d], options_.random);
      report_.random += tested.instances;
      if (tested.found == rule_report::verdict::refuted) {
        conclude(validation_report::verdict::refuted, tested.because);
      } else if (tested.found == rule_report::verdict::passes && tested.instances > 0) {
        report_.bits = std::min(report_.bits, tested.bits);
      }
    }
    if (holds() && report_.random == 0) {
      test_larger();
    }
    report_.bits = report_.random > 0 ? report_.bits : 0;
  }
  // If no random shapes fit, tests variations of some instances within bounds.
  void test_larger() {
    constexpr std::size_t every = 97;
    const auto& s = directions_.front();
    instance_generator grow{algebra_, s, options_.random.seed};
    std::size_t number = 0;
    for_each_instance(
        algebra_, {&s, 1}, options_.ladder, options_.effort, [&](const substitution&, const rule_instance& instance) {
          for (const auto& larger : ++number % every == 1 ? grow.variations(instance) : std::vector<rule_instance>{}) {
            test(s, larger);
          }
          return holds() && report_.random < options_.random.instances;
        });
  }
  void test(const substitution& s, const rule_instance& instance) {
    const auto source = source_graph(algebra_, s, instance);
    const auto target = target_graph(algebra_, s, instance);
    if (!holds() || !source || !target || !same_types(*source, *target) || !are_small(*source, *target)) {
      return;
    }
    side_comparison sides{algebra_, options_.random, *source, *target};
    const auto real = s.rule.real_only;
    if (const auto difference = sides.run(real, hash_combine(options_.random.seed, ++report_.random))) {
      conclude(validation_report::verdict::refuted,
               fmt::format("{}; {}", to_string(algebra_, s, instance), *difference));
    }
    report_.bits = std::min(report_.bits, sides.bits(real));
  }

  const algebra& algebra_;
  rule_set directions_;
  std::vector<fixed_sizes> fixed_;  // by conditions
  const validation_options& options_;
  Reals& reals_;
  bool too_large_ = false;
  bool only_scalars_ = true;
  validation_report report_;
};

}  // namespace detail

// Effects: none. Complexity: linear in the instances within bounds, thousands to hundreds of thousands.
// Throws: unity::error if the property does not compile.
template <equality_prover Reals>
[[nodiscard]] validation_report validate_axiom(const algebra& a, const syntax::rule& axiom,
                                               const validation_options& options, Reals& reals) {
  return detail::validator<Reals>{a, axiom, options, reals}.run();
}
[[nodiscard]] inline validation_report validate_axiom(const algebra& a, const syntax::rule& axiom,
                                                      const validation_options& options = {}) {
  detail::no_prover none;
  return validate_axiom(a, axiom, options, none);
}

// Throws: unity::error with the file, the first property that is not known to hold, and the shapes and values at which
// it fails.
template <equality_prover Reals>
void require_valid(const algebra& a, std::span<const syntax::rule> axioms, std::string_view file,
                   const validation_options& options, Reals& reals) {
  for (const auto& axiom : axioms) {
    const auto report = validate_axiom(a, axiom, options, reals);
    if (report.found != validation_report::verdict::holds) {
      throw error{
          fmt::format("{}: property ", file) + report.name, report.because,
          report.found == validation_report::verdict::refuted ? "sides that are equal" : "sides that can be decided"};
    }
  }
}
inline void require_valid(const algebra& a, std::span<const syntax::rule> axioms, std::string_view file,
                          const validation_options& options = {}) {
  detail::no_prover none;
  require_valid(a, axioms, file, options, none);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_VALIDATE)

namespace unity::tensor {

UNITY_INLINE std::vector<instance_bounds> default_ladder() {
  const instance_bounds wide;
  auto fewer = wide;
  fewer.repetitions = 2;
  fewer.axes = 1;
  fewer.new_rank = 3;
  fewer.reals = {0.5, 2.0, -0.5};
  fewer.strides = {{2, 1}};
  fewer.dilations = {{1, 2}};
  fewer.pads = {{0, 0, 0, 0}, {1, 0, 0, 1}};
  auto fewest = fewer;
  fewest.kernel = 2;
  fewest.pads = {{1, 0, 0, 1}};
  auto smaller = fewer;
  smaller.size = 3;
  smaller.kernel = 2;
  auto smallest = smaller;
  smallest.size = 2;
  std::vector<instance_bounds> ladder{wide, fewer, fewest, smaller, smallest};
  while (ladder.back().rank > 1) {
    ladder.push_back(ladder.back());
    --ladder.back().rank;
  }
  return ladder;
}

}  // namespace unity::tensor

#endif
