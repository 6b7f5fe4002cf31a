// Reference evaluation of primitives: from the iteration space and the scalar kernel alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/detail/accumulate.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/loop_nest.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor {

// The number of points reduced for each result: per window, a table over the outer index of the window.
class point_counts {
 public:
  explicit point_counts(const space& s);

  // The indices of the coordinates that `at` expects, in order.
  [[nodiscard]] std::span<const std::size_t> outer() const noexcept { return outer_; }
  [[nodiscard]] std::int64_t at(std::span<const std::int64_t> coordinates) const;
  // The count, if it is the same for all results; nothing otherwise.
  [[nodiscard]] std::optional<std::int64_t> everywhere() const;
  // The part of the count that does not depend on windows.
  [[nodiscard]] std::int64_t outside_of_windows() const noexcept { return fixed_; }

 private:
  static std::int64_t count_at(const space& s, const window& w, std::int64_t outer);

  std::vector<std::vector<std::int64_t>> tables_;
  std::vector<std::size_t> outer_;
  std::int64_t fixed_ = 1;
};

}  // namespace unity::tensor

namespace unity::tensor::detail {

// Runs the outer program at every result element. The affine forms are, in this order: the result, every operand, the
// coordinates that the program uses, those that the point counts need.
template <class Scalar>
class finisher {
 public:
  finisher(const space& s, const scalar_program& program, std::span<const Scalar* const> operands,
           std::span<Scalar> results, bool needs_counts)
      : operands_{operands.begin(), operands.end()}, results_{results}, runner_{program}, counts_{s} {
    std::vector<affine_form> forms{offset_form(s, s.result_accesses(0), s.results()[0].dims)};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      forms.push_back(offset_form(s, s.operand(i), s.dims(i)));
    }
    for (const auto& i : program) {
      if (i.op == scalar_op::coordinate) {
        coordinate_forms_.push_back(forms.size());
        coordinates_.push_back(i.number);
        forms.push_back(coordinate_form(s, static_cast<std::size_t>(i.number)));
      }
    }
    first_count_ = forms.size();
    for (const auto i : needs_counts ? counts_.outer() : std::span<const std::size_t>{}) {
      forms.push_back(coordinate_form(s, i));
    }
    nest_ = loop_nest{forms};
    for (const auto& a : s.result_accesses(0)) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        nest_.add(s.indices()[a[i]].size, forms, a[i]);
      }
    }
    nest_.coalesce();
    nest_.deepen(1);
  }

  void run() {
    const auto inner = nest_.depth() - 1;
    nest_.for_each(1, [&](std::span<const std::int64_t> values) {
      for (std::int64_t begin = 0; begin < nest_.size(inner); begin += block_size) {
        const auto n = std::min(block_size, nest_.size(inner) - begin);
        auto* out = results_.data() + values[0] + begin * nest_.step(inner, 0);
        runner_.run(block_, n, [&](const instruction& leaf, Scalar* to) { fetch(leaf, to, values, begin, n, out); });
        for (std::int64_t i = 0; i < n; ++i) {
          out[i * nest_.step(inner, 0)] = block_[i];
        }
      }
    });
  }

 private:
  void fetch(const instruction& leaf, Scalar* to, std::span<const std::int64_t> values, std::int64_t begin,
             std::int64_t n, const Scalar* accumulated) const {
    const auto inner = nest_.depth() - 1;
    const auto fill = [&](auto value_at) {
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = value_at(i);
      }
    };
    switch (leaf.op) {
      case scalar_op::operand: {
        const auto form = 1 + static_cast<std::size_t>(leaf.number);
        const auto step = nest_.step(inner, form);
        const auto* x = operands_[form - 1] + values[form] + begin * step;
        return fill([&](std::int64_t i) { return x[i * step]; });
      }
      case scalar_op::accumulated: {
        const auto step = nest_.step(inner, 0);
        return fill([&](std::int64_t i) { return accumulated[i * step]; });
      }
      case scalar_op::coordinate: {
        const auto found = std::find(coordinates_.begin(), coordinates_.end(), leaf.number);
        const auto form = coordinate_forms_[static_cast<std::size_t>(found - coordinates_.begin())];
        return fill([&](std::int64_t i) { return number(values[form] + (begin + i) * nest_.step(inner, form)); });
      }
      case scalar_op::count: return fill([&](std::int64_t i) { return number(count_at(values, begin + i)); });
      default: {
        const auto value = scalar_traits<Scalar>::literal(leaf.value);
        return fill([&](std::int64_t) { return value; });
      }
    }
  }

  [[nodiscard]] static Scalar number(std::int64_t n) { return static_cast<Scalar>(n); }

  [[nodiscard]] std::int64_t count_at(std::span<const std::int64_t> values, std::int64_t i) const {
    small_vector<std::int64_t, 4> at;
    for (auto f = first_count_; f < values.size(); ++f) {
      at.push_back(values[f] + i * nest_.step(nest_.depth() - 1, f));
    }
    return counts_.at(at);
  }

  std::vector<const Scalar*> operands_;
  std::span<Scalar> results_;
  loop_nest nest_{{}};
  scalar_program_runner<Scalar> runner_;
  point_counts counts_;
  std::vector<std::size_t> coordinate_forms_;
  std::vector<int> coordinates_;
  std::size_t first_count_ = 0;
  Scalar block_[block_size]{};
};

// A sum in which equal(operand, coordinate(index)) fixes an index: looks up the single term or, if the result has the
// index, adds each term to its row.
template <class Scalar>
void look_up(const space& s, const scalar_kernel& kernel, std::span<const Scalar* const> operands,
             std::span<Scalar> results) {
  const auto selector = static_cast<std::size_t>(kernel.inner[0].number);
  const auto selected = static_cast<std::size_t>(kernel.inner[1].number);
  const auto table = static_cast<std::size_t>(kernel.inner[3].number);
  std::vector<affine_form> forms{offset_form(s, s.result_accesses(0), s.results()[0].dims),
                                 offset_form(s, s.operand(selector), s.dims(selector)),
                                 offset_form(s, s.operand(table), s.dims(table))};
  loop_nest nest{forms};
  for (std::size_t i = 0; i < s.indices().size(); ++i) {
    if (i != selected) {
      nest.add(s.indices()[i].size, forms, i);
    }
  }
  nest.for_each(0, [&](std::span<const std::int64_t> values) {
    const auto row = scalar_traits<Scalar>::index(operands[selector][values[1]]);
    if (row && *row < s.indices()[selected].size) {
      results[static_cast<std::size_t>(values[0] + *row * forms[0].steps[selected])] +=
          operands[table][values[2] + *row * forms[2].steps[selected]];
    }
  });
}

// Complexity: the number of points of the space; a matmul or conv2d in double runs at about 1 GFLOP/s.
template <class Scalar>
[[nodiscard]] dense<Scalar> evaluate_primitive(const space& s, const scalar_kernel& kernel,
                                               std::span<const Scalar* const> operands) {
  dense<Scalar> out{s.results()[0].dims};
  if (kernel.reduce == reduction::largest) {
    std::fill(out.data.begin(), out.data.end(), scalar_traits<Scalar>::lowest());
  }
  // A symbol may be the number of any row: only the sum over all rows expresses the selection.
  if (!is_symbolic<Scalar> && selected_index(kernel)) {
    look_up<Scalar>(s, kernel, operands, out.data);
  } else if (kernel.reduce != reduction::none) {
    accumulator<Scalar>{s, kernel, operands, out.data.data()}.run();
  }
  const bool done = kernel.outer.size() == 1 && kernel.outer[0].op == scalar_op::accumulated;
  if (!done) {
    bool counts = false;
    for (const auto& i : kernel.outer) {
      counts = counts || i.op == scalar_op::count;
    }
    finisher<Scalar>{s, kernel.outer, operands, out.data, counts}.run();
  }
  return out;
}

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_EVALUATE_PRIMITIVE)

#include <functional>

namespace unity::tensor {

UNITY_INLINE point_counts::point_counts(const space& s) {
  std::vector<bool> in_result(s.indices().size());
  for (const auto& a : s.result_accesses(0)) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      in_result[a[i]] = true;
    }
  }
  for (const auto& w : s.windows()) {
    std::vector<std::int64_t> counts;
    for (std::int64_t o = 0; o < s.size_of(w.outer); ++o) {
      counts.push_back(count_at(s, w, o));
    }
    tables_.push_back(std::move(counts));
    outer_.push_back(static_cast<std::size_t>(w.outer));
    if (w.inner >= 0) {
      in_result[static_cast<std::size_t>(w.inner)] = true;
    }
  }
  for (std::size_t i = 0; i < in_result.size(); ++i) {
    fixed_ *= in_result[i] ? 1 : s.indices()[i].size;
  }
}

UNITY_INLINE std::int64_t point_counts::at(std::span<const std::int64_t> coordinates) const {
  auto count = fixed_;
  for (std::size_t w = 0; w < tables_.size(); ++w) {
    count *= tables_[w][static_cast<std::size_t>(coordinates[w])];
  }
  return count;
}

UNITY_INLINE std::optional<std::int64_t> point_counts::everywhere() const {
  auto count = fixed_;
  for (const auto& t : tables_) {
    if (std::adjacent_find(t.begin(), t.end(), std::not_equal_to<>{}) != t.end()) {
      return std::nullopt;
    }
    count *= t.empty() ? 1 : t[0];
  }
  return count;
}

UNITY_INLINE std::int64_t point_counts::count_at(const space& s, const window& w, std::int64_t outer) {
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < (w.inner < 0 ? 1 : s.size_of(w.inner)); ++k) {
    const auto position = outer * w.stride + k * w.dilation - w.before;
    count += position >= w.count_from && position < w.count_to ? 1 : 0;
  }
  return count;
}

}  // namespace unity::tensor

#endif
