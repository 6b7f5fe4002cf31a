// Z3 as a prover of real arithmetic: tensor elements are real unknowns, which its simplifier and solver compare. Link
// unity::z3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <z3++.h>
#include <range/v3/view/zip.hpp>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/verification/exact.hpp>
#include <unity/tensor/verification/polynomial_pool.hpp>

namespace unity::tensor {

// A real number for Z3, or a constant that needs no context yet: a fraction, a function of a fraction, or a value below
// all numbers. Maxima and relu become case distinctions; other functions are uninterpreted. A value; must not outlive
// its context.
class z3_real {
 public:
  z3_real() = default;
  explicit z3_real(std::int64_t n) : constant_{n} {}
  explicit z3_real(const rational& constant) : constant_{constant} {}
  explicit z3_real(z3::expr e) : term_{std::move(e)} {}
  [[nodiscard]] static z3_real lowest();

  [[nodiscard]] bool is_constant() const noexcept { return !term_ && !function_ && !lowest_; }
  [[nodiscard]] bool is_lowest() const noexcept { return lowest_; }
  [[nodiscard]] const rational& constant() const noexcept { return constant_; }
  [[nodiscard]] const std::optional<z3::expr>& term() const noexcept { return term_; }
  [[nodiscard]] z3::expr in(z3::context& c) const;

  z3_real& operator+=(const z3_real& o) { return *this = *this + o; }
  friend z3_real operator+(const z3_real& a, const z3_real& b) {
    if (a.lowest_ || b.lowest_) {
      return lowest();
    }
    if (a.is_constant() && (b.is_constant() || a.constant_.is_zero())) {
      return b.is_constant() ? z3_real{a.constant_ + b.constant_} : b;
    }
    if (b.is_constant() && b.constant_.is_zero()) {
      return a;
    }
    auto& c = context_of(a, b);
    return z3_real{a.in(c) + b.in(c)};
  }
  friend z3_real operator-(const z3_real& a) { return z3_real{rational{-1}} * a; }
  friend z3_real operator-(const z3_real& a, const z3_real& b) { return a + -b; }
  friend z3_real operator*(const z3_real& a, const z3_real& b) {
    if (a.is_constant() && b.is_constant()) {
      return z3_real{a.constant_ * b.constant_};
    }
    for (const auto* const x : {&a, &b}) {
      const auto& other = x == &a ? b : a;
      if (x->is_constant() && (x->constant_.is_zero() || x->constant_ == rational{1})) {
        return x->constant_.is_zero() ? z3_real{} : other;
      }
    }
    auto& c = context_of(a, b);
    return z3_real{a.in(c)*b.in(c)};
  }
  friend bool operator==(const z3_real& a, const z3_real& b) {
    if (a.term_ || b.term_) {
      return a.term_ && b.term_ && z3::eq(*a.term_, *b.term_);
    }
    return a.constant_ == b.constant_ && a.function_ == b.function_ && a.lowest_ == b.lowest_;
  }

  // An uninterpreted function.
  [[nodiscard]] static z3_real function(scalar_op op, const z3_real& a);
  [[nodiscard]] static z3_real function(scalar_op op, const z3_real& a, const z3_real& b);
  [[nodiscard]] static z3_real maximum(const z3_real& a, const z3_real& b);

 private:
  [[nodiscard]] static z3::context& context_of(const z3_real& a, const z3_real& b);
  [[nodiscard]] static std::string name_of(scalar_op op) { return fmt::format("f{}", static_cast<int>(op)); }
  [[nodiscard]] static z3::func_decl named(z3::context& c, scalar_op op) {
    return c.function(name_of(op).c_str(), c.real_sort(), c.real_sort());
  }

  rational constant_{};
  std::optional<scalar_op> function_{};  // applied to the constant
  bool lowest_ = false;
  std::optional<z3::expr> term_{};
};

template <>
struct scalar_traits<z3_real> {
  using product_sum = z3_real;
  static constexpr bool symbolic = true;

  [[nodiscard]] static z3_real literal(double value) { return z3_real{rational::of_literal(value)}; }
  [[nodiscard]] static z3_real lowest() { return z3_real::lowest(); }
  [[nodiscard]] static std::optional<std::int64_t> index(const z3_real& r) {
    return r.is_constant() ? r.constant().integer() : std::nullopt;
  }
  [[nodiscard]] static z3_real widen(const z3_real& r) { return r; }
  static void add_product(z3_real& sum, const z3_real& a, const z3_real& b) { sum += a * b; }
  [[nodiscard]] static z3_real narrow(const z3_real& sum) { return sum; }

  [[nodiscard]] static z3_real apply(scalar_op op, const z3_real& a) {
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::relu: return a.is_lowest() ? z3_real{} : z3_real::maximum(a, z3_real{});
      case scalar_op::gelu: return gelu(a);
      case scalar_op::abs: return z3_real::maximum(a, -a);
      case scalar_op::reciprocal:
        return a.is_constant() ? z3_real{rational{1} / a.constant()} : z3_real::function(op, a);
      default: return z3_real::function(op, a);
    }
  }
  [[nodiscard]] static z3_real apply(scalar_op op, const z3_real& a, const z3_real& b) {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a * apply(scalar_op::reciprocal, b);
      case scalar_op::pow: return power(a, b);
      case scalar_op::maximum: return z3_real::maximum(a, b);
      case scalar_op::minimum: return -z3_real::maximum(-a, -b);
      case scalar_op::equal:
        return a.is_constant() && b.is_constant() ? z3_real{a == b ? 1 : 0} : z3_real::function(op, a, b);
      case scalar_op::less:
        return a.is_constant() && b.is_constant() ? z3_real{a.constant() < b.constant() ? 1 : 0}
                                                  : z3_real::function(op, a, b);
      case scalar_op::masked: return a.is_constant() ? a.constant().is_zero() ? a : b : z3_real::function(op, a, b);
      default: return z3_real::function(op, a, b);
    }
  }

 private:
  // a / 2 * (1 + erf(a / sqrt 2))
  [[nodiscard]] static z3_real gelu(const z3_real& a) {
    if (!a.term()) {
      return a.is_constant() && a.constant().is_zero() ? a : z3_real::function(scalar_op::gelu, a);
    }
    const auto half = z3_real{rational{1, 2}} * a;
    return half + half * z3_real::function(scalar_op::erf, z3_real{rational{1} / rational::root_of_2()} * a);
  }
  [[nodiscard]] static z3_real power(const z3_real& a, const z3_real& b) {
    if (b.is_constant() && (b.constant() == rational{1} || b.constant() == rational{2})) {
      return b.constant() == rational{1} ? a : a * a;
    }
    return b.is_constant() && b.constant() == rational{1, 2} ? z3_real::function(scalar_op::sqrt, a)
                                                             : z3_real::function(scalar_op::pow, a, b);
  }
};

// Models equality_prover. Deterministic: Z3's own resource count limits the work, not time.
class z3_reals {
 public:
  explicit z3_reals(unsigned resources = 2'000'000) : resources_{resources} {}

  [[nodiscard]] std::string name() const;

  [[nodiscard]] side_verdict compare(const algebra& a, const tensor_graph& first, const tensor_graph& second);

 private:
  using values = std::vector<dense<z3_real>>;

  // Makes a new context after many questions: contexts grow with each question, but are slow to make.
  void renew();

  [[nodiscard]] side_verdict compare(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                     const values& x, const values& y);
  // Most differences vanish when written as sums of monomials; then the solver is not needed.
  void add_difference(const z3::expr& x, const z3::expr& y, z3::expr_vector& differences) const;

  unsigned resources_;
  std::size_t asked_ = 0;
  std::unique_ptr<z3::context> context_{};
};

static_assert(equality_prover<z3_reals>);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_Z3_REALS)

#include <unity/core/error.hpp>
#include <unity/rewrite/z3_prover.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::tensor {

UNITY_INLINE z3_real z3_real::lowest() {
  z3_real r;
  r.lowest_ = true;
  return r;
}

UNITY_INLINE z3::expr z3_real::in(z3::context& c) const {
  if (term_) {
    return *term_;
  }
  const auto number = c.real_val(to_string(constant_).c_str());
  return function_ ? named(c, *function_)(number) : lowest_ ? c.real_const("lowest") : number;
}

UNITY_INLINE z3_real z3_real::function(scalar_op op, const z3_real& a) {
  if (a.term_) {
    return z3_real{named(a.term_->ctx(), op)(*a.term_)};
  }
  if (!a.is_constant()) {
    throw error{"real arithmetic", "a function of a function of a constant", "unknowns"};
  }
  z3_real r{a.constant_};
  r.function_ = op;
  return r;
}

UNITY_INLINE z3_real z3_real::function(scalar_op op, const z3_real& a, const z3_real& b) {
  auto& c = context_of(a, b);
  const auto real = c.real_sort();
  return z3_real{c.function(name_of(op).c_str(), real, real, real)(a.in(c), b.in(c))};
}

UNITY_INLINE z3_real z3_real::maximum(const z3_real& a, const z3_real& b) {
  if (a.lowest_ || b.lowest_) {
    return a.lowest_ ? b : a;
  }
  if (a.is_constant() && b.is_constant()) {
    return a.constant_ < b.constant_ ? b : a;
  }
  auto& c = context_of(a, b);
  return z3_real{z3::ite(a.in(c) < b.in(c), b.in(c), a.in(c))};
}

UNITY_INLINE z3::context& z3_real::context_of(const z3_real& a, const z3_real& b) {
  if (!a.term_ && !b.term_) {
    throw error{"real arithmetic", "functions of constants alone", "unknowns"};
  }
  return a.term_ ? a.term_->ctx() : b.term_->ctx();
}

UNITY_INLINE std::string z3_reals::name() const {
  unsigned version[4] = {};
  Z3_get_version(&version[0], &version[1], &version[2], &version[3]);
  return fmt::format("z3 {}.{}.{}", version[0], version[1], version[2]);
}

UNITY_INLINE side_verdict z3_reals::compare(const algebra& a, const tensor_graph& first, const tensor_graph& second) {
  renew();
  const auto make = [&](std::uint32_t source, std::uint32_t element) {
    return z3_real{context_->real_const((fmt::format("x{}_{}", source, element)).c_str())};
  };
  const detail::unknown_elements<z3_real, decltype(make)> unknowns{a, make};
  try {
    return compare(a, first, second, evaluate<z3_real>(a, first, unknowns), evaluate<z3_real>(a, second, unknowns));
  } catch (const error& e) {
    return {side_verdict::answer::unknown, e.what()};
  } catch (const z3::exception& e) {
    return {side_verdict::answer::unknown, e.msg()};
  }
}

UNITY_INLINE void z3_reals::renew() {
  constexpr std::size_t questions = 200;
  unity::expect_room_for_z3();
  if (asked_++ % questions == 0) {
    context_ = std::make_unique<z3::context>();
  }
}

UNITY_INLINE side_verdict z3_reals::compare(const algebra& a, const tensor_graph& first, const tensor_graph& second,
                                            const values& x, const values& y) {
  using answer = side_verdict::answer;
  z3::expr_vector differences{*context_};
  for (const auto& [left, right] : ranges::views::zip(x, y)) {
    for (const auto& [p, q] : ranges::views::zip(left.data, right.data)) {
      if (!(p == q)) {
        add_difference(p.in(*context_), q.in(*context_), differences);
      }
    }
  }
  if (differences.empty()) {
    return {answer::equal, {}};
  }
  z3::solver solver{*context_, z3::solver::simple()};  // no timers: only work is limited
  z3::params parameters{*context_};
  parameters.set("rlimit", resources_);
  solver.set(parameters);
  solver.add(z3::mk_or(differences));
  switch (solver.check()) {
    case z3::unsat: return {answer::equal, {}};
    case z3::sat: break;
    default: return {answer::unknown, fmt::format("{} gave up", name())};
  }
  auto found = detail::number_search{a, first, second}.run();
  return {
      found ? answer::different : answer::unknown,
      found ? *std::move(found) : fmt::format("{} finds the sides different, for some meaning of functions", name())};
}

UNITY_INLINE void z3_reals::add_difference(const z3::expr& x, const z3::expr& y, z3::expr_vector& differences) const {
  z3::params sums{*context_};
  sums.set("som", true);
  const auto difference = (x - y).simplify(sums);
  if (!difference.is_numeral() || difference.get_decimal_string(1) != "0") {
    differences.push_back(difference != 0);
  }
}

}  // namespace unity::tensor

#endif
