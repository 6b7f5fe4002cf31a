// Views and changes of layout: copies elements of any type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/threads.hpp>
#include <unity/backend/detail/view_copies.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu {

// Copies a box of elements between two strided buffers. Units: elements.
class strided_copy {
 public:
  explicit strided_copy(backend::detail::strided_box b);

  void run(std::byte* to, const std::byte* from, std::int64_t element, int threads) const;

 private:
  using loop = backend::detail::strided_loop;
  static constexpr std::int64_t side = 32;  // of the square that a transposition keeps in cache

  // The innermost loop writes contiguously; a loop that reads contiguously is moved next to it.
  void move_read_order_inside();

  // Unit of work: one position of the outer loops, and a part of the second innermost loop (or of the innermost one if
  // it is contiguous on both sides).
  template <class T>
  void run_as(std::byte* to_bytes, const std::byte* from_bytes, int threads) const {
    const auto& row = loops_[loops_.size() - 1];
    const auto& column = loops_[loops_.size() - 2];
    std::int64_t outer = 1;
    for (std::size_t l = 0; l + 2 < loops_.size(); ++l) {
      outer *= loops_[l].size;
    }
    constexpr std::int64_t longest_run = 16384;
    const auto row_parts = row.from == 1 && row.to == 1 ? (row.size + longest_run - 1) / longest_run : 1;
    const auto column_parts = (column.size + side - 1) / side;
    const auto work = std::max<std::int64_t>(row.size / row_parts * std::min(side, column.size), 1);
    constexpr std::int64_t least_elements = 16384;
    const auto body = [&](int, std::int64_t begin, std::int64_t end) {
      for (auto unit = begin; unit < end; ++unit) {
        const auto r = unit % row_parts;
        const auto c = unit / row_parts % column_parts;
        auto [to, from] = offsets(unit / row_parts / column_parts);
        const auto first = c * side;
        const auto rows_from = row.size * r / row_parts;
        const auto rows_to = row.size * (r + 1) / row_parts;
        copy_rectangle(reinterpret_cast<T*>(to_bytes) + to + first * column.to + rows_from * row.to,
                       reinterpret_cast<const T*>(from_bytes) + from + first * column.from + rows_from * row.from,
                       {std::min(side, column.size - first), column.to, column.from},
                       {rows_to - rows_from, row.to, row.from});
      }
    };
    parallel_for(threads, outer * column_parts * row_parts, least_elements / work + 1, body);
  }

  [[nodiscard]] std::pair<std::int64_t, std::int64_t> offsets(std::int64_t position) const;

  template <class T>
  static void copy_rectangle(T* to, const T* from, const loop& column, const loop& row) {
    if (row.to == 1 && row.from == 1) {
      for (std::int64_t i = 0; i < column.size; ++i) {
        std::memcpy(to + i * column.to, from + i * column.from, static_cast<std::size_t>(row.size) * sizeof(T));
      }
      return;
    }
    for (std::int64_t begin = 0; begin < row.size; begin += side) {
      const auto end = std::min(begin + side, row.size);
      for (std::int64_t i = 0; i < column.size; ++i) {
        for (auto j = begin; j < end; ++j) {
          to[i * column.to + j * row.to] = from[i * column.from + j * row.from];
        }
      }
    }
  }

  std::int64_t to_;
  std::int64_t from_;
  std::vector<loop> loops_;
};

// Any view.
class view_routine final : public routine {
 public:
  view_routine(const tensor::view_map& map, types inputs, types outputs);

  void run(const call& c) const override;

 private:
  struct movement {
    std::size_t operand;
    std::size_t result;
    strided_copy copy;
  };

  void fill(const call& c, std::size_t r) const;

  std::vector<tensor::tensor_type> outputs_;
  std::vector<movement> copies_{};
  std::vector<bool> has_gaps_{};
  double fill_;
  std::int64_t element_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_MOVEMENT)

#include <span>

#include <unity/backend/cpu/elements.hpp>

namespace unity::backend::cpu {

UNITY_INLINE strided_copy::strided_copy(backend::detail::strided_box b)
    : to_{b.to}, from_{b.from}, loops_{backend::detail::in_order_of_target(std::move(b.loops))} {
  while (loops_.size() < 2) {
    loops_.insert(loops_.begin(), {1, 0, 0});
  }
  move_read_order_inside();
}

UNITY_INLINE void strided_copy::run(std::byte* to, const std::byte* from, std::int64_t element, int threads) const {
  switch (element) {
    case 1: return run_as<std::uint8_t>(to, from, threads);
    case 2: return run_as<std::uint16_t>(to, from, threads);
    case 4: return run_as<std::uint32_t>(to, from, threads);
    default: return run_as<std::uint64_t>(to, from, threads);
  }
}

UNITY_INLINE void strided_copy::move_read_order_inside() {
  const auto inner = loops_.end() - 1;
  if (inner->from == 1) {
    return;
  }
  const auto reads = std::find_if(loops_.begin(), inner, [](const loop& l) { return l.from == 1; });
  if (reads != inner) {
    std::rotate(reads, reads + 1, inner);
  }
}

UNITY_INLINE std::pair<std::int64_t, std::int64_t> strided_copy::offsets(std::int64_t position) const {
  auto to = to_;
  auto from = from_;
  for (auto l = loops_.size() - 2; l-- > 0;) {
    const auto i = position % loops_[l].size;
    position /= loops_[l].size;
    to += i * loops_[l].to;
    from += i * loops_[l].from;
  }
  return {to, from};
}

UNITY_INLINE view_routine::view_routine(const tensor::view_map& map, types inputs, types outputs)
    : outputs_{outputs.begin(), outputs.end()}, fill_{map.fill()}, element_{tensor::size_of(outputs[0].element)} {
  backend::detail::view_copies view{map, inputs, outputs};
  has_gaps_ = std::move(view.has_gaps);
  for (auto& c : view.copies) {
    copies_.push_back({c.operand, c.result, strided_copy{std::move(c.box)}});
  }
}

UNITY_INLINE void view_routine::run(const call& c) const {
  for (std::size_t r = 0; r < outputs_.size(); ++r) {
    if (has_gaps_[r]) {
      fill(c, r);
    }
  }
  for (const auto& m : copies_) {
    m.copy.run(c.outputs[m.result], c.inputs[m.operand], element_, c.threads);
  }
}

UNITY_INLINE void view_routine::fill(const call& c, std::size_t r) const {
  const auto count = tensor::element_count(outputs_[r].dims);
  if (fill_ == 0) {
    std::memset(c.outputs[r], 0, static_cast<std::size_t>(count * element_));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store_elements(outputs_[r].element, c.outputs[r], i, &fill_, 1);
  }
}

}  // namespace unity::backend::cpu

#endif
