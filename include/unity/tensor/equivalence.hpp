// Checks whether two graphs compute the same. Every graph that an optimizer returns is checked.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/checked_evaluation.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/source_values.hpp>

namespace unity::tensor {

// The arithmetic in which graphs are compared. Real numbers find errors of algebra sharply; the arithmetic of the
// element types finds rewrites that hold for real numbers only, such as a position that float32 puts into another
// bucket.
enum class arithmetic : std::uint8_t { real, rounded, both };

struct equivalence_options {
  std::size_t points = 4;  // number of sets of values
  bool modular = false;    // half of them also modulo 2^61 - 1: only if equality does not rest on real numbers alone
  arithmetic numbers = arithmetic::both;
  std::uint64_t seed = 0;
  double tolerance = 1e-7;          // relative to the largest element of an output
  source_data data{};               // for constants that rules depend on; their sizes stay
  flops affordable{2'000'000'000};  // limit for comparing differing graphs again on larger sizes
};

struct equivalence_report {
  bool passed = false;
  double max_rel_error = 0;
  std::size_t points = 0;                         // sets of values that were compared
  std::size_t undefined = 0;                      // elements of outputs that are NaN in both graphs
  std::string sizes{};                            // sizes that were used for the comparison, in one line
  std::optional<std::size_t> first_difference{};  // the first output that differs
  std::string problem{};                          // in one line; empty if passed
};

namespace detail {

[[nodiscard]] inline double relative_error(const dense<modular61>& a, const dense<modular61>& b) {
  return a == b ? 0 : std::numeric_limits<double>::infinity();
}

// Compares two graphs whose sources have equal names, dimensions and values.
class comparison {
 public:
  comparison(const algebra& a, const shrunk_graphs& g, const equivalence_options& o)
      : algebra_{a}, graphs_{g}, options_{o}, sources_{a, roles_of(a, g), o.data} {}

  [[nodiscard]] equivalence_report run();

 private:
  [[nodiscard]] static source_roles roles_of(const algebra& a, const shrunk_graphs& g);

  [[nodiscard]] equivalence_report attempt();
  // Compares in the arithmetic of the element types. A true difference shows at every point; at a single point it may
  // be chance, if an element lies exactly where a function jumps, such as the position of a maximum or a quantized
  // number.
  void compare_rounded(equivalence_report& r);

  template <class Scalar>
  void compare(equivalence_report& r) {
    ++r.points;
    checked_evaluation<Scalar> first{algebra_, graphs_.first};
    checked_evaluation<Scalar> second{algebra_, graphs_.second};
    const auto a = first.run(sources_);
    domain_error_ = !first.problem().empty();
    if (domain_error_ && !compares_numbers_alone_) {
      return;
    }
    const auto b = second.run(sources_);
    if (compares_numbers_alone_ && !count_numbers(a, r)) {
      r.problem = fmt::format("{} in the first graph, and no element of an output is a number", first.problem());
      return;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto error = relative_error(a[i], b[i]);
      r.max_rel_error = std::max(r.max_rel_error, error);
      if (error > options_.tolerance && !r.first_difference) {
        r.first_difference = i;
        r.problem = fmt::format("output {} differs", i);
      }
    }
    if (!second.problem().empty() && !domain_error_) {
      r.problem = fmt::format("{} in the second graph", second.problem());
    }
  }

  // Whether any element is a number; counts the NaNs.
  template <class Scalar>
  [[nodiscard]] static bool count_numbers(const std::vector<dense<Scalar>>& outputs, equivalence_report& r) {
    bool any = false;
    if constexpr (std::floating_point<Scalar>) {
      for (const auto& output : outputs) {
        const auto undefined = std::count_if(output.data.begin(), output.data.end(), [](auto x) { return x != x; });
        r.undefined += static_cast<std::size_t>(undefined);
        any = any || static_cast<std::size_t>(undefined) < output.data.size();
      }
    }
    return any || !std::floating_point<Scalar>;
  }

  const algebra& algebra_;
  const shrunk_graphs& graphs_;
  const equivalence_options& options_;
  source_values sources_;
  bool domain_error_ = false;            // the first graph gave NaN
  bool compares_numbers_alone_ = false;  // ignore NaN in the first graph, if it cannot be avoided
};

// Returns nothing if the outputs have the same types.
[[nodiscard]] std::optional<equivalence_report> compare_types(const tensor_graph& a, const tensor_graph& b);

// The work of evaluation; an element counts as several operations.
[[nodiscard]] flops work_of(const algebra& a, const tensor_graph& g);

// The largest of a few sizes that can be compared in a moment. In networks with two or three neurons per layer, too
// many products are with zero.
[[nodiscard]] shrunk_graphs shrink_enough(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                          shrink_options options);

// Larger sizes for graphs that differ on small ones: their own, or the largest that are affordable. Nothing if none
// are.
[[nodiscard]] std::optional<shrunk_graphs> larger_sizes(const algebra& a, const shrunk_graphs& own,
                                                        shrink_options shrinking, flops affordable);

}  // namespace detail

// Evaluates both graphs on small sizes (tensor/shrink.hpp), with the same pseudo-random values for sources with the
// same name, and compares their outputs. Every operator takes part: an opaque one is some fixed function of its
// operands. If the graphs differ, they are compared again on larger sizes, if affordable, because a number in a graph
// may stem from a size. NaN in the second graph alone is a difference. If the first graph gives NaN even with positive
// sources, only the other elements are compared; if there are none, that is reported as a problem.
[[nodiscard]] equivalence_report check_equivalence(const algebra& a, const tensor_graph& first,
                                                   const tensor_graph& second, const equivalence_options& options = {});

// The same on the graphs' own sizes, for constants that were computed from other constants, which smaller sizes would
// cut. Nothing if the graphs together cost more than options.affordable.
[[nodiscard]] std::optional<equivalence_report> check_own_sizes(const algebra& a, const tensor_graph& first,
                                                                const tensor_graph& second,
                                                                const equivalence_options& options);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_EQUIVALENCE)

#include <string_view>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::detail {

UNITY_INLINE equivalence_report comparison::run() {
  auto report = attempt();
  if (domain_error_) {
    sources_.make_positive();
    report = attempt();
  }
  if (domain_error_) {
    compares_numbers_alone_ = true;
    report = attempt();
  }
  if (report.problem.empty() && options_.numbers != arithmetic::real) {
    compare_rounded(report);
  }
  report.sizes = graphs_.sizes;
  report.passed = report.problem.empty();
  return report;
}

UNITY_INLINE source_roles comparison::roles_of(const algebra& a, const shrunk_graphs& g) {
  source_roles roles{a};
  roles.read(g.first);
  roles.read(g.second);
  return roles;
}

UNITY_INLINE equivalence_report comparison::attempt() {
  equivalence_report r;
  domain_error_ = false;
  for (const bool biased : {false, true}) {
    sources_.move_to(options_.seed, biased);
    checked_evaluation<double>{algebra_, graphs_.first}.calibrate(sources_);
  }
  const auto points = options_.numbers == arithmetic::rounded ? 0 : options_.points;
  for (std::size_t i = 0; i < points && r.problem.empty(); ++i) {
    sources_.move_to(hash_combine(options_.seed, i), i % 2 == 1);
    compare<double>(r);
    if (options_.modular && i % 2 == 0 && r.problem.empty()) {
      compare<modular61>(r);
    }
  }
  return r;
}

UNITY_INLINE void comparison::compare_rounded(equivalence_report& r) {
  const auto& one = graphs_.first;
  const auto& other = graphs_.second;
  const auto values = roundings_of(algebra_, one, sources_);
  const auto others = roundings_of(algebra_, other, sources_);
  std::vector<rounded_output> outputs;
  std::vector<std::size_t> differing;
  for (std::size_t i = 0; i < one.outputs().size(); ++i) {
    auto joined = values[one.outputs()[i].index()];
    joined.join(others[other.outputs()[i].index()]);
    outputs.emplace_back(one.type(one.outputs()[i]).element, joined);
    differing.push_back(i);
  }
  checked_evaluation<double> real{algebra_, one, fixed_decisions(one, values)};
  checked_evaluation<double> first{algebra_, one, std::vector<bool>(one.node_count(), true)};
  checked_evaluation<double> second{algebra_, other, std::vector<bool>(other.node_count(), true)};
  for (std::size_t i = 0; i < options_.points && !differing.empty(); ++i) {
    sources_.move_to(hash_combine(options_.seed, i), i % 2 == 1);
    const auto a = real.run(sources_);
    const auto b = first.run(sources_);
    const auto c = second.run(sources_);
    std::erase_if(differing, [&](std::size_t o) { return !outputs[o].differs(a[o], b[o], c[o], options_.tolerance); });
  }
  if (!differing.empty()) {
    const auto o = differing.front();
    r.first_difference = o;
    r.max_rel_error = std::max(r.max_rel_error, outputs[o].error());
    r.problem = fmt::format("output {} differs in the arithmetic of {}", o, one.type(one.outputs()[o]).element);
  }
}

UNITY_INLINE std::optional<equivalence_report> compare_types(const tensor_graph& a, const tensor_graph& b) {
  equivalence_report r;
  if (a.outputs().size() != b.outputs().size()) {
    r.problem = fmt::format("{} outputs and {}", a.outputs().size(), b.outputs().size());
    return r;
  }
  for (std::size_t i = 0; i < a.outputs().size(); ++i) {
    const auto& x = a.type(a.outputs()[i]);
    const auto& y = b.type(b.outputs()[i]);
    if (x.element != y.element || x.dims != y.dims) {
      r.first_difference = i;
      r.problem = fmt::format("output {} is {} and {}", i, x, y);
      return r;
    }
  }
  return std::nullopt;
}

UNITY_INLINE flops work_of(const algebra& a, const tensor_graph& g) {
  std::int64_t sum = 0;
  for (const auto i : node_ids(g)) {
    std::vector<tensor_type> in;
    std::vector<tensor_type> out;
    for (const auto v : g.operands(i)) {
      in.push_back(g.type(v));
    }
    for (const auto v : g.results(i)) {
      out.push_back(g.type(v));
      sum = saturating_add(sum, saturating_multiply(20, element_count(out.back().dims)));
    }
    sum = saturating_add(sum, a.work(g.operation(i), in, out).operations.count());
  }
  return flops{sum};
}

UNITY_INLINE shrunk_graphs shrink_enough(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                         shrink_options options) {
  constexpr flops quick{40'000'000};
  for (const std::int64_t least : {8, 4}) {
    options.least = least;
    auto shrunk = shrink(a, first, second, options);
    if (work_of(a, shrunk.first) + work_of(a, shrunk.second) <= quick) {
      return shrunk;
    }
  }
  options.least = 2;
  return shrink(a, first, second, options);
}

UNITY_INLINE std::optional<shrunk_graphs> larger_sizes(const algebra& a, const shrunk_graphs& own,
                                                       shrink_options shrinking, flops affordable) {
  const auto is_affordable = [&](const shrunk_graphs& g) {
    return work_of(a, g.first) <= affordable && work_of(a, g.second) <= affordable;
  };
  if (is_affordable(own)) {
    return own;
  }
  for (const auto care : {shrink_care::structure, shrink_care::numbers}) {
    shrinking.care = care;
    auto larger = shrink(a, own.first, own.second, shrinking);
    if (is_affordable(larger)) {
      return larger;
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE equivalence_report check_equivalence(const algebra& a, const tensor_graph& first,
                                                  const tensor_graph& second, const equivalence_options& options) {
  if (auto different = detail::compare_types(first, second)) {
    return *std::move(different);
  }
  shrink_options shrinking;
  if (options.data) {
    shrinking.keeps = [&](std::string_view name) { return options.data(name).has_value(); };
  }
  const auto small = detail::shrink_enough(a, first, second, shrinking);
  auto report = detail::comparison{a, small, options}.run();
  if (!report.passed) {
    const shrunk_graphs own{first, second, "the graphs' own", 0};
    if (const auto larger = detail::larger_sizes(a, own, shrinking, options.affordable)) {
      report = detail::comparison{a, *larger, options}.run();
    }
  }
  return report;
}

UNITY_INLINE std::optional<equivalence_report> check_own_sizes(const algebra& a, const tensor_graph& first,
                                                               const tensor_graph& second,
                                                               const equivalence_options& options) {
  if (auto different = detail::compare_types(first, second)) {
    return different;
  }
  if (detail::work_of(a, first) + detail::work_of(a, second) > options.affordable) {
    return std::nullopt;
  }
  return detail::comparison{a, {first, second, "the graphs' own", 0}, options}.run();
}

}  // namespace unity::tensor

#endif
