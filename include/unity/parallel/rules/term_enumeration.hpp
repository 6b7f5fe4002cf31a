// Enumerates small terms over parallel tensors and finds equal ones: candidates for substitutions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The building blocks of terms: variables of given types, tensor operators and parallelization operators.
struct pcg_vocabulary {
  std::string name;
  std::vector<parallel_type> variables{};
  struct entry {
    tensor::operation op{};
    std::size_t arity = 1;
  };
  std::vector<entry> operators{};
};

// Adds partition and combine along that many dimensions, and the operators that change copies and partials, all with
// that degree.
void add_divisions(const pcg_algebra& a, pcg_vocabulary& to, std::int64_t dimensions, std::int64_t degree);

// An operator on kept terms, or a variable.
struct enumerated_term {
  std::size_t op = 0;  // index in the vocabulary; variables come after its operators
  std::vector<std::uint32_t> operands{};
  parallel_type type{};
  std::uint64_t value = 0;             // fingerprint of its value
  std::vector<std::uint32_t> nodes{};  // the terms that it contains, except variables and itself; ascending
};
// Two terms with one fingerprint: their erased values on samples are equal, and their results are divided alike.
// `first` is an index in the kept terms; the second is not kept.
struct enumerated_pair {
  std::uint32_t first = 0;
  enumerated_term second{};
};

// Enumerates terms by size; extends only those that differ from all earlier ones. Deterministic.
// Source: TASO's generator (Jia et al., SOSP 2019) with parallel types in the fingerprint (Unger et al., Unity, OSDI
// 2022, section 4).
class term_enumeration {
 public:
  // Complexity: an inference and an evaluation per term. Memory: the values of all different tensors.
  term_enumeration(const pcg_algebra& a, const pcg_vocabulary& vocabulary, std::size_t most_operators);

  [[nodiscard]] std::size_t terms() const noexcept { return count_; }
  [[nodiscard]] const std::vector<enumerated_term>& kept() const noexcept { return kept_; }
  [[nodiscard]] const std::vector<enumerated_pair>& pairs() const noexcept { return pairs_; }

  // The term in the syntax of rules; variables are called x0, x1, ...
  [[nodiscard]] syntax::term written(const enumerated_term& t) const;
  // Appends the term to a graph that has the variables.
  [[nodiscard]] value_id write(pcg_writer& writer, const std::vector<value_id>& variables,
                               const enumerated_term& t) const;

 private:
  [[nodiscard]] static syntax::expression literal(const attribute& a, attribute_form form);

  std::uint64_t remember(tensor::dense<tensor::modular61> x);
  void keep(enumerated_term t);
  [[nodiscard]] std::size_t size_of(const enumerated_term& t) const {
    return t.op >= vocabulary_.operators.size() ? 0 : t.nodes.size() + 1;
  }

  // Adds all terms of n different nodes.
  void extend(std::size_t n);
  void choose(std::size_t op, std::size_t n, const std::vector<std::uint32_t>& operands,
              const std::vector<std::uint32_t>& nodes);

  void add(enumerated_term t);
  [[nodiscard]] std::uint64_t value_of(const tensor::operation& op, const std::vector<std::uint32_t>& operands,
                                       const std::vector<parallel_type>& types);

  const pcg_algebra& algebra_;
  const pcg_vocabulary& vocabulary_;
  std::vector<enumerated_term> kept_{};
  std::vector<std::vector<std::uint32_t>> by_size_{};
  std::vector<enumerated_pair> pairs_{};
  std::unordered_map<std::uint64_t, std::uint32_t> known_{};
  std::unordered_map<std::uint64_t, tensor::dense<tensor::modular61>> values_{};
  std::size_t count_ = 0;
};

// Vocabularies of terms of parallel computation graphs, which are enumerated to find equal terms.

namespace detail {

class vocabulary_writer {
 public:
  explicit vocabulary_writer(const pcg_algebra& a) : algebra_{a} {}

  // Divisions are of degree 2, along the first two dimensions.
  void add(std::string name, std::vector<parallel_type> variables, std::vector<pcg_vocabulary::entry> operators);
  [[nodiscard]] static parallel_type values(tensor::shape dims, tensor::dtype element = tensor::dtype::float32);
  [[nodiscard]] tensor::operation op(std::string_view name,
                                     std::initializer_list<tensor::named_attribute> attributes = {}) const {
    return algebra_.operators().make_operation(name, attributes);
  }
  [[nodiscard]] tensor::operation join(parallel_kind kind, std::int64_t axis = 0) const {
    return algebra_.make(parallel_operator{kind, axis, 0});
  }
  [[nodiscard]] std::vector<pcg_vocabulary> finish() && { return std::move(all_); }

 private:
  const pcg_algebra& algebra_;
  std::vector<pcg_vocabulary> all_{};
};

}  // namespace detail

// The vocabularies whose terms are enumerated: chains alone, each of eleven operators, and operators with the joins
// `terms` and `blocks`.
[[nodiscard]] std::vector<pcg_vocabulary> standard_vocabularies(const pcg_algebra& a);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_TERM_ENUMERATION)

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/parallel/rules/rule_terms.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::parallel {

UNITY_INLINE void add_divisions(const pcg_algebra& a, pcg_vocabulary& to, std::int64_t dimensions,
                                std::int64_t degree) {
  for (const auto kind : {parallel_kind::partition, parallel_kind::combine}) {
    for (std::int64_t d = 0; d < dimensions; ++d) {
      to.operators.push_back({a.make(parallel_operator{kind, d, degree}), 1});
    }
  }
  for (const auto kind :
       {parallel_kind::replicate, parallel_kind::reduce, parallel_kind::discard, parallel_kind::inject}) {
    to.operators.push_back({a.make(parallel_operator{kind, 0, degree}), 1});
  }
}

UNITY_INLINE term_enumeration::term_enumeration(const pcg_algebra& a, const pcg_vocabulary& vocabulary,
                                                std::size_t most_operators)
    : algebra_{a}, vocabulary_{vocabulary} {
  for (std::size_t v = 0; v < vocabulary.variables.size(); ++v) {
    enumerated_term t{vocabulary.operators.size() + v, {}, vocabulary.variables[v], 0, {}};
    tensor::dense<tensor::modular61> x{t.type.global.dims};
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = tensor::modular61::of_residue(hash_combine(v + 1, i) >> 3U);
    }
    t.value = remember(std::move(x));
    keep(std::move(t));
  }
  for (std::size_t n = 1; n <= most_operators; ++n) {
    extend(n);
  }
}

UNITY_INLINE syntax::term term_enumeration::written(const enumerated_term& t) const {
  const auto operators = vocabulary_.operators.size();
  if (t.op >= operators) {
    return value_variable(fmt::format("x{}", t.op - operators));
  }
  std::vector<syntax::term> operands;
  for (const auto o : t.operands) {
    operands.push_back(written(kept_[o]));
  }
  const auto& op = vocabulary_.operators[t.op].op;
  const auto& s = algebra_.signature(op.kind);
  std::vector<syntax::attribute_binding> attributes;
  for (const auto& [field, value] : ranges::views::zip(s.attributes, op.attributes)) {
    if (value != field.default_value) {
      attributes.push_back({field.name, literal(value, field.form)});
    }
  }
  return applied(s.name, std::move(attributes), std::move(operands));
}

UNITY_INLINE value_id term_enumeration::write(pcg_writer& writer, const std::vector<value_id>& variables,
                                              const enumerated_term& t) const {
  const auto operators = vocabulary_.operators.size();
  if (t.op >= operators) {
    return variables[t.op - operators];
  }
  std::vector<value_id> operands;
  for (const auto o : t.operands) {
    operands.push_back(write(writer, variables, kept_[o]));
  }
  return writer.graph().results(writer.add(vocabulary_.operators[t.op].op, operands))[0];
}

UNITY_INLINE syntax::expression term_enumeration::literal(const attribute& a, attribute_form form) {
  if (form == attribute_form::integers) {
    syntax::expression list{syntax::expression::form::list, 0, {}, {}};
    for (const auto i : a) {
      list.arguments.push_back(number(i));
    }
    return list;
  }
  return number(a[0]);
}

UNITY_INLINE std::uint64_t term_enumeration::remember(tensor::dense<tensor::modular61> x) {
  std::uint64_t h = x.dims.size();
  for (const auto d : x.dims) {
    h = hash_combine(h, static_cast<std::uint64_t>(d));
  }
  for (const auto& e : x.data) {
    h = hash_combine(h, e.residue());
  }
  values_.emplace(h, std::move(x));
  return h;
}

UNITY_INLINE void term_enumeration::keep(enumerated_term t) {
  known_.emplace(hash_combine(t.value, std::hash<parallel_type>{}(t.type)), static_cast<std::uint32_t>(kept_.size()));
  by_size_.resize(std::max(by_size_.size(), size_of(t) + 1));
  by_size_[size_of(t)].push_back(static_cast<std::uint32_t>(kept_.size()));
  kept_.push_back(std::move(t));
}

UNITY_INLINE void term_enumeration::extend(std::size_t n) {
  for (std::size_t op = 0; op < vocabulary_.operators.size(); ++op) {
    choose(op, n, {}, {});
  }
}

UNITY_INLINE void term_enumeration::choose(std::size_t op, std::size_t n, const std::vector<std::uint32_t>& operands,
                                           const std::vector<std::uint32_t>& nodes) {
  const auto& entry = vocabulary_.operators[op];
  if (operands.size() == entry.arity) {
    if (nodes.size() + 1 == n) {
      add({op, operands, {}, 0, nodes});
    }
    return;
  }
  for (std::size_t size = 0; size < std::min(n, by_size_.size()); ++size) {
    for (std::size_t i = 0; i < by_size_[size].size(); ++i) {
      const auto t = by_size_[size][i];
      if (algebra_.signature(entry.op.kind).commutative && !operands.empty() && t < operands[0]) {
        continue;
      }
      auto more = operands;
      more.push_back(t);
      auto all = nodes;
      for (const auto m : kept_[t].nodes) {
        all.push_back(m);
      }
      if (kept_[t].op < vocabulary_.operators.size()) {
        all.push_back(t);
      }
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      if (all.size() < n) {
        choose(op, n, more, all);
      }
    }
  }
}

UNITY_INLINE void term_enumeration::add(enumerated_term t) {
  std::vector<parallel_type> types;
  for (const auto o : t.operands) {
    types.push_back(kept_[o].type);
  }
  const auto& op = vocabulary_.operators[t.op].op;
  const auto results = algebra_.infer(op, types);
  if (!results) {
    return;
  }
  ++count_;
  t.type = (*results)[0];
  t.value = value_of(op, t.operands, types);
  const auto known = known_.find(hash_combine(t.value, std::hash<parallel_type>{}(t.type)));
  if (known == known_.end()) {
    keep(std::move(t));
  } else {
    pairs_.push_back({known->second, std::move(t)});
  }
}

UNITY_INLINE std::uint64_t term_enumeration::value_of(const tensor::operation& op,
                                                      const std::vector<std::uint32_t>& operands,
                                                      const std::vector<parallel_type>& types) {
  const auto p = algebra_.read(op);
  if (p && is_unary(p->kind)) {
    return kept_[operands[0]].value;
  }
  std::vector<tensor::dense<tensor::modular61>> inputs;
  std::vector<tensor::tensor_type> global;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(values_.at(kept_[operands[i]].value));
    global.push_back(types[i].global);
  }
  const auto& a = algebra_.operators();
  const auto erased = !p                                ? op
                      : p->kind == parallel_kind::terms ? a.make_operation("add")
                                                        : a.make_operation("concat", {{"axis", p->axis}});
  return remember(tensor::evaluate<tensor::modular61>(a, erased, inputs, global)[0]);
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE void vocabulary_writer::add(std::string name, std::vector<parallel_type> variables,
                                         std::vector<pcg_vocabulary::entry> operators) {
  pcg_vocabulary l{std::move(name), std::move(variables), std::move(operators)};
  add_divisions(algebra_, l, 2, 2);
  all_.push_back(std::move(l));
}

UNITY_INLINE parallel_type vocabulary_writer::values(tensor::shape dims, tensor::dtype element) {
  tensor::tensor_type t;
  t.dims = std::move(dims);
  t.element = element;
  return undivided(t);
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<pcg_vocabulary> standard_vocabularies(const pcg_algebra& a) {
  detail::vocabulary_writer w{a};
  const auto x = w.values({4, 4});
  const auto row = w.values({4});
  const auto concat = [&](std::int64_t axis) { return w.op("concat", {{"axis", axis}}); };
  const auto terms = w.join(parallel_kind::terms);
  const auto upper = w.join(parallel_kind::blocks, 0);
  const auto left = w.join(parallel_kind::blocks, 1);
  w.add("chains", {x}, {});
  w.add("relu", {x}, {{w.op("relu"), 1}});
  w.add("gelu", {x}, {{w.op("gelu"), 1}});
  w.add("softmax", {x}, {{w.op("softmax", {{"axis", 1}}), 1}});
  w.add("transpose", {x}, {{w.op("transpose", {{"permutation", {1, 0}}}), 1}});
  w.add("reduce_sum", {x}, {{w.op("reduce_sum", {{"axes", {1}}}), 1}});
  w.add("matmul", {x, x}, {{w.op("matmul"), 2}});
  w.add("add", {x, x}, {{w.op("add"), 2}});
  w.add("mul", {x, x}, {{w.op("mul"), 2}});
  w.add("linear", {x, x, row}, {{w.op("linear"), 3}});
  w.add("layer_norm", {x, row, row}, {{w.op("layer_norm", {{"axis", 1}}), 3}});
  w.add("embedding", {x, w.values({4}, tensor::dtype::int64)}, {{w.op("embedding"), 2}});
  w.add("terms", {x, x}, {{w.op("add"), 2}, {terms, 2}});
  w.add("blocks", {x, x}, {{concat(0), 2}, {concat(1), 2}, {upper, 2}, {left, 2}});
  w.add("hybrid", {x, x},
        {{w.op("matmul"), 2}, {w.op("relu"), 1}, {w.op("add"), 2}, {concat(1), 2}, {terms, 2}, {left, 2}});
  return std::move(w).finish();
}

}  // namespace unity::parallel

#endif
