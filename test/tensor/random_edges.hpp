// Random graphs as operands of the operators over edges, and these operators as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>

#include "testing.hpp"

namespace unity::tensor::test {

struct random_edges {
  std::int64_t sources_count;  // vertices that edges come from
  std::int64_t vertices;
  std::vector<std::int64_t> offsets{};
  std::vector<std::int64_t> sources{};
  std::vector<std::int64_t> out_offsets{};
  std::vector<std::int64_t> targets{};
  std::vector<std::int64_t> out_edges{};

  [[nodiscard]] std::int64_t edges() const { return std::ssize(sources); }

  // f(target, k, source) for all edges in order.
  template <class F>
  void each(const F& f) const {
    for (std::int64_t v = 0; v < vertices; ++v) {
      for (auto k = offsets[static_cast<std::size_t>(v)]; k < offsets[static_cast<std::size_t>(v) + 1]; ++k) {
        f(v, k, sources[static_cast<std::size_t>(k)]);
      }
    }
  }
};

// Sets the lists that follow from offsets and sources: the same edges, sorted by source.
inline random_edges turned(random_edges g) {
  g.out_offsets.assign(static_cast<std::size_t>(g.sources_count) + 1, 0);
  g.targets.clear();
  g.out_edges.clear();
  for (std::int64_t u = 0; u < g.sources_count; ++u) {
    g.each([&](std::int64_t v, std::int64_t k, std::int64_t source) {
      if (source == u) {
        g.targets.push_back(v);
        g.out_edges.push_back(k);
      }
    });
    g.out_offsets[static_cast<std::size_t>(u) + 1] = std::ssize(g.targets);
  }
  return g;
}

// Some vertices have no edges, one may have most of them; equal edges and self-loops are possible.
inline random_edges draw_edges(std::int64_t sources, std::int64_t vertices, std::int64_t edges, random_engine& random) {
  random_edges g{sources, vertices};
  std::vector<std::int64_t> targets;
  const auto favourite = random.between(0, vertices - 1);
  const auto skew = random.below(2) == 0;
  for (std::int64_t k = 0; k < edges; ++k) {
    targets.push_back(skew && random.below(4) != 0 ? favourite : random.between(0, vertices - 1));
    g.sources.push_back(random.below(3) == 0 ? 0 : random.between(0, sources - 1));
  }
  std::sort(targets.begin(), targets.end());
  for (std::int64_t v = 0; v <= vertices; ++v) {
    g.offsets.push_back(std::lower_bound(targets.begin(), targets.end(), v) - targets.begin());
  }
  return turned(std::move(g));
}

// The indices of the operands that hold the lists of an operator over edges; 0: no such list.
struct list_operands {
  std::size_t offsets = 0;
  std::size_t sources = 0;
  std::size_t out_offsets = 0;
  std::size_t targets = 0;
  std::size_t out_edges = 0;
};
inline list_operands lists_of(std::string_view kind) {
  if (kind == "segment_sum" || kind == "segment_mean") {
    return {1, 2, 3, 4};
  }
  if (kind == "segment_weighted_sum") {
    return {2, 3, 4, 5, 6};
  }
  return kind == "segment_max" ? list_operands{1, 2} : kind == "segment_softmax" ? list_operands{1} : list_operands{};
}

// Replaces the lists among the operands of an operator over edges by those of one random graph.
template <class Scalar>
void draw_lists(std::string_view kind, std::vector<dense<Scalar>>& operands, random_engine& random) {
  const auto lists = lists_of(kind);
  if (lists.offsets == 0) {
    return;
  }
  const auto& of_edges = operands[lists.sources != 0 ? lists.sources : 0];
  const auto g = draw_edges(operands[0].dims[0], operands[lists.offsets].dims[0] - 1, of_edges.dims[0], random);
  const auto put = [&](std::size_t operand, const std::vector<std::int64_t>& list) {
    if (operand != 0) {
      std::transform(list.begin(), list.end(), operands[operand].data.begin(),
                     [](std::int64_t x) { return static_cast<Scalar>(x); });
    }
  };
  put(lists.offsets, g.offsets);
  put(lists.sources, g.sources);
  put(lists.out_offsets, g.out_offsets);
  put(lists.targets, g.targets);
  put(lists.out_edges, g.out_edges);
}

inline dense<double> numbers(const std::vector<std::int64_t>& x) { return {{std::ssize(x)}, {x.begin(), x.end()}}; }

// A matrix with rows of `width` elements.
struct rows_of {
  std::int64_t width;
  std::vector<double> data;

  rows_of(std::int64_t rows, std::int64_t columns)
      : width{columns}, data(static_cast<std::size_t>(rows * columns), 0.0) {}
  rows_of(std::int64_t columns, const dense<double>& x) : width{columns}, data{x.data} {}

  double& operator()(std::int64_t row, std::int64_t column) {
    return data[static_cast<std::size_t>(row * width + column)];
  }
  double operator()(std::int64_t row, std::int64_t column) const {
    return data[static_cast<std::size_t>(row * width + column)];
  }
};

// The operators over edges, element by element. Operands: rows of w elements, or of h heads of f elements.
struct edge_loops {
  const random_edges& g;

  [[nodiscard]] rows_of sum(const rows_of& x, bool mean) const {
    rows_of y{g.vertices, x.width};
    g.each([&](auto v, auto, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        y(v, c) += x(u, c);
      }
    });
    for (std::int64_t v = 0; mean && v < g.vertices; ++v) {
      const auto degree = degree_of(v);
      for (std::int64_t c = 0; degree > 0 && c < x.width; ++c) {
        y(v, c) /= static_cast<double>(degree);
      }
    }
    return y;
  }
  // The adjoint of sum.
  [[nodiscard]] rows_of sum_gradient(const rows_of& dy, bool mean) const {
    rows_of dx{g.sources_count, dy.width};
    g.each([&](auto v, auto, auto u) {
      for (std::int64_t c = 0; c < dy.width; ++c) {
        dx(u, c) += dy(v, c) / (mean ? static_cast<double>(degree_of(v)) : 1);
      }
    });
    return dx;
  }
  [[nodiscard]] rows_of largest(const rows_of& x) const {
    rows_of y{g.vertices, x.width};
    std::vector<bool> has(static_cast<std::size_t>(g.vertices));
    g.each([&](auto v, auto, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        y(v, c) = has[static_cast<std::size_t>(v)] ? std::max(y(v, c), x(u, c)) : x(u, c);
      }
      has[static_cast<std::size_t>(v)] = true;
    });
    return y;
  }
  [[nodiscard]] rows_of largest_gradient(const rows_of& x, const rows_of& dy) const {
    const auto y = largest(x);
    rows_of ties{g.vertices, x.width};
    rows_of dx{g.sources_count, x.width};
    g.each([&](auto v, auto, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        ties(v, c) += x(u, c) == y(v, c) ? 1 : 0;
      }
    });
    g.each([&](auto v, auto, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        dx(u, c) += x(u, c) == y(v, c) ? dy(v, c) / ties(v, c) : 0;
      }
    });
    return dx;
  }
  [[nodiscard]] rows_of softmax(const rows_of& z) const {
    rows_of most{g.vertices, z.width};
    std::fill(most.data.begin(), most.data.end(), -std::numeric_limits<double>::infinity());
    rows_of sums{g.vertices, z.width};
    rows_of y{g.edges(), z.width};
    const auto each = [&](const auto& f) {
      g.each([&](auto v, auto k, auto) {
        for (std::int64_t c = 0; c < z.width; ++c) {
          f(v, k, c);
        }
      });
    };
    each([&](auto v, auto k, auto c) { most(v, c) = std::max(most(v, c), z(k, c)); });
    each([&](auto v, auto k, auto c) { sums(v, c) += std::exp(z(k, c) - most(v, c)); });
    each([&](auto v, auto k, auto c) { y(k, c) = std::exp(z(k, c) - most(v, c)) / sums(v, c); });
    return y;
  }
  [[nodiscard]] rows_of softmax_gradient(const rows_of& y, const rows_of& dy) const {
    rows_of means{g.vertices, y.width};
    rows_of dz{g.edges(), y.width};
    g.each([&](auto v, auto k, auto) {
      for (std::int64_t c = 0; c < y.width; ++c) {
        means(v, c) += y(k, c) * dy(k, c);
      }
    });
    g.each([&](auto v, auto k, auto) {
      for (std::int64_t c = 0; c < y.width; ++c) {
        dz(k, c) = y(k, c) * (dy(k, c) - means(v, c));
      }
    });
    return dz;
  }
  [[nodiscard]] rows_of weighted_sum(const rows_of& x, const rows_of& w) const {
    rows_of y{g.vertices, x.width};
    const auto size = x.width / w.width;
    g.each([&](auto v, auto k, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        y(v, c) += w(k, c / size) * x(u, c);
      }
    });
    return y;
  }
  // The adjoint of weighted_sum for x.
  [[nodiscard]] rows_of weighted_sum_gradient(const rows_of& dy, const rows_of& w) const {
    rows_of dx{g.sources_count, dy.width};
    const auto size = dy.width / w.width;
    g.each([&](auto v, auto k, auto u) {
      for (std::int64_t c = 0; c < dy.width; ++c) {
        dx(u, c) += w(k, c / size) * dy(v, c);
      }
    });
    return dx;
  }
  [[nodiscard]] rows_of dot(const rows_of& a, const rows_of& x, std::int64_t heads) const {
    rows_of y{g.edges(), heads};
    const auto size = x.width / heads;
    g.each([&](auto v, auto k, auto u) {
      for (std::int64_t c = 0; c < x.width; ++c) {
        y(k, c / size) += a(v, c) * x(u, c);
      }
    });
    return y;
  }

 private:
  [[nodiscard]] std::int64_t degree_of(std::int64_t v) const {
    return g.offsets[static_cast<std::size_t>(v) + 1] - g.offsets[static_cast<std::size_t>(v)];
  }
};

}  // namespace unity::tensor::test
