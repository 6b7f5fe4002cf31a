// Tests substitutions: whether both sides are equal on random shapes, attributes and values: on instances of usual
// shapes, and on instances of any shapes that the source accepts, within small bounds.
//
// `tested N` in a rule file means: both sides were evaluated on at least 50 assignments of shapes and attributes, each
// at k independent random points modulo the prime p = 2^61 - 1. If the sides were different quotients of polynomials of
// total degree d, they would agree on one assignment with probability at most (d / p)^k (Schwartz, Zippel); N is the
// least k * floor(61 - log2 d) over all assignments. Functions other than polynomials become pseudo-random functions of
// the residue. A rule that holds only for reals is tested on doubles alone, where agreement to the 23 bits of float32
// at k points counts as N = 23 k. In both cases N says nothing about shapes that were not tried. Some instances whose
// source also accepts integers are compared on int8 and uint8 as well, where sums wrap around; N does not count these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/comparison.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

struct rule_report {
  enum class verdict : std::uint8_t {
    passes,
    refuted,     // `because` says where the sides differ
    never_fits,  // in every instance that was found, the target had other types or could not be built
    untested,    // no instance was found, only scalars, or none small enough to evaluate
  };

  verdict found = verdict::untested;
  std::size_t instances = 0;  // instances of usual shapes in which both sides were compared
  std::size_t sampled = 0;    // the same of any shapes
  std::size_t misfits = 0;    // instances in which the target does not fit, so the rule does not apply
  int bits = 0;               // N, see above; of the instances of usual shapes
  std::string because{};      // unless it passes: the instance, position and values, or what is missing
};

namespace detail {

class rule_tester {
 public:
  rule_tester(const algebra& a, const substitution& s, const rule_test_options& o)
      : algebra_{a}, s_{s}, options_{o}, generator_{a, s, o.seed, o.chained} {}

  rule_report run();

 private:
  static constexpr std::size_t most_misfits = 20;  // instances tried per requested instance, those that do not fit too
  static constexpr std::size_t on_integers = 12;   // instances that are tried on integers as well
  static constexpr std::size_t effort = 300;       // completed operators for a sampled instance
  static constexpr std::size_t most_fruitless = 20;  // samples before the first in which the target fits

  [[nodiscard]] bool refuted() const { return report_.found == rule_report::verdict::refuted; }

  void check_usual();
  // The generator's instances have usual shapes, which exercise what operators do. In these, sizes of 1 and operands of
  // different ranks occur wherever the source accepts them.
  void check_sampled();
  void check_all(const std::vector<rule_instance>& instances);
  // Returns whether both sides were compared: the target fits and the sizes are small enough. usual: with usual shapes,
  // at all points; else at one.
  bool check(const rule_instance& instance, bool usual);
  // Compares the sides on integers of 8 bits, where the source accepts them: a match does not ask for an element type.
  void check_integers(const rule_instance& instance);
  // The instance with variables of this element type instead of floating-point ones, and attributes that name one.
  [[nodiscard]] std::optional<rule_instance> on_integers_of(dtype element, const rule_instance& instance,
                                                            bool attributes_too) const;
  void conclude();
  [[nodiscard]] std::string misfit(const rule_instance& instance, const tensor_graph& source,
                                   const std::optional<tensor_graph>& target) const;
  // The types in a form with everything in which they can differ; to_string omits some of it.
  [[nodiscard]] static std::string types_of(const tensor_graph& g);

  const algebra& algebra_;
  const substitution& s_;
  const rule_test_options& options_;
  instance_generator generator_;
  rule_report report_;
  std::uint64_t points_ = 0;
  std::size_t defined_ = 0;
  std::size_t integers_ = 0;  // instances compared on integers
  bool only_scalars_ = true;
};

}  // namespace detail

// Tests one direction of a rule.
// Effects: none. Complexity: linear in the requested instances and in the attempts to find them.
[[nodiscard]] inline rule_report test_rule(const algebra& a, const substitution& s,
                                           const rule_test_options& options = {}) {
  return detail::rule_tester{a, s, options}.run();
}

// Tests the rules of a file on loading: few instances each, enough to catch rules that are wrong everywhere.
// Throws: unity::error naming the file, the rule, and where its sides or their types differ, or why it cannot be
// tested.
void check_rules(const algebra& a, const rule_set& rules, std::string_view file, std::uint64_t seed = 1);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULE_TEST)

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/rules/bounded_instances.hpp>
#include <unity/tensor/rules/guesses.hpp>

namespace unity::tensor::detail {

UNITY_INLINE rule_report rule_tester::run() {
  report_.bits = std::numeric_limits<int>::max();
  check_usual();
  check_sampled();
  conclude();
  return std::move(report_);
}

UNITY_INLINE void rule_tester::check_usual() {
  std::size_t found = 0;
  for (std::size_t tries = 0; tries < most_misfits * options_.instances && found < options_.instances; ++tries) {
    const auto instance = generator_.next(options_.attempts);
    if (!instance || refuted()) {
      break;
    }
    if (!check(*instance, true)) {
      continue;
    }
    if (found < options_.varied) {
      check_all(generator_.variations(*instance));
    }
    if (found < options_.collapsed) {
      check_all(generator_.collapses(*instance));
    }
    ++found;
  }
}

UNITY_INLINE void rule_tester::check_sampled() {
  auto usual = std::pair{report_.misfits, report_.because};  // a misfit among other shapes says little
  for (const auto& bounds : {small_ladder().front(), instance_bounds{}}) {
    random_instances some{algebra_, s_, bounds, options_.seed};
    const auto before = report_.sampled;
    for (std::size_t i = 0; i < options_.sampled && !refuted(); ++i) {
      if (i == most_fruitless && report_.sampled == before) {
        break;
      }
      some.visit(effort, [&](const rule_instance& instance) { return !check(instance, false); });
    }
  }
  if (!refuted()) {
    std::tie(report_.misfits, report_.because) = std::move(usual);
  }
}

UNITY_INLINE void rule_tester::check_all(const std::vector<rule_instance>& instances) {
  for (const auto& v : instances) {
    if (!refuted()) {
      check(v, true);
    }
  }
}

UNITY_INLINE bool rule_tester::check(const rule_instance& instance, bool usual) {
  const auto source = source_graph(algebra_, s_, instance);
  const auto target = target_graph(algebra_, s_, instance);
  if (!source) {
    return false;
  }
  if (!has_at_most(most_compared_elements, *source) || (target && !has_at_most(most_compared_elements, *target))) {
    report_.because =
        fmt::format("{}; more than {} elements", to_string(algebra_, s_, instance), most_compared_elements);
    return false;
  }
  if (!target || output_types(*source) != output_types(*target)) {
    ++report_.misfits;
    report_.because = misfit(instance, *source, target);
    return false;
  }
  side_comparison sides{algebra_, options_, *source, *target};
  const auto seed = hash_combine(options_.seed, ++points_);
  const auto difference = usual ? sides.run(s_.rule.real_only, seed) : sides.run_once(s_.rule.real_only, seed);
  if (difference) {
    report_.found = rule_report::verdict::refuted;
    report_.because = fmt::format("{}; {}", to_string(algebra_, s_, instance), *difference);
    return true;
  }
  ++(usual ? report_.instances : report_.sampled);
  defined_ += sides.defined();
  report_.bits = usual ? std::min(report_.bits, sides.bits(s_.rule.real_only)) : report_.bits;
  only_scalars_ = only_scalars_ && generator_.only_scalars(instance, *source);
  if (integers_ < on_integers) {
    check_integers(instance);
  }
  return true;
}

UNITY_INLINE void rule_tester::check_integers(const rule_instance& instance) {
  for (const auto element : {dtype::int8, dtype::uint8}) {
    for (const bool attributes_too : {false, true}) {
      const auto other = on_integers_of(element, instance, attributes_too);
      const auto source =
          other && conditions_hold(algebra_, s_, *other) ? source_graph(algebra_, s_, *other) : std::nullopt;
      const auto target = source ? target_graph(algebra_, s_, *other) : std::nullopt;
      if (!target || output_types(*source) != output_types(*target)) {
        continue;
      }
      ++integers_;
      side_comparison sides{algebra_, options_, *source, *target};
      if (const auto difference = sides.run_on_integers(s_.rule.real_only, hash_combine(options_.seed, ++points_))) {
        report_.found = rule_report::verdict::refuted;
        report_.because = fmt::format("{}; {}", to_string(algebra_, s_, *other), *difference);
        return;
      }
    }
  }
}

UNITY_INLINE std::optional<rule_instance> rule_tester::on_integers_of(dtype element, const rule_instance& instance,
                                                                      bool attributes_too) const {
  auto other = instance;
  for (auto& types : other.values) {
    for (auto& t : types) {
      t.element = is_floating(t.element) ? element : t.element;
    }
  }
  for (std::size_t slot = 0; attributes_too && slot < other.source.size(); ++slot) {
    const auto& n = s_.source.nodes[slot];
    const auto& fields = algebra_.definition_of(n.kind).fields;
    for (auto& op : other.source[slot]) {
      for (std::size_t k = 0; k < fields.size(); ++k) {
        const bool is_given = n.attributes[k].kind != pattern_attribute::form::value;
        if (is_given && is_element_type(fields[k].signature) && is_floating(static_cast<dtype>(op.attributes[k][0]))) {
          op.attributes[k] = attribute{static_cast<std::int64_t>(element)};
        }
        if (n.attributes[k].kind == pattern_attribute::form::bind) {
          other.attributes[n.attributes[k].slot] = op.attributes[k];
        }
      }
    }
  }
  return generator_.remake(other) && other != instance ? std::optional{std::move(other)} : std::nullopt;
}

UNITY_INLINE void rule_tester::conclude() {
  using verdict = rule_report::verdict;
  const auto compared = report_.instances + report_.sampled;
  if (report_.instances == 0 || refuted() || defined_ == 0) {
    report_.bits = 0;
  }
  if (!refuted()) {
    report_.found = compared > 0 && defined_ > 0 ? verdict::passes
                    : report_.misfits > 0        ? verdict::never_fits
                                                 : verdict::untested;
  }
  if (report_.found == verdict::passes && only_scalars_) {
    report_.found = verdict::untested;
    report_.bits = 0;
    report_.because = "only scalars were found";
  } else if (report_.found == verdict::passes) {
    report_.because.clear();
  } else if (report_.found == verdict::untested && compared > 0) {
    report_.because = "its source has no value at any point";
  }
}

UNITY_INLINE std::string rule_tester::misfit(const rule_instance& instance, const tensor_graph& source,
                                             const std::optional<tensor_graph>& target) const {
  const auto text = fmt::format("{}; source gives{}", to_string(algebra_, s_, instance), types_of(source));
  if (!target) {
    return fmt::format("{}, target cannot be built", text);
  }
  return fmt::format("{}, target gives{}", text, types_of(*target));
}

UNITY_INLINE std::string rule_tester::types_of(const tensor_graph& g) {
  std::string text;
  for (const auto& t : output_types(g)) {
    text += fmt::format(" {}{}", to_string(t), t.constant ? " constant" : "");
  }
  return text;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE void check_rules(const algebra& a, const rule_set& rules, std::string_view file, std::uint64_t seed) {
  const rule_test_options quick{
      .instances = 8, .attempts = 20000, .varied = 1, .sampled = 10, .points = 1, .seed = seed};
  for (const auto& s : rules) {
    auto report = test_rule(a, s, quick);
    if (report.found == rule_report::verdict::untested ||
        report.found == rule_report::verdict::never_fits) {  // few shapes fit the rule
      auto chained = quick;
      chained.chained = true;
      report = test_rule(a, s, chained);
    }
    const auto where = fmt::format("{}: rule {}", file, s.name);
    if (report.found == rule_report::verdict::refuted) {
      throw error{where, fmt::format("sides that differ: {}", report.because), "sides that are equal"};
    }
    if (report.found == rule_report::verdict::never_fits) {
      throw error{where, fmt::format("no shapes found for which the target fits: {}", report.because),
                  "a target whose outputs have the types of the source's"};
    }
    if (report.found == rule_report::verdict::untested) {
      throw error{where,
                  fmt::format("no shapes found to test it on{}",
                              report.because.empty() ? "" : fmt::format(": {}", report.because)),
                  "a rule that can be tested"};
    }
  }
}

}  // namespace unity::tensor

#endif
