#include <unity/io/onnx_export.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_import.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/onnx_text.hpp"
#include "data_provider.hpp"
#include "onnx_subjects.hpp"
#include "statistics_samples.hpp"

namespace tests_of_onnx_export {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::node_id;
using unity::value_id;
using unity::io::test::standard;
using unity::test::message_of;

namespace {

using values = std::vector<value_id>;
using body = std::function<values(tensor::builder&)>;

struct sample {
  std::string name;
  body build;
};

void add_indexings(std::vector<sample>& all) {
  const auto add = [&](std::string name, body build) { all.push_back({std::move(name), std::move(build)}); };
  const auto on_input = [&](std::string name, tensor::shape dims, std::vector<tensor::named_attribute> a) {
    add(name, [=](tensor::builder& b) {
      return b.apply(standard().make_operation(name, a), std::array{b.input("x", dims)});
    });
  };
  const auto by_numbers = [&](std::string name, tensor::shape x, tensor::shape numbers,
                              std::vector<tensor::named_attribute> a, std::optional<tensor::shape> updates = {}) {
    add(name, [=](tensor::builder& b) {
      values operands{b.input("x", x), b.input("i", numbers, dtype::int64)};
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
    return b.apply("one_hot_values", {b.input("i", {3}, dtype::int64), b.input("v", {2})}, {{"axis", 1}, {"depth", 4}});
  });
  add("linear_index", [](tensor::builder& b) {
    const auto numbers = b.apply("linear_index", {}, {{"dims", {2, 2}}, {"strides", {2, -1}}, {"start", 1}})[0];
    return values{b.embedding(b.input("x", {4, 3}), numbers)};
  });
  add("scatter_sum", [](tensor::builder& b) {
    return b.apply("scatter_sum", {b.input("i", {4}, dtype::int64), b.input("x", {4, 2})}, {{"rows", 5}});
  });
  on_input("tile", {2, 3}, {{"repeats", {2, 3}}});
  on_input("strided_slice", {5, 6}, {{"axes", {0, 1}}, {"starts", {4, 1}}, {"counts", {3, 2}}, {"steps", {-2, 3}}});
  on_input("border_pad", {3, 4}, {{"mode", "reflect"}, {"pads", {1, 0, 2, 3}}});
  on_input("depth_to_space", {1, 8, 2, 3}, {{"block", 2}});
  on_input("space_to_depth", {1, 2, 4, 6}, {{"block", 2}});
  on_input("trilu", {2, 3, 4}, {{"upper", 0}, {"k", 1}});
  on_input("eye_like", {3, 4}, {{"k", 1}});
}

void add_layers(std::vector<sample>& all) {
  const auto add = [&](std::string name, body build) { all.push_back({std::move(name), std::move(build)}); };
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
        const auto x = name == "quantize" ? b.input("x", {2, 4}) : b.input("x", {2, 4}, dtype::int8);
        values operands{x, b.weight("s", dims)};
        if (name == "quantize") {  // without a zero point, which says the type where it is not uint8
          return b.apply(
              standard().make_operation(name, std::vector<tensor::named_attribute>{{"axis", 1}, {"element", "int8"}}),
              operands);
        }
        operands.push_back(b.input("z", dims, dtype::int8));
        return b.apply(standard().make_operation(name, std::vector<tensor::named_attribute>{{"axis", 1}}), operands);
      });
    }
  }
  add("dynamic_quantize", [](tensor::builder& b) { return b.apply("dynamic_quantize", {b.input("x", {2, 3})}); });
  add("integer_matmul", [](tensor::builder& b) {
    return b.apply("integer_matmul", {b.input("x", {2, 3}, dtype::uint8), b.input("w", {3, 4}, dtype::int8),
                                      b.input("p", {}, dtype::uint8), b.input("q", {4}, dtype::int8)});
  });
  add("integer_conv2d", [](tensor::builder& b) {
    return b.apply("integer_conv2d",
                   {b.input("x", {1, 2, 4, 4}, dtype::uint8), b.input("w", {3, 2, 3, 3}, dtype::int8),
                    b.input("p", {}, dtype::uint8)},
                   {{"pads", {1, 0, 0, 1}}});
  });
  add("quantized_matmul", [](tensor::builder& b) {
    return b.apply("quantized_matmul",
                   {b.input("x", {2, 3}, dtype::uint8), b.weight("s", {}), b.input("p", {}, dtype::uint8),
                    b.input("w", {3, 4}, dtype::int8), b.weight("t", {}), b.input("q", {}, dtype::int8),
                    b.weight("u", {}), b.input("r", {}, dtype::uint8)});
  });
  add("quantized_conv2d", [](tensor::builder& b) {
    return b.apply("quantized_conv2d",
                   {b.input("x", {1, 2, 4, 4}, dtype::uint8), b.weight("s", {}), b.input("p", {}, dtype::uint8),
                    b.input("w", {3, 2, 3, 3}, dtype::int8), b.weight("t", {3}), b.input("q", {3}, dtype::int8),
                    b.weight("u", {}), b.input("r", {}, dtype::uint8), b.input("b", {3}, dtype::int32)},
                   {{"padding", "same"}, {"stride", {2, 2}}});
  });
  for (const std::int64_t largest : {0, 1}) {
    add(largest != 0 ? "top_elements" : "least elements", [largest](tensor::builder& b) {
      return b.apply("top_elements", {b.input("x", {3, 5})}, {{"axis", 1}, {"count", 2}, {"largest", largest}});
    });
  }
}

// Every operator of the tensor algebra at least once, in the forms that are written differently.
std::vector<sample> samples() {
  std::vector<sample> all;
  const auto add = [&](std::string name, body build) { all.push_back({std::move(name), std::move(build)}); };
  const auto on_input = [&](std::string name, tensor::shape dims,
                            std::function<value_id(tensor::builder&, value_id)> f) {
    add(name, [dims, f](tensor::builder& b) { return values{f(b, b.input("x", dims))}; });
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
    on_input("clip", {2, 3},
             [high](auto& b, auto x) { return b.apply("clip", {x}, {{"low", -0.5}, {"high", high}})[0]; });
  }
  add("clip of integers", [](tensor::builder& b) {
    return b.apply("clip", {b.input("n", {2, 3}, dtype::int32)}, {{"low", 1.0}, {"high", 2.0}});
  });
  on_input("prelu", {2, 3}, [](auto& b, auto x) { return b.apply("prelu", {x, b.weight("w", {3})})[0]; });
  for (const std::string name : {"integer_div", "mod"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("m", {2, 3}, dtype::int64), b.input("n", {3}, dtype::int64)});
    });
  }
  on_input("truncated mod", {2, 3},
           [](auto& b, auto x) { return b.apply("mod", {x, b.weight("w", {3})}, {{"truncated", 1}})[0]; });
  for (const std::string name : {"equal", "less", "less_or_equal", "greater", "greater_or_equal"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("m", {2, 3}, dtype::int64), b.input("n", {2, 3}, dtype::int64)});
    });
  }
  for (const std::string name : {"logical_and", "logical_or", "logical_xor"}) {
    add(name, [name](tensor::builder& b) {
      return b.apply(name, {b.input("p", {2, 3}, dtype::boolean), b.input("q", {3}, dtype::boolean)});
    });
  }
  add("logical_not", [](tensor::builder& b) { return b.apply("logical_not", {b.input("p", {2}, dtype::boolean)}); });
  on_input("where", {2, 3}, [](auto& b, auto x) {
    return b.apply("where", {b.input("p", {2, 1}, dtype::boolean), x, b.weight("w", {3})})[0];
  });
  add("pow", [](tensor::builder& b) { return b.apply("pow", {b.weight("w", {2, 3}), b.fill(3)}); });
  on_input("scalar_multiply", {2, 3}, [](auto& b, auto x) { return b.scalar_multiply(x, b.fill(0.5)); });
  on_input("cast", {2, 3}, [](auto& b, auto x) { return b.apply("cast", {x}, {{"element", "int32"}})[0]; });
  on_input("dropout", {2, 3},
           [](auto& b, auto x) { return b.apply("dropout", {x}, {{"rate", 0.25}, {"seed", 3}})[0]; });
  for (const std::string activation : {"none", "relu", "sigmoid", "tanh", "gelu"}) {
    on_input("matmul " + activation, {2, 3, 4},
             [activation](auto& b, auto x) { return b.matmul(x, b.weight("w", {4, 5}), activation); });
    on_input("linear " + activation, {3, 4}, [activation](auto& b, auto x) {
      return b.linear(x, b.weight("w", {4, 5}), b.weight("b", {5}), activation);
    });
    on_input("conv2d " + activation, {1, 4, 5, 5}, [activation](auto& b, auto x) {
      tensor::conv2d_options how;
      how.activation = activation;
      return b.conv2d(x, b.weight("w", {2, 4, 3, 3}), b.weight("b", {2}), how);
    });
  }
  on_input("linear of rank 3", {2, 3, 4},
           [](auto& b, auto x) { return b.linear(x, b.weight("w", {4, 5}), b.weight("b", {5})); });
  on_input("linear without bias", {2, 3, 4}, [](auto& b, auto x) { return b.linear(x, b.weight("w", {4, 5})); });
  for (const std::string padding : {"explicit", "same", "same_lower", "valid"}) {
    on_input("conv2d " + padding, {1, 4, 6, 7}, [padding](auto& b, auto x) {
      tensor::conv2d_options how{{2, 1}, padding, {0, 0, 0, 0}, {1, 2}, 2, "none"};
      if (padding == "explicit") {
        how.pads = {1, 0, 2, 3};
      }
      return b.conv2d(x, b.weight("w", {6, 2, 2, 3}), how);
    });
    on_input("max_pool " + padding, {1, 2, 6, 7}, [padding](auto& b, auto x) {
      tensor::pool_options how{{2, 3}, {2, 2}, padding, {0, 0, 0, 0}, padding == "explicit"};
      if (padding == "explicit") {
        how.pads = {1, 0, 0, 1};
      }
      return b.max_pool(x, how);
    });
    on_input("average_pool " + padding, {1, 2, 6, 7}, [padding](auto& b, auto x) {
      tensor::pool_options how{{2, 3}, {2, 2}, padding, {0, 0, 0, 0}, false};
      if (padding == "explicit") {
        how.pads = {1, 0, 0, 1};
      }
      return b.average_pool(x, how, padding == "explicit");
    });
  }
  on_input("global_average_pool", {1, 2, 3, 3}, [](auto& b, auto x) { return b.global_average_pool(x); });
  on_input("global_max_pool", {1, 2, 3, 3}, [](auto& b, auto x) { return b.global_max_pool(x); });
  on_input("softmax", {2, 3, 4}, [](auto& b, auto x) { return b.softmax(x, 1); });
  on_input("layer_norm", {2, 3, 4},
           [](auto& b, auto x) { return b.layer_norm(x, b.weight("g", {3, 4}), b.weight("b", {3, 4}), 1, 1e-3); });
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
  add("enlarge",
      [](tensor::builder& b) { return b.apply("enlarge", {b.weight("w", {2, 2, 1, 3})}, {{"kernel", {3, 5}}}); });
  on_input("transpose", {2, 3, 4}, [](auto& b, auto x) { return b.transpose(x, {2, 0, 1}); });
  on_input("reshape", {2, 3, 4}, [](auto& b, auto x) { return b.reshape(x, {4, 6}); });
  on_input("squeeze", {2, 1, 4, 1}, [](auto& b, auto x) { return b.apply("squeeze", {x}, {{"axes", {1, 3}}})[0]; });
  on_input("unsqueeze", {2, 4}, [](auto& b, auto x) { return b.apply("unsqueeze", {x}, {{"axes", {0, 2}}})[0]; });
  on_input("expand", {2, 1}, [](auto& b, auto x) { return b.apply("expand", {x}, {{"dims", {3, 2, 4}}})[0]; });
  add("embedding", [](tensor::builder& b) {
    return values{b.embedding(b.weight("table", {5, 3}), b.input("ids", {2, 2}, dtype::int64))};
  });
  add("embedding_bag", [](tensor::builder& b) {
    return values{b.embedding_bag(b.weight("table", {5, 3}), b.input("ids", {2, 4}, dtype::int64))};
  });
  for (const auto list : {dtype::int32, dtype::int64}) {
    add(list == dtype::int32 ? "edges in int32" : "edges", [list](tensor::builder& b) {
      const auto lists = [&](const char* name, std::int64_t n) { return b.input(name, {n}, list); };
      const tensor::edge_values e{lists("offsets", 4), lists("sources", 5), lists("out_offsets", 3),
                                  lists("targets", 5), lists("out_edges", 5)};
      const auto x = b.weight("x", {2, 3, 4});
      const auto z = b.weight("z", {5, 3});
      return values{b.apply("incidence", {e.sources, e.targets}, {{"edges", 4}, {"element", "float32"}})[0],
                    b.segment_sum(x, e),
                    b.segment_mean(x, e),
                    b.segment_max(x, e),
                    b.segment_softmax(z, e),
                    b.segment_weighted_sum(x, z, e)};
    });
  }
  on_input("fill", {2, 3}, [](auto& b, auto x) { return b.mul(b.add(x, b.fill(2, {2, 3})), b.fill(0.1, {40, 2, 1})); });
  on_input("constant", {2, 3}, [](auto& b, auto x) { return b.embedding(x, b.constant("ids", {2}, dtype::int64)); });
  on_input("pool_kernel", {1, 2, 4, 4}, [](auto& b, auto x) {
    tensor::conv2d_options how;
    how.groups = 2;
    return b.conv2d(x, b.pool_kernel(2, {2, 2}), how);
  });
  on_input("identity_kernel", {1, 4, 4, 4}, [](auto& b, auto x) {
    tensor::conv2d_options how;
    how.groups = 2;
    return b.conv2d(x, b.identity_kernel(4, {3, 3}, 2), how);
  });
  on_input("identity_matrix", {2, 3}, [](auto& b, auto x) { return b.matmul(x, b.identity_matrix(3)); });
  add("attention", [](tensor::builder& b) {
    const auto x = b.input("x", {2, 3, 8});
    const value_id w[] = {b.weight("q", {8, 8}), b.weight("k", {8, 8}), b.weight("v", {8, 8}), b.weight("o", {8, 8})};
    return values{b.attention(x, x, x, w, 2)};
  });
  add_indexings(all);
  add_layers(all);
  add("lstm_cell", [](tensor::builder& b) {
    return b.apply("lstm_cell", {b.input("x", {2, 3}), b.input("h", {2, 4}), b.input("c", {2, 4}),
                                 b.weight("w", {4, 4, 3}), b.weight("r", {4, 4, 4}), b.weight("bias", {4, 4})});
  });
  unity::io::test::add_statistics_samples(add);
  return all;
}

io::onnx_model model_of(const sample& s) {
  tensor::builder b{standard()};
  const auto outputs = s.build(b);
  return io::make_model(std::move(b).finish(outputs), s.name);
}
// Small arbitrary data for every weight, so that files hold initializers.
io::data_table data_of(const tensor::tensor_graph& g) {
  io::data_table data;
  for (const auto i : node_ids(g)) {
    const auto& op = g.operation(i);
    if (standard().definition_of(op.kind).source == tensor::source_kind::constant) {
      const auto type = g.type(g.results(i)[0]);
      const auto value = tensor::evaluate<double>(standard(), op, {}, {}, 5);
      data.emplace(standard().read(op).word("name"), io::make_data(type.element, type.dims, value[0].data));
    }
  }
  return data;
}
std::vector<tensor::dense<double>> outputs_of(const io::onnx_model& m) {
  return tensor::evaluate<double>(standard(), m.graph, unity::test::data_provider<double>{standard(), m.data},
                                  std::uint64_t{1});
}
void check_close(const io::onnx_model& a, const io::onnx_model& b) {
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
io::onnx_model again(const io::onnx_model& m, const io::export_options& options = {}) {
  return io::parse_onnx(standard(), io::serialize_onnx(standard(), m, options), m.name, {});
}
std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("io_onnx_export_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

TEST_CASE("every operator survives export and import with its values") {
  for (const auto& s : samples()) {
    DYNAMIC_SECTION(s.name) {
      auto m = model_of(s);
      check_close(m, again(m));  // weights without data
      m.data = data_of(m.graph);
      const auto copy = again(m);
      check_close(m, copy);
      CHECK(copy.opaque_operators.empty());
      // What has been through a file once does not change any more.
      CHECK(again(copy).graph == copy.graph);
    }
  }
}

TEST_CASE("every operator is written in the form of each opset, and means the same there") {
  // The first opset that has an operator for what the sample does; others go back to the first.
  std::map<std::string, std::int64_t> first{{"erf", 9},
                                            {"gelu", 9},
                                            {"matmul gelu", 9},
                                            {"linear gelu", 9},
                                            {"conv2d gelu", 9},
                                            {"max_pool explicit", 10},
                                            {"slice", 10},
                                            {"average_pool explicit", 7},
                                            {"edges", 12},
                                            {"edges in int32", 12},
                                            {"sin", 7},
                                            {"cos", 7},
                                            {"tan", 7},
                                            {"sign", 9},
                                            {"round", 11},
                                            {"celu", 12},
                                            {"thresholded_relu", 10},
                                            {"shrink", 9},
                                            {"hard_swish", 14},
                                            {"swish 2", 7},
                                            {"gelu_tanh", 7},
                                            {"is_nan", 9},
                                            {"is_inf", 10},
                                            {"prelu", 7},
                                            {"mod", 10},
                                            {"truncated mod", 10},
                                            {"less_or_equal", 12},
                                            {"greater_or_equal", 12},
                                            {"logical_and", 7},
                                            {"logical_or", 7},
                                            {"logical_xor", 7},
                                            {"where", 9},
                                            {"gather_elements", 11},
                                            {"gather_nd", 11},
                                            {"scatter_elements", 9},
                                            {"scatter_nd", 11},
                                            {"one_hot_values", 9},
                                            {"scatter_sum", 16},
                                            {"tile", 6},
                                            {"strided_slice", 10},
                                            {"trilu", 14},
                                            {"eye_like", 9},
                                            {"rnn", 7},
                                            {"gru", 7},
                                            {"lstm", 7},
                                            {"einsum", 12},
                                            {"resize", 11},
                                            {"resize nearest", 9},
                                            {"dequantize", 10},
                                            {"dequantize along an axis", 13},
                                            {"quantize", 10},
                                            {"quantize along an axis", 13},
                                            {"dynamic_quantize", 11},
                                            {"integer_matmul", 10},
                                            {"integer_conv2d", 10},
                                            {"quantized_matmul", 10},
                                            {"quantized_conv2d", 10},
                                            {"least elements", 11}};
  for (const auto* broadcasts :
       {"add", "sub", "mul", "div", "maximum", "minimum", "layer_norm", "expand", "fill", "lstm_cell"}) {
    first.emplace(broadcasts, 6);
  }
  first.insert(unity::io::test::first_opsets_of_statistics.begin(), unity::io::test::first_opsets_of_statistics.end());
  for (const auto& s : samples()) {
    DYNAMIC_SECTION(s.name) {
      auto m = model_of(s);
      m.data = data_of(m.graph);
      std::int64_t least = 0;
      for (const std::int64_t opset :
           {28, 27, 24, 22, 20, 19, 18, 17, 16, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1}) {
        CAPTURE(opset);
        m.opset = opset;
        std::string bytes;
        try {
          bytes = io::serialize_onnx(standard(), m);
        } catch (const unity::error&) {
          break;
        }
        least = opset;
        const auto copy = io::parse_onnx(standard(), bytes, s.name, {});
        CHECK(copy.opset == opset);
        CHECK(copy.opaque_operators.empty());
        check_close(m, copy);
        CHECK(again(copy).graph == copy.graph);
      }
      const auto found = first.find(s.name);
      CHECK(least == (found == first.end() ? 1 : found->second));
    }
  }
}

TEST_CASE("the samples leave out no operator but the opaque one") {
  std::set<std::string> seen;
  for (const auto& s : samples()) {
    const auto g = model_of(s).graph;
    for (const auto i : node_ids(g)) {
      seen.insert(standard().signature(g.operation(i).kind).name);
    }
  }
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    const auto& name = standard().signature(unity::kind_id{k}).name;
    CAPTURE(name);
    CHECK((name == "opaque" || seen.contains(name)));
  }
}

TEST_CASE("what is exported passes the packaged checker and its shape inference agrees on every output") {
  for (const auto& s : samples()) {
    auto m = model_of(s);
    m.data = data_of(m.graph);
    onnx::ModelProto proto;
    REQUIRE(proto.ParseFromString(io::serialize_onnx(standard(), m)));
    CAPTURE(s.name);
    const auto stated = proto.graph().output();
    for (auto& out : *proto.mutable_graph()->mutable_output()) {
      out.mutable_type()->mutable_tensor_type()->clear_shape();
    }
    REQUIRE_NOTHROW(onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(), {true, 1, true}));
    for (int i = 0; i < stated.size(); ++i) {
      const auto type = io::detail::concrete_type(proto.graph().output(i).type(), {});
      if (s.name == "one_hot_values" || s.name == "einsum") {
        CHECK_FALSE(type);  // the packaged inference reads no depth, and no sizes by letters
        continue;
      }
      REQUIRE(type);
      CHECK(*type == *io::detail::concrete_type(stated[i].type(), {}));
    }
    REQUIRE_NOTHROW(onnx::checker::check_model(proto));
    CHECK(proto.opset_import(0).version() == 17);
  }
}

TEST_CASE("all floating-point types are written and read") {
  for (const auto element : {dtype::float64, dtype::float16, dtype::bfloat16}) {
    tensor::builder b{standard()};
    const auto y =
        b.add(b.relu(b.input("x", {2, 3}, element)), b.mul(b.weight("w", {3}, element), b.fill(0.5, {}, element)));
    auto m = io::make_model(std::move(b).finish({y}), "types");
    m.data = data_of(m.graph);
    const auto copy = again(m);
    CHECK(copy.graph.type(copy.graph.outputs()[0]).element == element);
    CHECK(copy.data == m.data);
  }
}

TEST_CASE("inputs, weights and outputs keep their names, whatever they are") {
  tensor::builder b{standard()};
  const auto x = b.input("fill", {2});
  const auto y = b.add(x, b.weight("add_2", {2}));
  auto m = io::make_model(std::move(b).finish({y, x, y}), "names");
  m.outputs = {"list", "copy of x", "y again"};
  m.data = data_of(m.graph);
  const auto copy = again(m);
  CHECK(copy.outputs == m.outputs);
  CHECK(copy.data == m.data);
  check_close(m, copy);
}

TEST_CASE("layouts change no value and are left out") {
  tensor::builder b{standard()};
  auto op = standard().make_operation("matmul");
  op.order = tensor::layout::column_major;
  const value_id operands[] = {b.input("x", {2, 3}), b.weight("w", {3, 4})};
  const auto y = b.apply(op, operands)[0];
  const auto m = io::make_model(std::move(b).finish({y}), "layout");
  check_close(m, again(m));
}

TEST_CASE("folding leaves no operator that depends on weights alone, and the same values") {
  tensor::builder b{standard()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.matmul(b.weight("w1", {3, 4}), b.transpose(b.weight("w2", {5, 4}), {1, 0}));
  const auto parts = b.split(w, 1, {2, 3});
  const auto y = b.matmul(x, parts[1]);
  auto m = io::make_model(std::move(b).finish({y}), "fold");
  m.data = data_of(m.graph);
  io::export_options options;
  options.fold_constants = true;
  const auto folded = again(m, options);
  CHECK(folded.graph.node_count() == 3);
  check_close(m, folded);
  SECTION("weights without data stay as they are") {
    m.data.erase("w1");
    CHECK(again(m, options).graph.node_count() == 6);  // the transpose is folded
  }
  SECTION("tensors that would be too large stay as they are") {
    options.most_folded_elements = 14;
    CHECK(again(m, options).graph.node_count() == m.graph.node_count());
  }
}

TEST_CASE("constants are folded in the arithmetic of their type, as a loop over floats has it") {
  // The buckets of T5's relative positions.
  std::string positions;
  for (int i = 8; i < 512; ++i) {
    positions += (positions.empty() ? "" : ", ") + std::to_string(i);
  }
  std::size_t others = 0;
  for (const auto& [exact, range, buckets] :
       {std::tuple{8.0F, 16.0F, 8.0F}, {16.0F, 8.0F, 16.0F}, {8.0F, 7.0F, 24.0F}}) {
    auto proto = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (int64[504] x) => (int64[504] y) <int64[504] p = {)" +
                                            positions + R"(}> {
        f = Cast <to = 1> (p) exact = Constant <value_float = 1.0> () d = Div(f, exact) l = Log(d)
        range = Constant <value_float = 1.0> () q = Div(l, range) buckets = Constant <value_float = 1.0> ()
        m = Mul(q, buckets) c = Cast <to = 7> (m) y = Add(x, c) })");
    const float numbers[] = {exact, std::log(range), buckets};
    const int nodes[] = {1, 4, 6};
    for (int i = 0; i < 3; ++i) {
      proto.mutable_graph()->mutable_node(nodes[i])->mutable_attribute(0)->set_f(numbers[i]);
    }
    const auto m = io::parse_onnx(standard(), proto.SerializeAsString(), "t5", {});
    io::export_options options;
    options.fold_constants = true;
    const auto folded = again(m, options);
    REQUIRE(folded.data.size() == 1);
    const auto found = io::elements_of<double>(folded.data.begin()->second);
    REQUIRE(found.size() == 504);
    const auto same = [&](const io::onnx_model& other) {
      const tensor::source_data data = [&](std::string_view name) -> std::optional<tensor::dense<double>> {
        const auto& table = other.data.contains(name) ? other.data : m.data;
        const auto at = table.find(name);
        return at == table.end()
                   ? std::nullopt
                   : std::optional{tensor::dense<double>{at->second.dims, io::elements_of<double>(at->second)}};
      };
      return tensor::check_own_sizes(standard(), m.graph, other.graph,
                                     {.numbers = tensor::arithmetic::rounded, .data = data})
          ->problem;
    };
    CHECK(same(folded).empty());
    auto in_doubles = found;
    for (int i = 0; i < 504; ++i) {
      const auto position = static_cast<float>(i + 8);
      const float bucket = std::log(position / exact) / numbers[1] * buckets;
      CHECK(found[static_cast<std::size_t>(i)] == static_cast<double>(static_cast<std::int64_t>(bucket)));
      const double in_double = std::log(static_cast<double>(position) / static_cast<double>(exact)) /
                               static_cast<double>(numbers[1]) * static_cast<double>(buckets);
      others += static_cast<std::int64_t>(in_double) != static_cast<std::int64_t>(bucket) ? 1 : 0;
      in_doubles[static_cast<std::size_t>(i)] = static_cast<double>(static_cast<std::int64_t>(in_double));
    }
    auto wrong = folded;
    auto& data = wrong.data.begin()->second;
    data = io::make_data(data.element, data.dims, in_doubles);
    CHECK(same(wrong) == (in_doubles == found ? "" : "output 0 differs in the arithmetic of int64"));
  }
  CHECK(others > 0);
}

TEST_CASE("folding turns equal numbers into a fill, and refuses NaN by node") {
  tensor::builder b{standard()};
  const auto x = b.input("x", {2});
  const auto w = b.weight("w", {2});
  const auto y = b.add(x, b.apply("sqrt", {w})[0]);
  auto m = io::make_model(std::move(b).finish({y}), "fold");
  io::export_options options;
  options.fold_constants = true;
  m.data.emplace("w", io::make_data(dtype::float32, {2}, std::vector<double>{4, 4}));
  CHECK(again(m, options).data.empty());
  m.data["w"] = io::make_data(dtype::float32, {2}, std::vector<double>{4, -4});
  CHECK_THAT(message_of([&] { (void)io::serialize_onnx(standard(), m, options); }),
             Catch::Contains("(sqrt): computes NaN from weights alone"));
}

TEST_CASE("an operator that is not known survives both ways byte by byte") {
  const auto bytes = unity::test::onnx_bytes_of(R"(g (float[3,2,4] x) => (float[3,1,2,6] y, float[1,2,6] last)
    <float[1,24,4] w = {1}, float[1,24,6] r = {1}> {
      h = Relu(x)
      y, last = LSTM <hidden_size = 6, activations = ["Sigmoid", "Tanh", "Relu"]> (h, w, r) })");
  onnx::ModelProto source;
  source.ParseFromString(bytes);
  for (auto& t : *source.mutable_graph()->mutable_initializer()) {  // the text form states few numbers
    t.clear_float_data();
    std::string raw(static_cast<std::size_t>(t.dims(1) * t.dims(2)) * 4, '\0');
    t.set_raw_data(raw);
  }
  source.mutable_graph()->mutable_node(1)->set_name("the cell");
  source.mutable_graph()->mutable_node(1)->set_doc_string("said something");
  const auto m = io::parse_onnx(standard(), source.SerializeAsString(), "lstm", {});
  CHECK(m.opaque_operators == std::map<std::string, std::size_t>{{"LSTM", 1}});
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
  CHECK(written.graph().node(1).SerializeAsString() == source.graph().node(1).SerializeAsString());
  CHECK(again(m).graph == m.graph);
}

TEST_CASE("an operator of another domain needs stated result types, and keeps its domain") {
  const std::string text = R"(<ir_version: 8, opset_import: [ "" : 17, "com.example" : 3 ]>
    g (float[2,3] x) => (float[2,3] y) { z = com.example.Fancy <depth = 2> (x) y = Relu(z) })";
  auto model = unity::test::onnx_model_of(text);
  CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "f", {}); }),
             Catch::Contains("com.example.Fancy") && Catch::Contains("'z' has no known sizes"));
  io::detail::fill_type(*model.mutable_graph()->add_value_info(), "z", {dtype::float32, {}, false, {2, 3}});
  const auto m = io::parse_onnx(standard(), model.SerializeAsString(), "f", {});
  CHECK(m.opaque_operators == std::map<std::string, std::size_t>{{"com.example.Fancy", 1}});
  const auto copy = again(m);
  CHECK(copy.graph == m.graph);
  CHECK(copy.opaque_nodes == m.opaque_nodes);
  CHECK(again(copy).envelope == copy.envelope);
}

TEST_CASE("a subgraph that reads values around it still does after the round trip") {
  const auto model = [] {
    auto m = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (float[2,3] x, bool c) => (float[2,3] y) { a = Abs(x) y = If(c) })");
    auto& node = *m.mutable_graph()->mutable_node(1);
    for (const auto* name : {"then_branch", "else_branch"}) {
      auto& attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      auto& g = *attribute.mutable_g();
      g.set_name(name);
      auto& inner = *g.add_node();
      inner.set_op_type(name[0] == 't' ? "Relu" : "Neg");
      inner.add_input("a");
      inner.add_output(std::string{name} + "_out");
      g.add_output()->set_name(std::string{name} + "_out");
      g.mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    }
    return m;
  }();
  auto m = io::parse_onnx(standard(), model.SerializeAsString(), "if", {});
  REQUIRE(m.opaque_operators == std::map<std::string, std::size_t>{{"If", 1}});
  CHECK(again(m).graph == m.graph);
  // Under another name for what the branches read.
  tensor::tensor_graph g;
  std::vector<value_id> moved(m.graph.value_count());
  for (const auto n : node_ids(m.graph)) {
    std::vector<value_id> operands;
    std::vector<tensor::tensor_type> types;
    for (const auto v : m.graph.operands(n)) {
      operands.push_back(moved[v.index()]);
    }
    for (const auto v : m.graph.results(n)) {
      types.push_back(m.graph.type(v));
    }
    auto made = g.add_node(m.graph.operation(n), operands, types);
    if (standard().signature(m.graph.operation(n).kind).name == "abs") {
      made = g.add_node(standard().make_operation("identity"), g.results(made), types);
    }
    moved[m.graph.results(n)[0].index()] = g.results(made)[0];
  }
  m.outputs = {"a"};  // takes the captured name
  const value_id outputs[] = {moved[m.graph.outputs()[0].index()]};
  g.set_outputs(outputs);
  m.graph = g;
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
  const auto& node = written.graph().node(written.graph().node_size() - 1);
  REQUIRE(node.op_type() == "If");
  CHECK(node.attribute(0).g().node(0).input(0) == written.graph().node(1).output(0));
  CHECK(written.graph().output(0).name() == "a");
}

TEST_CASE("nodes that this library does not know are written as they stand, in the model's opset") {
  const std::pair<int, std::string> graphs[] = {
      {5, "g (float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalLpPool <p = 2> (x) }"},
      {8, "g (float[1,2,3,3] x) => (float[1,2,6,6] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }"},
      {12, "g (int64[3] x, int64 z) => (int64[3] y) { y = Clip(x, z) }"},
      {18, "g (int64[2,3] x) => (int64[2,1] y) <int64[1] axes = {1}> { y = ReduceL2(x, axes) }"},
      {20, "g (float16[2,3] x) => (bool[2,3] y) { y = IsInf(x) }"},
      {23, "g (float[2,3] x, float[3] s) => (float[2,3] y) { z = RMSNormalization(x, s) y = Unheard(z) }"},
      {24, "g (float[2,3] x) => (float[2,3] y) { y = Acos(x) }"}};
  for (const auto& [opset, graph] : graphs) {
    CAPTURE(opset, graph);
    const auto bytes = unity::test::onnx_bytes_of(graph, opset);
    if (opset == 23) {
      CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), bytes, "m", {}); }), Catch::Contains("Unheard"));
      continue;
    }
    const auto m = io::parse_onnx(standard(), bytes, "m", {});
    CHECK(m.opaque_operators.size() == 1);
    onnx::ModelProto source;
    onnx::ModelProto written;
    REQUIRE(source.ParseFromString(bytes));
    REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
    CHECK(written.opset_import(0).version() == opset);
    const auto& node = written.graph().node(written.graph().node_size() - 1);
    CHECK(node.op_type() == source.graph().node(0).op_type());
    REQUIRE(node.attribute_size() == source.graph().node(0).attribute_size());
    CHECK(node.input_size() == source.graph().node(0).input_size());
    CHECK(again(m).graph == m.graph);
  }
}

TEST_CASE("what no tensor of known sizes says is kept beside the graph, and the rest of the graph is not") {
  const std::string text = R"(<ir_version: 8, opset_import: [ "" : 17, "com.example" : 3 ]>
    g (float[2,3] x, string[2] names, float[0,3] none) => (float[2,3] y, string[2] s, float[n] f, float[2,3] same)
    <float[3] w = {1, 2, 3}, float[1] nan = {1}> {
      a = Relu(x) b = Add(a, w) z = com.example.Fancy <depth = 2> (b, w) y = Relu(b) s = Identity(names)
      c = Concat <axis = 0> (none, z) d = Add(c, nan) f = Flatten(d) same = Identity(x) })";
  auto model = unity::test::onnx_model_of(text);
  model.mutable_graph()->mutable_initializer(1)->set_float_data(0, std::nanf(""));
  const auto read = [&](const std::string& bytes) {
    io::import_options options;
    options.keep_rest = true;
    return io::parse_onnx(standard(), bytes, "m", {}, options);
  };
  CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "m", {}); }),
             Catch::Contains("input 'names'"));
  auto m = read(model.SerializeAsString());
  CHECK(io::test::outline(m) == "relu add relu");
  CHECK(m.opaque_operators ==
        std::map<std::string, std::size_t>{
            {"Add", 1}, {"Concat", 1}, {"Flatten", 1}, {"Identity", 1}, {"com.example.Fancy", 1}});
  CHECK(m.outputs == std::vector<std::string>{"y", "same", "b", "w"});
  CHECK_THAT(m.rest_reason, Catch::Contains("input 'names'"));
  CHECK(io::keeps_signature(standard(), m));
  const auto bytes = io::serialize_onnx(standard(), m);
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(bytes));
  const auto node_of = [](const onnx::ModelProto& of, const std::string& output) {
    for (const auto& n : of.graph().node()) {
      if (n.output(0) == output) {
        return n.SerializeAsString();
      }
    }
    return std::string{};
  };
  for (const auto* output : {"z", "s", "c", "d", "f"}) {
    CAPTURE(output);
    CHECK(node_of(written, output) == node_of(model, output));
  }
  CHECK(written.graph().initializer_size() == 2);
  CHECK(read(bytes).graph == m.graph);
  CHECK(read(bytes).rest == m.rest);
  // A rewritten graph: names that the rest uses stay free.
  io::export_options folds;
  folds.fold_constants = true;
  CHECK(read(io::serialize_onnx(standard(), m, folds)).rest == m.rest);
}

TEST_CASE("any damaged byte of a file with a rest gives a file again or an error") {
  const auto bytes = unity::test::onnx_bytes_of(
      R"(g (float[2,3] x, string[2] names) => (float[2,3] y, string[2] s, float[2,3] m)
    <float[3] w = {1, 2, 3}> { a = Add(x, w) y = Relu(a) s = Identity(names) m = Swish(a) })",
      24);
  std::size_t kept = 0;
  std::size_t errors = 0;
  constexpr auto apart = unity::test::all_or<std::size_t>(1, 7);
  for (std::size_t at = 0; at < bytes.size(); at += apart) {
    for (const char with : {'\0', '\x7f', '\xff', static_cast<char>(bytes[at] ^ 1)}) {
      auto damaged = bytes;
      damaged[at] = with;
      io::import_options options;
      options.keep_rest = true;
      try {
        const auto m = io::parse_onnx(standard(), damaged, "model", {}, options);
        const auto copy = io::parse_onnx(standard(), io::serialize_onnx(standard(), m), "model", {}, options);
        kept += copy.rest == m.rest && !m.rest.empty() ? 1 : 0;
      } catch (const unity::error&) {
        ++errors;
      }
    }
  }
  CHECK(errors > bytes.size() / apart);
  CHECK(kept > bytes.size() / 4 / apart);
}

TEST_CASE("large weights go to a file beside the model, and are read from there") {
  const auto folder = fresh_folder("external");
  tensor::builder b{standard()};
  const auto x = b.input("x", {2, 30});
  const auto product = b.matmul(x, b.weight("w", {30, 40}));
  const auto y = b.add(product, b.weight("b", {40}));
  auto m = io::make_model(std::move(b).finish({y}), "external");
  m.data = data_of(m.graph);
  io::export_options options;
  options.external_data_above = 100;
  io::export_onnx(standard(), m, folder / "m.onnx", options);
  CHECK(std::filesystem::file_size(folder / "m.onnx.data") >= 30 * 40 * 4);
  CHECK(std::filesystem::file_size(folder / "m.onnx") < 1000);
  const auto copy = io::import_onnx(standard(), folder / "m.onnx");
  CHECK(copy.data == m.data);
  REQUIRE_NOTHROW(onnx::checker::check_model((folder / "m.onnx").string()));
  SECTION("a missing one is an error that names file and tensor") {
    std::filesystem::remove(folder / "m.onnx.data");
    CHECK_THAT(message_of([&] { (void)io::import_onnx(standard(), folder / "m.onnx"); }),
               Catch::Contains("tensor 'w'") && Catch::Contains("m.onnx.data") && Catch::Contains("No such file"));
  }
  SECTION("one that is too short is an error") {
    std::filesystem::resize_file(folder / "m.onnx.data", 1000);
    CHECK_THAT(message_of([&] { (void)io::import_onnx(standard(), folder / "m.onnx"); }),
               Catch::Contains("tensor 'w'") && Catch::Contains("ends at byte 1000"));
  }
}

TEST_CASE("a model that cannot be written leaves nothing behind") {
  const auto folder = fresh_folder("unwritable");
  tensor::builder b{standard()};
  const auto y = b.relu(b.input("x", {2}));
  const auto m = io::make_model(std::move(b).finish({y}), "m");
  CHECK_THAT(message_of([&] { io::export_onnx(standard(), m, folder / "none" / "m.onnx"); }),
             Catch::Contains("cannot be created"));
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("data that does not fit its node is an error that names it") {
  tensor::builder b{standard()};
  const auto y = b.relu(b.weight("w", {2}));
  auto m = io::make_model(std::move(b).finish({y}), "m");
  m.data.emplace("w", io::make_data(dtype::float32, {3}, std::vector<double>{1, 2, 3}));
  CHECK_THAT(message_of([&] { (void)io::serialize_onnx(standard(), m); }),
             Catch::Contains("'w'") && Catch::Contains("float32[3]") && Catch::Contains("float32[2]"));
}

TEST_CASE("exported bytes are the same every time") {
  for (const auto& s : samples()) {
    auto m = model_of(s);
    m.data = data_of(m.graph);
    CHECK(io::serialize_onnx(standard(), m) == io::serialize_onnx(standard(), m));
  }
}

}  // namespace tests_of_onnx_export
