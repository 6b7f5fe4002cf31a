// The outputs of models that can be computed in a second way.
#include <unity/tensor/zoo.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/operators.hpp"

namespace tests_of_zoo_values {

namespace {

using unity::value_id;
using unity::tensor::builder;
using unity::tensor::dense;
using unity::tensor::evaluate;
using unity::tensor::operation;
using unity::tensor::shape;
using unity::tensor::tensor_graph;
using unity::tensor::tensor_type;
using unity::test::standard::operators;
namespace zoo = unity::tensor::zoo;

void check_equal(const dense<double>& a, const dense<double>& b) {
  REQUIRE(a.dims == b.dims);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    REQUIRE(a.data[i] == Approx(b.data[i]).epsilon(1e-9).margin(1e-9));
  }
}

bool all_finite(const dense<double>& x) {
  return std::all_of(x.data.begin(), x.data.end(), [](double v) { return std::isfinite(v); });
}

// The rows of "conv.weight" that belong to branch i of the convolution.
dense<double> rows_of_branch(std::size_t i, const tensor_type& type) {
  dense<double> rows{type.dims};
  for (std::size_t j = 0; j < rows.data.size(); ++j) {
    rows.data[j] = std::sin(static_cast<double>(i * rows.data.size() + j));
  }
  return rows;
}

}  // namespace

TEST_CASE("a convolution as separate branches equals the grouped convolution", "[zoo]") {
  constexpr std::int64_t groups = 4;
  const auto graph = [&](bool branches) {
    builder b{operators()};
    const auto x = b.input("x", {2, 8, 5, 5});
    const unity::tensor::conv2d_options options{.stride = {2, 2}, .pads = {1, 1, 1, 1}, .groups = groups};
    const auto y = branches ? zoo::detail::branched(b, "conv", x, 12, {3, 3}, options, false)
                            : zoo::convolution(b, "conv", x, 12, {3, 3}, options);
    return std::move(b).finish({y});
  };
  const auto weights = [&](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    const auto name = operators().read(op).word("name");
    if (!name.starts_with("conv")) {
      return std::nullopt;
    }
    return rows_of_branch(name == "conv.weight" ? 0 : static_cast<std::size_t>(name[5] - '0'), type);
  };
  check_equal(evaluate<double>(operators(), graph(true), weights)[0],
              evaluate<double>(operators(), graph(false), weights)[0]);
}

TEST_CASE("a DenseNet block equals appending its layers one by one", "[zoo]") {
  constexpr int layers = 3;
  const zoo::sizes s{.statistics = zoo::given_statistics};
  const auto graph = [&](bool appending) {
    builder b{operators()};
    auto x = b.input("x", {2, 3, 4, 5});
    if (!appending) {
      return std::move(b).finish({zoo::detail::densenet_block(b, s, "block", x, layers)});
    }
    for (int i = 1; i <= layers; ++i) {
      x = b.concat(1, std::array{x, zoo::detail::densenet_layer(b, s, "block.denselayer" + std::to_string(i), x)});
    }
    return std::move(b).finish({x});
  };
  const auto found = evaluate<double>(operators(), graph(false), std::uint64_t{1});
  CHECK(all_finite(found[0]));
  check_equal(found[0], evaluate<double>(operators(), graph(true), std::uint64_t{1})[0]);
}

// A layer of BERT, with its attention as one operator.
static value_id layer_with_attention(builder& b, const zoo::sizes& s, value_id x) {
  const std::string name = "layer0";
  const auto weight = [&](const std::string& part, const shape& dims) { return b.weight(name + part, dims); };
  const auto norm = [&](const std::string& part, value_id v) {
    const std::array p{weight(part + ".norm.weight", {s.hidden}), weight(part + ".norm.bias", {s.hidden})};
    return b.layer_norm(v, p[0], p[1], 2, 1e-12);
  };
  const shape square{s.hidden, s.hidden};
  const std::array w{weight(".attention.query.weight", square), weight(".attention.key.weight", square),
                     weight(".attention.value.weight", square), weight(".attention.output.weight", square)};
  const auto attended = b.add(b.attention(x, x, x, w, s.heads), weight(".attention.output.bias", {s.hidden}));
  x = norm(".attention", b.add(attended, x));
  const std::array fc{weight(".intermediate.weight", {s.hidden, 4 * s.hidden}),
                      weight(".intermediate.bias", {4 * s.hidden}), weight(".output.weight", {4 * s.hidden, s.hidden}),
                      weight(".output.bias", {s.hidden})};
  const auto wide = b.linear(x, fc[0], fc[1], "gelu");
  return norm(".output", b.add(b.linear(wide, fc[2], fc[3]), x));
}

TEST_CASE("BERT's attention without biases equals the attention operator", "[zoo]") {
  const zoo::sizes s{.batch = 2, .layers = 1, .hidden = 12, .heads = 3, .seq = 5, .vocab = 7};
  builder b{operators()};
  const auto x = zoo::detail::bert_encoder{b, s}.embeddings();
  const auto expected = std::move(b).finish({layer_with_attention(b, s, x)});

  // The operator has no biases.
  const auto no_bias = [](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    if (op.attributes.empty() || type.dims.size() != 1) {
      return std::nullopt;
    }
    const auto name = operators().read(op).word("name");
    const bool zero = name.ends_with("query.bias") || name.ends_with("key.bias") || name.ends_with("value.bias");
    return zero ? std::optional{dense<double>{type.dims}} : std::nullopt;
  };
  const auto found = evaluate<double>(operators(), zoo::bert_faithful(operators(), s), no_bias);
  check_equal(found[0], evaluate<double>(operators(), expected, no_bias)[0]);
  CHECK(all_finite(found[1]));
}

TEST_CASE("GPT with flash attention equals GPT with masked attention products", "[zoo]") {
  const zoo::sizes s{.batch = 2, .layers = 2, .hidden = 12, .heads = 3, .seq = 5, .vocab = 7, .attention = 0};
  auto flash = s;
  flash.attention = zoo::flash_attention;
  const auto masked = [](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    if (op.kind != operators().kind("input") || operators().read(op).word("name") != "mask") {
      return std::nullopt;
    }
    dense<double> mask{type.dims};
    for (std::int64_t i = 0; i < type.dims[0]; ++i) {
      for (auto k = i + 1; k < type.dims[1]; ++k) {
        mask.data[static_cast<std::size_t>(i * type.dims[1] + k)] = -1e9;
      }
    }
    return mask;
  };
  const auto found = evaluate<double>(operators(), zoo::gpt(operators(), flash), masked);
  CHECK(all_finite(found[0]));
  check_equal(found[0], evaluate<double>(operators(), zoo::gpt(operators(), s), masked)[0]);
}

// One step of an LSTM by its original formulas.
static void lstm_step(const std::vector<std::vector<double>>& w, const std::vector<std::vector<double>>& r,
                      const std::vector<double>& bias, const std::vector<double>& x, std::vector<double>& h,
                      std::vector<double>& c) {
  const auto n = h.size();
  const auto gate = [&](std::size_t g, std::size_t i) {
    double sum = bias[g * n + i];
    for (std::size_t j = 0; j < n; ++j) {
      sum += w[g * n + i][j] * x[j] + r[g * n + i][j] * h[j];
    }
    return g == 3 ? std::tanh(sum) : 1 / (1 + std::exp(-sum));
  };
  auto next = h;
  for (std::size_t i = 0; i < n; ++i) {
    c[i] = gate(2, i) * c[i] + gate(0, i) * gate(3, i);
    next[i] = gate(1, i) * std::tanh(c[i]);
  }
  h = next;
}

TEST_CASE("rnntc equals a loop over steps and layers", "[zoo]") {
  const zoo::sizes s{.batch = 1, .layers = 2, .hidden = 3, .seq = 4, .vocab = 5};
  const std::int64_t words[] = {2, 0, 3, 2};
  const auto values = [&](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    dense<double> t{type.dims};
    if (op.kind == operators().kind("fill")) {
      return std::nullopt;
    }
    const auto name = operators().read(op).word("name");
    for (std::size_t i = 0; i < t.data.size(); ++i) {
      t.data[i] = name.starts_with("word")
                      ? static_cast<double>(words[name[4] - '0'])
                      : std::sin(static_cast<double>(i + 3 * name.size() + (name[4] == '1' ? 7 : 0)));
    }
    return t;
  };
  const auto rows = [&](const std::string& name, std::int64_t count, std::int64_t width) {
    const auto op = operators().make_operation("weight", {{"name", name}, {"dims", {count, width}}});
    const auto flat = *values(op, {.dims = {count, width}});
    std::vector<std::vector<double>> m(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < flat.data.size(); ++i) {
      m[i / static_cast<std::size_t>(width)].push_back(flat.data[i]);
    }
    return m;
  };
  const auto table = rows("embedding", 5, 3);
  std::vector<std::vector<double>> h(2, std::vector<double>(3));
  auto c = h;
  for (const auto word : words) {
    auto x = table[static_cast<std::size_t>(word)];
    for (std::size_t l = 0; l < 2; ++l) {
      const auto name = "lstm" + std::to_string(l);
      lstm_step(rows(name + ".input", 12, 3), rows(name + ".recurrent", 12, 3), rows(name + ".bias", 1, 12)[0], x, h[l],
                c[l]);
      x = h[l];
    }
  }
  const auto w = rows("softmax.weight", 3, 2);
  const auto bias = rows("softmax.bias", 1, 2)[0];
  double power[2];
  for (std::size_t k = 0; k < 2; ++k) {
    power[k] = std::exp(h[1][0] * w[0][k] + h[1][1] * w[1][k] + h[1][2] * w[2][k] + bias[k]);
  }
  const auto found = evaluate<double>(operators(), zoo::rnntc(operators(), s), values)[0];
  CHECK(found.data[0] == Approx(power[0] / (power[0] + power[1])));
}

TEST_CASE("ncf equals factor products and a perceptron computed by hand", "[zoo]") {
  // One user and one item: rows 1 and 2 of tables with known elements.
  const auto values = [](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    const auto name = std::string{operators().read(op).word("name")};
    dense<double> t{type.dims};
    for (std::size_t i = 0; i < t.data.size(); ++i) {
      t.data[i] = name == "user" ? 1 : name == "item" ? 2 : std::sin(static_cast<double>(i + 3 * name.size()));
    }
    return t;
  };
  const auto number = [](std::size_t i, const std::string& name) {
    return std::sin(static_cast<double>(i + 3 * name.size()));
  };
  std::vector<double> x;  // two of the user, two of the item
  for (const std::size_t k : {0U, 1U}) {
    x.push_back(number(2 * 1 + k, "user.rows"));
  }
  for (const std::size_t k : {0U, 1U}) {
    x.push_back(number(2 * 2 + k, "item.rows"));
  }
  for (int l = 0; l < 3; ++l) {
    const std::size_t width = l == 0 ? 4 : l == 1 ? 2 : 1;
    const auto name = "layer" + std::to_string(l);
    std::vector<double> y;
    for (std::size_t k = 0; k < width; ++k) {
      double sum = number(k, name + ".bias");
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += x[i] * number(i * width + k, name + ".weight");
      }
      y.push_back(std::max(sum, 0.0));
    }
    x = y;
  }
  const auto factor = number(1, "user.factors") * number(2, "item.factors");
  const auto logit =
      factor * number(0, "affinity.weight") + x[0] * number(1, "affinity.weight") + number(0, "affinity.bias");
  const auto found =
      evaluate<double>(operators(), zoo::build(operators(), "zoo:ncf?hidden=1&vocab=4&items=3&batch=1"), values)[0];
  CHECK(found.data[0] == Approx(1 / (1 + std::exp(-logit))));
}

// Weights that neither saturate the sigmoid nor switch off all of a relu.
static std::optional<dense<double>> xdl_values(const operation& op, const tensor_type& type) {
  const auto name = operators().read(op).word("name");
  dense<double> t{type.dims};
  for (std::size_t i = 0; i < t.data.size(); ++i) {
    const auto x = static_cast<double>(i + 7 * name.size() + 5 * static_cast<std::size_t>(name.back()));
    t.data[i] =
        name.starts_with("category") ? static_cast<double>(static_cast<std::int64_t>(x) * 3 % 7) : std::sin(x * x) / 4;
  }
  return t;
}

TEST_CASE("both forms of xdl equal loops over samples / tables / layers", "[zoo]") {
  const auto [text, tables] =
      GENERATE(table<std::string, std::size_t>({{"zoo:xdl?hidden=6&vocab=5&seq=3&batch=4&layers=2", 26},
                                                {"zoo:xdl?form=ae&hidden=6&vocab=5&seq=3&batch=4&layers=2", 4}}));
  CAPTURE(text);
  const auto rows = [](const std::string& kind, const std::string& name, const shape& dims) {
    return *xdl_values(operators().make_operation(kind, {{"name", name}, {"dims", dims}}), {.dims = dims});
  };
  const auto found = evaluate<double>(operators(), zoo::build(operators(), text), xdl_values)[0];
  REQUIRE(found.dims == shape{4, 2});
  for (std::size_t sample = 0; sample < 4; ++sample) {
    std::vector<double> x;
    for (std::size_t i = 0; i < tables; ++i) {
      const auto ids = rows("input", "category" + std::to_string(i), {4, 3});
      const auto t = rows("weight", "table" + std::to_string(i), {5, 64});
      for (std::size_t e = 0; e < 64; ++e) {
        double sum = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          const auto row = static_cast<std::size_t>(ids.data[sample * 3 + k]);
          sum += row < 5 ? t.data[row * 64 + e] : 0;
        }
        x.push_back(sum);
      }
    }
    for (std::size_t l = 0; l < 3; ++l) {
      const std::size_t width = l < 2 ? 6 : 2;
      const auto w = rows("weight", "top" + std::to_string(l) + ".weight",
                          {static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(width)});
      std::vector<double> y(width);
      for (std::size_t n = 0; n < width; ++n) {
        for (std::size_t k = 0; k < x.size(); ++k) {
          y[n] += x[k] * w.data[k * width + n];
        }
        y[n] = l < 2 ? std::max(y[n], 0.0) : 1 / (1 + std::exp(-y[n]));
      }
      x = y;
    }
    for (std::size_t n = 0; n < 2; ++n) {
      CHECK(found.data[sample * 2 + n] == Approx(x[n]));
      CHECK(std::abs(x[n] - 0.5) > 1e-6);
    }
  }
}

TEST_CASE("small zoo models compute finite values that depend on the seed", "[zoo]") {
  for (const char* text : {"zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=9",
                           "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
                           "zoo:bert?form=ae&layers=2&hidden=8&heads=2&seq=4&batch=2",
                           "zoo:nasrnn?hidden=4&seq=3",
                           "zoo:mlp?layers=3&hidden=6&batch=2",
                           "zoo:mlp?form=ae&layers=2&hidden=6&batch=2",
                           "zoo:mlp?form=fig1&hidden=6&batch=2",
                           "zoo:squeezenet1_1?image=25",
                           "zoo:densenet121?image=29",
                           "zoo:lenet?batch=2",
                           "zoo:rnntc?layers=2&hidden=3&seq=3&vocab=5&batch=2",
                           "zoo:transformer?layers=2&hidden=8&heads=2&seq=3&vocab=7",
                           "zoo:reformer?layers=1&hidden=4&heads=2&seq=128&vocab=5",
                           "zoo:rnnlm?layers=2&hidden=3&seq=3&vocab=5&batch=2",
                           "zoo:nmt?layers=2&hidden=3&seq=3&vocab=5&batch=2",
                           "zoo:candle_uno?hidden=3&batch=2",
                           "zoo:candle_uno?form=ae&layers=2&hidden=3&batch=2",
                           "zoo:dlrm?form=ae&hidden=3&vocab=5&seq=2&batch=2",
                           "zoo:embedding_bag?hidden=3&vocab=5&seq=3&batch=2",
                           "zoo:ncf?hidden=2&vocab=5&items=3&batch=2"}) {
    CAPTURE(text);
    const auto g = zoo::build(operators(), text);
    const auto one = evaluate<double>(operators(), g, std::uint64_t{1})[0];
    CHECK(all_finite(one));
    CHECK(one == evaluate<double>(operators(), g, std::uint64_t{1})[0]);
    CHECK_FALSE(one == evaluate<double>(operators(), g, std::uint64_t{2})[0]);
  }
}

}  // namespace tests_of_zoo_values
