// Vocabularies of terms of parallel computation graphs, which are enumerated to find equal terms.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/term_enumeration.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

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

// Vocabularies of chains alone, of each of eleven operators, and of operators with Terms and Blocks.
[[nodiscard]] std::vector<pcg_vocabulary> standard_vocabularies(const pcg_algebra& a);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_STANDARD_VOCABULARIES)

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
