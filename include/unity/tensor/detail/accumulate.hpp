// The reducing part of a primitive: acc = reduce(inner program) over the whole iteration space.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/loop_nest.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// The inner loops of products, which dominate the time of matmul and conv2d.

// A strided vector in memory.
template <class T>
struct strided_pointer {
  T* at = nullptr;
  std::int64_t step = 0;

  [[nodiscard]] T& operator[](std::int64_t i) const noexcept { return at[i * step]; }
  [[nodiscard]] strided_pointer plus(std::int64_t offset) const noexcept { return {at + offset, step}; }
};

// acc[i] += sum over q < Count of a[q * a_next + i] * b[q * b_next + i].
template <std::size_t Count, class Scalar>
void add_products(strided_pointer<Scalar> acc, strided_pointer<const Scalar> a, std::int64_t a_next,
                  strided_pointer<const Scalar> b, std::int64_t b_next, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  const auto loop = [&](auto acc_step, auto a_step, auto b_step) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto sum = traits::widen(acc.at[i * acc_step]);
      for (std::size_t q = 0; q < Count; ++q) {
        const auto k = static_cast<std::int64_t>(q);
        traits::add_product(sum, a.at[k * a_next + i * a_step], b.at[k * b_next + i * b_step]);
      }
      acc.at[i * acc_step] = traits::narrow(sum);
    }
  };
  using one = std::integral_constant<std::int64_t, 1>;
  using zero = std::integral_constant<std::int64_t, 0>;
  if (acc.step == 1 && a.step == 0 && b.step == 1) {
    loop(one{}, zero{}, one{});
  } else if (acc.step == 1 && a.step == 1 && b.step == 0) {
    loop(one{}, one{}, zero{});
  } else {
    loop(acc.step, a.step, b.step);
  }
}

// acc += sum over i of a[i] * b[i].
template <class Scalar>
void add_dot(Scalar& acc, strided_pointer<const Scalar> a, strided_pointer<const Scalar> b, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  constexpr std::int64_t ways = 4;
  typename traits::product_sum sums[ways] = {traits::widen(acc), {}, {}, {}};
  std::int64_t i = 0;
  for (; i + ways <= n; i += ways) {
    for (std::int64_t q = 0; q < ways; ++q) {
      traits::add_product(sums[q], a[i + q], b[i + q]);
      if constexpr (sizeof(typename traits::product_sum) > sizeof(Scalar)) {
        sums[q] = traits::widen(traits::narrow(sums[q]));
      }
    }
  }
  for (; i < n; ++i) {
    traits::add_product(sums[0], a[i], b[i]);
    sums[0] = traits::widen(traits::narrow(sums[0]));
  }
  acc = (traits::narrow(sums[0]) + traits::narrow(sums[1])) + (traits::narrow(sums[2]) + traits::narrow(sums[3]));
}

// Accumulates over a loop nest. The affine forms are, in this order: the accumulator, every operand, the position along
// every dimension with padding, the coordinates that the program uses.
template <class Scalar>
class accumulator {
 public:
  accumulator(const space& s, const scalar_kernel& kernel, std::span<const Scalar* const> operands, Scalar* acc)
      : kernel_{kernel}, operands_{operands.begin(), operands.end()}, acc_{acc}, nest_{{}}, runner_{kernel.inner} {
    const auto forms = forms_of(s);
    nest_ = loop_nest{forms};
    add_loops(s, forms);
    product_ = kernel.reduce == reduction::sum && kernel.inner.size() == 3 &&
               kernel.inner[0].op == scalar_op::operand && kernel.inner[1].op == scalar_op::operand &&
               kernel.inner[2].op == scalar_op::mul;
  }

  void run() {
    const auto inner = nest_.depth() - 1;
    const auto next = nest_.depth() - 2;
    const bool blocks = product_ && nest_.step(next, 0) == 0 && nest_.step(inner, 0) != 0 && !clips_along(next);
    nest_.for_each(2, [&](std::span<const std::int64_t> values) {
      if (blocks) {
        run_blocks(values, inner, next);
        return;
      }
      std::vector<std::int64_t>& v = scratch_;
      v.assign(values.begin(), values.end());
      for (std::int64_t u = 0; u < nest_.size(next); ++u) {
        run_row(v, inner);
        for (std::size_t f = 0; f < v.size(); ++f) {
          v[f] += nest_.step(next, f);
        }
      }
    });
  }

 private:
  std::vector<affine_form> forms_of(const space& s) {
    std::vector<affine_form> forms{offset_form(s, s.result_accesses(0), s.results()[0].dims)};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      forms.push_back(offset_form(s, s.operand(i), s.dims(i)));
    }
    for (const auto& w : s.windows()) {
      const auto size = [&](int index) { return index < 0 ? 1 : s.size_of(index); };
      const auto last = (size(w.outer) - 1) * w.stride + (size(w.inner) - 1) * w.dilation - w.before;
      if (w.before > 0 || last >= w.extent) {
        auto f = coordinate_form(s, static_cast<std::size_t>(w.outer));
        f.steps[static_cast<std::size_t>(w.outer)] = w.stride;
        if (w.inner >= 0) {
          f.steps[static_cast<std::size_t>(w.inner)] = w.dilation;
        }
        f.base = -w.before;
        forms.push_back(std::move(f));
        extents_.push_back(w.extent);
      }
    }
    for (const auto& i : kernel_.inner) {
      if (i.op == scalar_op::coordinate) {
        coordinates_.push_back(i.number);
        forms.push_back(coordinate_form(s, static_cast<std::size_t>(i.number)));
      }
    }
    return forms;
  }

  [[nodiscard]] std::size_t first_position() const noexcept { return 1 + operands_.size(); }

  // How suitable an index is for the innermost loop: long, with consecutive memory accesses.
  [[nodiscard]] std::int64_t quality(std::int64_t size, std::size_t index, std::span<const affine_form> forms) const {
    std::int64_t jumps = 1;
    for (std::size_t f = 0; f < first_position(); ++f) {
      jumps += forms[f].steps[index] > 1 ? 1 : 0;
    }
    return std::min(size, std::int64_t{64}) * 4 / jumps + (forms[0].steps[index] == 1 ? 3 : 0);
  }

  // Loop order: result indices outside, reduced ones inside, the best index innermost. Just outside of it goes the
  // longest reduced index along which padding does not change.
  void add_loops(const space& s, std::span<const affine_form> forms) {
    std::vector<std::size_t> order;
    for (const bool reduced : {false, true}) {
      for (std::size_t i = 0; i < s.indices().size(); ++i) {
        if ((forms[0].steps[i] == 0) == reduced && s.indices()[i].size > 1) {
          order.push_back(i);
        }
      }
    }
    const auto move_to_back = [&](auto better) {
      const auto best = std::max_element(order.begin(), order.end(), better);
      if (best != order.end()) {
        std::rotate(best, best + 1, order.end());
      }
    };
    move_to_back([&](std::size_t i, std::size_t j) {
      return quality(s.indices()[i].size, i, forms) < quality(s.indices()[j].size, j, forms);
    });
    std::size_t innermost = order.empty() ? 0 : order.back();
    if (!order.empty()) {
      order.pop_back();
      const auto worth = [&](std::size_t i) {
        return forms[0].steps[i] == 0 && !clips(i, forms) ? s.indices()[i].size : 0;
      };
      move_to_back([&](std::size_t i, std::size_t j) { return worth(i) < worth(j); });
      order.push_back(innermost);
    }
    for (const auto i : order) {
      nest_.add(s.indices()[i].size, forms, i);
    }
    nest_.deepen(2);
  }

  [[nodiscard]] bool clips(std::size_t index, std::span<const affine_form> forms) const {
    for (std::size_t c = 0; c < extents_.size(); ++c) {
      if (forms[first_position() + c].steps[index] != 0) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool clips_along(std::size_t loop) const {
    for (std::size_t c = 0; c < extents_.size(); ++c) {
      if (nest_.step(loop, first_position() + c) != 0) {
        return true;
      }
    }
    return false;
  }

  // The range of the inner loop that lies outside of padding.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> clip(std::span<const std::int64_t> values,
                                                           std::size_t inner) const {
    std::int64_t from = 0;
    std::int64_t to = nest_.size(inner);
    for (std::size_t c = 0; c < extents_.size(); ++c) {
      const auto at = values[first_position() + c];
      const auto step = nest_.step(inner, first_position() + c);
      if (step == 0) {
        to = at >= 0 && at < extents_[c] ? to : 0;
      } else {
        from = std::max(from, at < 0 ? (-at + step - 1) / step : 0);
        to = std::min(to, at < extents_[c] ? (extents_[c] - at + step - 1) / step : 0);
      }
    }
    return {from, to};
  }

  [[nodiscard]] strided_pointer<const Scalar> operand(std::span<const std::int64_t> values, std::size_t i,
                                                      std::size_t inner, std::int64_t from) const {
    const auto step = nest_.step(inner, 1 + i);
    return {operands_[i] + values[1 + i] + from * step, step};
  }
  [[nodiscard]] strided_pointer<Scalar> result(std::span<const std::int64_t> values, std::size_t inner,
                                               std::int64_t from) const {
    const auto step = nest_.step(inner, 0);
    return {acc_ + values[0] + from * step, step};
  }

  // Runs several steps of the second-innermost loop at once, so that the accumulator is read and written less often.
  void run_blocks(std::span<const std::int64_t> values, std::size_t inner, std::size_t next) {
    const auto [from, to] = clip(values, inner);
    if (from >= to) {
      return;
    }
    const auto left = static_cast<std::size_t>(kernel_.inner[0].number);
    const auto right = static_cast<std::size_t>(kernel_.inner[1].number);
    auto a = operand(values, left, inner, from);
    auto b = operand(values, right, inner, from);
    const auto acc = result(values, inner, from);
    const auto a_next = nest_.step(next, 1 + left);
    const auto b_next = nest_.step(next, 1 + right);
    auto remaining = nest_.size(next);
    for (; remaining >= 4; remaining -= 4) {
      add_products<4>(acc, a, a_next, b, b_next, to - from);
      a = a.plus(4 * a_next);
      b = b.plus(4 * b_next);
    }
    for (; remaining > 0; --remaining) {
      add_products<1>(acc, a, a_next, b, b_next, to - from);
      a = a.plus(a_next);
      b = b.plus(b_next);
    }
  }

  void run_row(std::span<const std::int64_t> values, std::size_t inner) {
    const auto [from, to] = clip(values, inner);
    if (from >= to) {
      return;
    }
    const auto acc = result(values, inner, from);
    if (product_) {
      const auto a = operand(values, static_cast<std::size_t>(kernel_.inner[0].number), inner, from);
      const auto b = operand(values, static_cast<std::size_t>(kernel_.inner[1].number), inner, from);
      if (acc.step == 0) {
        add_dot(*acc.at, a, b, to - from);
      } else {
        add_products<1>(acc, a, 0, b, 0, to - from);
      }
      return;
    }
    for (auto begin = from; begin < to; begin += block_size) {
      const auto n = std::min(block_size, to - begin);
      runner_.run(terms_, n, [&](const instruction& leaf, Scalar* out) { fetch(leaf, out, values, inner, begin, n); });
      combine(acc.plus((begin - from) * acc.step), n);
    }
  }

  void fetch(const instruction& leaf, Scalar* out, std::span<const std::int64_t> values, std::size_t inner,
             std::int64_t begin, std::int64_t n) const {
    if (leaf.op == scalar_op::operand) {
      const auto x = operand(values, static_cast<std::size_t>(leaf.number), inner, begin);
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = x[i];
      }
    } else if (leaf.op == scalar_op::coordinate) {
      const auto found = std::find(coordinates_.begin(), coordinates_.end(), leaf.number) - coordinates_.begin();
      const auto form = first_position() + extents_.size() + static_cast<std::size_t>(found);
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<Scalar>(values[form] + (begin + i) * nest_.step(inner, form));
      }
    } else {
      UNITY_EXPECTS(leaf.op == scalar_op::literal, "no count inside of a reduction");
      std::fill_n(out, n, scalar_traits<Scalar>::literal(leaf.value));
    }
  }

  // Reduces terms_[0, n) into the accumulator.
  void combine(strided_pointer<Scalar> acc, std::int64_t n) const {
    if (kernel_.reduce == reduction::sum) {
      for (std::int64_t i = 0; i < n; ++i) {
        acc[i] += terms_[i];
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        acc[i] = scalar_traits<Scalar>::apply(scalar_op::maximum, acc[i], terms_[i]);
      }
    }
  }

  scalar_kernel kernel_;
  std::vector<const Scalar*> operands_;
  Scalar* acc_;
  loop_nest nest_;
  std::vector<std::int64_t> extents_;
  std::vector<int> coordinates_;
  scalar_program_runner<Scalar> runner_;
  bool product_ = false;
  std::vector<std::int64_t> scratch_;
  Scalar terms_[block_size]{};
};

}  // namespace unity::tensor::detail
