// One graph for each operator of the tensor algebra, and round trips through ONNX files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "data_provider.hpp"
#include "onnx_subjects.hpp"
#include "statistics_samples.hpp"

namespace unity::io::test {

using onnx_body = std::function<std::vector<value_id>(tensor::builder&)>;

struct onnx_sample {
  std::string name;
  onnx_body build;
};

inline void add_indexings(std::vector<onnx_sample>& all) {
  const auto add = [&](std::string name, onnx_body build) { all.push_back({std::move(name), std::move(build)}); };
  const auto on_input = [&](std::string name, tensor::shape dims, std::vector<tensor::named_attribute> a) {
    add(name, [=](tensor::builder& b) {
      return b.apply(standard().make_operation(name, a), std::array{b.input("x", dims)});
    });
  };
  const auto by_numbers = [&](std::string name, tensor::shape x, tensor::shape numbers,
                              std::vector<tensor::named_attribute> a, std::optional<tensor::shape> updates = {}) {
    add(name, [=](tensor::builder& b) {
      std::vector<value_id> operands{b.input("x", x), b.input("i", numbers, tensor::dtype::int64)};
      if (updates) {
        operands.push_back(b.input("u", *updates));
      }
      return b.apply(standard().make_operation(name, a), operands);
    });
  };
  by_numbers("gather", {2, 5, 3}, {2, 2}, {{"axis", 1}});
  by_numbers("gather_elements", {5, 3}, {4, 3}, {{"axis", 0}});
  by_numbers("gather_nd", {4, 4, 3}, {2, 2}, {});
  by_numbers("scatter_elements", {8, 3}, {1, 3}, {{"axis", 0}}, tensor::shape{1, 3});
  by_numbers("scatter_nd", {8, 3}, {1, 1}, {}, tensor::shape{1, 3});
  add("one_hot_values", [](tensor::builder& b) {
    return b.apply("one_hot_values", {b.input("i", {3}, tensor::dtype::int64), b.input("v", {2})},
                   {{"axis", 1}, {"depth", 4}});
  });
  add("linear_index", [](tensor::builder& b) {
    const auto numbers = b.apply("linear_index", {}, {{"dims", {2, 2}}, {"strides", {2, -1}}, {"start", 1}})[0];
    return std::vector<value_id>{b.embedding(b.input("x", {4, 3}), numbers)};
  });
  add("scatter_sum", [](tensor::builder& b) {
    return b.apply("scatter_sum", {b.input("i", {4}, tensor::dtype::int64), b.input("x", {4, 2})}, {{"rows", 5}});
  });
  on_input("tile", {2, 3}, {{"repeats", {2, 3}}});
  on_input("strided_slice", {5, 6}, {{"axes", {0, 1}}, {"starts", {4, 1}}, {"counts", {3, 2}}, {"steps", {-2, 3}}});
  on_input("border_pad", {3, 4}, {{"mode", "reflect"}, {"pads", {1, 0, 2, 3}}});
  on_input("depth_to_space", {1, 8, 2, 3}, {{"block", 2}});
  on_input("space_to_depth", {1, 2, 4, 6}, {{"block", 2}});
  on_input("trilu", {2, 3, 4}, {{"upper", 0}, {"k", 1}});
  on_input("eye_like", {3, 4}, {{"k", 1}});
}

inline void add_layers(std::vector<onnx_sample>& all) {
  const auto add = [&](std::string name, onnx_body build) { all.push_back({std::move(name), std::move(build)}); };
  const std::pair<std::string, std::int64_t> layers[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};
  for (const auto& l : layers) {
    add(l.first, [name = l.first, gates = l.second](tensor::builder& b) {
      return b.apply(name,
                     {b.input("x", {3, 2, 4}), b.weight("w", {2, 5 * gates, 4}), b.weight("r", {2, 5 * gates, 5}),
                      b.input("h", {2, 2, 5})},
                     {{"direction", "bidirectional"}, {"initial_h", 1}});
    });
  }
  add("conv2d_transpose", [](tensor::builder& b) {
    return b.apply("conv2d_transpose", {b.input("x", {1, 4, 3, 3}), b.weight("w", {4, 2, 2, 3})},
                   {{"stride", {2, 1}}, {"pads", {1, 0, 0, 1}}, {"groups", 2}, {"dims", {1, 4, 6, 4}}});
  });
  add("conv_transpose", [](tensor::builder& b) {
    return b.apply("conv_transpose", {b.input("x", {1, 4, 3}), b.weight("w", {4, 2, 2}), b.weight("b", {4})},
                   {{"stride", {2}}, {"pads", {1, 0}}, {"dilation", {1}}, {"output_padding", {1}}, {"groups", 2}});
  });
  add("einsum", [](tensor::builder& b) {
    return b.apply("einsum", {b.input("x", {2, 3, 4}), b.input("y", {2, 5, 4})}, {{"equation", "bij,bkj->bki"}});
  });
  add("resize", [](tensor::builder& b) {
    return b.apply("resize", {b.input("x", {1, 2, 3, 4})}, {{"mode", "linear"}, {"dims", {1, 2, 5, 8}}});
  });
  add("resize nearest", [](tensor::builder& b) {
    return b.apply("resize", {b.input("x", {1, 2, 3, 4})},
                   {{"coordinates", "asymmetric"}, {"rounding", "floor"}, {"dims", {1, 2, 6, 8}}});
  });
  for (const std::string name : {"dequantize", "quantize"}) {
    for (const std::string form : {"", " along an axis"}) {
      add(name + form, [name, form](tensor::builder& b) {
        const auto dims = form.empty() ? tensor::shape{} : tensor::shape{4};
        const auto x = name == "quantize" ? b.input("x", {2, 4}) : b.input("x", {2, 4}, tensor::dtype::int8);
        std::vector<value_id> operands{x, b.weight("s", dims)};
        if (name == "quantize") {  // without a zero point, whose type would give the element type
          return b.apply(
              standard().make_operation(name, std::vector<tensor::named_attribute>{{"axis", 1}, {"element", "int8"}}),
              operands);
        }
        operands.push_back(b.input("z", dims, tensor::dtype::int8));
        return b.apply(standard().make_operation(name, std::vector<tensor::named_attribute>{{"axis", 1}}), operands);
      });
    }
  }
  add("dynamic_quantize", [](tensor::builder& b) { return b.apply("dynamic_quantize", {b.input("x", {2, 3})}); });
  add("integer_matmul", [](tensor::builder& b) {
    return b.apply("integer_matmul",
                   {b.input("x", {2, 3}, tensor::dtype::uint8), b.input("w", {3, 4}, tensor::dtype::int8),
                    b.input("p", {}, tensor::dtype::uint8), b.input("q", {4}, tensor::dtype::int8)});
  });
  add("integer_conv2d", [](tensor::builder& b) {
    return b.apply("integer_conv2d",
                   {b.input("x", {1, 2, 4, 4}, tensor::dtype::uint8), b.input("w", {3, 2, 3, 3}, tensor::dtype::int8),
                    b.input("p", {}, tensor::dtype::uint8)},
                   {{"pads", {1, 0, 0, 1}}});
  });
  add("quantized_matmul", [](tensor::builder& b) {
    return b.apply(
        "quantized_matmul",
        {b.input("x", {2, 3}, tensor::dtype::uint8), b.weight("s", {}), b.input("p", {}, tensor::dtype::uint8),
         b.input("w", {3, 4}, tensor::dtype::int8), b.weight("t", {}), b.input("q", {}, tensor::dtype::int8),
         b.weight("u", {}), b.input("r", {}, tensor::dtype::uint8)});
  });
  add("quantized_conv2d", [](tensor::builder& b) {
    return b.apply(
        "quantized_conv2d",
        {b.input("x", {1, 2, 4, 4}, tensor::dtype::uint8), b.weight("s", {}), b.input("p", {}, tensor::dtype::uint8),
         b.input("w", {3, 2, 3, 3}, tensor::dtype::int8), b.weight("t", {3}), b.input("q", {3}, tensor::dtype::int8),
         b.weight("u", {}), b.input("r", {}, tensor::dtype::uint8), b.input("b", {3}, tensor::dtype::int32)},
        {{"padding", "same"}, {"stride", {2, 2}}});
  });
  for (const std::int64_t largest : {0, 1}) {
    add(largest != 0 ? "top_elements" : "least elements", [largest](tensor::builder& b) {
      return b.apply("top_elements", {b.input("x", {3, 5})}, {{"axis", 1}, {"count", 2}, {"largest", largest}});
    });
  }
}

// Every operator of the tensor algebra at least once, in every form that is written differently.
[[nodiscard]] inline std::vector<onnx_sample> onnx_samples() {
  std::vector<onnx_sample> all;
  const auto add = [&](std::string name, onnx_body build) { all.push_back({std::move(name), std::move(build)}); };
  const auto on_input = [&](std::string name, tensor::shape dims,
                            std::function<value_id(tensor::builder&, value_id)> f) {
    add(name, [dims, f](tensor::builder& b) { return std::vector<value_id>{f(b, b.input("x", dims))}; });
  };
  for (const std::string name : {"relu", "gelu", "tanh", "sigmoid", "exp", "erf", "negate", "abs", "identity"}) {
    on_input(name, {2, 3}, [name](auto& b, auto x) { return b.apply(name, {x})[0]; });
  }
  for (const std::string name : {"log", "sqrt", "reciprocal"}) {  // of positive numbers
    add(name, [name](tensor::builder& b) { return b.apply(name, {b.weight("w", {2, 3})}); });
  }
  for (const std::string name : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    on_input(name, {2, 3}, [name](auto& b, auto x) { return b.apply(name, {x, b.weight("w", {4, 1, 3})})[0]; });
  }
  for (const std::string name : {"sin",    "cos",          "tan",        "sign",     "floor",    "ceil",
                                 "round",  "leaky_relu",   "elu",        "selu",     "celu",     "thresholded_relu",
                                 "shrink", "hard_sigmoid", "hard_swish", "softplus", "softsign", "mish",
                                 "swish",  "gelu_tanh",    "is_nan"}) {
    on_input(name, {2, 3}, [name](auto& b, auto x) { return b.apply(name, {x})[0]; });
  }
  on_input("swish 2", {2, 3}, [](auto& b, auto x) { return b.apply("swish", {x}, {{"alpha", 2.0}})[0]; });
  on_input("is_inf", {2, 3}, [](auto& b, auto x) { return b.apply("is_inf", {x}, {{"negative", 0}})[0]; });
  for (const double high : {0.25, HUGE_VAL}) {
    on_input("clip", {2, 3}, [high](auto& b, auto x) {
      return b.apply("clip", {x}, {{"low", -0.5}, {"high", high}})[0];
    });
  }
  add("clip of integers", [](tensor::builder& b) {
    return b.apply("clip", {b.input("n", {2, 3}, tensor::dtype::int32)}, {{"low", 1.0}, {"high", 2.0}});
  });
  on_input("prelu", {2, 3}, [](auto& b, auto x) { return b.apply("prelu", {x, b.weight("w", {3})})[0]; });
  for (const std::string name : {"integer_div", "mod"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("m", {2, 3}, tensor::dtype::int64), b.input("n", {3}, tensor::dtype::int64)});
    });
  }
  on_input("truncated mod", {2, 3}, [](auto& b, auto x) {
    return b.apply("mod", {x, b.weight("w", {3})}, {{"truncated", 1}})[0];
  });
  for (const std::string name : {"equal", "less", "less_or_equal", "greater", "greater_or_equal"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("m", {2, 3}, tensor::dtype::int64), b.input("n", {2, 3}, tensor::dtype::int64)});
    });
  }
  for (const std::string name : {"logical_and", "logical_or", "logical_xor"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("p", {2, 3}, tensor::dtype::boolean), b.input("q", {3}, tensor::dtype::boolean)});
    });
  }
  add("logical_not",
      [](tensor::builder& b) { return b.apply("logical_not", {b.input("p", {2}, tensor::dtype::boolean)}); });
  on_input("where", {2, 3}, [](auto& b, auto x) {
    return b.apply("where", {b.input("p", {2, 1}, tensor::dtype::boolean), x, b.weight("w", {3})})[0];
  });
  add("pow", [](tensor::builder& b) { return b.apply("pow", {b.weight("w", {2, 3}), b.fill(3)}); });
  on_input("scalar_multiply", {2, 3}, [](auto& b, auto x) { return b.scalar_multiply(x, b.fill(0.5)); });
  on_input("cast", {2, 3}, [](auto& b, auto x) { return b.apply("cast", {x}, {{"element", "int32"}})[0]; });
  on_input("dropout", {2, 3}, [](auto& b, auto x) {
    return b.apply("dropout", {x}, {{"rate", 0.25}, {"seed", 3}})[0];
  });
  for (const std::string activation : {"none", "relu", "sigmoid", "tanh", "gelu"}) {
    on_input("matmul " + activation, {2, 3, 4}, [activation](auto& b, auto x) {
      return b.matmul(x, b.weight("w", {4, 5}), activation);
    });
    on_input("linear " + activation, {3, 4}, [activation](auto& b, auto x) {
      return b.linear(x, b.weight("w", {4, 5}), b.weight("b", {5}), activation);
    });
    on_input("conv2d " + activation, {1, 4, 5, 5}, [activation](auto& b, auto x) {
      tensor::conv2d_options options;
      options.activation = activation;
      return b.conv2d(x, b.weight("w", {2, 4, 3, 3}), b.weight("b", {2}), options);
    });
  }
  on_input("linear of rank 3", {2, 3, 4}, [](auto& b, auto x) {
    return b.linear(x, b.weight("w", {4, 5}), b.weight("b", {5}));
  });
  on_input("linear without bias", {2, 3, 4}, [](auto& b, auto x) { return b.linear(x, b.weight("w", {4, 5})); });
  for (const std::string padding : {"explicit", "same", "same_lower", "valid"}) {
    on_input("conv2d " + padding, {1, 4, 6, 7}, [padding](auto& b, auto x) {
      tensor::conv2d_options options{{2, 1}, padding, {0, 0, 0, 0}, {1, 2}, 2, "none"};
      if (padding == "explicit") {
        options.pads = {1, 0, 2, 3};
      }
      return b.conv2d(x, b.weight("w", {6, 2, 2, 3}), options);
    });
    on_input("max_pool " + padding, {1, 2, 6, 7}, [padding](auto& b, auto x) {
      tensor::pool_options options{{2, 3}, {2, 2}, padding, {0, 0, 0, 0}, padding == "explicit"};
      if (padding == "explicit") {
        options.pads = {1, 0, 0, 1};
      }
      return b.max_pool(x, options);
    });
    on_input("average_pool " + padding, {1, 2, 6, 7}, [padding](auto& b, auto x) {
      tensor::pool_options options{{2, 3}, {2, 2}, padding, {0, 0, 0, 0}, false};
      if (padding == "explicit") {
        options.pads = {1, 0, 0, 1};
      }
      return b.average_pool(x, options, padding == "explicit");
    });
  }
  on_input("global_average_pool", {1, 2, 3, 3}, [](auto& b, auto x) { return b.global_average_pool(x); });
  on_input("global_max_pool", {1, 2, 3, 3}, [](auto& b, auto x) { return b.global_max_pool(x); });
  on_input("softmax", {2, 3, 4}, [](auto& b, auto x) { return b.softmax(x, 1); });
  on_input("layer_norm", {2, 3, 4}, [](auto& b, auto x) {
    return b.layer_norm(x, b.weight("g", {3, 4}), b.weight("b", {3, 4}), 1, 1e-3);
  });
  on_input("batch_norm", {2, 3, 4, 4}, [](auto& b, auto x) {
    return b.batch_norm(x, b.weight("s", {3}), b.weight("b", {3}), b.weight("m", {3}), b.weight("v", {3}), 1e-3);
  });
  for (const std::string name : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    for (const int keep : {0, 1}) {
      on_input(name + (keep != 0 ? " keeping" : ""), {2, 3, 4}, [name, keep](auto& b, auto x) {
        return b.apply(name, {x}, {{"axes", {0, 2}}, {"keep_dims", keep}})[0];
      });
    }
  }
  on_input("concat", {2, 3}, [](auto& b, auto x) {
    const value_id parts[] = {x, b.weight("w", {2, 4}), x};
    return b.concat(1, parts);
  });
  add("split", [](tensor::builder& b) { return b.split(b.input("x", {2, 7}), 1, {2, 1, 4}); });
  on_input("slice", {5, 6}, [](auto& b, auto x) {
    return b.apply("slice", {x}, {{"axes", {0, 1}}, {"starts", {1, 0}}, {"ends", {5, 6}}, {"steps", {2, 3}}})[0];
  });
  on_input("pad", {2, 3}, [](auto& b, auto x) { return b.pad(x, {1, 0, 0, 2}, -1.5); });
  add("enlarge", [](tensor::builder& b) {
    return b.apply("enlarge", {b.weight("w", {2, 2, 1, 3})}, {{"kernel", {3, 5}}});
  });
  on_input("transpose", {2, 3, 4}, [](auto& b, auto x) { return b.transpose(x, {2, 0, 1}); });
  on_input("reshape", {2, 3, 4}, [](auto& b, auto x) { return b.reshape(x, {4, 6}); });
  on_input("squeeze", {2, 1, 4, 1}, [](auto& b, auto x) { return b.apply("squeeze", {x}, {{"axes", {1, 3}}})[0]; });
  on_input("unsqueeze", {2, 4}, [](auto& b, auto x) { return b.apply("unsqueeze", {x}, {{"axes", {0, 2}}})[0]; });
  on_input("expand", {2, 1}, [](auto& b, auto x) { return b.apply("expand", {x}, {{"dims", {3, 2, 4}}})[0]; });
  add("embedding", [](tensor::builder& b) {
    return std::vector<value_id>{b.embedding(b.weight("table", {5, 3}), b.input("ids", {2, 2}, tensor::dtype::int64))};
  });
  add("embedding_bag", [](tensor::builder& b) {
    return std::vector<value_id>{
        b.embedding_bag(b.weight("table", {5, 3}), b.input("ids", {2, 4}, tensor::dtype::int64))};
  });
  for (const auto list : {tensor::dtype::int32, tensor::dtype::int64}) {
    add(list == tensor::dtype::int32 ? "edges in int32" : "edges", [list](tensor::builder& b) {
      const auto lists = [&](const char* name, std::int64_t n) { return b.input(name, {n}, list); };
      const tensor::edge_values e{lists("offsets", 4), lists("sources", 5), lists("out_offsets", 3),
                                  lists("targets", 5), lists("out_edges", 5)};
      const auto x = b.weight("x", {2, 3, 4});
      const auto z = b.weight("z", {5, 3});
      return std::vector<value_id>{
          b.apply("incidence", {e.sources, e.targets}, {{"edges", 4}, {"element", "float32"}})[0],
          b.segment_sum(x, e),
          b.segment_mean(x, e),
          b.segment_max(x, e),
          b.segment_softmax(z, e),
          b.segment_weighted_sum(x, z, e)};
    });
  }
  on_input("fill", {2, 3}, [](auto& b, auto x) { return b.mul(b.add(x, b.fill(2, {2, 3})), b.fill(0.1, {40, 2, 1})); });
  on_input("constant", {2, 3},
           [](auto& b, auto x) { return b.embedding(x, b.constant("ids", {2}, tensor::dtype::int64)); });
  on_input("pool_kernel", {1, 2, 4, 4}, [](auto& b, auto x) {
    tensor::conv2d_options options;
    options.groups = 2;
    return b.conv2d(x, b.pool_kernel(2, {2, 2}), options);
  });
  on_input("identity_kernel", {1, 4, 4, 4}, [](auto& b, auto x) {
    tensor::conv2d_options options;
    options.groups = 2;
    return b.conv2d(x, b.identity_kernel(4, {3, 3}, 2), options);
  });
  on_input("identity_matrix", {2, 3}, [](auto& b, auto x) { return b.matmul(x, b.identity_matrix(3)); });
  add("attention", [](tensor::builder& b) {
    const auto x = b.input("x", {2, 3, 8});
    const value_id w[] = {b.weight("q", {8, 8}), b.weight("k", {8, 8}), b.weight("v", {8, 8}), b.weight("o", {8, 8})};
    return std::vector<value_id>{b.attention(x, x, x, w, 2)};
  });
  add_indexings(all);
  add_layers(all);
  add("lstm_cell", [](tensor::builder& b) {
    return b.apply("lstm_cell", {b.input("x", {2, 3}), b.input("h", {2, 4}), b.input("c", {2, 4}),
                                 b.weight("w", {4, 4, 3}), b.weight("r", {4, 4, 4}), b.weight("bias", {4, 4})});
  });
  add_statistics_samples(add);
  return all;
}

[[nodiscard]] inline onnx_model model_of(const onnx_sample& s) {
  tensor::builder b{standard()};
  const auto outputs = s.build(b);
  return make_model(std::move(b).finish(outputs), s.name);
}

// Small arbitrary data for every weight, so that files hold initializers.
[[nodiscard]] inline data_table data_of(const tensor::tensor_graph& g) {
  data_table data;
  for (const auto i : node_ids(g)) {
    const auto& op = g.operation(i);
    if (standard().definition_of(op.kind).source == tensor::source_kind::constant) {
      const auto type = g.type(g.results(i)[0]);
      const auto value = tensor::evaluate<double>(standard(), op, {}, {}, 5);
      data.emplace(standard().read(op).word("name"), make_data(type.element, type.dims, value[0].data));
    }
  }
  return data;
}

[[nodiscard]] inline std::vector<tensor::dense<double>> outputs_of(const onnx_model& m) {
  return tensor::evaluate<double>(standard(), m.graph, unity::test::data_provider<double>{standard(), m.data},
                                  std::uint64_t{1});
}

// Requires equal outputs up to rounding.
inline void check_close(const onnx_model& a, const onnx_model& b) {
  const auto x = outputs_of(a);
  const auto y = outputs_of(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE(x[i].dims == y[i].dims);
    for (std::size_t j = 0; j < x[i].data.size(); ++j) {
      REQUIRE(y[i].data[j] == Approx(x[i].data[j]).epsilon(1e-6).margin(1e-6));
    }
  }
}

// The model after writing and reading it.
[[nodiscard]] inline onnx_model again(const onnx_model& m, const export_options& options = {}) {
  return parse_onnx(standard(), serialize_onnx(standard(), m, options), m.name, {});
}

}  // namespace unity::io::test
