// Views, and changes of layout and element type: copies elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/layouts.hpp>
#include <unity/core/small_vector.hpp>
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

class relayout_routine final : public routine {
 public:
  relayout_routine(const tensor::tensor_type& from, tensor::layout to)
      : copy_{backend::detail::relayout_box(from.dims, to, from.order)}, element_{tensor::size_of(from.element)} {}
  void run(const call& c) const override { copy_.run(c.outputs[0], c.inputs[0], element_, c.threads); }

 private:
  strided_copy copy_;
  std::int64_t element_;
};

// Converts to the nearest numbers of the target type.
[[nodiscard]] std::unique_ptr<routine> conversion(const tensor::tensor_type& from, const tensor::tensor_type& to,
                                                  int threads);

// A routine between conversions. Operands that it reads without conversion keep its packed forms.
class converting_routine final : public routine {
 public:
  // inner: a routine for the plain types.
  converting_routine(std::unique_ptr<routine> inner, types inputs, types plain_inputs, types outputs,
                     types plain_outputs, int threads);

  [[nodiscard]] std::size_t workspace() const override { return size_ + most_; }

  void run(const call& c) const override;

  [[nodiscard]] std::size_t packed_size(std::size_t i) const override {
    return ends_in_[i].change ? 0 : inner_->packed_size(i);
  }
  void pack(std::size_t i, const std::byte* from, std::byte* to) const override { inner_->pack(i, from, to); }

 private:
  struct end {
    std::unique_ptr<routine> change{};  // null: no conversion
    std::size_t offset = 0;             // within the workspace
  };

  void prepare(std::vector<end>& ends, const tensor::tensor_type& outside, const tensor::tensor_type& inside,
               const tensor::tensor_type& from, const tensor::tensor_type& to, int threads);

  std::unique_ptr<routine> inner_;
  std::vector<end> ends_in_;
  std::vector<end> ends_out_;
  std::size_t size_ = 0;
  std::size_t most_ = 0;
  std::size_t inner_at_ = 0;
  mutable std::vector<const std::byte*> in_;
  mutable std::vector<std::byte*> out_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_MOVEMENT)

#include <span>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/element.hpp>

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

UNITY_INLINE std::unique_ptr<routine> conversion(const tensor::tensor_type& from, const tensor::tensor_type& to,
                                                 int threads) {
  if (from.element == to.element) {
    return std::make_unique<relayout_routine>(from, to.order);
  }
  return make_tiles(conversion_program(from, to),
                    tensor::exceeds_float32(from.element) || tensor::exceeds_float32(to.element), threads);
}

UNITY_INLINE converting_routine::converting_routine(std::unique_ptr<routine> inner, types inputs, types plain_inputs,
                                                    types outputs, types plain_outputs, int threads)
    : inner_{std::move(inner)}, in_(inputs.size()), out_(outputs.size()) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    prepare(ends_in_, inputs[i], plain_inputs[i], inputs[i], plain_inputs[i], threads);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    prepare(ends_out_, outputs[i], plain_outputs[i], plain_outputs[i], outputs[i], threads);
  }
  inner_at_ = size_;
  most_ = std::max(most_, inner_->workspace());
}

UNITY_INLINE void converting_routine::run(const call& c) const {
  auto* work = c.work + inner_at_;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    in_[i] = c.inputs[i];
    if (ends_in_[i].change) {
      auto* to = c.work + ends_in_[i].offset;
      ends_in_[i].change->run({{&in_[i], 1}, {&to, 1}, work, c.threads});
      in_[i] = to;
    }
  }
  for (std::size_t i = 0; i < out_.size(); ++i) {
    out_[i] = ends_out_[i].change ? c.work + ends_out_[i].offset : c.outputs[i];
  }
  inner_->run({in_, out_, work, c.threads});
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (ends_out_[i].change) {
      const std::byte* from = out_[i];
      auto* to = c.outputs[i];
      ends_out_[i].change->run({{&from, 1}, {&to, 1}, work, c.threads});
    }
  }
}

UNITY_INLINE void converting_routine::prepare(std::vector<end>& ends, const tensor::tensor_type& outside,
                                              const tensor::tensor_type& inside, const tensor::tensor_type& from,
                                              const tensor::tensor_type& to, int threads) {
  end e;
  if (outside.element != inside.element || outside.order != inside.order) {
    e.change = conversion(from, to, threads);
    e.offset = size_;
    size_ += backend::detail::aligned_size(byte_count(inside));
    most_ = std::max(most_, e.change->workspace());
  }
  ends.push_back(std::move(e));
}

}  // namespace unity::backend::cpu

#endif
