// One graph for each operator of reductions, positions, normalizations, losses and attention (onnx_samples.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "onnx_subjects.hpp"

namespace unity::io::test {

// The first opset in which each sample can be written; 1 if it is not listed.
inline const std::map<std::string, std::int64_t> first_opsets_of_statistics{{"arg_max last", 12},
                                                                            {"arg_min last", 12},
                                                                            {"is_position", 7},
                                                                            {"equal_positions", 7},
                                                                            {"group_norm", 22},
                                                                            {"instance_norm", 6},
                                                                            {"rms_norm", 6},
                                                                            {"mean_variance_norm", 6},
                                                                            {"negative_log_likelihood mean", 7},
                                                                            {"negative_log_likelihood sum", 7},
                                                                            {"negative_log_likelihood none", 7},
                                                                            {"softmax_cross_entropy mean", 7},
                                                                            {"softmax_cross_entropy sum", 7},
                                                                            {"softmax_cross_entropy none", 7},
                                                                            {"rotary_embedding", 10},
                                                                            {"rotary_embedding by halves", 6}};

// add(name, body): body(builder) appends to a graph and returns its outputs.
template <class Add>
void add_statistics_samples(const Add& add) {
  using tensor::builder;
  using tensor::dtype;
  using attributes = std::vector<tensor::named_attribute>;
  // Adds a graph of one operator on an input and weights.
  const auto on = [&](const std::string& name, const std::string& kind, const tensor::shape& dims,
                      const std::vector<tensor::shape>& weights, const attributes& a) {
    add(name, [=](builder& b) {
      std::vector<value_id> operands{b.input("x", dims)};
      for (const auto& w : weights) {
        operands.push_back(b.weight("w" + std::to_string(operands.size()), w));
      }
      return b.apply(standard().make_operation(kind, a), operands);
    });
  };
  for (const std::string name :
       {"reduce_min", "reduce_prod", "reduce_l1", "reduce_l2", "reduce_sum_square", "reduce_log_sum_exp"}) {
    on(name, name, {2, 3, 4}, {}, {{"axes", {0, 2}}, {"keep_dims", 0}});
    on(name + " keeping", name, {2, 3, 4}, {}, {{"axes", {1}}});
  }
  add("reduce_log_sum", [](builder& b) {  // of positive numbers
    const std::vector<value_id> w{b.weight("w", {2, 3})};
    return b.apply("reduce_log_sum", w, {{"axes", {1}}});
  });
  for (const std::string name : {"arg_max", "arg_min"}) {
    on(name, name, {2, 3, 4}, {}, {{"axis", 1}, {"keep_dims", 0}});
    on(name + " last", name, {2, 3, 4}, {}, {{"axis", 2}, {"last", 1}});
  }
  add("is_position", [](builder& b) {
    const std::vector<value_id> labels{b.input("labels", {2, 3}, dtype::int64)};
    return b.apply("is_position", labels, {{"axis", 1}, {"size", 4}, {"element", "float32"}});
  });
  on("equal_positions", "equal_positions", {2, 3}, {{2, 1}}, {{"axis", 1}});
  on("cumulative_sum", "cumulative_sum", {2, 5}, {}, {{"axis", 1}, {"exclusive", 1}, {"reverse", 1}});
  for (const std::string name : {"hardmax", "log_softmax"}) {
    on(name, name, {2, 3, 4}, {}, {{"axis", 1}});
  }
  for (const std::string function : {"softmax", "log_softmax", "hardmax"}) {
    on("flat_softmax " + function, "flat_softmax", {2, 3, 4}, {}, {{"axis", 1}, {"function", function}});
  }
  on("group_norm", "group_norm", {2, 4, 3}, {{4}, {4}}, {{"groups", 2}});
  on("instance_norm", "instance_norm", {2, 4, 3}, {{4}, {4}}, {});
  on("rms_norm", "rms_norm", {2, 4, 3}, {{3}}, {{"axis", 1}});
  on("local_response_norm", "local_response_norm", {2, 4, 3, 3}, {}, {{"size", 3}, {"alpha", 0.5}});
  on("lp_norm", "lp_norm", {2, 4, 3}, {}, {{"axis", 1}, {"p", 1}});
  on("mean_variance_norm", "mean_variance_norm", {2, 4, 3}, {}, {{"axes", {0, 2}}});
  for (const std::string name : {"negative_log_likelihood", "softmax_cross_entropy"}) {
    for (const std::string reduction : {"mean", "sum", "none"}) {
      add(name + " " + reduction, [=](builder& b) {
        const std::vector<value_id> operands{b.input("x", {6, 4}), b.input("labels", {6}, dtype::int64),
                                             b.weight("w", {4})};
        return b.apply(name, operands, {{"reduction", reduction}, {"ignores", 1}, {"ignored", 3}});
      });
    }
  }
  on("dot_product_attention causal", "dot_product_attention", {2, 2, 3, 4}, {{2, 1, 5, 4}, {2, 1, 5, 2}},
     {{"causal", 1}});
  add("dot_product_attention", [](builder& b) {
    const std::vector<value_id> operands{b.input("q", {2, 3, 8}), b.weight("k", {2, 5, 4}), b.weight("v", {2, 5, 6}),
                                         b.input("mask", {3, 5})};
    return b.apply("dot_product_attention", operands, {{"heads", 4}, {"key_heads", 2}, {"scale", 0.5}});
  });
  add("rotary_embedding", [](builder& b) {
    const std::vector<value_id> operands{b.input("x", {2, 3, 10}), b.weight("cos", {4, 2}), b.weight("sin", {4, 2}),
                                         b.input("places", {2, 3}, dtype::int64)};
    return b.apply("rotary_embedding", operands, {{"heads", 2}, {"interleaved", 1}});
  });
  on("rotary_embedding by halves", "rotary_embedding", {2, 3, 5, 4}, {{2, 5, 2}, {2, 5, 2}}, {});
  add("lower_triangle", [](builder& b) {
    const auto x = b.input("x", {3, 4});
    const auto seen =
        b.apply("lower_triangle", std::vector<value_id>{}, {{"rows", 3}, {"columns", 4}, {"element", "float32"}})[0];
    return std::vector{b.mul(x, seen)};
  });
}

}  // namespace unity::io::test
