// Tensor operators as term enumeration sees them: with types that represent all sizes, and with sample values.
//
// A type consists of a tensor type in each of a few worlds, which assign different sizes to the letters of the
// vocabulary. Types are equal if they are equal in every world, and an operator accepts operands if it does in every
// world; so sizes are never equal by coincidence. World 0 is for sampling terms, the next ones are for checking
// equalities, and the last, much larger one has types only.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/vocabulary.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// A scalar that records the operations on it: a sum of products of earlier values plus a constant.
class traced {
 public:
  using function = sample_program::function;

  traced() = default;
  explicit traced(std::int64_t n) : offset_{residue::of_integer(n)} {}
  explicit traced(residue n) : offset_{n} {}
  traced(sample_program& program, sample_program::ref r)
      : program_{&program}, sum_{{r, program.constant(residue::of(1))}} {}
  [[nodiscard]] static traced lowest();

  [[nodiscard]] bool is_number() const noexcept { return sum_.empty() && !lowest_; }
  [[nodiscard]] residue number() const noexcept { return offset_; }
  [[nodiscard]] bool is_lowest() const noexcept { return lowest_; }

  traced& operator+=(const traced& o);
  friend traced operator+(traced a, const traced& b) { return a += b; }
  friend traced operator-(const traced& a) { return a * traced{std::int64_t{-1}}; }
  friend traced operator-(const traced& a, const traced& b) { return a + -b; }
  friend traced operator*(const traced& a, const traced& b) {
    if (a.is_number() && b.is_number()) {
      return traced{a.offset_ * b.offset_};
    }
    if (a.is_number() || b.is_number()) {
      return a.is_number() ? b.scaled(a.offset_) : a.scaled(b.offset_);
    }
    traced product;
    product.program_ = a.program_;
    product.sum_.emplace_back(a.stored(*a.program_), b.stored(*a.program_));
    return product;
  }
  friend traced operator/(const traced& a, const traced& b) {
    return b.is_number() ? a * traced{residue::of(1) / b.offset_} : a.applied(function::quotient, b);
  }
  friend bool operator==(const traced& a, const traced& b) {
    return a.is_number() && b.is_number() && a.offset_ == b.offset_;
  }

  // Stores the sum as one value.
  [[nodiscard]] sample_program::ref stored(sample_program& p) const;
  [[nodiscard]] traced applied(function f, const traced& b, scalar_op op = scalar_op::add) const;

 private:
  [[nodiscard]] traced scaled(residue factor) const;

  sample_program* program_ = nullptr;
  std::vector<std::pair<sample_program::ref, sample_program::ref>> sum_{};
  residue offset_{};
  bool lowest_ = false;
};

namespace detail {

// Thrown where the result of an operator depends on whether values are equal: a sample program does not compare values.
struct compares_values {};

}  // namespace detail

// As for modular61: polynomials are exact, maxima compare the representatives closest to zero, all other functions are
// pseudo-random.
template <>
struct scalar_traits<traced> {
  using product_sum = traced;
  using function = sample_program::function;

  [[nodiscard]] static traced literal(double value) { return traced{of_real(value)}; }
  [[nodiscard]] static traced lowest() { return traced::lowest(); }
  [[nodiscard]] static std::optional<std::int64_t> index(const traced&) noexcept { return std::nullopt; }
  [[nodiscard]] static traced widen(const traced& s) { return s; }
  static void add_product(traced& sum, const traced& a, const traced& b) { sum += a * b; }
  [[nodiscard]] static traced narrow(const traced& sum) { return sum; }

  [[nodiscard]] static traced apply(scalar_op op, const traced& a) {
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::reciprocal: return traced{std::int64_t{1}} / a;
      case scalar_op::relu: return a.applied(function::relu, traced{}, op);
      default: return a.applied(function::arbitrary, traced{}, op);
    }
  }
  [[nodiscard]] static traced apply(scalar_op op, const traced& a, const traced& b) {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a / b;
      case scalar_op::maximum: return a.is_lowest() ? b : b.is_lowest() ? a : a.applied(function::maximum, b, op);
      case scalar_op::minimum: return a.applied(function::minimum, b, op);
      case scalar_op::equal:
        if (!a.is_number() || !b.is_number()) {
          throw detail::compares_values{};
        }
        return traced{std::int64_t{a == b ? 1 : 0}};
      default: return a.applied(function::arbitrary, b, op);
    }
  }

 private:
  [[nodiscard]] static residue of_real(double value) {
    const bool fits = std::abs(value) < 0x1p62;  // other values cannot be converted to a 64-bit integer
    const auto exact = fits ? static_cast<std::int64_t>(value) : 0;
    return fits && static_cast<double>(exact) == value ? residue::of_integer(exact)
                                                       : residue::of(modular61::of_real(value).residue());
  }
};

// The program for one result of an operator that accepts the inputs.
// Throws: unity::error if the operator has no known meaning or compares values.
[[nodiscard]] sample_program trace(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                   std::size_t result = 0);

inline constexpr std::size_t world_count = 4;
template <class T>
using by_world = std::array<T, world_count>;

// Positions at which an axis was concatenated, ascending: its split tree without the order of concatenation.
// Source: Jia's dissertation (2020), section 2.3.1.
using cut_list = std::vector<by_world<std::int64_t>>;

struct symbolic_type {
  tensor::role role = role::input;
  dtype element = dtype::float32;
  by_world<shape> dims{};
  std::vector<cut_list> cuts{};  // by axis

  friend bool operator==(const symbolic_type&, const symbolic_type&) = default;
};

class term_language {
 public:
  // The type of a node and, for an operator, its application; valid as long as the language.
  struct applied;
  struct typed_node {
    std::uint16_t type = 0;
    const applied* by = nullptr;
  };
  // One result of an operator applied to operands of given types.
  struct applied {
    by_world<operation> operations{};
    std::size_t result = 0;
    std::uint16_t type = 0;
  };

  term_language(const algebra& a, vocabulary v);

  [[nodiscard]] const algebra& operators() const noexcept { return algebra_; }
  [[nodiscard]] const vocabulary& words() const noexcept { return vocabulary_; }
  [[nodiscard]] const symbolic_type& type(std::uint16_t t) const { return types_[t]; }
  [[nodiscard]] std::size_t type_count() const noexcept { return types_.size(); }

  [[nodiscard]] std::size_t operator_count() const noexcept { return operators_.size(); }
  [[nodiscard]] std::size_t arity(std::size_t op) const { return word(op).operands.size(); }
  [[nodiscard]] bool commutative(std::size_t op) const { return algebra_.signature(word(op).kind).commutative; }
  [[nodiscard]] bool may_ignore(std::size_t op) const { return operators_[op].splits; }
  [[nodiscard]] kind_id kind(std::size_t op) const { return word(op).kind; }
  // The operator for the next result of the same operation, if any.
  [[nodiscard]] std::optional<std::size_t> next_result(std::size_t op) const {
    const bool more = op + 1 < operators_.size() && operators_[op + 1].word == operators_[op].word;
    return more ? std::optional{op + 1} : std::nullopt;
  }
  [[nodiscard]] const vocabulary_operator& word(std::size_t op) const {
    return vocabulary_.operators[operators_[op].word];
  }
  [[nodiscard]] std::span<const std::uint16_t> sorts() const noexcept { return sorts_; }

  [[nodiscard]] std::optional<application> infer(std::size_t op, std::span<const std::uint16_t> types);
  // The operation in every world and the type of the result.
  [[nodiscard]] std::optional<applied> apply(std::size_t op, std::span<const std::uint16_t> types);

  [[nodiscard]] std::size_t elements(std::uint16_t t) const {
    return static_cast<std::size_t>(element_count(types_[t].dims[0]));
  }
  // Random residues, except in the second slice along the first axis. That slice holds small integers: positive in
  // weights, all of the same sign in inputs of even number. Otherwise a maximum over a window of random residues would
  // nearly always be positive.
  void variable_value(std::size_t sort, std::size_t v, residue* out) const;
  [[nodiscard]] const sample_program& program(std::size_t p) const { return programs_[p]; }
  [[nodiscard]] const sample_program& probe(std::size_t p) const { return probes_[p]; }
  [[nodiscard]] std::span<const std::size_t> probe_elements(std::uint16_t t) const { return probe_elements_[t]; }

  // Throws: contract violation if the term is not well-typed.
  [[nodiscard]] std::vector<typed_node> typed(const written_term& t);
  // Evaluates at sizes that samples do not use: at one choice of sizes or, if thorough, also at another, at random and
  // small values.
  // Precondition: the term is well-typed.
  [[nodiscard]] std::uint64_t deep_fingerprint(const written_term& t, bool thorough);

  [[nodiscard]] tensor_type type_in(std::uint16_t t, std::size_t world) const;

  struct sampled_value {
    bool small = false;
    std::int64_t integer = 0;
    std::uint64_t bits = 0;
  };
  // Element i of a variable at a point of a world.
  [[nodiscard]] sampled_value sample_value(std::size_t sort, std::size_t v, std::size_t world, std::size_t point,
                                           std::size_t i) const;

 private:
  struct operator_entry {
    std::size_t word = 0;
    std::size_t result = 0;
    bool splits = false;
    bool joins = false;
  };

  [[nodiscard]] std::int64_t size_in(const vocabulary_size& s, std::size_t world) const;
  [[nodiscard]] std::optional<operation> operation_in(std::size_t op, std::span<const std::uint16_t> types,
                                                      std::size_t world) const;
  [[nodiscard]] role role_of(std::size_t op, std::span<const std::uint16_t> types) const;
  [[nodiscard]] bool takes(std::size_t op, std::span<const std::uint16_t> types) const;
  [[nodiscard]] std::vector<cut_list> cuts_of(std::size_t op, const operation& in_world_0, std::size_t rank,
                                              std::span<const std::uint16_t> types) const;
  std::uint16_t intern(symbolic_type t);
  [[nodiscard]] static std::vector<std::size_t> choose_probes(const symbolic_type& t);

  const algebra& algebra_;
  vocabulary vocabulary_;
  std::vector<operator_entry> operators_;
  std::vector<symbolic_type> types_;
  std::multimap<std::uint64_t, std::uint16_t> type_index_;
  std::vector<std::vector<std::size_t>> probe_elements_;
  std::vector<std::uint16_t> sorts_;
  std::vector<sample_program> programs_;
  std::vector<sample_program> probes_;
  std::map<std::tuple<std::size_t, std::uint16_t, std::uint16_t>, applied> deep_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_LANGUAGE)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::tensor {

UNITY_INLINE traced traced::lowest() {
  traced t;
  t.lowest_ = true;
  return t;
}

UNITY_INLINE traced& traced::operator+=(const traced& o) {
  program_ = program_ == nullptr ? o.program_ : program_;
  sum_.insert(sum_.end(), o.sum_.begin(), o.sum_.end());
  offset_ = offset_ + o.offset_;
  return *this;
}

UNITY_INLINE auto traced::stored(sample_program& p) const -> sample_program::ref {
  const auto one = p.constant(residue::of(1));
  if (sum_.empty()) {
    return p.constant(offset_);
  }
  if (sum_.size() == 1 && sum_[0].second == one && offset_ == residue{}) {
    return sum_[0].first;
  }
  auto all = sum_;
  if (offset_ != residue{}) {
    all.emplace_back(p.constant(offset_), one);
  }
  return p.dot(all);
}

UNITY_INLINE traced traced::applied(function f, const traced& b, scalar_op op) const {
  const auto which = static_cast<std::uint8_t>(op);
  if (is_number() && b.is_number()) {  // only padding
    return traced{sample_program::compute(f, offset_, b.offset_, which)};
  }
  auto& p = *(program_ != nullptr ? program_ : b.program_);
  return {p, p.apply(f, stored(p), b.stored(p), which)};
}

UNITY_INLINE traced traced::scaled(residue factor) const {
  traced product;
  if (factor == residue{}) {
    return product;
  }
  product.program_ = program_;
  const auto one = program_->constant(residue::of(1));
  for (const auto& [a, b] : sum_) {
    const bool plain = b == one;
    product.sum_.emplace_back(plain || factor == residue::of(1) ? a : program_->dot(std::vector{std::pair{a, b}}),
                              factor == residue::of(1) ? b : program_->constant(factor));
  }
  product.offset_ = offset_ * factor;
  return product;
}

UNITY_INLINE sample_program trace(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                  std::size_t result) {
  sample_program program;
  std::vector<dense<traced>> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto& values = operands.emplace_back(inputs[i].dims);
    for (std::size_t e = 0; e < values.data.size(); ++e) {
      values.data[e] = traced{program, sample_program::element(i, e)};
    }
  }
  try {
    const auto results = evaluate<traced>(a, op, operands, inputs);
    for (const auto& t : results[result].data) {
      program.add_output(t.stored(program));
    }
  } catch (const detail::compares_values&) {
    throw error{fmt::format("operator '{}'", a.signature(op.kind).name),
                "results that depend on which values are equal", "an operator of which terms can be enumerated"};
  }
  return program;
}

UNITY_INLINE term_language::term_language(const algebra& a, vocabulary v) : algebra_{a}, vocabulary_{std::move(v)} {
  for (const auto& s : vocabulary_.sorts) {
    symbolic_type t;
    t.role = s.role;
    for (std::size_t w = 0; w < world_count; ++w) {
      for (const auto& d : s.dims) {
        t.dims[w].push_back(size_in(d, w));
      }
    }
    t.cuts.resize(s.dims.size());
    sorts_.push_back(intern(std::move(t)));
  }
  for (std::size_t o = 0; o < vocabulary_.operators.size(); ++o) {
    const bool splits = algebra_.signature(vocabulary_.operators[o].kind).name == "split";
    for (std::size_t r = 0; r < (splits ? 2 : 1); ++r) {
      operators_.push_back({o, r, splits, algebra_.signature(vocabulary_.operators[o].kind).name == "concat"});
    }
  }
}

UNITY_INLINE std::optional<application> term_language::infer(std::size_t op, std::span<const std::uint16_t> types) {
  const auto a = apply(op, types);
  if (!a) {
    return std::nullopt;
  }
  std::vector<tensor_type> inputs;
  for (const auto t : types) {
    inputs.push_back(type_in(t, 0));
  }
  programs_.push_back(trace(algebra_, a->operations[0], inputs, a->result));
  probes_.push_back(programs_.back().restricted(probe_elements(a->type)));
  return application{a->type, static_cast<std::uint32_t>(programs_.size() - 1)};
}

UNITY_INLINE void term_language::variable_value(std::size_t sort, std::size_t v, residue* out) const {
  for (std::size_t i = 0; i < elements(sorts_[sort]); ++i) {
    const auto value = sample_value(sort, v, 0, 0, i);
    out[i] = value.small ? residue::of_integer(value.integer) : residue::of(value.bits >> 3U);
  }
}

UNITY_INLINE tensor_type term_language::type_in(std::uint16_t t, std::size_t world) const {
  tensor_type type;
  type.element = types_[t].element;
  type.dims = types_[t].dims[world];
  return type;
}

UNITY_INLINE auto term_language::sample_value(std::size_t sort, std::size_t v, std::size_t world, std::size_t point,
                                              std::size_t i) const -> sampled_value {
  const auto& t = types_[sorts_[sort]];
  const auto slice = t.dims[world].empty() ? std::int64_t{0} : element_count(t.dims[world]) / t.dims[world][0];
  const bool small = slice == 0 ? point % 2 == 1 : static_cast<std::int64_t>(i) / slice == 1;
  const auto bits = hash_combine(hash_combine(hash_combine(world, point), sort << 16U | v), i);
  const auto size = static_cast<std::int64_t>(bits >> 8U & 1023U) + 1;
  const bool mixed = t.role == role::input && v % 2 == 1;
  const bool negative = mixed ? (bits & 1U) != 0 : t.role == role::input;
  return {small, negative ? -size : size, bits};
}

UNITY_INLINE std::int64_t term_language::size_in(const vocabulary_size& s, std::size_t world) const {
  static constexpr std::array<std::array<std::int64_t, 8>, world_count - 2> more{
      {{1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 2, 3, 1, 4, 2, 3}}};
  static constexpr std::array<std::int64_t, 8> large{211, 503, 1009, 2003, 307, 401, 601, 701};
  for (std::size_t i = 0; i < vocabulary_.sizes.size() && !s.symbol.empty(); ++i) {
    if (vocabulary_.sizes[i].first == s.symbol) {
      return world == 0                 ? vocabulary_.sizes[i].second
             : world + 1 == world_count ? large[i % 8]
                                        : vocabulary_.sizes[i].second + more[world - 1][i % 8];
    }
  }
  return s.number;
}

}  // namespace unity::tensor

#endif
