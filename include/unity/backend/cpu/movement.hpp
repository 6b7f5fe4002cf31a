// Views and changes of layout: elements are copied, whatever their type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/threads.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::backend::cpu {

// A copy of a box of elements between two strided places. Units: elements.
class strided_copy {
 public:
  struct loop {
    std::int64_t size = 1;
    std::int64_t to = 0;
    std::int64_t from = 0;
  };

  strided_copy(std::int64_t to, std::int64_t from, std::vector<loop> loops) : to_{to}, from_{from} {
    for (const auto& l : loops) {
      if (l.size != 1) {
        loops_.push_back(l);
      }
    }
    // In the order of the target; what is read next to each other stays together.
    std::sort(loops_.begin(), loops_.end(), [](const loop& a, const loop& b) { return a.to > b.to; });
    coalesce();
    while (loops_.size() < 2) {
      loops_.insert(loops_.begin(), {1, 0, 0});
    }
    move_read_order_inside();
  }

  void run(std::byte* to, const std::byte* from, std::int64_t element, int threads) const {
    switch (element) {
      case 1: return run_as<std::uint8_t>(to, from, threads);
      case 2: return run_as<std::uint16_t>(to, from, threads);
      case 4: return run_as<std::uint32_t>(to, from, threads);
      default: return run_as<std::uint64_t>(to, from, threads);
    }
  }

 private:
  static constexpr std::int64_t side = 32;  // of the square that a transposition keeps in cache

  void coalesce() {
    std::vector<loop> joined;
    for (const auto& l : loops_) {
      if (!joined.empty() && joined.back().to == l.to * l.size && joined.back().from == l.from * l.size) {
        joined.back() = {joined.back().size * l.size, l.to, l.from};
      } else {
        joined.push_back(l);
      }
    }
    loops_ = std::move(joined);
  }

  // The innermost loop writes next to each other; where another one reads so, it becomes the one before.
  void move_read_order_inside() {
    const auto inner = loops_.end() - 1;
    if (inner->from == 1) {
      return;
    }
    const auto reads = std::find_if(loops_.begin(), inner, [](const loop& l) { return l.from == 1; });
    if (reads != inner) {
      std::rotate(reads, reads + 1, inner);
    }
  }

  // The unit of work: one position of the outer loops and a part of the last but one, or of the last where that is all.
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

  [[nodiscard]] std::pair<std::int64_t, std::int64_t> offsets(std::int64_t position) const {
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

// From one layout to the other.
[[nodiscard]] inline strided_copy relayout(const tensor::shape& dims, tensor::layout to, tensor::layout from) {
  std::vector<strided_copy::loop> loops;
  const auto write = tensor::strides_of(dims, to);
  const auto read = tensor::strides_of(dims, from);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    loops.push_back({dims[d], write[d], read[d]});
  }
  return {0, 0, std::move(loops)};
}

// Any view.
class view_routine final : public routine {
 public:
  view_routine(const tensor::view_map& map, types inputs, types outputs)
      : outputs_{outputs.begin(), outputs.end()}, fill_{map.fill()}, element_{tensor::size_of(outputs[0].element)} {
    std::vector<std::int64_t> covered(outputs.size(), 0);
    if (map.relabels()) {
      // Row-major order is what stays; the result is row-major.
      copies_.push_back({0, 0, relayout(inputs[0].dims, tensor::layout::row_major, inputs[0].order)});
      covered[0] = tensor::element_count(outputs[0].dims);
    }
    for (const auto& p : map.pieces()) {
      copies_.push_back({p.operand, p.result, copy_of(p, inputs[p.operand], outputs[p.result])});
      covered[p.result] += tensor::element_count(p.sizes);
    }
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      has_gaps_.push_back(covered[r] < tensor::element_count(outputs[r].dims));
    }
  }

  void run(const call& c) const override {
    for (std::size_t r = 0; r < outputs_.size(); ++r) {
      if (has_gaps_[r]) {
        fill(c, r);
      }
    }
    for (const auto& m : copies_) {
      m.copy.run(c.outputs[m.result], c.inputs[m.operand], element_, c.threads);
    }
  }

 private:
  struct movement {
    std::size_t operand;
    std::size_t result;
    strided_copy copy;
  };

  static strided_copy copy_of(const tensor::piece& p, const tensor::tensor_type& input,
                              const tensor::tensor_type& output) {
    const auto read = tensor::strides_of(input.dims, input.order);
    const auto write = tensor::strides_of(output.dims, output.order);
    std::vector<strided_copy::loop> loops;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (std::size_t d = 0; d < p.sizes.size(); ++d) {
      to += p.origin[d] * write[d];
      loops.push_back({p.sizes[d], write[d], 0});
    }
    for (std::size_t d = 0; d < p.source.size(); ++d) {
      from += p.source[d].start * read[d];
      if (p.source[d].along >= 0) {
        loops[static_cast<std::size_t>(p.source[d].along)].from += p.source[d].step * read[d];
      }
    }
    return {to, from, std::move(loops)};
  }

  void fill(const call& c, std::size_t r) const {
    const auto count = tensor::element_count(outputs_[r].dims);
    if (fill_ == 0) {
      std::memset(c.outputs[r], 0, static_cast<std::size_t>(count * element_));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      store_elements(outputs_[r].element, c.outputs[r], i, &fill_, 1);
    }
  }

  std::vector<tensor::tensor_type> outputs_;
  std::vector<movement> copies_;
  std::vector<bool> has_gaps_;
  double fill_;
  std::int64_t element_;
};

}  // namespace unity::backend::cpu
