// Polynomials in the elements of tensors as a scalar type: with them, the evaluator computes normal forms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/verification/polynomial_pool.hpp>

namespace unity::tensor {

// A polynomial with rational coefficients in unknowns and in uninterpreted functions. Equal (==) polynomials of one
// pool are equal for all unknowns and functions; the converse holds except for identities of functions. Maxima are
// interpreted as associative, commutative, idempotent and translation-invariant; relu is max(x, 0).
// Constants need no pool. A value type; must not outlive its pool.
class polynomial {
 public:
  // Products with more terms throw: normal forms are for small tensors.
  static constexpr std::size_t most_terms = 1000;
  class too_large : public error {
   public:
    too_large() : error{"exact arithmetic", "a polynomial of more than 1000 terms", "smaller tensors"} {}
  };

  polynomial() noexcept = default;
  explicit polynomial(std::int64_t n) : polynomial{rational{n}} {}
  explicit polynomial(const rational& constant);
  [[nodiscard]] static polynomial unknown(polynomial_pool& pool, std::uint32_t first, std::uint32_t second) {
    return {&pool, pool.unknown(first, second)};
  }
  // Less than all numbers.
  [[nodiscard]] static polynomial lowest() { return {nullptr, polynomial_pool::lowest}; }

  [[nodiscard]] bool is_lowest() const {
    return terms_.size() == 1 && terms_[0] == polynomial_term{polynomial_pool::lowest, rational{1}};
  }

  [[nodiscard]] std::span<const polynomial_term> terms() const noexcept { return {terms_.data(), terms_.size()}; }
  [[nodiscard]] const polynomial_pool* pool() const noexcept { return pool_; }
  [[nodiscard]] std::optional<rational> constant() const;

  polynomial& operator+=(const polynomial& o);
  // sum += a * b
  static void add_product(polynomial& sum, const polynomial& a, const polynomial& b);

  friend polynomial operator+(polynomial a, const polynomial& b) {
    a += b;
    return a;
  }
  friend polynomial operator-(polynomial a) {
    for (auto& t : a.terms_) {
      t.coefficient = -t.coefficient;
    }
    return a;
  }
  friend polynomial operator-(const polynomial& a, const polynomial& b) { return a + -b; }
  friend polynomial operator*(const polynomial& a, const polynomial& b) {
    polynomial result;
    result.pool_ = joint_pool(a, b);
    const auto& shorter = a.terms_.size() < b.terms_.size() ? a : b;
    const auto& longer = &shorter == &a ? b : a;
    for (const auto& t : shorter.terms_) {
      polynomial row;
      row.pool_ = result.pool_;
      for (const auto& u : longer.terms_) {
        row.terms_.push_back(times(result.pool_, t, u));
      }
      // Multiplication does not preserve the order of numbers.
      std::sort(row.terms_.begin(), row.terms_.end(), before);
      result += row;
      if (result.terms_.size() > most_terms) {
        throw too_large{};
      }
    }
    return result;
  }
  friend bool operator==(const polynomial& a, const polynomial& b) { return a.terms_ == b.terms_; }

  // An uninterpreted function.
  [[nodiscard]] static polynomial function(scalar_op op, std::span<const polynomial> arguments);

  // The maximum in normal form: terms common to all members are added outside of it, and a positive factor is
  // extracted.
  [[nodiscard]] static polynomial maximum(const polynomial& a, const polynomial& b);

  // Rewrites squares of maxima of two members: m = max(p, q) solves (m - p)(m - q) = 0.
  [[nodiscard]] polynomial without_squares() const;

 private:
  polynomial(polynomial_pool* pool, polynomial_pool::number monomial) : pool_{pool} {
    terms_.push_back({monomial, rational{1}});
  }
  [[nodiscard]] static polynomial_pool* joint_pool(const polynomial& a, const polynomial& b) noexcept {
    return a.pool_ != nullptr ? a.pool_ : b.pool_;
  }
  // For arguments without a pool, such as padding zeros.
  [[nodiscard]] static polynomial function_of_constants(scalar_op op, std::span<const polynomial> arguments);
  [[nodiscard]] static bool before(const polynomial_term& a, const polynomial_term& b) noexcept {
    return a.monomial < b.monomial;
  }
  [[nodiscard]] static polynomial_term times(polynomial_pool* pool, const polynomial_term& a, const polynomial_term& b);
  void add(const polynomial_term& t);
  void merge(const polynomial_terms& o);
  // Collects the members of the maximum that this polynomial is, alone or plus other terms.
  void collect_members(std::vector<polynomial>& members) const;
  [[nodiscard]] polynomial numbered(polynomial_pool::number number) const;
  // Removes the constants and returns the largest.
  static std::optional<rational> greatest_constant(std::vector<polynomial>& members);
  [[nodiscard]] static polynomial common_terms(const std::vector<polynomial>& members);

  // Drops members that lie between two others, if there are few members: x lies between 0 and 2 x, so it never exceeds
  // both.
  static void drop_between(std::vector<polynomial>& members);
  // Whether p is q times a number from 0 to 1.
  [[nodiscard]] static bool is_part(const polynomial& p, const polynomial& q);
  // The largest absolute coefficient of the first monomial that occurs.
  [[nodiscard]] static rational leading_scale(const std::vector<polynomial>& members);

  [[nodiscard]] polynomial without_squares(const polynomial_term& t) const;

  polynomial_pool* pool_ = nullptr;
  polynomial_terms terms_;
};

template <>
struct scalar_traits<polynomial> {
  using product_sum = polynomial;
  static constexpr bool symbolic = true;

  [[nodiscard]] static polynomial literal(double value) { return polynomial{rational::of_literal(value)}; }
  [[nodiscard]] static polynomial lowest() { return polynomial::lowest(); }
  [[nodiscard]] static std::optional<std::int64_t> index(const polynomial& p) {
    const auto c = p.constant();
    return c ? c->integer() : std::nullopt;
  }
  // The widened value is written back narrowed, so moving is safe.
  [[nodiscard]] static polynomial widen(polynomial& p) { return std::move(p); }
  [[nodiscard]] static polynomial widen(polynomial&& p) { return std::move(p); }
  static void add_product(polynomial& sum, const polynomial& a, const polynomial& b) {
    polynomial::add_product(sum, a, b);
  }
  [[nodiscard]] static polynomial narrow(polynomial& sum) { return std::move(sum); }

  [[nodiscard]] static polynomial apply(scalar_op op, const polynomial& a) {
    const auto c = a.constant();
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::relu: return polynomial::maximum(a, polynomial{});
      case scalar_op::gelu: return gelu(a);
      case scalar_op::reciprocal: return c ? polynomial{rational{1} / *c} : call(op, a);
      case scalar_op::abs: return c ? polynomial{*c < rational{} ? -*c : *c} : call(op, a);
      case scalar_op::truncate: return c ? polynomial{c->numerator() / c->denominator()} : call(op, a);
      case scalar_op::nonzero: return c ? polynomial{c->is_zero() ? 0 : 1} : call(op, a);
      default: return call(op, a);
    }
  }
  [[nodiscard]] static polynomial apply(scalar_op op, const polynomial& a, const polynomial& b) {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a * apply(scalar_op::reciprocal, b);
      case scalar_op::pow: return power(a, b);
      case scalar_op::maximum: return polynomial::maximum(a, b);
      case scalar_op::minimum: return -polynomial::maximum(-a, -b);
      case scalar_op::equal: return a == b ? polynomial{1} : (a - b).constant() ? polynomial{} : call(op, a, b);
      case scalar_op::less: {
        const auto difference = (a - b).constant();
        return difference ? polynomial{*difference < rational{} ? 1 : 0} : call(op, a, b);
      }
      case scalar_op::masked: {
        const auto condition = a.constant();
        return condition ? condition->is_zero() ? polynomial{} : b : call(op, a, b);
      }
      default: return call(op, a, b);
    }
  }

 private:
  [[nodiscard]] static polynomial call(scalar_op op, const polynomial& a) { return polynomial::function(op, {&a, 1}); }
  [[nodiscard]] static polynomial call(scalar_op op, const polynomial& a, const polynomial& b) {
    const polynomial both[] = {a, b};
    return polynomial::function(op, both);
  }
  // a / 2 * (1 + erf(a / sqrt 2))
  [[nodiscard]] static polynomial gelu(const polynomial& a) {
    if (a.constant() || a.is_lowest()) {
      return a.terms().empty() ? a : call(scalar_op::gelu, a);
    }
    const auto half = polynomial{rational{1, 2}} * a;
    return half + half * call(scalar_op::erf, polynomial{rational{1} / rational::root_of_2()} * a);
  }
  // Exact for small integer exponents; 1/2 is the square root.
  [[nodiscard]] static polynomial power(const polynomial& a, const polynomial& b) {
    constexpr std::int64_t most = 16;
    const auto c = b.constant();
    const auto whole = c ? c->integer() : std::nullopt;
    if (whole && *whole >= -most && *whole <= most) {
      polynomial product{1};
      for (auto i = std::abs(*whole); i > 0; --i) {
        product = product * a;
      }
      return *whole < 0 ? apply(scalar_op::reciprocal, product) : product;
    }
    return c == rational{1, 2} ? call(scalar_op::sqrt, a) : call(scalar_op::pow, a, b);
  }
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_POLYNOMIAL)

#include <iterator>
#include <set>
#include <string>

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE polynomial::polynomial(const rational& constant) {
  if (!constant.is_zero()) {
    terms_.push_back({polynomial_pool::one, constant});
  }
}

UNITY_INLINE std::optional<rational> polynomial::constant() const {
  if (terms_.empty()) {
    return rational{};
  }
  return terms_.size() == 1 && terms_[0].monomial == polynomial_pool::one ? std::optional{terms_[0].coefficient}
                                                                          : std::nullopt;
}

UNITY_INLINE polynomial& polynomial::operator+=(const polynomial& o) {
  if (is_lowest() || o.is_lowest()) {
    return *this = lowest();
  }
  pool_ = pool_ != nullptr ? pool_ : o.pool_;
  if (o.terms_.size() == 1) {
    add(o.terms_[0]);
  } else if (!o.terms_.empty()) {
    merge(o.terms_);
  }
  return *this;
}

UNITY_INLINE void polynomial::add_product(polynomial& sum, const polynomial& a, const polynomial& b) {
  if (a.terms_.size() == 1 && b.terms_.size() == 1) {
    auto* const pool = joint_pool(a, b);
    sum.pool_ = sum.pool_ != nullptr ? sum.pool_ : pool;
    sum.add(times(pool, a.terms_[0], b.terms_[0]));
  } else {
    sum += a * b;
  }
}

UNITY_INLINE polynomial polynomial::function(scalar_op op, std::span<const polynomial> arguments) {
  polynomial_pool* pool = nullptr;
  for (const auto& a : arguments) {
    pool = pool != nullptr ? pool : a.pool_;
  }
  if (pool == nullptr) {
    return function_of_constants(op, arguments);
  }
  std::vector<polynomial_pool::number> numbers;
  for (const auto& a : arguments) {
    numbers.push_back(pool->intern(a.terms()));
  }
  return {pool, pool->function(op, std::move(numbers))};
}

UNITY_INLINE polynomial polynomial::maximum(const polynomial& a, const polynomial& b) {
  auto* const pool = joint_pool(a, b);
  std::vector<polynomial> members;
  a.collect_members(members);
  b.collect_members(members);
  const auto most = greatest_constant(members);
  if (members.empty()) {
    return most ? polynomial{*most} : lowest();
  }
  if (pool == nullptr) {
    throw error{"exact arithmetic", "a maximum of functions of constants", "one of unknowns"};
  }
  if (most) {
    members.emplace_back(*most);
  }
  drop_between(members);
  const auto common = common_terms(members);
  for (auto& m : members) {
    m += -common;
  }
  const auto scale = leading_scale(members);
  std::set<polynomial_pool::number> numbers;
  for (auto& m : members) {
    m = m * polynomial{rational{1} / scale};
    numbers.insert(pool->intern(m.terms()));
  }
  const auto largest = numbers.size() == 1
                           ? members[0]
                           : polynomial{pool, pool->function(scalar_op::maximum, {numbers.begin(), numbers.end()})};
  return common + polynomial{scale} * largest;
}

UNITY_INLINE polynomial polynomial::without_squares() const {
  polynomial result;
  for (const auto& t : terms_) {
    result += without_squares(t);
  }
  return result;
}

UNITY_INLINE polynomial polynomial::function_of_constants(scalar_op op, std::span<const polynomial> arguments) {
  const auto c = arguments.size() == 1 ? arguments[0].constant() : std::nullopt;
  if (!c || !(*c == rational{0} || *c == rational{1})) {
    throw error{"exact arithmetic", "a function of constants other than 0 and 1", "a function of unknowns"};
  }
  return {nullptr, polynomial_pool::function_of_constant(op, *c == rational{1})};
}

UNITY_INLINE polynomial_term polynomial::times(polynomial_pool* pool, const polynomial_term& a,
                                               const polynomial_term& b) {
  const bool by_constant = a.monomial == polynomial_pool::one || b.monomial == polynomial_pool::one;
  if (!by_constant && pool == nullptr) {
    throw error{"exact arithmetic", "a product of functions of constants", "one of unknowns"};
  }
  return {by_constant ? a.monomial + b.monomial : pool->product(a.monomial, b.monomial), a.coefficient * b.coefficient};
}

UNITY_INLINE void polynomial::add(const polynomial_term& t) {
  if (terms_.empty() || terms_.back().monomial < t.monomial) {
    if (!t.coefficient.is_zero()) {
      terms_.push_back(t);
    }
    return;
  }
  auto* const at = std::lower_bound(terms_.begin(), terms_.end(), t, before);
  if (at->monomial != t.monomial) {
    terms_.insert(at, t);
  } else if (const auto sum = at->coefficient + t.coefficient; sum.is_zero()) {
    terms_.erase(at);
  } else {
    at->coefficient = sum;
  }
}

UNITY_INLINE void polynomial::merge(const polynomial_terms& o) {
  polynomial_terms joint;
  std::size_t i = 0;
  for (const auto& t : o) {
    for (; i < terms_.size() && terms_[i].monomial < t.monomial; ++i) {
      joint.push_back(terms_[i]);
    }
    auto sum = t;
    if (i < terms_.size() && terms_[i].monomial == t.monomial) {
      sum.coefficient = sum.coefficient + terms_[i++].coefficient;
    }
    if (!sum.coefficient.is_zero()) {
      joint.push_back(sum);
    }
  }
  joint.append(terms_.begin() + i, terms_.end());
  terms_ = std::move(joint);
}

UNITY_INLINE void polynomial::collect_members(std::vector<polynomial>& members) const {
  if (is_lowest()) {
    return;
  }
  for (const auto& t : terms_) {
    const bool positive = rational{} < t.coefficient;
    const auto* const atom = positive && pool_ != nullptr ? pool_->sole_factor(t.monomial) : nullptr;
    if (atom != nullptr && atom->op == scalar_op::maximum) {
      auto rest = *this;
      rest.add({t.monomial, -t.coefficient});
      for (const auto number : atom->arguments) {
        (numbered(number) * polynomial{t.coefficient} + rest).collect_members(members);
      }
      return;
    }
  }
  members.push_back(*this);
}

UNITY_INLINE polynomial polynomial::numbered(polynomial_pool::number number) const {
  polynomial p;
  p.pool_ = pool_;
  p.terms_ = pool_->polynomial(number);
  return p;
}

UNITY_INLINE std::optional<rational> polynomial::greatest_constant(std::vector<polynomial>& members) {
  std::optional<rational> most;
  std::erase_if(members, [&](const polynomial& p) {
    const auto c = p.constant();
    most = c && (!most || *most < *c) ? c : most;
    return c.has_value();
  });
  return most;
}

UNITY_INLINE polynomial polynomial::common_terms(const std::vector<polynomial>& members) {
  auto common = members[0];
  for (const auto& m : members) {
    polynomial_terms both;
    std::set_intersection(common.terms_.begin(), common.terms_.end(), m.terms_.begin(), m.terms_.end(),
                          std::back_inserter(both), before);
    std::size_t kept = 0;
    for (const auto& t : both) {
      const auto* const other = std::lower_bound(m.terms_.begin(), m.terms_.end(), t, before);
      if (other->coefficient == t.coefficient) {
        both[kept++] = t;
      }
    }
    both.resize(kept);
    common.terms_ = std::move(both);
  }
  return common;
}

UNITY_INLINE void polynomial::drop_between(std::vector<polynomial>& members) {
  constexpr std::size_t few = 4;
  for (std::size_t i = 0; members.size() <= few && i < members.size(); ++i) {
    for (std::size_t j = 0; j < members.size(); ++j) {
      for (std::size_t k = 0; k < j && i < members.size(); ++k) {
        if (i != j && i != k && is_part(members[i] - members[k], members[j] - members[k])) {
          members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
          j = k = 0;
        }
      }
    }
  }
}

UNITY_INLINE bool polynomial::is_part(const polynomial& p, const polynomial& q) {
  if (p.terms_.empty() || p.terms_.size() != q.terms_.size()) {
    return p.terms_.empty();
  }
  const auto factor = p.terms_[0].coefficient / q.terms_[0].coefficient;
  return !(factor < rational{}) && !(rational{1} < factor) && p == q * polynomial{factor};
}

UNITY_INLINE rational polynomial::leading_scale(const std::vector<polynomial>& members) {
  auto first = static_cast<polynomial_pool::number>(-1);
  rational scale{1};
  for (const auto& m : members) {
    const auto here = m.terms_.empty() ? static_cast<polynomial_pool::number>(-1) : m.terms_[0].monomial;
    const auto size = m.terms_.empty()                       ? rational{1}
                      : m.terms_[0].coefficient < rational{} ? -m.terms_[0].coefficient
                                                             : m.terms_[0].coefficient;
    if (here < first || (here == first && scale < size)) {
      first = here;
      scale = size;
    }
  }
  return scale;
}

UNITY_INLINE polynomial polynomial::without_squares(const polynomial_term& t) const {
  const auto factors = pool_ != nullptr ? pool_->factors_of(t.monomial) : std::vector<polynomial_pool::atom>{};
  for (std::size_t i = 0; i + 1 < factors.size(); ++i) {
    const auto& f = factors[i];
    if (f.op != scalar_op::maximum || f.arguments.size() != 2 || f.arguments != factors[i + 1].arguments ||
        factors[i + 1].op != f.op) {
      continue;
    }
    polynomial others{t.coefficient};
    for (std::size_t k = 0; k < factors.size(); ++k) {
      others = k == i || k == i + 1 ? others
                                    : others * polynomial{pool_, pool_->function(factors[k].op, factors[k].arguments)};
    }
    const polynomial m{pool_, pool_->function(f.op, f.arguments)};
    const auto p = numbered(f.arguments[0]);
    const auto q = numbered(f.arguments[1]);
    return (others * ((p + q) * m - p * q)).without_squares();
  }
  polynomial alone;
  alone.pool_ = pool_;
  alone.terms_.push_back(t);
  return alone;
}

}  // namespace unity::tensor

#endif
