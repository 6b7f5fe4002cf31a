// A pooling in the form of libraries: equal padding before and after, averages over elements or over the whole window.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/routine.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/pooling.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cuda {

struct pooling_plan {
  enum class kind : std::uint8_t { largest, average_of_elements, average_of_window };

  tensor::operators::slide y{};
  tensor::operators::slide x{};
  kind how = kind::largest;

  // Whether a library can compute it that has one padding for both ends, no dilation, as many windows as fit, and, for
  // averages over windows, only complete ones.
  [[nodiscard]] bool is_plain() const noexcept { return is_plain(y) && is_plain(x); }

 private:
  [[nodiscard]] bool is_plain(const tensor::operators::slide& s) const noexcept {
    const auto windows = (s.in + 2 * s.before - s.kernel) / s.stride + 1;
    const bool whole = (s.out - 1) * s.stride - s.before + s.kernel <= s.in + s.after;
    return s.dilation == 1 && s.before < s.kernel && s.in + 2 * s.before >= s.kernel && windows == s.out &&
           (how != kind::average_of_window || whole);
  }
};

// For max_pool, or for average_pool if `averages`.
[[nodiscard]] inline pooling_plan plan_pooling(const tensor::attribute_reader& a, types inputs, bool averages) {
  using kind = pooling_plan::kind;
  tensor::space s{inputs};
  const auto slide = [&](std::size_t d) {
    return tensor::operators::pool_slide(s, a, d, averages ? 1 : a.integers("dilation")[d]);
  };
  pooling_plan p;
  p.y = slide(0);
  p.x = slide(1);
  p.how = !averages                       ? kind::largest
          : a.flag("count_include_pad") ? kind::average_of_window
                                        : kind::average_of_elements;
  return p;
}

}  // namespace unity::backend::cuda
