// The largest elements of a vector, and the sorted positions of all.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/threads.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

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

// Nothing if it is not a selection operator.
[[nodiscard]] std::unique_ptr<routine> selection(std::string_view name, types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_SELECTION)

#include <unity/backend/cpu/embedding.hpp>

namespace unity::backend::cpu {

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
