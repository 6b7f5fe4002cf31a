// Operators on example operands, from which rules that divide them are derived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// An operator on operands of particular ranks.
struct operator_example {
  tensor::operation op{};
  std::vector<tensor::tensor_type> inputs{};
};

// A form has rules of one name: an operator with a fixed number of operands, or with any number.
struct operator_form {
  std::string name;  // of its rules
  bool any_operands = false;
  std::vector<operator_example> examples{};
};

namespace detail {

class form_writer {
 public:
  form_writer(const tensor::algebra& a, std::int64_t unit) : algebra_{a}, unit_{unit} {}

  using shapes = std::vector<tensor::shape>;

  void add(std::string_view form, std::string_view op, std::vector<tensor::named_attribute> attributes,
           const shapes& inputs, std::vector<std::size_t> integers = {});
  void element_by_element();
  void products();
  void reductions();
  void views();
  void tables();
  void cells();
  [[nodiscard]] std::vector<operator_form> finish() && { return std::move(forms_); }

 private:
  const tensor::algebra& algebra_;
  std::int64_t unit_;
  std::vector<operator_form> forms_{};
};

}  // namespace detail

// The vocabulary of the shipped rules: the operators of the zoo's models. Operators of variable rank have examples of
// two ranks, to show which dimensions depend on the rank. Sizes, except those of kernels, are multiples of the unit (12
// is divisible by the degrees 2, 3, 4 and 6).
[[nodiscard]] std::vector<operator_form> standard_forms(const tensor::algebra& a, std::int64_t unit = 12);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_OPERATOR_FORMS)

#include <algorithm>

#include <unity/tensor/algebra_inference.hpp>

namespace unity::parallel::detail {

UNITY_INLINE void form_writer::add(std::string_view form, std::string_view op,
                                   std::vector<tensor::named_attribute> attributes, const shapes& inputs,
                                   std::vector<std::size_t> integers) {
  operator_example e;
  e.op = algebra_.make_operation(op, attributes);
  for (const auto& dims : inputs) {
    tensor::tensor_type t;
    t.dims = dims;
    e.inputs.push_back(std::move(t));
  }
  for (const auto i : integers) {
    e.inputs[i].element = tensor::dtype::int64;
  }
  const auto found = std::find_if(forms_.begin(), forms_.end(), [&](const auto& f) { return f.name == form; });
  auto& f = found == forms_.end() ? forms_.emplace_back(operator_form{std::string{form}, false, {}}) : *found;
  f.any_operands = op == "concat";
  f.examples.push_back(std::move(e));
}

UNITY_INLINE void form_writer::element_by_element() {
  const auto u = unit_;
  for (const auto* op :
       {"relu", "gelu", "tanh", "sigmoid", "exp", "identity", "negate", "log", "erf", "sqrt", "reciprocal", "abs"}) {
    add(op, op, {}, {{u, 2 * u}});
    add(op, op, {}, {{u, 2 * u, 3 * u}});
  }
  add("dropout", "dropout", {{"rate", 0.5}}, {{u, 2 * u}});
  add("dropout", "dropout", {{"rate", 0.5}}, {{u, 2 * u, 3 * u}});
  add("cast", "cast", {{"element", "int64"}}, {{u, 2 * u}});
  add("cast", "cast", {{"element", "int64"}}, {{u, 2 * u, 3 * u}});
  for (const auto* op : {"add", "sub", "mul", "div", "maximum", "minimum", "pow"}) {
    add(op, op, {}, {{u, 2 * u}, {u, 2 * u}});
    add(op, op, {}, {{u, 2 * u, 3 * u}, {u, 2 * u, 3 * u}});
    add(op, op, {}, {{u, 2 * u, 3 * u}, {3 * u}});
    add(op, op, {}, {{u, 2 * u, 3 * u, 4 * u}, {3 * u, 4 * u}});
  }
  add("scalar_multiply", "scalar_multiply", {}, {{u, 2 * u}, {}});
  add("scalar_multiply", "scalar_multiply", {}, {{u, 2 * u, 3 * u}, {}});
}

UNITY_INLINE void form_writer::products() {
  const auto u = unit_;
  add("matmul", "matmul", {}, {{u, 2 * u}, {2 * u, 3 * u}});
  add("matmul", "matmul", {}, {{u, 4 * u, 2 * u}, {2 * u, 3 * u}});
  add("matmul", "matmul", {}, {{u, 5 * u, 4 * u, 2 * u}, {2 * u, 3 * u}});
  add("matmul", "matmul", {}, {{u, 4 * u, 2 * u}, {u, 2 * u, 3 * u}});
  add("matmul", "matmul", {}, {{u, 5 * u, 4 * u, 2 * u}, {u, 5 * u, 2 * u, 3 * u}});
  add("linear", "linear", {}, {{u, 2 * u}, {2 * u, 3 * u}});
  add("linear", "linear", {}, {{u, 4 * u, 2 * u}, {2 * u, 3 * u}});
  add("linear_with_bias", "linear", {}, {{u, 2 * u}, {2 * u, 3 * u}, {3 * u}});
  add("linear_with_bias", "linear", {}, {{u, 4 * u, 2 * u}, {2 * u, 3 * u}, {3 * u}});
  const shapes image{{u, 2 * u, 4 * u, 5 * u}, {3 * u, 2 * u, 2, 2}};
  const shapes grouped{{u, 2 * u, 4 * u, 5 * u}, {3 * u, 2, 2, 2}};
  const std::vector<tensor::named_attribute> same{{"padding", "same"}};
  add("conv2d", "conv2d", same, image);
  add("conv2d", "conv2d", {{"padding", "same"}, {"groups", u}}, grouped);
  add("conv2d_with_bias", "conv2d", same, {image[0], image[1], {3 * u}});
  add("conv2d_with_bias", "conv2d", {{"padding", "same"}, {"groups", u}}, {grouped[0], grouped[1], {3 * u}});
  add("attention", "attention", {{"heads", u}},
      {{u, 2 * u, 3 * u},
       {u, 4 * u, 5 * u},
       {u, 4 * u, 6 * u},
       {3 * u, 2 * u},
       {5 * u, 2 * u},
       {6 * u, 4 * u},
       {4 * u, 7 * u}});
}

UNITY_INLINE void form_writer::reductions() {
  const auto u = unit_;
  add("reduce_sum", "reduce_sum", {{"axes", {1}}}, {{u, 2 * u}});
  add("reduce_sum", "reduce_sum", {{"axes", {2}}}, {{u, 2 * u, 3 * u}});
  add("reduce_sum", "reduce_sum", {{"axes", {0, 1}}}, {{u, 2 * u, 3 * u}});
  add("reduce_mean", "reduce_mean", {{"axes", {1}}}, {{u, 2 * u}});
  add("reduce_mean", "reduce_mean", {{"axes", {2}}}, {{u, 2 * u, 3 * u}});
  add("reduce_max", "reduce_max", {{"axes", {1}}}, {{u, 2 * u}});
  add("reduce_max", "reduce_max", {{"axes", {2}}}, {{u, 2 * u, 3 * u}});
  add("softmax", "softmax", {{"axis", 1}}, {{u, 2 * u}});
  add("softmax", "softmax", {{"axis", 2}}, {{u, 2 * u, 3 * u}});
  add("layer_norm", "layer_norm", {{"axis", 1}}, {{u, 2 * u}, {2 * u}, {2 * u}});
  add("layer_norm", "layer_norm", {{"axis", 2}}, {{u, 2 * u, 3 * u}, {3 * u}, {3 * u}});
  add("batch_norm", "batch_norm", {}, {{u, 2 * u, 3 * u, 4 * u}, {2 * u}, {2 * u}, {2 * u}, {2 * u}});
  add("max_pool", "max_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}}, {{u, 2 * u, 2 * u, 4 * u}});
  add("average_pool", "average_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}}, {{u, 2 * u, 2 * u, 4 * u}});
  add("global_average_pool", "global_average_pool", {}, {{u, 2 * u, 3 * u, 4 * u}});
  add("global_max_pool", "global_max_pool", {}, {{u, 2 * u, 3 * u, 4 * u}});
}

UNITY_INLINE void form_writer::views() {
  const auto u = unit_;
  add("transpose", "transpose", {{"permutation", {1, 0}}}, {{u, 2 * u}});
  add("transpose", "transpose", {{"permutation", {1, 2, 0}}}, {{u, 2 * u, 3 * u}});
  add("reshape", "reshape", {{"dims", {u, 2 * u, 3 * u, u}}}, {{u, 2 * u, 3 * u * u}});
  add("reshape", "reshape", {{"dims", {2 * u * u, 3 * u}}}, {{u, 2 * u, 3 * u}});
  add("reshape", "reshape", {{"dims", {u, 6 * u * u}}}, {{u, 2 * u, 3 * u}});
  add("reshape", "reshape", {{"dims", {u, 2 * u, 3 * u}}}, {{2 * u * u, 3 * u}});
  add("squeeze", "squeeze", {{"axes", {1}}}, {{u, 1, 2 * u}});
  add("squeeze", "squeeze", {{"axes", {2}}}, {{u, 2 * u, 1, 3 * u}});
  add("unsqueeze", "unsqueeze", {{"axes", {1}}}, {{u, 2 * u}});
  add("unsqueeze", "unsqueeze", {{"axes", {2}}}, {{u, 2 * u, 3 * u}});
  add("concat", "concat", {{"axis", 1}}, {{u, 2 * u, 3 * u}, {u, 2 * u, 3 * u}});
  add("concat", "concat", {{"axis", 0}}, {{u, 2 * u}, {u, 2 * u}});
  add("split_in_two", "split", {{"axis", 1}, {"sizes", {u, u}}}, {{u, 2 * u, 3 * u}});
  add("split_in_two", "split", {{"axis", 0}, {"sizes", {u, u}}}, {{2 * u, 3 * u}});
  add("split_in_three", "split", {{"axis", 1}, {"sizes", {u, u, u}}}, {{u, 3 * u, 3 * u}});
  add("split_in_three", "split", {{"axis", 0}, {"sizes", {u, u, u}}}, {{3 * u, 3 * u}});
  add("slice", "slice", {{"axes", {1}}, {"starts", {0}}, {"ends", {u}}, {"steps", {1}}}, {{u, 2 * u, 3 * u}});
  add("slice", "slice", {{"axes", {0}}, {"starts", {0}}, {"ends", {u}}, {"steps", {1}}}, {{2 * u, 3 * u}});
  add("pad", "pad", {{"pads", {0, 0, 0, 0, u, 0}}}, {{u, 2 * u, 3 * u}});
  add("pad", "pad", {{"pads", {0, 0, u, 0}}}, {{u, 2 * u}});
}

UNITY_INLINE void form_writer::tables() {
  const auto u = unit_;
  add("embedding", "embedding", {}, {{2 * u, 3 * u}, {u}}, {1});
  add("embedding", "embedding", {}, {{2 * u, 3 * u}, {u, 4 * u}}, {1});
  add("embedding_bag", "embedding_bag", {}, {{2 * u, 3 * u}, {u, 4 * u}}, {1});
}

UNITY_INLINE void form_writer::cells() {
  const auto u = unit_;
  add("lstm_cell", "lstm_cell", {},
      {{u, 2 * u}, {u, 3 * u}, {u, 4 * u}, {4, 4 * u, 2 * u}, {4, 4 * u, 3 * u}, {4, 4 * u}});
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<operator_form> standard_forms(const tensor::algebra& a, std::int64_t unit) {
  detail::form_writer writer{a, unit};
  writer.products();
  writer.element_by_element();
  writer.reductions();
  writer.views();
  writer.tables();
  writer.cells();
  return std::move(writer).finish();
}

}  // namespace unity::parallel

#endif
