// Lookup of rows by index, sums of rows, their adjoints, and the indices of the largest elements.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/device_backend.hpp>
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

// The adjoints of lookups: each row of the table is a sum of cotangents.

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

// Sort keys, smallest first: the complement of the bits of |x| (which order like numbers, NaN highest), then the index.
// No two keys are equal, so the order does not depend on the algorithm.
class selection_routine final : public routine {
 public:
  enum class task : std::uint8_t { largest, places };

  // Inputs: row-major, of floating type.
  selection_routine(task what, types inputs, types outputs)
      : what_{what},
        count_{tensor::element_count(inputs[0].dims)},
        selected_{tensor::element_count(outputs[0].dims)},
        element_{inputs[0].element},
        number_{outputs[0].element} {}

  [[nodiscard]] std::size_t workspace() const override {
    return static_cast<std::size_t>(count_) * (is_packed() ? sizeof(std::uint64_t) : sizeof(wide_entry));
  }

  void run(const call& c) const override;

 private:
  using wide_entry = std::pair<std::uint64_t, std::int64_t>;
  static constexpr std::int64_t block = 256;

  // Whether bits and index fit in one word.
  [[nodiscard]] bool is_packed() const noexcept {
    return element_ != tensor::dtype::float64 && number_ == tensor::dtype::int32;
  }

  static void make(std::uint64_t& entry, float x, std::int64_t i) {
    const auto bits = std::isnan(x) ? ~std::uint32_t{0} : std::bit_cast<std::uint32_t>(std::abs(x));
    entry = static_cast<std::uint64_t>(~bits) << 32U | static_cast<std::uint64_t>(i);
  }
  static void make(wide_entry& entry, double x, std::int64_t i) {
    const auto bits = std::isnan(x) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(std::abs(x));
    entry = {~bits, i};
  }
  [[nodiscard]] static std::int64_t number_of(std::uint64_t entry) {
    return static_cast<std::int64_t>(entry & 0xffffffffU);
  }
  [[nodiscard]] static std::int64_t number_of(const wide_entry& entry) { return entry.second; }

  // Calls f(i, entry) for the elements of a vector in [begin, end).
  template <class Real, class Entry, class F>
  void for_each_entry(const std::byte* from, std::int64_t begin, std::int64_t end, const F& f) const {
    std::array<Real, block> part;
    for (auto first = begin; first < end; first += block) {
      const auto n = std::min(block, end - first);
      load_elements(element_, part.data(), from, first, n, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        Entry e;
        make(e, part[static_cast<std::size_t>(i)], first + i);
        f(first + i, e);
      }
    }
  }
  void store(std::byte* to, std::int64_t at, std::int64_t number) const {
    if (number_ == tensor::dtype::int32) {
      reinterpret_cast<std::int32_t*>(to)[at] = static_cast<std::int32_t>(number);
    } else {
      reinterpret_cast<std::int64_t*>(to)[at] = number;
    }
  }

  template <class Real, class Entry>
  void run_with(const call& c) const {
    constexpr std::int64_t least = 4096;
    auto* const all = reinterpret_cast<Entry*>(c.work);
    parallel_for(c.threads, count_, least, [&](int, std::int64_t begin, std::int64_t end) {
      for_each_entry<Real, Entry>(c.inputs[0], begin, end, [&](std::int64_t i, const Entry& e) { all[i] = e; });
    });
    if (what_ == task::largest) {
      std::nth_element(all, all + (selected_ - 1), all + count_);
      std::sort(all, all + selected_);
      for (std::int64_t r = 0; r < selected_; ++r) {
        store(c.outputs[0], r, number_of(all[r]));
      }
      return;
    }
    std::sort(all, all + count_);
    parallel_for(c.threads, count_, least, [&](int, std::int64_t begin, std::int64_t end) {
      for_each_entry<Real, Entry>(c.inputs[1], begin, end, [&](std::int64_t i, const Entry& e) {
        store(c.outputs[0], i, std::lower_bound(all, all + count_, e) - all);
      });
    });
  }

  task what_;
  std::int64_t count_;
  std::int64_t selected_;
  tensor::dtype element_;
  tensor::dtype number_;
};

// elements_at_places. Inputs: row-major, of integer type.
class placed_elements_routine final : public routine {
 public:
  placed_elements_routine(types inputs, types outputs)
      : count_{tensor::element_count(inputs[0].dims)},
        places_{tensor::element_count(outputs[0].dims)},
        number_{inputs[0].element} {}

  // Sums, in 64 bits.
  [[nodiscard]] std::size_t workspace() const override {
    return static_cast<std::size_t>(places_) * sizeof(std::int64_t);
  }

  void run(const call& c) const override;

 private:
  std::int64_t count_;
  std::int64_t places_;
  tensor::dtype number_;
};

// The routine of a selection operator; nothing for other operators.
[[nodiscard]] std::unique_ptr<routine> selection(std::string_view name, types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_EMBEDDING)

#include <cstring>

#include <unity/tensor/element.hpp>

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

UNITY_INLINE void selection_routine::run(const call& c) const {
  is_packed() ? run_with<float, std::uint64_t>(c) : run_with<double, wide_entry>(c);
}

UNITY_INLINE void placed_elements_routine::run(const call& c) const {
  auto* const sums = reinterpret_cast<std::int64_t*>(c.work);
  std::fill(sums, sums + places_, std::int64_t{0});
  for (std::int64_t i = 0; i < count_; ++i) {
    if (const auto place = detail::row_at(number_, c.inputs[0], i, places_)) {
      sums[*place] += i;
    }
  }
  constexpr std::int64_t block = 256;
  std::array<double, block> part;
  for (std::int64_t first = 0; first < places_; first += block) {
    const auto n = std::min(block, places_ - first);
    std::transform(sums + first, sums + first + n, part.begin(), [](std::int64_t x) { return static_cast<double>(x); });
    store_elements(number_, c.outputs[0], first, part.data(), n);
  }
}

UNITY_INLINE std::unique_ptr<routine> selection(std::string_view name, types inputs, types outputs) {
  if (name == "elements_at_places") {
    return std::make_unique<placed_elements_routine>(inputs, outputs);
  }
  if (name == "magnitude_place" || name == "top_k") {
    const auto what = name == "top_k" ? selection_routine::task::largest : selection_routine::task::places;
    return std::make_unique<selection_routine>(what, inputs, outputs);
  }
  return nullptr;
}

}  // namespace unity::backend::cpu

#endif
