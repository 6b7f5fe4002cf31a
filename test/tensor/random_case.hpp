// Random operations with valid operands, for every kind of operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>

#include "case_maker.hpp"
#include "layer_cases.hpp"
#include "movement_cases.hpp"
#include "statistics_cases.hpp"
#include "testing.hpp"

namespace unity::tensor::test {

inline void add_sources(case_table& table) {
  for (const std::string name : {"input", "weight", "constant"}) {
    table[name] = [name](case_maker& m) { return m.make(name, {{"name", "x"}, {"dims", m.dims(0, 4)}}, {}); };
  }
  table["fill"] = [](case_maker& m) { return m.make("fill", {{"value", 0.5}, {"dims", m.dims(0, 4)}}, {}); };
  table["pool_kernel"] = [](case_maker& m) {
    return m.make("pool_kernel", {{"channels", m.size()}, {"kernel", {m.size(), m.size()}}}, {});
  };
  table["identity_kernel"] = [](case_maker& m) {
    const auto groups = m.size(3);
    const shape kernel{2 * m.below(3) + 1, 2 * m.below(2) + 1};
    return m.make("identity_kernel", {{"channels", groups * m.size(3)}, {"groups", groups}, {"kernel", kernel}}, {});
  };
  table["identity_matrix"] = [](case_maker& m) { return m.make("identity_matrix", {{"size", m.size(6)}}, {}); };
}

inline void add_elementwise(case_table& table) {
  for (const std::string name :
       {"relu", "gelu", "tanh", "sigmoid", "exp", "log", "erf", "sqrt", "reciprocal", "negate", "abs", "identity"}) {
    table[name] = [name](case_maker& m) { return m.make(name, {}, {type(m.dims(0, 4))}); };
  }
  for (const std::string name : {"add", "sub", "mul", "div", "pow", "maximum", "minimum"}) {
    table[name] = [name](case_maker& m) {
      const auto joint = m.dims(0, 4);
      return m.make(name, {}, {type(m.stretched(joint)), type(m.stretched(joint))});
    };
  }
  table["scalar_multiply"] = [](case_maker& m) {
    return m.make("scalar_multiply", {}, {type(m.dims(0, 4)), type({})});
  };
  table["cast"] = [](case_maker& m) {
    return m.make("cast", {{"element", m.below(9)}}, {type(m.dims(0, 3), static_cast<dtype>(m.below(9)))});
  };
  table["dropout"] = [](case_maker& m) {
    return m.make("dropout", {{"rate", 0.25}, {"seed", m.size()}}, {type(m.dims(0, 3))});
  };
}

inline void add_functions(case_table& table) {
  for (const std::string name :
       {"sin", "cos", "tan", "sign", "floor", "ceil", "round", "leaky_relu", "elu", "selu", "celu", "shrink",
        "hard_sigmoid", "hard_swish", "softplus", "softsign", "mish", "swish", "gelu_tanh"}) {
    table[name] = [name](case_maker& m) { return m.make(name, {}, {type(m.dims(0, 4))}); };
  }
  table["thresholded_relu"] = [](case_maker& m) {
    return m.make("thresholded_relu", {{"alpha", 0.31}}, {type(m.dims(0, 4))});
  };
  table["clip"] = [](case_maker& m) {
    return m.make("clip", {{"low", -0.5}, {"high", m.below(2) == 0 ? 0.8 : HUGE_VAL}}, {type(m.dims(0, 4))});
  };
  table["prelu"] = [](case_maker& m) {
    const auto x = m.dims(0, 4);
    return m.make("prelu", {}, {type(x), type(m.stretched(x))});
  };
  for (const std::string name : {"integer_div", "mod"}) {
    table[name] = [name](case_maker& m) {
      const auto joint = m.dims(0, 4);
      const auto element = static_cast<dtype>(m.random().between(4, 7));
      auto c = m.make(name, {}, {type(m.stretched(joint), element), type(m.stretched(joint), element)});
      if (name == "mod") {
        c.op.attributes[0] = {m.below(2)};
      }
      return c;
    };
  }
}

inline void add_logic(case_table& table) {
  for (const std::string name : {"equal", "less", "less_or_equal", "greater", "greater_or_equal"}) {
    table[name] = [name](case_maker& m) {
      const auto joint = m.dims(0, 4);
      const auto element = static_cast<dtype>(m.below(name == "equal" ? 9 : 8));
      return m.make(name, {}, {type(m.stretched(joint), element), type(m.stretched(joint), element)});
    };
  }
  for (const std::string name : {"logical_and", "logical_or", "logical_xor"}) {
    table[name] = [name](case_maker& m) {
      const auto joint = m.dims(0, 4);
      return m.make(name, {}, {type(m.stretched(joint), dtype::boolean), type(m.stretched(joint), dtype::boolean)});
    };
  }
  table["logical_not"] = [](case_maker& m) { return m.make("logical_not", {}, {type(m.dims(0, 4), dtype::boolean)}); };
  table["is_nan"] = [](case_maker& m) { return m.make("is_nan", {}, {type(m.dims(0, 4))}); };
  table["is_inf"] = [](case_maker& m) {
    return m.make("is_inf", {{"negative", m.below(2)}, {"positive", m.below(2)}}, {type(m.dims(0, 4))});
  };
  table["where"] = [](case_maker& m) {
    const auto joint = m.dims(0, 4);
    const auto element = m.below(3) == 0 ? static_cast<dtype>(m.below(9)) : dtype::float32;
    return m.make("where", {},
                  {type(m.stretched(joint), dtype::boolean), type(m.stretched(joint), element),
                   type(m.stretched(joint), element)});
  };
}

inline void add_reductions(case_table& table) {
  for (const std::string name : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    table[name] = [name](case_maker& m) {
      const auto dims = m.dims(1, 4);
      return m.make(name, {{"axes", m.axes(dims.size())}, {"keep_dims", m.below(2)}}, {type(dims)});
    };
  }
  for (const std::string name : {"global_average_pool", "global_max_pool"}) {
    table[name] = [name](case_maker& m) { return m.make(name, {}, {type(m.dims(4, 4))}); };
  }
  table["max_pool"] = [](case_maker& m) { return pool_case(m, false); };
  table["average_pool"] = [](case_maker& m) { return pool_case(m, true); };
  table["softmax"] = [](case_maker& m) {
    const auto dims = m.dims(1, 4);
    return m.make("softmax", {{"axis", m.below(std::ssize(dims))}}, {type(dims)});
  };
}

inline void add_orders(case_table& table) {
  table["top_elements"] = [](case_maker& m) {
    const auto dims = m.dims(1, 3);
    const auto axis = m.below(std::ssize(dims));
    return m.make("top_elements",
                  {{"axis", axis}, {"count", m.size(dims[static_cast<std::size_t>(axis)])}, {"largest", m.below(2)}},
                  {type(dims)});
  };
}

// One entry per kind of operator.
inline const case_table& cases() {
  static const case_table table = [] {
    case_table t;
    add_sources(t);
    add_elementwise(t);
    add_functions(t);
    add_logic(t);
    add_movements(t);
    add_reductions(t);
    t["matmul"] = matmul_case;
    t["linear"] = linear_case;
    t["conv2d"] = convolution_case;
    t["layer_norm"] = layer_norm_case;
    t["batch_norm"] = batch_norm_case;
    t["attention"] = attention_case;
    t["lstm_cell"] = lstm_case;
    t["embedding"] = [](case_maker& m) {
      auto table_dims = m.dims(1, 3);
      return m.make("embedding", {}, {type(table_dims), type(m.dims(0, 2), dtype::int64)});
    };
    t["embedding_bag"] = [](case_maker& m) {
      auto table_dims = m.dims(1, 3);
      return m.make("embedding_bag", {}, {type(table_dims), type(m.dims(1, 3), dtype::int64)});
    };
    add_segments(t);
    add_statistics<case_maker>(t);
    add_indexings(t);
    add_rearrangements(t);
    add_layers(t);
    add_quantizations(t);
    add_orders(t);
    t["opaque"] = [](case_maker& m) {
      const shape elements{0, 4};
      return m.make(
          "opaque",
          {{"name", "mystery"}, {"signature", "bytes"}, {"elements", elements}, {"dims", {2, m.size(), 3, 0}}},
          {type(m.dims(0, 3))});
    };
    return t;
  }();
  return table;
}

// A valid case of the operator. A draw that does not fit (such as an empty window) is rare, and repeated.
inline random_case draw(const std::string& name, random_engine& random) {
  case_maker m{random};
  while (true) {
    auto c = cases().at(name)(m);
    if (standard().infer(c.op, c.inputs)) {
      return c;
    }
  }
}

}  // namespace unity::tensor::test
