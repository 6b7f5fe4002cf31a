// The adjoints of lookups: each row of the table is a sum of cotangents.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <unity/backend/cpu/element_blocks.hpp>
#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/instruction_set.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/threads.hpp>
#include <unity/backend/detail/aligned_size.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Each row is computed by one thread, which adds in the order of the ids, so the result does not depend on the number
// of threads.
class embedding_gradient_routine final : public routine {
 public:
  // Inputs: ids of any integer type, and cotangents; all row-major. bags: one cotangent per bag of ids.
  embedding_gradient_routine(types inputs, types outputs, bool bags)
      : rows_{outputs[0].dims[0]},
        width_{tensor::element_count(outputs[0].dims) / rows_},
        bag_{bags ? inputs[0].dims[inputs[0].rank() - 1] : 1},
        count_{tensor::element_count(inputs[0].dims)},
        number_{inputs[0].element},
        element_{outputs[0].element} {}

  // The ids, and the sums: in float32 for narrower floats, in float64 for integers.
  [[nodiscard]] std::size_t workspace() const override {
    const auto size = tensor::is_integral(element_) ? sizeof(double) : is_narrow() ? sizeof(float) : std::size_t{0};
    return numbers_size() + static_cast<std::size_t>(rows_ * width_) * size;
  }

  void run(const call& c) const override;

 private:
  static constexpr std::int64_t none = -1;
  static constexpr std::int64_t least_elements = 16384;

  [[nodiscard]] bool is_narrow() const noexcept {
    return element_ != tensor::dtype::float64 && element_ != tensor::dtype::float32;
  }
  [[nodiscard]] std::size_t numbers_size() const {
    return backend::detail::aligned_size(static_cast<std::size_t>(count_) * sizeof(std::int64_t));
  }

  template <class Real>
  void add_up_apart(const call& c, const std::int64_t* numbers) const {
    auto* const sums = reinterpret_cast<Real*>(c.work + numbers_size());
    add_up(c, numbers, sums);
    parallel_for(c.threads, rows_ * width_, least_elements, [&](int, std::int64_t begin, std::int64_t end) {
      store_elements(element_, c.outputs[0], begin, sums + begin, end - begin);
    });
  }

  template <class Real>
  void add_up(const call& c, const std::int64_t* numbers, Real* sums) const {
    parallel_for(c.threads, rows_ * width_, least_elements,
                 [&](int, std::int64_t begin, std::int64_t end) { std::fill(sums + begin, sums + end, Real{0}); });
    const auto owners = std::clamp<std::int64_t>(count_ * width_ / least_elements, 1, c.threads);
    parallel_for(c.threads, owners, 1, [&](int, std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] {
        for (auto owner = begin; owner < end; ++owner) {
          add_rows(c, numbers, sums, owner, owners);
        }
      });
    });
  }

  // Frequent ids are often adjacent: blocks of rows are distributed round-robin among the owners.
  template <class Real>
  void add_rows(const call& c, const std::int64_t* numbers, Real* sums, std::int64_t owner, std::int64_t owners) const {
    constexpr std::int64_t block = 16;
    constexpr std::int64_t most = 256;
    std::array<Real, most> part;
    for (std::int64_t i = 0; i < count_; ++i) {
      if (numbers[i] == none || numbers[i] / block % owners != owner) {
        continue;
      }
      const auto from = i / bag_ * width_;
      for (std::int64_t first = 0; first < width_; first += most) {
        const auto n = std::min(most, width_ - first);
        load_elements(element_, part.data(), c.inputs[1], from + first, n, 1);
        Real* const to = sums + numbers[i] * width_ + first;
        const Real* const more = part.data();
        write_each(to, n, [&](std::int64_t k) { return to[k] + more[k]; });
      }
    }
  }

  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t bag_;
  std::int64_t count_;
  tensor::dtype number_;
  tensor::dtype element_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_EMBEDDING_GRADIENT)

#include <unity/backend/cpu/embedding.hpp>
#include <unity/tensor/element.hpp>

namespace unity::backend::cpu {

UNITY_INLINE void embedding_gradient_routine::run(const call& c) const {
  auto* const numbers = reinterpret_cast<std::int64_t*>(c.work);
  constexpr std::int64_t least_numbers = 4096;
  parallel_for(c.threads, count_, least_numbers, [&](int, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      numbers[i] = detail::row_at(number_, c.inputs[0], i, rows_).value_or(none);
    }
  });
  if (element_ == tensor::dtype::float64) {
    add_up(c, numbers, reinterpret_cast<double*>(c.outputs[0]));
  } else if (!is_narrow()) {
    add_up(c, numbers, reinterpret_cast<float*>(c.outputs[0]));
  } else if (tensor::is_integral(element_)) {
    add_up_apart<double>(c, numbers);
  } else {
    add_up_apart<float>(c, numbers);
  }
}

}  // namespace unity::backend::cpu

#endif
