// Views and changes of layout: copies elements of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/layouts.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cuda {

struct alignas(16) sixteen_bytes {
  std::uint64_t x[2];
};

// to[..] = from[..], with separate strides. Units: elements of type T.
template <class T>
struct copy_function {
  loop_nest loops;
  loop_moves to_moves;
  loop_moves from_moves;
  T* to = nullptr;
  const T* from = nullptr;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t write = 0;
    std::int64_t read = 0;
    for (int l = loops.count - 1; l >= 0; --l) {
      const auto at = loops.sizes[l].split(i);
      write += at * to_moves.steps[l];
      read += at * from_moves.steps[l];
    }
    to[write] = from[read];
  }
};

// The same in tiles of two loops: the contiguous loop of the source and that of the target. Neighbouring threads both
// read and write contiguous memory.
template <class T>
struct turn_function {
  using element = T;
  static constexpr int side = 32;
  static constexpr int tile_size = side * (side + 1);  // one extra column: elements of a row are in different banks

  loop_nest loops;  // the outer loops, then the tiles of the source's and the target's contiguous loops
  loop_moves to_moves;
  loop_moves from_moves;
  std::int64_t rows = 0;         // of the contiguous loop of the source
  std::int64_t columns = 0;      // of the contiguous loop of the target
  std::int64_t row_step = 0;     // stride in the target
  std::int64_t column_step = 0;  // stride in the source
  T* to = nullptr;
  const T* from = nullptr;

  UNITY_HOST_DEVICE void read(T* tile, int thread, std::int64_t block) const {
    const auto p = find(block);
    const auto row = thread % side;
    for (int column = thread / side; column < side; column += block_threads / side) {
      if (p.row + row < rows && p.column + column < columns) {
        tile[column * (side + 1) + row] = from[p.read + row + column * column_step];
      }
    }
  }
  UNITY_HOST_DEVICE void write(const T* tile, int thread, std::int64_t block) const {
    const auto p = find(block);
    const auto column = thread % side;
    for (int row = thread / side; row < side; row += block_threads / side) {
      if (p.row + row < rows && p.column + column < columns) {
        to[p.write + column + row * row_step] = tile[column * (side + 1) + row];
      }
    }
  }

 private:
  struct place {
    std::int64_t read = 0;
    std::int64_t write = 0;
    std::int64_t row = 0;
    std::int64_t column = 0;
  };
  [[nodiscard]] UNITY_HOST_DEVICE place find(std::int64_t block) const {
    place p;
    for (int l = loops.count - 1; l >= 0; --l) {
      const auto at = loops.sizes[l].split(block);
      p.write += at * to_moves.steps[l];
      p.read += at * from_moves.steps[l];
      p.column = l == loops.count - 1 ? at * side : p.column;
      p.row = l == loops.count - 2 ? at * side : p.row;
    }
    return p;
  }
};

struct fill_function {
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  double value = 0;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const { store_element(element, to, i, value); }
};

// Copies a box of elements between two strided buffers. Units: elements of `element` bytes each.
class strided_copy {
 public:
  strided_copy(backend::detail::strided_box b, std::int64_t element)
      : to_{b.to}, from_{b.from}, element_{element}, loops_{backend::detail::in_order_of_target(std::move(b.loops))} {
    widen();
  }

  template <class Queue>
  void run(Queue& queue, std::byte* to, const std::byte* from) const {
    switch (element_) {
      case 1: return run_as<std::uint8_t>(queue, to, from);
      case 2: return run_as<std::uint16_t>(queue, to, from);
      case 4: return run_as<std::uint32_t>(queue, to, from);
      case 8: return run_as<std::uint64_t>(queue, to, from);
      default: return run_as<sixteen_bytes>(queue, to, from);
    }
  }

  // Bytes moved at once. It only affects the time, not the result; for tests.
  [[nodiscard]] std::int64_t moved_at_once() const noexcept { return element_; }
  // Whether it uses tiles, because source and target are contiguous along different loops.
  [[nodiscard]] bool turns() const noexcept { return source_loop() < loops_.size(); }

 private:
  // Moves runs of contiguous elements as one larger element if all addresses are multiples of its size.
  void widen() {
    constexpr std::int64_t largest = 16;
    while (element_ < largest && !loops_.empty() && fits_pairs()) {
      for (auto& l : loops_) {
        const bool inner = &l == &loops_.back();
        l = {inner ? l.size / 2 : l.size, inner ? 1 : l.to / 2, inner ? 1 : l.from / 2};
      }
      to_ /= 2;
      from_ /= 2;
      element_ *= 2;
    }
  }
  [[nodiscard]] bool fits_pairs() const {
    bool fits = loops_.back().to == 1 && loops_.back().from == 1 && loops_.back().size % 2 == 0 && to_ % 2 == 0 &&
                from_ % 2 == 0;
    for (std::size_t l = 0; l + 1 < loops_.size(); ++l) {
      fits = fits && loops_[l].to % 2 == 0 && loops_[l].from % 2 == 0;
    }
    return fits;
  }

  // The contiguous loop of the source, if it differs from that of the target and both fill a large part of a tile.
  [[nodiscard]] std::size_t source_loop() const noexcept {
    constexpr std::int64_t least = 8;
    for (std::size_t l = 0; l + 1 < loops_.size(); ++l) {
      if (loops_[l].from == 1 && loops_[l].size >= least && loops_.back().to == 1 && loops_.back().from != 1 &&
          loops_.back().size >= least) {
        return l;
      }
    }
    return loops_.size();
  }
  template <class T, class Queue>
  void turn_as(Queue& queue, std::byte* to, const std::byte* from) const {
    turn_function<T> f;
    f.to = reinterpret_cast<T*>(to) + to_;
    f.from = reinterpret_cast<const T*>(from) + from_;
    const auto add = [&](std::int64_t size, std::int64_t write, std::int64_t read) {
      f.to_moves.steps[f.loops.count] = write;
      f.from_moves.steps[f.loops.count] = read;
      f.loops.add(size);
    };
    const auto turned = source_loop();
    for (std::size_t l = 0; l + 1 < loops_.size(); ++l) {
      if (l != turned) {
        add(loops_[l].size, loops_[l].to, loops_[l].from);
      }
    }
    constexpr std::int64_t side = turn_function<T>::side;
    const auto& rows = loops_[turned];
    const auto& columns = loops_.back();
    add((rows.size + side - 1) / side, side * rows.to, side);
    add((columns.size + side - 1) / side, side, side * columns.from);
    f.rows = rows.size;
    f.columns = columns.size;
    f.row_step = rows.to;
    f.column_step = columns.from;
    queue.tiles(f.loops.points(), f);
  }
  template <class T, class Queue>
  void run_as(Queue& queue, std::byte* to, const std::byte* from) const {
    if (turns()) {
      turn_as<T>(queue, to, from);
      return;
    }
    copy_function<T> f;
    f.to = reinterpret_cast<T*>(to) + to_;
    f.from = reinterpret_cast<const T*>(from) + from_;
    for (const auto& l : loops_) {
      f.to_moves.steps[f.loops.count] = l.to;
      f.from_moves.steps[f.loops.count] = l.from;
      f.loops.add(l.size);
    }
    queue.each(f.loops.points(), f);
  }

  std::int64_t to_;
  std::int64_t from_;
  std::int64_t element_;
  // the last one is contiguous in the target, so neighbouring threads write contiguous memory
  std::vector<backend::detail::strided_loop> loops_;
};

// Copies from one layout to the other.
[[nodiscard]] inline strided_copy relayout(const tensor::tensor_type& from, tensor::layout to) {
  return {backend::detail::relayout_box(from.dims, to, from.order), tensor::size_of(from.element)};
}

// Any view.
template <class Queue>
class view_routine final : public routine<Queue> {
 public:
  view_routine(const tensor::view_map& map, types inputs, types outputs)
      : outputs_{outputs.begin(), outputs.end()}, fill_{map.fill()} {
    backend::detail::view_copies view{map, inputs, outputs};
    has_gaps_ = std::move(view.has_gaps);
    for (auto& c : view.copies) {
      copies_.push_back({c.operand, c.result, {std::move(c.box), tensor::size_of(inputs[c.operand].element)}});
    }
  }

  void run(const call<Queue>& c) const override {
    for (std::size_t r = 0; r < outputs_.size(); ++r) {
      if (has_gaps_[r]) {
        c.queue.each(tensor::element_count(outputs_[r].dims), fill_function{c.outputs[r], outputs_[r].element, fill_});
      }
    }
    for (const auto& m : copies_) {
      m.copy.run(c.queue, c.outputs[m.result], c.inputs[m.operand]);
    }
  }

 private:
  struct movement {
    std::size_t operand;
    std::size_t result;
    strided_copy copy;
  };

  std::vector<tensor::tensor_type> outputs_;
  std::vector<movement> copies_{};
  std::vector<bool> has_gaps_{};
  double fill_;
};

// The same elements in the other layout.
template <class Queue>
class relayout_routine final : public routine<Queue> {
 public:
  relayout_routine(const tensor::tensor_type& from, tensor::layout to) : copy_{relayout(from, to)} {}
  void run(const call<Queue>& c) const override { copy_.run(c.queue, c.outputs[0], c.inputs[0]); }

 private:
  strided_copy copy_;
};

}  // namespace unity::backend::cuda
