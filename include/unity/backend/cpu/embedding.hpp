// Lookup of rows by index, and sums of rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

namespace detail {

// Element i of a tensor of integer ids; nothing if it is not a row of a table with `rows` rows.
[[nodiscard]] std::optional<std::int64_t> row_at(tensor::dtype element, const std::byte* ids, std::int64_t i,
                                                 std::int64_t rows);

}  // namespace detail

// Inputs: row-major; ids of any integer type.
class embedding_routine final : public routine {
 public:
  explicit embedding_routine(types inputs)
      : rows_{inputs[0].dims[0]}, count_{tensor::element_count(inputs[1].dims)}, number_{inputs[1].element} {
    row_bytes_ = static_cast<std::int64_t>(byte_count(inputs[0])) / rows_;
  }

  void run(const call& c) const override;

 private:
  std::int64_t rows_;
  std::int64_t count_;
  std::int64_t row_bytes_ = 1;
  tensor::dtype number_;
};

// Inputs: row-major; ids of any integer type.
class embedding_bag_routine final : public routine {
 public:
  explicit embedding_bag_routine(types inputs)
      : rows_{inputs[0].dims[0]},
        width_{tensor::element_count(inputs[0].dims) / rows_},
        bag_{inputs[1].dims[inputs[1].rank() - 1]},
        count_{tensor::element_count(inputs[1].dims) / bag_},
        element_{inputs[0].element},
        number_{inputs[1].element} {}

  void run(const call& c) const override;

 private:
  // Processes a part of the row at a time, so that the sum stays in first-level cache.
  template <class Real>
  void add_up(const call& c, std::int64_t i) const {
    constexpr std::int64_t most = 256;
    for (std::int64_t first = 0; first < width_; first += most) {
      const auto n = std::min(most, width_ - first);
      std::array<Real, most> sum{};
      std::array<Real, most> part;
      for (std::int64_t k = 0; k < bag_; ++k) {
        if (const auto row = detail::row_at(number_, c.inputs[1], i * bag_ + k, rows_)) {
          load_elements(element_, part.data(), c.inputs[0], *row * width_ + first, n, 1);
          std::transform(part.begin(), part.begin() + n, sum.begin(), sum.begin(), std::plus<>{});
        }
      }
      store_elements(element_, c.outputs[0], i * width_ + first, sum.data(), n);
    }
  }

  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t bag_;
  std::int64_t count_;
  tensor::dtype element_;
  tensor::dtype number_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_EMBEDDING)

#include <cstring>

#include <unity/backend/cpu/threads.hpp>

namespace unity::backend::cpu::detail {

UNITY_INLINE std::optional<std::int64_t> row_at(tensor::dtype element, const std::byte* ids, std::int64_t i,
                                                std::int64_t rows) {
  double row = 0;
  load_elements(element, &row, ids, i, 1, 1);
  return row >= 0 && row < static_cast<double>(rows) ? std::optional{static_cast<std::int64_t>(row)} : std::nullopt;
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE void embedding_routine::run(const call& c) const {
  constexpr std::int64_t least_bytes = 65536;
  const auto size = static_cast<std::size_t>(row_bytes_);
  parallel_for(c.threads, count_, least_bytes / row_bytes_ + 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      auto* to = c.outputs[0] + i * row_bytes_;
      if (const auto row = detail::row_at(number_, c.inputs[1], i, rows_)) {
        std::memcpy(to, c.inputs[0] + *row * row_bytes_, size);
      } else {
        std::memset(to, 0, size);
      }
    }
  });
}

UNITY_INLINE void embedding_bag_routine::run(const call& c) const {
  constexpr std::int64_t least_elements = 16384;
  parallel_for(c.threads, count_, least_elements / (width_ * bag_) + 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      element_ == tensor::dtype::float64 ? add_up<double>(c, i) : add_up<float>(c, i);
    }
  });
}

}  // namespace unity::backend::cpu

#endif
