// Sums, means and maxima along axes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu {

// result = outer(sum or maximum of x over some indices); no windows. Sums are computed in double, in an order that does
// not depend on the number of threads: if there are few results, the points of each are divided into pieces, whose sums
// are added.
template <class Element>
class reduction_routine final : public routine {
 public:
  struct loop {
    std::int64_t size = 1;
    std::int64_t step = 0;  // stride in the operand
  };

  // kept: the loops over the results in memory order. All loops outermost first.
  reduction_routine(std::vector<loop> kept, std::vector<loop> reduced, tensor::scalar_kernel kernel,
                    tensor::dtype element)
      : kept_{joined(std::move(kept))},
        reduced_{joined(std::move(reduced))},
        kernel_{std::move(kernel)},
        element_{element} {
    for (const auto& l : reduced_) {
      points_ *= l.size;
    }
    for (const auto& l : kept_) {
      results_ *= l.size;
    }
    rows_ = kept_.back().step == 1 && reduced_.back().step != 1;
    row_ = rows_ ? kept_.back().size : 1;
    parts_ = (row_ + row_size - 1) / row_size;
    if (units() < enough_units) {
      constexpr std::int64_t least_points = 65536;
      constexpr std::int64_t most = 64;
      const auto points = points_ * std::min(row_, row_size);
      pieces_ = std::clamp<std::int64_t>(points / least_points, 1, std::min(most, reduced_.front().size));
    }
  }

  // The contribution of each piece to each result.
  [[nodiscard]] std::size_t workspace() const override {
    return pieces_ == 1 ? 0 : static_cast<std::size_t>(pieces_ * results_) * sizeof(double);
  }

  void run(const call& c) const override {
    const auto* from = reinterpret_cast<const Element*>(c.inputs[0]);
    auto* partial = reinterpret_cast<double*>(c.work);
    constexpr std::int64_t least_points = 16384;
    const auto points = points_ * std::min(row_, row_size) / pieces_;
    parallel_for(c.threads, units() * pieces_, least_points / std::max<std::int64_t>(points, 1) + 1,
                 [&](int, std::int64_t begin, std::int64_t end) {
                   for (auto i = begin; i < end; ++i) {
                     const auto unit = i / pieces_;
                     const auto first = unit / parts_ * row_ + unit % parts_ * row_size;
                     const auto n = std::min(row_size, row_ - unit % parts_ * row_size);
                     total values;
                     std::fill_n(values.data(), n, neutral());
                     reduce(values, from + offset(first), n, i % pieces_);
                     if (pieces_ == 1) {
                       store(values.data(), n, first, c.outputs[0]);
                     } else {
                       std::copy_n(values.data(), n, partial + i % pieces_ * results_ + first);
                     }
                   }
                 });
    if (pieces_ > 1) {
      join(partial, c.outputs[0]);
    }
  }

 private:
  static constexpr std::int64_t row_size = 256;
  static constexpr std::int64_t enough_units = 64;  // for any number of threads
  static constexpr std::int64_t lanes = 16;
  using total = std::array<double, static_cast<std::size_t>(row_size)>;

  static std::vector<loop> joined(std::vector<loop> loops) {
    std::vector<loop> all;
    for (const auto& l : loops) {
      if (!all.empty() && all.back().step == l.step * l.size) {
        all.back() = {all.back().size * l.size, l.step};
      } else if (l.size > 1) {
        all.push_back(l);
      }
    }
    if (all.empty()) {
      all.push_back({1, 0});
    }
    return all;
  }

  [[nodiscard]] std::int64_t offset(std::int64_t result) const {
    std::int64_t sum = 0;
    for (auto l = kept_.size(); l-- > 0;) {
      sum += result % kept_[l].size * kept_[l].step;
      result /= kept_[l].size;
    }
    return sum;
  }

  [[nodiscard]] bool sums() const noexcept { return kernel_.reduce == tensor::reduction::sum; }

  [[nodiscard]] double neutral() const noexcept { return sums() ? 0.0 : -std::numeric_limits<double>::infinity(); }

  // Results that are adjacent in memory are computed together: rows of them, in parts of row_size.
  [[nodiscard]] std::int64_t units() const noexcept { return results_ / row_ * parts_; }

  // A piece is a part of the outermost reduced loop.
  void reduce(total& values, const Element* from, std::int64_t n, std::int64_t piece) const {
    const auto& outermost = reduced_.front();
    const auto begin = outermost.size * piece / pieces_;
    const auto end = outermost.size * (piece + 1) / pieces_;
    if (reduced_.size() == 1) {
      return reduce_inner(values, from + begin * outermost.step, n, {end - begin, outermost.step});
    }
    const auto between = points_ / outermost.size / reduced_.back().size;
    for (auto o = begin * between; o < end * between; ++o) {
      auto rest = o;
      auto at = std::int64_t{0};
      for (auto l = reduced_.size() - 1; l-- > 0;) {
        at += rest % reduced_[l].size * reduced_[l].step;
        rest /= reduced_[l].size;
      }
      reduce_inner(values, from + at, n, reduced_.back());
    }
  }
  void reduce_inner(total& values, const Element* from, std::int64_t n, const loop& inner) const {
    if (rows_) {
      for (std::int64_t i = 0; i < inner.size; ++i) {
        add_row(values, from + i * inner.step, n);
      }
    } else {
      add_run(values[0], from, inner);
    }
  }

  void join(double* partial, std::byte* to) const {
    for (std::int64_t piece = 1; piece < pieces_; ++piece) {
      const auto* more = partial + piece * results_;
      for (std::int64_t i = 0; i < results_; ++i) {
        partial[i] = sums() ? partial[i] + more[i] : std::max(partial[i], more[i]);
      }
    }
    store(partial, results_, 0, to);
  }
  void store(const double* values, std::int64_t n, std::int64_t first, std::byte* to) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = finish(values[i]);
      store_elements(element_, to, first + i, &value, 1);
    }
  }

  void add_row(total& values, const Element* x, std::int64_t n) const {
    if (sums()) {
      with_widest_vectors([&] { combine(values, x, n, [](double a, double b) { return a + b; }); });
    } else {
      with_widest_vectors([&] { combine(values, x, n, [](double a, double b) { return a < b ? b : a; }); });
    }
  }
  template <class F>
  static void combine(total& values, const Element* x, std::int64_t n, F f) {
    auto* v = values.data();
    constexpr std::int64_t step = 16;
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
      for (std::int64_t j = 0; j < step; ++j) {
        v[i + j] = f(v[i + j], static_cast<double>(x[i + j]));
      }
    }
    for (; i < n; ++i) {
      v[i] = f(v[i], static_cast<double>(x[i]));
    }
  }

  // Along the innermost reduced loop, with as many partial results as vector lanes.
  void add_run(double& value, const Element* x, const loop& l) const {
    if (sums()) {
      with_widest_vectors([&] { fold(value, x, l, 0.0, [](double a, double b) { return a + b; }); });
    } else {
      with_widest_vectors([&] {
        fold(value, x, l, -std::numeric_limits<double>::infinity(), [](double a, double b) { return a < b ? b : a; });
      });
    }
  }
  template <class F>
  static void fold(double& value, const Element* x, const loop& l, double neutral, F f) {
    std::array<double, static_cast<std::size_t>(lanes)> partial;
    partial.fill(neutral);
    auto* p = partial.data();
    std::int64_t i = 0;
    if (l.step == 1) {
      for (; i + lanes <= l.size; i += lanes) {
        for (std::int64_t j = 0; j < lanes; ++j) {
          p[j] = f(p[j], static_cast<double>(x[i + j]));
        }
      }
    }
    for (; i < l.size; ++i) {
      p[i % lanes] = f(p[i % lanes], static_cast<double>(x[i * l.step]));
    }
    for (const auto v : partial) {
      value = f(value, v);
    }
  }

  // Applies the outer program to one result.
  [[nodiscard]] double finish(double accumulated) const {
    using traits = tensor::scalar_traits<double>;
    std::array<double, 16> stack;
    std::size_t depth = 0;
    for (const auto& i : kernel_.outer) {
      if (i.op == tensor::scalar_op::accumulated) {
        stack[depth++] = accumulated;
      } else if (i.op == tensor::scalar_op::count) {
        stack[depth++] = static_cast<double>(points_);
      } else if (i.op == tensor::scalar_op::literal) {
        stack[depth++] = i.value;
      } else if (tensor::is_binary(i.op)) {
        --depth;
        stack[depth - 1] = traits::apply(i.op, stack[depth - 1], stack[depth]);
      } else {
        stack[depth - 1] = traits::apply(i.op, stack[depth - 1]);
      }
    }
    return stack[0];
  }

  std::vector<loop> kept_;
  std::vector<loop> reduced_;
  tensor::scalar_kernel kernel_;
  tensor::dtype element_;
  std::int64_t points_ = 1;
  std::int64_t results_ = 1;
  bool rows_ = false;
  std::int64_t row_ = 1;     // number of adjacent results that are computed together
  std::int64_t parts_ = 1;   // per row
  std::int64_t pieces_ = 1;  // into which the points of a result are divided
};

namespace detail {

template <class Element>
[[nodiscard]] std::unique_ptr<routine> reduction_of(const tensor::space& s, tensor::scalar_kernel kernel,
                                                    const tensor::tensor_type& input,
                                                    const tensor::tensor_type& output) {
  const auto steps = *index_steps(s, s.operand(0), input);
  const auto order = result_indices(s, output.order);
  using loop = typename reduction_routine<Element>::loop;
  std::vector<loop> kept;
  std::vector<loop> reduced;
  for (const auto i : order) {
    kept.push_back({s.indices()[i].size, steps[i]});
  }
  for (std::size_t i = 0; i < s.indices().size(); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) {
      reduced.push_back({s.indices()[i].size, steps[i]});
    }
  }
  std::sort(reduced.begin(), reduced.end(), [](const loop& a, const loop& b) { return a.step > b.step; });
  return std::make_unique<reduction_routine<Element>>(std::move(kept), std::move(reduced), std::move(kernel),
                                                      output.element);
}

}  // namespace detail

// The routine of a reduction; nothing if the operator has another form, or 16-bit elements.
[[nodiscard]] std::unique_ptr<routine> reduction_along_axes(const tensor::algebra& a, const tensor::operation& op,
                                                            types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_REDUCTION)

#include <variant>

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> reduction_along_axes(const tensor::algebra& a, const tensor::operation& op,
                                                           types inputs, types outputs) {
  const auto s = a.iteration(op, inputs);
  if (!s || inputs.size() != 1 || !s->windows().empty()) {
    return nullptr;
  }
  auto kernel = std::get<tensor::primitive>(a.definition_of(op.kind).body).kernel(a.read(op), inputs);
  bool known = kernel.reduce != tensor::reduction::none && kernel.inner.size() == 1 &&
               kernel.inner[0].op == tensor::scalar_op::operand && kernel.outer.size() <= 16;
  for (const auto& i : kernel.outer) {
    known = known && i.op != tensor::scalar_op::operand && i.op != tensor::scalar_op::coordinate;
  }
  if (!known) {
    return nullptr;
  }
  switch (inputs[0].element) {
    case tensor::dtype::float32: return detail::reduction_of<float>(*s, std::move(kernel), inputs[0], outputs[0]);
    case tensor::dtype::float64: return detail::reduction_of<double>(*s, std::move(kernel), inputs[0], outputs[0]);
    case tensor::dtype::int64: return detail::reduction_of<std::int64_t>(*s, std::move(kernel), inputs[0], outputs[0]);
    case tensor::dtype::int32: return detail::reduction_of<std::int32_t>(*s, std::move(kernel), inputs[0], outputs[0]);
    default: return nullptr;
  }
}

}  // namespace unity::backend::cpu

#endif
