// Compares two graphs by the normal forms of what they compute.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/algorithm/equal.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/verification/polynomial.hpp>
#include <unity/tensor/verification/polynomial_pool.hpp>

namespace unity::tensor {

// A prover's answer about two graphs with the same sources and equal output types.
struct side_verdict {
  enum class answer : std::uint8_t { equal, different, unknown, too_large };

  answer found = answer::unknown;
  std::string because{};  // where and by how much they differ, or why that is unknown
};

// Decides whether two graphs are equal for all values of their sources.
template <class P>
concept equality_prover = requires(P& p, const algebra& a, const tensor_graph& g) {
  { p.compare(a, g, g) } -> std::same_as<side_verdict>;
  { p.name() } -> std::convertible_to<std::string>;
};

namespace detail {

// Elements of sources as unknowns, named by the number that make(source, element) receives for the name of a source.
template <class Scalar, class Make>
class unknown_elements {
 public:
  unknown_elements(const algebra& a, const Make& make) : algebra_{a}, make_{make} {}

  std::optional<dense<Scalar>> operator()(const operation& op, const tensor_type& type) const {
    if (algebra_.definition_of(op.kind).source == source_kind::none) {
      return std::nullopt;
    }
    dense<Scalar> values{type.dims};
    const auto source = static_cast<std::uint32_t>(hash_value(op.attributes[0]));
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      values.data[i] = make_(source, static_cast<std::uint32_t>(i));
    }
    return values;
  }

 private:
  const algebra& algebra_;
  const Make& make_;
};

// Searches for small integers and halves at which two graphs differ; reports the values of the sources and the first
// elements that differ.
class number_search {
 public:
  number_search(const algebra& a, const tensor_graph& first, const tensor_graph& second)
      : algebra_{a}, first_{first}, second_{second} {}

  [[nodiscard]] std::optional<std::string> run() const;

  [[nodiscard]] static std::string place(std::size_t outputs, std::size_t output, std::size_t element) {
    return fmt::format("{}element {}: ", outputs > 1 ? fmt::format("output {} ", output) : "", element);
  }

 private:
  template <class Point>
  [[nodiscard]] std::string values(const Point& point) const {
    constexpr std::size_t most = 32;
    std::string text = " at";
    for (const auto n : node_ids(first_)) {
      const auto& op = first_.operation(n);
      const auto given = point(op, first_.type(first_.results(n)[0]));
      if (!given) {
        continue;
      }
      text += fmt::format("{}{} = [", n.index() == 0 ? " " : ", ", algebra_.read(op).word("name"));
      for (std::size_t k = 0; k < given->data.size() && k < most; ++k) {
        text += fmt::format("{}{}", k == 0 ? "" : ", ", unity::real_text(given->data[k]));
      }
      text += given->data.size() > most ? ", ..]" : "]";
    }
    return text;
  }

  const algebra& algebra_;
  const tensor_graph& first_;
  const tensor_graph& second_;
};

}  // namespace detail

// Proves by polynomials (verification/polynomial.hpp). If normal forms differ, searches for numbers at which values
// differ.
class polynomial_prover {
 public:
  [[nodiscard]] std::string name() const { return "exact polynomials"; }

  [[nodiscard]] side_verdict compare(const algebra& a, const tensor_graph& first, const tensor_graph& second);

 private:
  using values = std::vector<dense<polynomial>>;
  [[nodiscard]] static bool equal(const values& x, const values& y);
  // Monomials are kept between graphs, which share most of them, until there are too many.
  void forget();

  std::unique_ptr<polynomial_pool> pool_ = std::make_unique<polynomial_pool>();
};

static_assert(equality_prover<polynomial_prover>);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_EXACT)

#include <algorithm>
#include <cmath>
#include <span>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<std::string> number_search::run() const {
  constexpr std::uint64_t tries = 64;
  for (std::uint64_t seed = 0; seed < tries; ++seed) {
    const auto make = [&](std::uint32_t source, std::uint32_t element) {
      const auto bits = hash_combine(hash_combine(seed, source), element);
      return seed % 4 == 3   ? static_cast<double>(bits % 9) / 2 - 2
             : seed % 2 == 0 ? static_cast<double>(bits % 5) - 2
                             : static_cast<double>(bits % 3 + 1);
    };
    const unknown_elements<double, decltype(make)> point{algebra_, make};
    const auto x = evaluate<double>(algebra_, first_, point);
    const auto y = evaluate<double>(algebra_, second_, point);
    for (std::size_t o = 0; o < x.size(); ++o) {
      for (std::size_t i = 0; i < x[o].data.size(); ++i) {
        if (std::isfinite(x[o].data[i]) && !(std::abs(x[o].data[i] - y[o].data[i]) < 1e-6)) {
          return fmt::format("{}{} and {}{}", place(x.size(), o, i), unity::real_text(x[o].data[i]),
                             unity::real_text(y[o].data[i]), values(point));
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE side_verdict polynomial_prover::compare(const algebra& a, const tensor_graph& first,
                                                     const tensor_graph& second) {
  using answer = side_verdict::answer;
  forget();
  const auto make = [&](std::uint32_t source, std::uint32_t element) {
    return polynomial::unknown(*pool_, source, element);
  };
  const detail::unknown_elements<polynomial, decltype(make)> unknowns{a, make};
  try {
    if (equal(evaluate<polynomial>(a, first, unknowns), evaluate<polynomial>(a, second, unknowns))) {
      return {answer::equal, {}};
    }
  } catch (const polynomial::too_large& e) {
    return {answer::too_large, e.what()};
  } catch (const error& e) {
    return {answer::unknown, e.what()};
  }
  if (auto found = detail::number_search{a, first, second}.run()) {
    return {answer::different, *std::move(found)};
  }
  return {answer::unknown, "forms that differ, and no numbers at which the values do"};
}

UNITY_INLINE bool polynomial_prover::equal(const values& x, const values& y) {
  for (const auto& [left, right] : ranges::views::zip(x, y)) {
    const bool same = ranges::equal(left.data, right.data, [](const polynomial& p, const polynomial& q) {
      return p == q || p.without_squares() == q.without_squares();
    });
    if (!same || left.dims != right.dims) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE void polynomial_prover::forget() {
  constexpr std::size_t most = 2'000'000;
  if (pool_->monomials() > most) {
    pool_ = std::make_unique<polynomial_pool>();
  }
}

}  // namespace unity::tensor

#endif
