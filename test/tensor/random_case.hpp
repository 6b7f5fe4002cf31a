// Random operations with operands that they take, for every kind of operator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>

#include "statistics_cases.hpp"
#include "testing.hpp"

namespace unity::tensor::test {

struct random_case {
  operation op;
  types inputs;
};

// Draws the pieces of a case.
class case_maker {
 public:
  explicit case_maker(random_engine& random) : random_{random} {}

  std::int64_t size(std::int64_t most = 4) { return random_.between(1, most); }
  std::int64_t below(std::int64_t n) { return random_.between(0, n - 1); }
  shape dims(std::int64_t least, std::int64_t most) {
    shape s;
    for (auto rank = random_.between(least, most); rank > 0; --rank) {
      s.push_back(size());
    }
    return s;
  }
  // Broadcasts to `joint`.
  shape stretched(const shape& joint) {
    shape s(std::span<const std::int64_t>{joint}.subspan(static_cast<std::size_t>(below(std::ssize(joint) + 1))));
    for (auto& d : s) {
      d = below(3) == 0 ? 1 : d;
    }
    return s;
  }
  // Ascending and not empty.
  shape axes(std::size_t rank) {
    shape s;
    const auto sure = below(static_cast<std::int64_t>(rank));
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
      if (d == sure || below(2) == 0) {
        s.push_back(d);
      }
    }
    return s;
  }
  random_case make(std::string_view name, attributes a, types inputs) {
    return {standard().make_operation(name, a), std::move(inputs)};
  }
  random_engine& random() { return random_; }

 private:
  random_engine& random_;
};

inline random_case convolution_case(case_maker& m) {
  const auto groups = m.size(3);
  const auto ic = m.size(3);
  const auto oc = groups * m.size(3);
  const shape kernel{m.size(3), m.size(3)};
  const auto padding = m.below(4);
  const auto pad = [&] { return padding == 0 ? m.below(3) : 0; };
  types inputs{type({m.size(2), groups * ic, m.size(5) + 4, m.size(5) + 4}), type({oc, ic, kernel[0], kernel[1]})};
  if (m.below(2) == 0) {
    inputs.push_back(type({oc}));
  }
  return m.make("conv2d",
                {{"stride", {m.size(3), m.size(3)}},
                 {"padding", padding},
                 {"pads", {pad(), pad(), pad(), pad()}},
                 {"dilation", {m.size(2), m.size(2)}},
                 {"groups", groups},
                 {"activation", m.below(5)}},
                std::move(inputs));
}

inline random_case pool_case(case_maker& m, bool average) {
  const shape kernel{m.size(3), m.size(3)};
  const auto padding = m.below(4);
  const auto pad = [&](std::size_t d) { return padding == 0 ? m.below(kernel[d]) : 0; };
  const shape pads{pad(0), pad(1), pad(0), pad(1)};
  const shape stride{m.size(3), m.size(3)};
  const auto x = type({m.size(2), m.size(3), m.size(4) + 4, m.size(4) + 4});
  if (average) {
    return m.make("average_pool",
                  {{"kernel", kernel},
                   {"stride", stride},
                   {"padding", padding},
                   {"pads", pads},
                   {"ceil_mode", m.below(2)},
                   {"count_include_pad", m.below(2)}},
                  {x});
  }
  return m.make("max_pool",
                {{"kernel", kernel},
                 {"stride", stride},
                 {"padding", padding},
                 {"pads", pads},
                 {"dilation", {m.size(2), m.size(2)}},
                 {"ceil_mode", m.below(2)}},
                {x});
}

inline random_case concat_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  types inputs;
  for (auto parts = m.size(3); parts > 0; --parts) {
    inputs.push_back(type(dims));
    inputs.back().dims[static_cast<std::size_t>(axis)] = m.size();
  }
  return m.make("concat", {{"axis", axis}}, std::move(inputs));
}

inline random_case split_case(case_maker& m) {
  auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  shape sizes;
  auto& total = dims[static_cast<std::size_t>(axis)];
  total = 0;
  for (auto parts = m.size(3); parts > 0; --parts) {
    sizes.push_back(m.size());
    total += sizes.back();
  }
  return m.make("split", {{"axis", axis}, {"sizes", sizes}}, {type(dims)});
}

inline random_case slice_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axes = m.axes(dims.size());
  shape starts;
  shape ends;
  shape steps;
  for (const auto a : axes) {
    const auto size = dims[static_cast<std::size_t>(a)];
    starts.push_back(m.below(size));
    ends.push_back(m.random().between(starts.back() + 1, size));
    steps.push_back(m.size(2));
  }
  return m.make("slice", {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}}, {type(dims)});
}

inline random_case pad_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  shape pads;
  for (std::size_t i = 0; i < 2 * dims.size(); ++i) {
    pads.push_back(m.below(3));
  }
  return m.make("pad", {{"pads", pads}, {"value", m.below(2) == 0 ? 0.0 : 1.5}}, {type(dims)});
}

inline random_case enlarge_case(case_maker& m) {
  const shape w{m.size(), m.size(), m.size(3), m.size(3)};
  return m.make("enlarge", {{"kernel", {w[2] + 2 * m.below(2), w[3] + 2 * m.below(3)}}}, {type(w)});
}

inline random_case transpose_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  shape permutation;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    permutation.push_back(static_cast<std::int64_t>(d));
  }
  std::shuffle(permutation.begin(), permutation.end(), m.random());
  return m.make("transpose", {{"permutation", permutation}}, {type(dims)});
}

inline random_case reshape_case(case_maker& m) {
  const auto factors = m.dims(1, 5);
  const auto grouped = [&] {
    shape dims{1};
    for (const auto f : factors) {
      if (m.below(2) == 0) {
        dims.push_back(f);
      } else {
        dims.back() *= f;
      }
    }
    return dims;
  };
  const auto from = grouped();
  return m.make("reshape", {{"dims", grouped()}}, {type(from)});
}

inline random_case squeeze_case(case_maker& m) {
  auto dims = m.dims(1, 4);
  const auto axes = m.axes(dims.size());
  for (const auto a : axes) {
    dims[static_cast<std::size_t>(a)] = 1;
  }
  return m.make("squeeze", {{"axes", axes}}, {type(dims)});
}

inline random_case layer_norm_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  const shape normalized(std::span<const std::int64_t>{dims}.subspan(static_cast<std::size_t>(axis)));
  return m.make("layer_norm", {{"axis", axis}, {"epsilon", 1e-3}}, {type(dims), type(normalized), type(normalized)});
}

inline random_case batch_norm_case(case_maker& m) {
  const auto dims = m.dims(2, 4);
  const auto c = type({dims[1]});
  return m.make("batch_norm", {{"epsilon", 1e-3}}, {type(dims), c, c, c, c});
}

inline random_case attention_case(case_maker& m) {
  const auto heads = m.size(3);
  const auto b = m.size(2);
  const auto t = m.size();
  const auto d = heads * m.size(3);
  const auto p = heads * m.size(3);
  const shape features{m.size(), m.size(), m.size()};
  return m.make("attention", {{"heads", heads}},
                {type({b, m.size(), features[0]}), type({b, t, features[1]}), type({b, t, features[2]}),
                 type({features[0], d}), type({features[1], d}), type({features[2], p}), type({p, m.size()})});
}

inline random_case lstm_case(case_maker& m) {
  const auto b = m.size();
  const auto f = m.size();
  const auto n = m.size();
  return m.make("lstm_cell", {},
                {type({b, f}), type({b, n}), type({b, n}), type({4, n, f}), type({4, n, n}), type({4, n})});
}

inline random_case matmul_case(case_maker& m) {
  const auto batch = m.dims(0, 2);
  const auto k = m.size(7);
  auto a = m.stretched(batch);
  auto b = m.stretched(batch);
  for (const auto size : {m.size(7), k}) {
    a.push_back(size);
  }
  for (const auto size : {k, m.size(7)}) {
    b.push_back(size);
  }
  return m.make("matmul", {{"activation", m.below(5)}}, {type(a), type(b)});
}

inline random_case linear_case(case_maker& m) {
  auto x = m.dims(1, 3);
  const auto n = m.size(6);
  types inputs{type(x), type({x.back(), n})};
  if (m.below(2) == 0) {
    inputs.push_back(type({n}));
  }
  return m.make("linear", {{"activation", m.below(5)}}, std::move(inputs));
}

using case_table = std::map<std::string, std::function<random_case(case_maker&)>>;

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

inline void add_movements(case_table& table) {
  table["concat"] = concat_case;
  table["split"] = split_case;
  table["slice"] = slice_case;
  table["pad"] = pad_case;
  table["enlarge"] = enlarge_case;
  table["transpose"] = transpose_case;
  table["reshape"] = reshape_case;
  table["squeeze"] = squeeze_case;
  table["expand"] = [](case_maker& m) {
    const auto joint = m.dims(1, 4);
    return m.make("expand", {{"dims", joint}}, {type(m.stretched(joint))});
  };
  table["unsqueeze"] = [](case_maker& m) {
    const auto axes = m.axes(static_cast<std::size_t>(m.size()));
    const auto rank = axes.back() + 1 - std::ssize(axes) + m.below(2);
    return m.make("unsqueeze", {{"axes", axes}}, {type(m.dims(rank, rank))});
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

// Graphs of n vertices whose edges come from m.
inline void add_segments(case_table& table) {
  table["incidence"] = [](case_maker& m) {
    const auto offsets = type({m.size()}, dtype::int64);
    return m.make("incidence", {{"edges", m.size(6)}, {"element", "float32"}}, {offsets, offsets});
  };
  const auto list = [](std::int64_t n) { return type({n}, n % 2 == 0 ? dtype::int32 : dtype::int64); };
  for (const std::string name : {"segment_sum", "segment_mean", "segment_max"}) {
    table[name] = [name, list](case_maker& m) {
      const auto x = m.dims(1, 3);
      const auto e = m.size(6);
      types all{type(x), list(m.size() + 1), list(e), list(x[0] + 1), list(e)};
      all.resize(name == "segment_max" ? 3 : 5);
      return m.make(name, {}, all);
    };
  }
  table["segment_softmax"] = [list](case_maker& m) {
    return m.make("segment_softmax", {}, {type(m.dims(1, 3)), list(m.size() + 1)});
  };
  table["segment_weighted_sum"] = [list](case_maker& m) {
    const auto x = m.dims(3, 3);
    const auto e = m.size(6);
    const shape weights{e, x[1]};
    return m.make("segment_weighted_sum", {},
                  {type(x), type(weights), list(m.size() + 1), list(e), list(x[0] + 1), list(e), list(e)});
  };
}

inline void add_indexings(case_table& table) {
  const auto numbers = [](shape dims) { return type(std::move(dims), dtype::int64); };
  table["linear_index"] = [](case_maker& m) {
    const auto dims = m.dims(0, 3);
    shape strides;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      strides.push_back(m.random().between(-3, 3));
    }
    return m.make("linear_index", {{"dims", dims}, {"strides", strides}, {"start", m.size()}}, {});
  };
  table["scatter_sum"] = [numbers](case_maker& m) {
    const auto x = m.dims(0, 3);
    const std::span<const std::int64_t> all{x};
    const auto first = static_cast<std::size_t>(m.below(std::ssize(x) + 1));
    return m.make("scatter_sum", {{"rows", m.size()}}, {numbers(shape(all.first(first))), type(x)});
  };
  table["gather"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 3);
    return m.make("gather", {{"axis", m.below(std::ssize(x))}}, {type(x), numbers(m.dims(0, 2))});
  };
  const auto within = [](case_maker& m, const shape& x) {
    shape dims;
    for (const auto d : x) {
      dims.push_back(m.random().between(1, d));
    }
    return dims;
  };
  table["gather_elements"] = [numbers, within](case_maker& m) {
    const auto x = m.dims(1, 3);
    return m.make("gather_elements", {{"axis", m.below(std::ssize(x))}}, {type(x), numbers(within(m, x))});
  };
  table["scatter_elements"] = [numbers, within](case_maker& m) {
    const auto x = m.dims(1, 3);
    const auto n = within(m, x);
    return m.make("scatter_elements", {{"axis", m.below(std::ssize(x))}, {"reduction", m.below(2)}},
                  {type(x), numbers(n), type(n)});
  };
  table["gather_nd"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 4);
    const auto batch = m.below(std::ssize(x));
    shape n(std::span<const std::int64_t>{x}.first(static_cast<std::size_t>(batch)));
    n.push_back(m.size());
    n.push_back(m.random().between(1, std::ssize(x) - batch));
    return m.make("gather_nd", {{"batch", batch}}, {type(x), numbers(n)});
  };
  table["scatter_nd"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 3);
    auto n = m.dims(0, 2);
    auto updates = n;
    n.push_back(m.random().between(1, std::ssize(x)));
    updates.append(x.begin() + n.back(), x.end());
    return m.make("scatter_nd", {{"reduction", m.below(2)}}, {type(x), numbers(n), type(updates)});
  };
  table["one_hot_values"] = [numbers](case_maker& m) {
    const auto n = m.dims(0, 2);
    return m.make("one_hot_values", {{"axis", m.below(std::ssize(n) + 1)}, {"depth", m.size()}},
                  {numbers(n), type({2})});
  };
}

inline void add_rearrangements(case_table& table) {
  table["tile"] = [](case_maker& m) {
    const auto dims = m.dims(0, 3);
    shape repeats;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      repeats.push_back(m.size(3));
    }
    return m.make("tile", {{"repeats", repeats}}, {type(dims)});
  };
  table["strided_slice"] = [](case_maker& m) {
    const auto dims = m.dims(1, 3);
    const auto axes = m.axes(dims.size());
    shape starts;
    shape counts;
    shape steps;
    for (const auto a : axes) {
      const auto size = dims[static_cast<std::size_t>(a)];
      starts.push_back(m.below(size));
      steps.push_back(m.below(2) == 0 ? m.size(2) : -m.size(2));
      const auto room = steps.back() > 0 ? size - 1 - starts.back() : starts.back();
      counts.push_back(m.random().between(1, room / std::abs(steps.back()) + 1));
    }
    return m.make("strided_slice", {{"axes", axes}, {"starts", starts}, {"counts", counts}, {"steps", steps}},
                  {type(dims)});
  };
  table["border_pad"] = [](case_maker& m) {
    const auto dims = m.dims(1, 3);
    shape pads;
    for (std::size_t i = 0; i < 2 * dims.size(); ++i) {
      pads.push_back(m.random().between(-1, 2));
    }
    return m.make("border_pad", {{"mode", m.below(4)}, {"pads", pads}, {"value", m.below(2) == 0 ? 0.0 : 1.5}},
                  {type(dims)});
  };
  table["depth_to_space"] = [](case_maker& m) {
    const auto s = m.size(2);
    return m.make("depth_to_space", {{"block", s}, {"order", m.below(2)}},
                  {type({m.size(2), m.size(2) * s * s, m.size(), m.size()})});
  };
  table["space_to_depth"] = [](case_maker& m) {
    const auto s = m.size(2);
    return m.make("space_to_depth", {{"block", s}}, {type({m.size(2), m.size(), m.size() * s, m.size() * s})});
  };
  table["trilu"] = [](case_maker& m) {
    return m.make("trilu", {{"upper", m.below(2)}, {"k", m.random().between(-2, 2)}}, {type(m.dims(2, 4))});
  };
  table["eye_like"] = [](case_maker& m) {
    return m.make("eye_like", {{"k", m.random().between(-2, 2)}}, {type(m.dims(2, 2))});
  };
}

inline void add_layers(case_table& table) {
  const std::pair<std::string, std::int64_t> layers[] = {{"rnn", 1}, {"gru", 3}, {"lstm", 4}};
  for (const auto& l : layers) {
    table[l.first] = [name = l.first, gates = l.second](case_maker& m) {
      const auto direction = m.below(3);
      const auto d = direction == 2 ? 2 : 1;
      const auto b = m.size(2);
      const auto f = m.size(3);
      const auto n = m.size(3);
      const shape flags{m.below(2), m.below(2), m.below(2)};
      types inputs{type({m.size(3), b, f}), type({d, gates * n, f}), type({d, gates * n, n})};
      if (flags[0] == 1) {
        inputs.push_back(type({d, 2 * gates * n}));
      }
      for (std::size_t i = 1; i < (name == "lstm" ? 3U : 2U); ++i) {
        if (flags[i] == 1) {
          inputs.push_back(type({d, b, n}));
        }
      }
      std::vector<named_attribute> a{{"direction", direction}, {"bias", flags[0]}, {"initial_h", flags[1]}};
      if (name != "rnn") {
        a.push_back({name == "gru" ? "reset_after" : "initial_c", flags[2]});
      }
      return random_case{standard().make_operation(name, a), std::move(inputs)};
    };
  }
  table["conv2d_transpose"] = [](case_maker& m) {
    const shape x{m.size(2), 2 * m.size(2), m.size(), m.size()};
    const shape w{x[1], m.size(2), m.size(3), m.size(3)};
    const auto s = m.size(2);
    const shape dims{x[0], 2 * w[1], s * (x[2] - 1) + w[2], s * (x[3] - 1) + w[3]};
    return m.make("conv2d_transpose", {{"stride", {s, s}}, {"groups", 2}, {"dims", dims}}, {type(x), type(w)});
  };
  table["conv_transpose"] = [](case_maker& m) {
    const auto spatial = m.size(2);
    const auto groups = m.size(2);
    shape x{m.size(2), groups * m.size(2)};
    shape w{x[1], m.size(2)};
    shape lists[4];
    for (std::int64_t d = 0; d < spatial; ++d) {
      x.push_back(m.size());
      w.push_back(m.size(3));
      lists[0].push_back(m.size(3));
      lists[1].push_back(m.size(2));
      lists[2].push_back(m.below(lists[0].back()));
    }
    for (std::int64_t i = 0; i < 2 * spatial; ++i) {
      lists[3].push_back(m.below(2));
    }
    types inputs{type(x), type(w)};
    if (m.below(2) == 0) {
      inputs.push_back(type({w[1] * groups}));
    }
    return m.make("conv_transpose",
                  {{"stride", lists[0]},
                   {"dilation", lists[1]},
                   {"output_padding", lists[2]},
                   {"pads", lists[3]},
                   {"groups", groups}},
                  inputs);
  };
  table["resize"] = [](case_maker& m) {
    const auto from = m.dims(1, 3);
    shape dims;
    for (std::size_t d = 0; d < from.size(); ++d) {
      dims.push_back(m.size(6));
    }
    return m.make("resize",
                  {{"mode", m.below(2)}, {"coordinates", m.below(4)}, {"rounding", m.below(4)}, {"dims", dims}},
                  {type(from)});
  };
  table["einsum"] = [](case_maker& m) {
    const shape s{m.size(), m.size(), m.size(), m.size()};
    const auto of = [&](std::initializer_list<std::size_t> letters) {
      shape dims;
      for (const auto l : letters) {
        dims.push_back(s[l]);
      }
      return type(dims);
    };
    const std::pair<const char*, types> forms[] = {{"abc,acd->abd", {of({0, 1, 2}), of({0, 2, 3})}},
                                                   {"ab,b", {of({0, 1}), of({1})}},
                                                   {"...ab->...b", {of({2, 3, 0, 1})}},
                                                   {"ab,cb,cd->da", {of({0, 1}), of({2, 1}), of({2, 3})}},
                                                   {"abc,db->dac", {of({0, 1, 2}), of({3, 1})}},
                                                   {"ab->ba", {of({0, 1})}}};
    const auto& [equation, inputs] = forms[m.below(std::ssize(forms))];
    return m.make("einsum", {{"equation", equation}}, inputs);
  };
}

// A scale of x, per element of `block` of the axis, and a zero point or none.
inline types scaled_types(case_maker& m, tensor_type x, std::int64_t axis, std::int64_t block, tensor_type scale,
                          dtype zero_point) {
  const auto size = x.dims[static_cast<std::size_t>(axis)];
  if (block > 0) {
    scale.dims = x.dims;
    scale.dims[static_cast<std::size_t>(axis)] = size / block;
  } else if (m.below(2) == 0) {
    scale.dims = {size};
  }
  types all{std::move(x), scale};
  if (m.below(2) == 0) {
    all.push_back(type(scale.dims, zero_point));
  }
  return all;
}

inline void add_quantizations(case_table& table) {
  const auto byte = [](case_maker& m) { return m.below(2) == 0 ? dtype::int8 : dtype::uint8; };
  for (const std::string name : {"quantize", "dequantize"}) {
    table[name] = [name, byte](case_maker& m) {
      auto x = m.dims(1, 3);
      const auto axis = m.below(std::ssize(x));
      const auto block = m.below(2) == 0 ? 0 : m.size(3);
      x[static_cast<std::size_t>(axis)] *= block > 0 ? block : 1;
      const auto element = byte(m);
      if (name == "dequantize") {
        return m.make(name, {{"axis", axis}, {"block", block}},
                      scaled_types(m, type(x, element), axis, block, type({}), element));
      }
      return m.make(name, {{"axis", axis}, {"block", block}, {"element", name_of(element)}},
                    scaled_types(m, type(x), axis, block, type({}), element));
    };
  }
  table["dynamic_quantize"] = [](case_maker& m) { return m.make("dynamic_quantize", {}, {type(m.dims(0, 3))}); };
  // One number, or one each.
  const auto some = [](case_maker& m, std::int64_t each, dtype element) {
    return type(m.below(2) == 0 ? shape{} : shape{each}, element);
  };
  table["integer_matmul"] = [=](case_maker& m) {
    auto a = m.dims(0, 2);
    const shape b{m.size(), m.size()};
    a.push_back(m.size());
    a.push_back(b[0]);
    types all{type(a, byte(m)), type(b, byte(m))};
    const auto zero_points = m.below(3);
    if (zero_points > 0) {
      all.push_back(some(m, a[a.size() - 2], all[0].element));
    }
    if (zero_points > 1) {
      all.push_back(some(m, b[1], all[1].element));
    }
    return m.make("integer_matmul", {}, all);
  };
  table["quantized_matmul"] = [=](case_maker& m) {
    const shape a{m.size(), m.size(), m.size()};
    const shape b{a[2], m.size()};
    const auto first = byte(m);
    const auto second = byte(m);
    const auto rows = some(m, a[1], first).dims;
    const auto columns = some(m, b[1], second).dims;
    return m.make("quantized_matmul", {},
                  {type(a, first), type(rows), type(rows, first), type(b, second), type(columns), type(columns, second),
                   type({}), type({}, byte(m))});
  };
  for (const std::string name : {"integer_conv2d", "quantized_conv2d"}) {
    table[name] = [=](case_maker& m) {
      const auto groups = m.size(2);
      const shape w{groups * m.size(2), m.size(2), m.size(2), m.size(2)};
      const auto x = type({m.size(2), groups * w[1], m.size(3) + 2, m.size(3) + 2}, byte(m));
      const auto weights = type(w, byte(m));
      const std::int64_t strides[] = {m.size(2), m.size(2)};
      const std::int64_t pads[] = {m.below(2), m.below(2), m.below(2), m.below(2)};
      const auto channels = some(m, w[0], weights.element);
      if (name == "integer_conv2d") {
        types all{x, weights, type({}, x.element), channels};
        all.resize(static_cast<std::size_t>(m.size(3)) + 1);
        return m.make(name, {{"stride", strides}, {"pads", pads}, {"groups", groups}}, all);
      }
      types all{x, type({}), type({}, x.element), weights, type(channels.dims), channels, type({}), type({}, byte(m))};
      if (m.below(2) == 0) {
        all.push_back(type({w[0]}, dtype::int32));
      }
      return m.make(name, {{"stride", strides}, {"pads", pads}, {"groups", groups}}, all);
    };
  }
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

// A case of the kind that the operator takes. What is drawn rarely does not fit (a window of nothing): drawn again.
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
