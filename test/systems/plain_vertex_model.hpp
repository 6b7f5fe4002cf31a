// An independent reference for vertex models: plain loops over the edges of the whole graph, for any number type. With
// dual numbers it gives exact derivatives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/systems/roc/vertex_model.hpp>

namespace unity::test {

// A dual number: a value and its derivative in one direction.
struct dual {
  double x = 0;
  double d = 0;

  dual() = default;
  dual(double v) : x{v} {}  // NOLINT: implicit, as a double
  dual(double v, double derivative) : x{v}, d{derivative} {}

  friend dual operator+(dual a, dual b) { return {a.x + b.x, a.d + b.d}; }
  friend dual operator-(dual a, dual b) { return {a.x - b.x, a.d - b.d}; }
  friend dual operator*(dual a, dual b) { return {a.x * b.x, a.d * b.x + a.x * b.d}; }
  friend dual operator/(dual a, dual b) { return {a.x / b.x, (a.d * b.x - a.x * b.d) / (b.x * b.x)}; }
  friend bool operator<(dual a, dual b) { return a.x < b.x; }
};
inline dual exp(dual a) { return {std::exp(a.x), a.d * std::exp(a.x)}; }
inline dual log(dual a) { return {std::log(a.x), a.d / a.x}; }
inline dual tanh(dual a) { return {std::tanh(a.x), a.d * (1 - std::tanh(a.x) * std::tanh(a.x))}; }

template <class Real>
struct table {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<Real> data{};

  table() = default;
  table(std::size_t r, std::size_t c) : rows{r}, columns{c}, data(r * c) {}
  Real& operator()(std::size_t r, std::size_t c) { return data[r * columns + c]; }
  const Real& operator()(std::size_t r, std::size_t c) const { return data[r * columns + c]; }
};

template <class Real>
class plain_vertex_model {
 public:
  using matrix = table<Real>;

  plain_vertex_model(const systems::vertex_model& m, const gnn::csr_graph& g, std::vector<matrix> weights)
      : model_{m}, graph_{g}, weights_{std::move(weights)} {}

  matrix logits(const gnn::vertex_dataset& data) {
    matrix h{data.graph.vertices(), data.features.columns};
    std::copy(data.features.values.begin(), data.features.values.end(), h.data.begin());
    next_ = 0;
    for (std::int64_t l = 0; l < model_.layers; ++l) {
      h = layer(h, l + 1 == model_.layers);
    }
    return h;
  }
  Real loss(const gnn::vertex_dataset& data) {
    const auto out = logits(data);
    Real sum = 0;
    double count = 0;
    for (std::size_t v = 0; v < out.rows; ++v) {
      if (data.roles[v] == gnn::vertex_role::train) {
        Real all = 0;
        for (std::size_t c = 0; c < out.columns; ++c) {
          all = all + exp(out(v, c));
        }
        sum = sum + log(all) - out(v, static_cast<std::size_t>(data.labels[v]));
        count += 1;
      }
    }
    return sum / Real{count};
  }

 private:
  static Real relu(Real x) { return Real{0} < x ? x : Real{0}; }
  const matrix& weight() { return weights_[next_++]; }
  static matrix product(const matrix& a, const matrix& b) {
    matrix c{a.rows, b.columns};
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t k = 0; k < a.columns; ++k) {
        for (std::size_t j = 0; j < b.columns; ++j) {
          c(i, j) = c(i, j) + a(i, k) * b(k, j);
        }
      }
    }
    return c;
  }
  template <class F>
  static matrix each(matrix a, const F& f) {
    std::transform(a.data.begin(), a.data.end(), a.data.begin(), f);
    return a;
  }
  static matrix sum(matrix a, const matrix& b) {  // b: as many rows as a, or one
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < a.columns; ++j) {
        a(i, j) = a(i, j) + b(b.rows == a.rows ? i : 0, j);
      }
    }
    return a;
  }
  // share(source, target): the weight of an edge's source.
  template <class Share>
  matrix over_edges(const matrix& h, const Share& share) const {
    matrix out{h.rows, h.columns};
    for (gnn::vertex_id v = 0; v < graph_.vertices(); ++v) {
      for (const auto u : graph_.view().sources_of(v)) {
        for (std::size_t j = 0; j < h.columns; ++j) {
          out(v, j) = out(v, j) + Real{share(u, v)} * h(u, j);
        }
      }
    }
    return out;
  }
  double degree(gnn::vertex_id v) const { return std::max(1.0, static_cast<double>(graph_.view().in_degree(v))); }
  matrix mean(const matrix& h) const {
    return over_edges(h, [&](auto, auto v) { return 1 / degree(v); });
  }
  matrix most(const matrix& h) const {
    matrix out{h.rows, h.columns};
    for (gnn::vertex_id v = 0; v < graph_.vertices(); ++v) {
      const auto sources = graph_.view().sources_of(v);
      for (std::size_t j = 0; j < h.columns && !sources.empty(); ++j) {
        out(v, j) = h(sources[0], j);
        for (const auto u : sources) {
          out(v, j) = out(v, j) < h(u, j) ? h(u, j) : out(v, j);
        }
      }
    }
    return out;
  }

  matrix layer(const matrix& h, bool is_last) {
    using kinds = systems::vertex_layer;
    matrix out;
    switch (model_.layer) {
      case kinds::gcn:
      case kinds::fastgcn:
        out = product(over_edges(h, [&](auto u, auto v) { return 1 / std::sqrt(degree(u) * degree(v)); }), weight());
        break;
      case kinds::gin: {
        const auto& first = weight();
        const auto& bias = weight();
        out = product(sum(h, over_edges(h, [](auto, auto) { return 1.0; })), first);
        out = product(each(sum(out, bias), relu), weight());
        break;
      }
      case kinds::sage_mean:
      case kinds::commnet: {
        const auto& own = weight();
        out = sum(product(h, own), product(mean(h), weight()));
        break;
      }
      case kinds::sage_max: {
        const auto& pool = weight();
        const auto& bias = weight();
        const auto& own = weight();
        out = sum(product(h, own), product(most(each(sum(product(h, pool), bias), relu)), weight()));
        break;
      }
      case kinds::gat: out = attention(h, is_last); break;
    }
    if (model_.layer != kinds::commnet) {
      out = sum(out, weight());
    }
    const auto elu = [](Real x) { return x < Real{0} ? exp(x) - Real{1} : x; };
    const auto activate = [&](Real x) {
      return model_.layer == kinds::commnet ? tanh(x) : model_.layer == kinds::gat ? elu(x) : relu(x);
    };
    return is_last ? out : each(out, activate);
  }
  matrix attention(const matrix& h, bool is_last) {
    const auto z = product(h, weight());
    const auto& by_source = weight();
    const auto& by_target = weight();
    const auto heads = is_last ? std::size_t{1} : static_cast<std::size_t>(model_.heads);
    const auto width = z.columns / heads;
    matrix out{z.rows, z.columns};
    for (std::size_t k = 0; k < heads; ++k) {
      const auto score = [&](const matrix& a, std::size_t v) {
        Real s = 0;
        for (std::size_t j = 0; j < width; ++j) {
          s = s + z(v, k * width + j) * a(k, j);
        }
        return s;
      };
      for (gnn::vertex_id v = 0; v < graph_.vertices(); ++v) {
        Real all = 0;
        for (const auto pass : {0, 1}) {
          for (const auto u : graph_.view().sources_of(v)) {
            const auto s = score(by_source, u) + score(by_target, v);
            const auto e = exp(s < Real{0} ? Real{0.2} * s : s);
            for (std::size_t j = 0; j < width && pass == 1; ++j) {
              out(v, k * width + j) = out(v, k * width + j) + e / all * z(u, k * width + j);
            }
            all = pass == 0 ? all + e : all;
          }
        }
      }
    }
    return out;
  }

  const systems::vertex_model& model_;
  const gnn::csr_graph& graph_;
  std::vector<matrix> weights_;
  std::size_t next_ = 0;
};

}  // namespace unity::test
