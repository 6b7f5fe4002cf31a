// Softmax over the edges of each vertex, and the adjoints of sums and maxima over edges.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/segment.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

namespace detail {

// Calls f(vector type, i) for the elements i of [0, n), with the widest vectors that fit.
template <class Real, class F>
[[gnu::always_inline]] inline void in_lanes(std::int64_t n, const F& f) {
  constexpr std::size_t wide = 64 / sizeof(Real);
  constexpr std::size_t narrow = 16 / sizeof(Real);
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(wide) <= n; i += static_cast<std::int64_t>(wide)) {
    f(std::type_identity<lanes<Real, wide>>{}, i);
  }
  for (; i + static_cast<std::int64_t>(narrow) <= n; i += static_cast<std::int64_t>(narrow)) {
    f(std::type_identity<lanes<Real, narrow>>{}, i);
  }
  for (; i < n; ++i) {
    f(std::type_identity<lanes<Real, 1>>{}, i);
  }
}

// x where the mask of a comparison is set, else 0. The conditional operator on vectors wider than the baseline's would
// become scalar code.
template <class Lanes, class Mask>
[[gnu::always_inline]] inline void keep_where(const Mask& mask, Lanes& x) {
  x = (Lanes)((Mask)x & mask);
}

// Prefetches a row if it exists.
template <class Real>
[[gnu::always_inline]] inline void prefetch_row(const Real* x, std::int64_t row, std::int64_t rows,
                                                std::int64_t width) {
  if (row >= 0 && row < rows) {
    for (std::int64_t i = 0; i < width; i += static_cast<std::int64_t>(64 / sizeof(Real))) {
      __builtin_prefetch(x + row * width + i);
    }
  }
}

}  // namespace detail

// Each product is computed by one thread in one order, so the result does not depend on the number of threads.
class segment_dot_routine final : public routine {
 public:
  // Inputs: row-major, of float32 or float64.
  explicit segment_dot_routine(types inputs);

  void run(const call& c) const override;

 private:
  template <class Real>
  void run_as(const call& c) const {
    const detail::edge_ranges edges{{offsets_, c.inputs[2]}, vertices_, edges_};
    const detail::number_list sources{number_, c.inputs[3]};
    const auto* const a = reinterpret_cast<const Real*>(c.inputs[0]);
    const auto* const x = reinterpret_cast<const Real*>(c.inputs[1]);
    auto* const to = reinterpret_cast<Real*>(c.outputs[0]);
    clear_others(edges, to);
    const auto pitch = heads_ * width_;
    edges.parallel_for(c.threads, pitch, [&](std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] {
        for (auto v = begin; v < end; ++v) {
          for (auto k = edges.begin(v); k < edges.end(v); ++k) {
            const auto row = sources[k];
            const bool exists = row >= 0 && row < rows_;
            detail::prefetch_row(x, sources[std::min(k + 8, edges_ - 1)], rows_, pitch);
            for (std::int64_t h = 0; h < heads_; ++h) {
              to[k * heads_ + h] = exists ? product(a + v * pitch + h * width_, x + row * pitch + h * width_) : Real{0};
            }
          }
        }
      });
    });
  }

  template <class Real>
  [[gnu::always_inline]] Real product(const Real* a, const Real* x) const {
    constexpr std::size_t narrow = 16 / sizeof(Real);
    detail::lanes<Real, 64 / sizeof(Real)> sums{};
    detail::lanes<Real, narrow> few{};
    Real sum = 0;
    detail::in_lanes<Real>(width_, [&](auto type, std::int64_t i) {
      typename decltype(type)::type p;
      typename decltype(type)::type q;
      std::memcpy(&p, a + i, sizeof p);
      std::memcpy(&q, x + i, sizeof q);
      if constexpr (sizeof p == sizeof sums) {
        sums += p * q;
      } else if constexpr (sizeof p == sizeof few) {
        few += p * q;
      } else {
        sum += p[0] * q[0];
      }
    });
    if (width_ >= static_cast<std::int64_t>(64 / sizeof(Real))) {
      detail::lanes<Real, narrow> more[4];
      std::memcpy(&more, &sums, sizeof more);
      few += (more[0] + more[1]) + (more[2] + more[3]);
    }
    for (std::size_t j = 0; j < narrow; ++j) {
      sum += few[j];
    }
    return sum;
  }

  // Clears the results of edges that belong to no vertex.
  template <class Real>
  void clear_others(const detail::edge_ranges& edges, Real* to) const {
    std::fill(to, to + edges.begin(0) * heads_, Real{0});
    std::fill(to + edges.begin(vertices_) * heads_, to + edges_ * heads_, Real{0});
  }

  std::int64_t vertices_;
  std::int64_t edges_;
  std::int64_t rows_;
  std::int64_t heads_;
  std::int64_t width_;
  tensor::dtype element_;
  tensor::dtype offsets_;
  tensor::dtype number_;
};

// Each element of the result is added up by one thread in the order of the edges, so the result does not depend on the
// number of threads.
class segment_max_gradient_routine final : public routine {
 public:
  // Inputs: row-major, of float32 or float64.
  explicit segment_max_gradient_routine(types inputs);

  // The share that each vertex gives to each edge that has its maximum.
  [[nodiscard]] std::size_t workspace() const override {
    return static_cast<std::size_t>(vertices_ * width_ * tensor::size_of(element_));
  }

  void run(const call& c) const override;

 private:
  static constexpr std::int64_t least_elements = 16384;

  template <class Real>
  struct job {
    detail::edge_ranges edges{};
    detail::number_list sources{};
    const Real* x = nullptr;
    const Real* largest = nullptr;
    const Real* cotangent = nullptr;
    Real* shares = nullptr;
    Real* to = nullptr;
  };

  template <class Real>
  void run_as(const call& c) const {
    const auto operand = [&](std::size_t i) { return reinterpret_cast<const Real*>(c.inputs[i]); };
    const job<Real> j{{{offsets_, c.inputs[3]}, vertices_, edges_},
                      {number_, c.inputs[4]},
                      operand(0),
                      operand(1),
                      operand(2),
                      reinterpret_cast<Real*>(c.work),
                      reinterpret_cast<Real*>(c.outputs[0])};
    j.edges.parallel_for(c.threads, width_, [&](std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] {
        for (auto v = begin; v < end; ++v) {
          share(j, v);
        }
      });
    });
    parallel_for(c.threads, rows_ * width_, least_elements,
                 [&](int, std::int64_t begin, std::int64_t end) { std::fill(j.to + begin, j.to + end, Real{0}); });
    const auto owners = std::clamp<std::int64_t>(edges_ / (least_elements / width_ + 1), 1, c.threads);
    parallel_for(c.threads, owners, 1, [&](int, std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] {
        for (auto owner = begin; owner < end; ++owner) {
          add_shares(j, owner, owners);
        }
      });
    });
  }

  // The row of an edge's source; null stands for zeros.
  template <class Real>
  [[nodiscard]] [[gnu::always_inline]] const Real* row_of(const job<Real>& j, std::int64_t k) const {
    const auto row = j.sources[k];
    return row >= 0 && row < rows_ ? j.x + row * width_ : nullptr;
  }

  template <class Real>
  [[gnu::always_inline]] void share(const job<Real>& j, std::int64_t v) const {
    const auto at = v * width_;
    detail::in_lanes<Real>(width_, [&](auto type, std::int64_t i) {
      using lanes = typename decltype(type)::type;
      lanes most;
      std::memcpy(&most, j.largest + at + i, sizeof most);
      lanes ties{};
      for (auto k = j.edges.begin(v); k < j.edges.end(v); ++k) {
        lanes x{};
        if (const auto* const next = row_of(j, std::min(k + 16, edges_ - 1))) {
          __builtin_prefetch(next + i);
        }
        if (const auto* const row = row_of(j, k)) {
          std::memcpy(&x, row + i, sizeof x);
        }
        lanes tie = lanes{} + Real{1};
        detail::keep_where(x == most, tie);
        ties += tie;
      }
      lanes share;
      std::memcpy(&share, j.cotangent + at + i, sizeof share);
      lanes none = lanes{} + Real{1};
      detail::keep_where(ties == lanes{}, none);
      share /= ties + none;
      std::memcpy(j.shares + at + i, &share, sizeof share);
    });
  }

  // Frequent sources are often adjacent: blocks of rows are distributed round-robin among the owners.
  template <class Real>
  [[gnu::always_inline]] void add_shares(const job<Real>& j, std::int64_t owner, std::int64_t owners) const {
    constexpr std::int64_t block = 16;
    for (std::int64_t v = 0; v < vertices_; ++v) {
      for (auto k = j.edges.begin(v); k < j.edges.end(v); ++k) {
        const auto source = j.sources[k];
        if (source < 0 || source >= rows_ || (owners > 1 && source / block % owners != owner)) {
          continue;
        }
        const auto next = j.sources[std::min(k + 8, edges_ - 1)];
        detail::prefetch_row(j.x, next, rows_, width_);
        detail::prefetch_row(j.to, next, rows_, width_);
        detail::in_lanes<Real>(width_, [&](auto type, std::int64_t i) {
          using lanes = typename decltype(type)::type;
          lanes x;
          lanes most;
          lanes share;
          lanes sum;
          std::memcpy(&x, j.x + source * width_ + i, sizeof x);
          std::memcpy(&most, j.largest + v * width_ + i, sizeof most);
          std::memcpy(&share, j.shares + v * width_ + i, sizeof share);
          std::memcpy(&sum, j.to + source * width_ + i, sizeof sum);
          detail::keep_where(x == most, share);
          sum += share;
          std::memcpy(j.to + source * width_ + i, &sum, sizeof sum);
        });
      }
    }
  }

  std::int64_t vertices_;
  std::int64_t edges_;
  std::int64_t rows_;
  std::int64_t width_;
  tensor::dtype element_;
  tensor::dtype offsets_;
  tensor::dtype number_;
};

// Softmax over the edges of each vertex, and its adjoint. A vector holds several edges next to each other, and each
// lane accumulates separately; the lanes of one column are combined at the end.
class segment_softmax_routine final : public routine {
 public:
  // Inputs: row-major, of float32 or float64.
  segment_softmax_routine(types inputs, bool is_gradient);

  void run(const call& c) const override;

 private:
  static constexpr std::int64_t most = 64;
  template <class Real>
  using line = std::array<Real, static_cast<std::size_t>(most)>;

  template <class Real>
  void run_as(const call& c) const {
    const detail::edge_ranges edges{{offsets_, c.inputs[is_gradient_ ? 2 : 1]}, vertices_, edges_};
    auto* const to = reinterpret_cast<Real*>(c.outputs[0]);
    std::fill(to, to + edges.begin(0) * width_, Real{0});
    std::fill(to + edges.begin(vertices_) * width_, to + edges_ * width_, Real{0});
    const auto* const x = reinterpret_cast<const Real*>(c.inputs[0]);
    const auto* const y = reinterpret_cast<const Real*>(c.inputs[is_gradient_ ? 1 : 0]);
    edges.parallel_for(c.threads, width_ * cost, [&](std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] {
        for (auto v = begin; v < end; ++v) {
          const auto from = edges.begin(v) * width_;
          const auto count = std::max<std::int64_t>(edges.end(v) - edges.begin(v), 0);
          for (std::int64_t first = 0; first < width_; first += most) {
            const columns of{count, std::min(most, width_ - first), width_};
            is_gradient_ ? differentiate(x + from + first, y + from + first, to + from + first, of)
                         : normalize(x + from + first, to + from + first, of);
          }
        }
      });
    });
  }

  // Some columns of the edges of a vertex, as lines: as many whole edges as fit, or one edge if it has more columns.
  struct columns {
    std::int64_t edges;
    std::int64_t width;
    std::int64_t pitch;

    [[nodiscard]] std::int64_t per_line() const { return width == pitch ? most / width : 1; }
    // f(first element, elements) for each line.
    template <class F>
    [[gnu::always_inline]] void each_line(const F& f) const {
      const auto step = per_line();
      for (std::int64_t k = 0; k < edges; k += step) {
        f(k * pitch, std::min(step, edges - k) * width);
      }
    }
    // Combines the values of each column of a line by f, and writes the result to all of them.
    template <class Real, class F>
    [[gnu::always_inline]] void join(line<Real>& a, const F& f) const {
      const auto size = static_cast<std::size_t>(std::min(per_line(), edges) * width);
      const auto step = static_cast<std::size_t>(width);
      for (auto i = step; i < size; i += step) {
        for (std::size_t c = 0; c < step; ++c) {
          a[c] = f(a[c], a[i + c]);
        }
      }
      for (auto i = step; i < size; ++i) {
        a[i] = a[i - step];
      }
    }
  };

  template <class Real>
  [[gnu::always_inline]] static void normalize(const Real* z, Real* to, const columns& of) {
    line<Real> largest;
    largest.fill(-std::numeric_limits<Real>::infinity());
    auto* const top = largest.data();
    of.each_line([&](std::int64_t first, std::int64_t n) {
      write_each(top, n, [&](std::int64_t i) { return z[first + i] > top[i] ? z[first + i] : top[i]; });
    });
    of.join(largest, [](Real a, Real b) { return a < b ? b : a; });
    line<Real> sums{};
    auto* const sum = sums.data();
    of.each_line([&](std::int64_t first, std::int64_t n) {
      auto* const at = to + first;
      write_each(at, n, [&](std::int64_t i) {
        if constexpr (std::is_same_v<Real, float>) {
          return functions::exp(z[first + i] - top[i]);
        } else {
          return std::exp(z[first + i] - top[i]);
        }
      });
      write_each(sum, n, [&](std::int64_t i) { return sum[i] + at[i]; });
    });
    of.join(sums, [](Real a, Real b) { return a + b; });
    of.each_line([&](std::int64_t first, std::int64_t n) {
      auto* const at = to + first;
      write_each(at, n, [&](std::int64_t i) { return at[i] / sum[i]; });
    });
  }

  template <class Real>
  [[gnu::always_inline]] static void differentiate(const Real* y, const Real* dy, Real* to, const columns& of) {
    line<Real> sums{};
    auto* const sum = sums.data();
    of.each_line([&](std::int64_t first, std::int64_t n) {
      write_each(sum, n, [&](std::int64_t i) { return sum[i] + y[first + i] * dy[first + i]; });
    });
    of.join(sums, [](Real a, Real b) { return a + b; });
    of.each_line([&](std::int64_t first, std::int64_t n) {
      write_each(to + first, n, [&](std::int64_t i) { return y[first + i] * (dy[first + i] - sum[i]); });
    });
  }

  static constexpr std::int64_t cost = 8;  // per element, in additions

  bool is_gradient_;
  std::int64_t vertices_;
  std::int64_t edges_;
  std::int64_t width_;
  tensor::dtype element_;
  tensor::dtype offsets_;
};

// The routine of an operator over edges; nothing for other operators, and if there is no kernel for it.
[[nodiscard]] std::unique_ptr<routine> segment_kernel(std::string_view name, types inputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_SEGMENT_GRADIENT)

namespace unity::backend::cpu {

UNITY_INLINE segment_dot_routine::segment_dot_routine(types inputs)
    : vertices_{inputs[0].dims[0]},
      edges_{inputs[3].dims[0]},
      rows_{inputs[1].dims[0]},
      heads_{inputs[0].dims[1]},
      width_{inputs[0].dims[2]},
      element_{inputs[0].element},
      offsets_{inputs[2].element},
      number_{inputs[3].element} {}

UNITY_INLINE void segment_dot_routine::run(const call& c) const {
  element_ == tensor::dtype::float64 ? run_as<double>(c) : run_as<float>(c);
}

UNITY_INLINE segment_max_gradient_routine::segment_max_gradient_routine(types inputs)
    : vertices_{inputs[1].dims[0]},
      edges_{inputs[4].dims[0]},
      rows_{inputs[0].dims[0]},
      width_{tensor::element_count(inputs[0].dims) / rows_},
      element_{inputs[0].element},
      offsets_{inputs[3].element},
      number_{inputs[4].element} {}

UNITY_INLINE void segment_max_gradient_routine::run(const call& c) const {
  element_ == tensor::dtype::float64 ? run_as<double>(c) : run_as<float>(c);
}

UNITY_INLINE segment_softmax_routine::segment_softmax_routine(types inputs, bool is_gradient)
    : is_gradient_{is_gradient},
      vertices_{inputs[is_gradient ? 2 : 1].dims[0] - 1},
      edges_{inputs[0].dims[0]},
      width_{tensor::element_count(inputs[0].dims) / edges_},
      element_{inputs[0].element},
      offsets_{inputs[is_gradient ? 2 : 1].element} {}

UNITY_INLINE void segment_softmax_routine::run(const call& c) const {
  element_ == tensor::dtype::float64 ? run_as<double>(c) : run_as<float>(c);
}

UNITY_INLINE std::unique_ptr<routine> segment_kernel(std::string_view name, types inputs) {
  using task = segment_routine::task;
  if (name == "segment_sum" || name == "segment_mean") {
    return std::make_unique<segment_routine>(name == "segment_sum" ? task::sum : task::mean, segment_routine::places{},
                                             inputs);
  }
  if (name == "segment_max") {
    return std::make_unique<segment_routine>(task::largest, segment_routine::places{}, inputs);
  }
  if (name == "segment_weighted_sum" || name == "segment_weighted_sum_gradient") {
    const auto out_edges = name == "segment_weighted_sum" ? std::size_t{0} : std::size_t{4};
    return std::make_unique<segment_routine>(task::weighted, segment_routine::places{2, 3, 1, out_edges}, inputs);
  }
  if (name == "segment_max_gradient") {
    return std::make_unique<segment_max_gradient_routine>(inputs);
  }
  if (name == "segment_dot") {
    return std::make_unique<segment_dot_routine>(inputs);
  }
  if (name == "segment_softmax" || name == "segment_softmax_gradient") {
    return std::make_unique<segment_softmax_routine>(inputs, name == "segment_softmax_gradient");
  }
  return nullptr;
}

}  // namespace unity::backend::cpu

#endif
