// Tests substitutions: are both sides equal on random shapes, attributes and values.
//
// What `tested N` in a rule file means: on each of at least 50 shape and attribute assignments both sides were
// evaluated at k independent random points modulo the prime p = 2^61 - 1. If they were different quotients of
// polynomials of degree d in total, they would have agreed on one assignment with probability at most
// (d / p)^k (Schwartz, Zippel); N is the least k * floor(61 - log2 d) of all assignments. Functions that are no
// polynomials are pseudo-random functions of the residue. A rule that holds only for reals is tested on doubles alone,
// where agreement to the 23 bits of float32 at k points counts as N = 23 k. Either way N says nothing about shapes that
// were not tried.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/rules/degree.hpp>
#include <unity/tensor/rules/generator.hpp>
#include <unity/tensor/rules/instance.hpp>

namespace unity::tensor {

struct rule_test_options {
  std::size_t instances = 50;     // to find in which the target fits
  std::size_t attempts = 200000;  // to find all of them
  std::size_t varied = 3;         // instances of which all variations are tried as well
  std::size_t points = 4;         // of either kind of scalar, more where there are few elements
  double tolerance = 0x1p-30;       // relative to the largest element
  double real_tolerance = 0x1p-23;  // of rules for reals, which may name constants as float32 has them
  std::uint64_t seed = 1;
};

struct rule_report {
  enum class verdict : std::uint8_t {
    passes,
    refuted,     // `because` tells where the sides differ
    never_fits,  // the target had other types, or could not be built, in every instance of the source
    untested,    // no instance was found
  };

  verdict found = verdict::untested;
  std::size_t instances = 0;  // in which both sides were compared
  std::size_t misfits = 0;    // in which the target does not fit: the rule does not apply there
  int bits = 0;               // see above
  std::string because{};      // of a refusal or misfit: the instance, the place and the values
};

namespace detail {

// Values of the variables of an instance at one random point.
template <class Scalar>
class random_point {
 public:
  random_point(const algebra& a, std::uint64_t seed, bool positive) : algebra_{a}, seed_{seed}, positive_{positive} {}

  std::optional<dense<Scalar>> operator()(const operation& op, const tensor_type& type) const {
    if (algebra_.definition_of(op.kind).source == source_kind::none) {
      return std::nullopt;
    }
    dense<Scalar> values{type.dims};
    const auto stream = hash_combine(seed_, hash_bytes(algebra_.read(op).word("name")));
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const auto bits = hash_combine(stream, i);
      values.data[i] = is_floating(type.element) ? value(bits) : static_cast<Scalar>(static_cast<std::int64_t>(bits % 4));
    }
    return values;
  }

 private:
  // Reals in [-2, 2), or in [1/4, 9/4) where roots and logarithms are to exist.
  [[nodiscard]] Scalar value(std::uint64_t bits) const {
    if constexpr (std::floating_point<Scalar>) {
      const auto unit = static_cast<double>(bits >> 11U) * 0x1p-53;
      return static_cast<Scalar>(positive_ ? 2 * unit + 0.25 : 4 * unit - 2);
    } else {
      return Scalar::of_residue(bits);
    }
  }

  const algebra& algebra_;
  std::uint64_t seed_;
  bool positive_;
};

// Two graphs of equal output types, compared at random points.
class side_comparison {
 public:
  side_comparison(const algebra& a, const rule_test_options& o, const tensor_graph& source, const tensor_graph& target)
      : algebra_{a}, options_{o}, source_{source}, target_{target} {}

  // The place where they differ, or nothing.
  std::optional<std::string> run(bool real_only, std::uint64_t seed) {
    std::size_t elements = 0;
    for (const auto v : source_.outputs()) {
      elements += static_cast<std::size_t>(element_count(source_.type(v).dims));
    }
    points_ = std::max(options_.points, std::min<std::size_t>(32, 64 / std::max<std::size_t>(1, elements)));
    tolerance_ = real_only ? options_.real_tolerance : options_.tolerance;
    for (std::size_t k = 0; k < points_; ++k) {
      auto difference = compare<double>(hash_combine(seed, k), k % 2 == 1);
      if (!difference && !real_only) {
        difference = compare<modular61>(hash_combine(seed, k), false);
      }
      if (difference) {
        return difference;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t defined() const noexcept { return defined_; }
  [[nodiscard]] int bits(bool real_only) const {
    const auto points = static_cast<int>(points_);
    if (real_only) {
      return 23 * points;
    }
    std::int64_t most = 1;
    const auto a = degree_bounds(algebra_, source_);
    const auto b = degree_bounds(algebra_, target_);
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, saturating_add(a[i].sum(), b[i].sum()));
    }
    return points * std::max(0, static_cast<int>(std::floor(61 - std::log2(static_cast<double>(most)))));
  }

 private:
  template <class Scalar>
  std::optional<std::string> compare(std::uint64_t seed, bool positive) {
    const random_point<Scalar> point{algebra_, seed, positive};
    const auto x = evaluate<Scalar>(algebra_, source_, point);
    const auto y = evaluate<Scalar>(algebra_, target_, point);
    for (std::size_t o = 0; o < x.size(); ++o) {
      const auto at = difference(x[o].data, y[o].data);
      if (at) {
        return (x.size() > 1 ? "output " + std::to_string(o) + " " : "") + "element " + std::to_string(*at) + ": " +
               text(x[o].data[*at]) + " and " + text(y[o].data[*at]);
      }
    }
    return std::nullopt;
  }
  // What the source does not define (the root of a negative number) the target may define as it likes.
  std::optional<std::size_t> difference(std::span<const double> x, std::span<const double> y) {
    double largest = 1;
    for (const auto v : x) {
      largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) {
        ++defined_;
        if (!(std::abs(x[i] - y[i]) <= tolerance_ * largest)) {
          return i;
        }
      }
    }
    return std::nullopt;
  }
  std::optional<std::size_t> difference(std::span<const modular61> x, std::span<const modular61> y) {
    const auto place = std::mismatch(x.begin(), x.end(), y.begin()).first;
    return place == x.end() ? std::nullopt : std::optional{static_cast<std::size_t>(place - x.begin())};
  }
  static std::string text(double v) { return unity::detail::real_text(v); }
  static std::string text(modular61 v) { return std::to_string(v.residue()) + " modulo 2^61 - 1"; }

  const algebra& algebra_;
  const rule_test_options& options_;
  const tensor_graph& source_;
  const tensor_graph& target_;
  std::size_t points_ = 0;
  std::size_t defined_ = 0;
  double tolerance_ = 0;
};

class rule_tester {
 public:
  rule_tester(const algebra& a, const substitution& s, const rule_test_options& o)
      : algebra_{a}, s_{s}, options_{o}, generator_{a, s, o.seed} {}

  rule_report run() {
    report_.bits = std::numeric_limits<int>::max();
    auto attempts = options_.attempts;
    for (std::size_t tries = 0; tries < 20 * options_.instances && report_.instances < options_.instances && !refuted(); ++tries) {
      const auto instance = generator_.next(attempts);
      if (!instance) {
        break;
      }
      const bool fits = check(*instance);
      if (fits && varied_ < options_.varied) {
        ++varied_;
        check_variations(*instance);
      }
    }
    conclude();
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool refuted() const { return report_.found == rule_report::verdict::refuted; }

  void check_variations(const rule_instance& base) {
    for (const auto& v : generator_.variations(base)) {
      if (!refuted()) {
        check(v);
      }
    }
  }
  // Whether the target fits.
  bool check(const rule_instance& instance) {
    const auto source = source_graph(algebra_, s_, instance);
    const auto target = target_graph(algebra_, s_, instance);
    if (!source) {
      return false;
    }
    if (!target || types(*source) != types(*target)) {
      ++report_.misfits;
      report_.because = misfit(instance, *source, target);
      return false;
    }
    side_comparison sides{algebra_, options_, *source, *target};
    const auto difference = sides.run(s_.rule.real_only, hash_combine(options_.seed, ++points_));
    if (difference) {
      report_.found = rule_report::verdict::refuted;
      report_.because = to_string(algebra_, s_, instance) + "; " + *difference;
      return true;
    }
    ++report_.instances;
    defined_ += sides.defined();
    report_.bits = std::min(report_.bits, sides.bits(s_.rule.real_only));
    return true;
  }
  void conclude() {
    using verdict = rule_report::verdict;
    if (report_.instances == 0 || refuted() || defined_ == 0) {
      report_.bits = 0;
    }
    if (!refuted()) {
      report_.found = report_.instances > 0 && defined_ > 0 ? verdict::passes
                      : report_.misfits > 0                 ? verdict::never_fits
                                                            : verdict::untested;
    }
    if (report_.found == verdict::passes) {
      report_.because.clear();
    }
  }
  [[nodiscard]] static std::vector<tensor_type> types(const tensor_graph& g) {
    std::vector<tensor_type> all;
    for (const auto v : g.outputs()) {
      all.push_back(g.type(v));
    }
    return all;
  }
  [[nodiscard]] std::string misfit(const rule_instance& instance, const tensor_graph& source, const std::optional<tensor_graph>& target) const {
    auto text = to_string(algebra_, s_, instance) + "; source gives";
    for (const auto& t : types(source)) {
      text += " " + to_string(t);
    }
    if (!target) {
      return text + ", target cannot be built";
    }
    text += ", target gives";
    for (const auto& t : types(*target)) {
      text += " " + to_string(t);
    }
    return text;
  }

  const algebra& algebra_;
  const substitution& s_;
  const rule_test_options& options_;
  instance_generator generator_;
  rule_report report_;
  std::size_t varied_ = 0;
  std::uint64_t points_ = 0;
  std::size_t defined_ = 0;
};

}  // namespace detail

// Tests one direction of a rule.
// Effects: none. Complexity: linear in the instances asked for and the attempts that finding them takes.
[[nodiscard]] inline rule_report test_rule(const algebra& a, const substitution& s, const rule_test_options& options = {}) {
  return detail::rule_tester{a, s, options}.run();
}

// Tests the rules of a file as it is loaded: few instances each, enough to catch what is wrong everywhere.
// Throws: unity::error naming the file, the rule, and where its sides differ or have other shapes.
inline void check_rules(const algebra& a, const rule_set& rules, std::string_view file, std::uint64_t seed = 1) {
  const rule_test_options quick{.instances = 8, .attempts = 20000, .varied = 1, .points = 1, .seed = seed};
  for (const auto& s : rules) {
    const auto report = test_rule(a, s, quick);
    const auto where = std::string{file} + ": rule " + s.name;
    if (report.found == rule_report::verdict::refuted) {
      throw error{where, "sides that differ: " + report.because, "sides that are equal"};
    }
    if (report.found == rule_report::verdict::never_fits) {
      throw error{where, report.because, "a target whose outputs have the shapes of the source's"};
    }
  }
}

}  // namespace unity::tensor
