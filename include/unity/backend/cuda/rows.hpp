// Operators on whole rows: softmax, layer norm, lookups and their adjoints, as device functions and as routines.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// Softmax and layer norm, which need a whole row before they can write any element, and the lookup of rows.

// exp(x - largest) / sum along one axis; operand and result may have any layout.
struct softmax_function {
  loop_nest others{};  // the dimensions except the axis
  loop_moves from_moves{};
  loop_moves to_moves{};
  std::int64_t size = 1;  // of the axis
  std::int64_t from_step = 1;
  std::int64_t to_step = 1;
  bool quads = false;  // whether rows are in aligned groups of four, in operand and result
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t row) const {
    std::int64_t read = 0;
    std::int64_t write = 0;
    for (int l = others.count - 1; l >= 0; --l) {
      const auto i = others.sizes[l].split(row);
      read += i * from_moves.steps[l];
      write += i * to_moves.steps[l];
    }
    if (quads) {
      normalize<4>(group, read, write);
    } else {
      normalize<1>(group, read, write);
    }
  }

 private:
  // Processes Width elements at once: adds them in float, and those sums in double, because a device has far fewer
  // units for double.
  template <int Width, class Group>
  UNITY_HOST_DEVICE void normalize(const Group& group, std::int64_t read, std::int64_t write) const {
    const auto count = size / Width;
    auto most = -static_cast<float>(infinity);
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(read, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        most = most < q.x[j] ? q.x[j] : most;
      }
    }
    const auto top = static_cast<float>(group.largest(static_cast<double>(most)));
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(read, i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        some += std::exp(q.x[j] - top);
      }
      sum += static_cast<double>(some);
    }
    const auto factor = static_cast<float>(1 / group.sum(sum));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      auto q = load<Width>(read, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        q.x[j] = std::exp(q.x[j] - top) * factor;
      }
      if constexpr (Width == 4) {
        store_quad(element, to, write / 4 + i, q);
      } else {
        store_element<float>(element, to, write + i * to_step, q.x[0]);
      }
    }
  }
  template <int Width>
  [[nodiscard]] UNITY_HOST_DEVICE quad<float> load(std::int64_t read, std::int64_t i) const {
    if constexpr (Width == 4) {
      return load_quad(element, from, read / 4 + i);
    } else {
      return {{load_element<float>(element, from, read + i * from_step), 0, 0, 0}};
    }
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + shift over contiguous rows. The element type must support quads.
struct layer_norm_function {
  std::int64_t size = 1;
  double epsilon = 0;
  const std::byte* from = nullptr;
  const std::byte* scale = nullptr;
  const std::byte* shift = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t row) const {
    if (size % 4 == 0) {
      normalize<4>(group, row * size / 4);
    } else {
      normalize<1>(group, row * size);
    }
  }

 private:
  // Processes Width elements of a row at once, from `first`: adds them in float, and those sums in double, because a
  // device has far fewer units for double.
  template <int Width, class Group>
  UNITY_HOST_DEVICE void normalize(const Group& group, std::int64_t first) const {
    const auto count = size / Width;
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(from, first + i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        some += q.x[j];
      }
      sum += static_cast<double>(some);
    }
    const auto mean = group.sum(sum) / static_cast<double>(size);
    // The mean as the sum of two floats, which is more precise than one: the difference may cancel.
    const auto high = static_cast<float>(mean);
    const auto low = static_cast<float>(mean - static_cast<double>(high));
    double squares = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(from, first + i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        const auto x = q.x[j] - high - low;
        some += x * x;
      }
      squares += static_cast<double>(some);
    }
    const auto variance = group.sum(squares) / static_cast<double>(size);
    const auto factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      auto q = load<Width>(from, first + i);
      const auto by = load<Width>(scale, i);
      const auto plus = load<Width>(shift, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        q.x[j] = (q.x[j] - high - low) * factor * by.x[j] + plus.x[j];
      }
      if constexpr (Width == 4) {
        store_quad(element, to, first + i, q);
      } else {
        store_element<float>(element, to, first + i, q.x[0]);
      }
    }
  }
  template <int Width>
  [[nodiscard]] UNITY_HOST_DEVICE quad<float> load(const std::byte* of, std::int64_t i) const {
    if constexpr (Width == 4) {
      return load_quad(element, of, i);
    } else {
      return {{load_element<float>(element, of, i), 0, 0, 0}};
    }
  }
};

// Element i of a tensor of integers.
[[nodiscard]] UNITY_HOST_DEVICE inline std::int64_t load_integer(tensor::dtype t, const std::byte* from,
                                                                 std::int64_t i) {
  switch (t) {
    case tensor::dtype::int64: return reinterpret_cast<const std::int64_t*>(from)[i];
    case tensor::dtype::int32: return reinterpret_cast<const std::int32_t*>(from)[i];
    case tensor::dtype::int8: return reinterpret_cast<const std::int8_t*>(from)[i];
    default: return reinterpret_cast<const std::uint8_t*>(from)[i];
  }
}

// Row ids[i] of a table; zeros if there is no such row. T: a type whose size divides the size of a row.
template <class T>
struct lookup_function {
  loop_size row{};  // of the table, in T
  std::int64_t rows = 0;
  const T* table = nullptr;
  const std::byte* ids = nullptr;
  T* to = nullptr;
  tensor::dtype number = tensor::dtype::int64;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto which = i;
    const auto place = row.split(which);
    const auto id = load_integer(number, ids, which);
    to[i] = id >= 0 && id < rows ? table[id * row.size + place] : T{};
  }
};

// The sum of the rows of bag i of ids, ignoring ids without a row.
struct bag_function {
  loop_size row{};  // of the table, in elements
  std::int64_t rows = 0;
  std::int64_t bag = 1;
  const std::byte* table = nullptr;
  const std::byte* ids = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  tensor::dtype number = tensor::dtype::int64;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto which = i;
    const auto place = row.split(which);
    double sum = 0;
    for (std::int64_t k = 0; k < bag; ++k) {
      const auto id = load_integer(number, ids, which * bag + k);
      sum += id >= 0 && id < rows ? load_element<double>(element, table, id * row.size + place) : 0;
    }
    store_element<double>(element, to, i, sum);
  }
};

// The adjoints of lookups: each row of the table is a sum of cotangents, in the order of the ids and without atomic
// operations.

// For each id, the position of the next equal id, and whether there is an earlier equal one.
struct equal_numbers {
  std::int64_t* next = nullptr;     // -1: none
  std::uint8_t* follows = nullptr;  // initially zeros; also set for ids without a row
};

struct link_function {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  const std::byte* ids = nullptr;
  tensor::dtype number = tensor::dtype::int64;
  equal_numbers links{};

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto id = load_integer(number, ids, i);
    links.next[i] = -1;
    if (id < 0 || id >= rows) {
      links.follows[i] = 1;
      return;
    }
    for (auto j = i + 1; j < count; ++j) {
      if (load_integer(number, ids, j) == id) {
        links.next[i] = j;
        links.follows[j] = 1;  // no other thread writes there
        return;
      }
    }
  }
};

// Computes one element of the row of an id, at its first occurrence.
struct add_rows_function {
  loop_size row{};  // of the table, in elements
  loop_size bag{};
  const std::byte* ids = nullptr;
  const std::byte* cotangent = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  tensor::dtype number = tensor::dtype::int64;
  equal_numbers links{};

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto which = i;
    const auto place = row.split(which);
    if (links.follows[which] != 0) {
      return;
    }
    const auto id = load_integer(number, ids, which);
    double sum = 0;
    for (; which >= 0; which = links.next[which]) {
      auto from = which;
      static_cast<void>(bag.split(from));
      sum += load_element<double>(element, cotangent, from * row.size + place);
    }
    store_element<double>(element, to, id * row.size + place, sum);
  }
};

// Row-major; ids of any integer type.
template <class Queue>
class embedding_gradient_routine final : public routine<Queue> {
 public:
  // bags: one cotangent per bag of ids.
  embedding_gradient_routine(types inputs, types outputs, bool bags)
      : elements_{tensor::element_count(outputs[0].dims)}, count_{tensor::element_count(inputs[0].dims)} {
    link_.count = count_;
    link_.rows = outputs[0].dims[0];
    link_.number = inputs[0].element;
    add_.row = loop_size{elements_ / link_.rows};
    add_.bag = loop_size{bags ? inputs[0].dims[inputs[0].rank() - 1] : 1};
    add_.element = outputs[0].element;
    add_.number = inputs[0].element;
  }

  [[nodiscard]] std::size_t workspace() const override { return next_size() + static_cast<std::size_t>(count_); }

  void run(const call<Queue>& c) const override {
    auto link = link_;
    auto add = add_;
    link.links = {reinterpret_cast<std::int64_t*>(c.work), reinterpret_cast<std::uint8_t*>(c.work + next_size())};
    link.ids = c.inputs[0];
    add.links = link.links;
    add.ids = c.inputs[0];
    add.cotangent = c.inputs[1];
    add.to = c.outputs[0];
    c.queue.each(count_, fill_function{c.work + next_size(), tensor::dtype::uint8, 0});
    c.queue.each(elements_, fill_function{c.outputs[0], add_.element, 0});
    c.queue.each(count_, link);
    c.queue.each(count_ * add_.row.size, add);
  }

 private:
  [[nodiscard]] std::size_t next_size() const {
    return backend::detail::aligned_size(static_cast<std::size_t>(count_) * sizeof(std::int64_t));
  }

  std::int64_t elements_;
  std::int64_t count_;
  link_function link_;
  add_rows_function add_;
};

// The number of threads for a row of this size.
[[nodiscard]] constexpr int row_width(std::int64_t size) noexcept { return size > 1024 ? block_threads : warp_threads; }

// Any layout.
template <class Queue>
class softmax_routine final : public routine<Queue> {
 public:
  softmax_routine(const tensor::attribute_reader& a, types inputs, types outputs) {
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    const auto read = tensor::strides_of(inputs[0].dims, inputs[0].order);
    const auto write = tensor::strides_of(outputs[0].dims, outputs[0].order);
    function_.quads =
        has_quads(inputs[0].element) && inputs[0].dims[axis] % 4 == 0 && read[axis] == 1 && write[axis] == 1;
    for (std::size_t d = 0; d < inputs[0].rank(); ++d) {
      if (d != axis && inputs[0].dims[d] > 1) {
        function_.from_moves.steps[function_.others.count] = read[d];
        function_.to_moves.steps[function_.others.count] = write[d];
        function_.others.add(inputs[0].dims[d]);
      }
    }
    function_.size = inputs[0].dims[axis];
    function_.from_step = read[axis];
    function_.to_step = write[axis];
    function_.element = inputs[0].element;
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    f.from = c.inputs[0];
    f.to = c.outputs[0];
    c.queue.rows(f.others.points(), row_width(f.size), f);
  }

 private:
  softmax_function function_;
};

// Row-major.
template <class Queue>
class layer_norm_routine final : public routine<Queue> {
 public:
  layer_norm_routine(const tensor::attribute_reader& a, types inputs) {
    const std::span<const std::int64_t> dims{inputs[0].dims};
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    rows_ = tensor::element_count(dims.first(axis));
    function_.size = tensor::element_count(dims.subspan(axis));
    function_.epsilon = a.real("epsilon");
    function_.element = inputs[0].element;
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    f.from = c.inputs[0];
    f.scale = c.inputs[1];
    f.shift = c.inputs[2];
    f.to = c.outputs[0];
    c.queue.rows(rows_, row_width(f.size), f);
  }

 private:
  std::int64_t rows_ = 1;
  layer_norm_function function_;
};

// Row-major; ids of any integer type.
template <class Queue>
class embedding_routine final : public routine<Queue> {
 public:
  explicit embedding_routine(types inputs)
      : rows_{inputs[0].dims[0]}, count_{tensor::element_count(inputs[1].dims)}, number_{inputs[1].element} {
    row_bytes_ = static_cast<std::int64_t>(byte_count(inputs[0])) / rows_;
  }

  void run(const call<Queue>& c) const override {
    if (row_bytes_ % 16 == 0) {
      run_as<sixteen_bytes>(c);
    } else if (row_bytes_ % 4 == 0) {
      run_as<std::uint32_t>(c);
    } else {
      run_as<std::uint16_t>(c);  // no floating-point type is smaller
    }
  }

 private:
  template <class T>
  void run_as(const call<Queue>& c) const {
    lookup_function<T> f;
    f.row = loop_size{row_bytes_ / static_cast<std::int64_t>(sizeof(T))};
    f.rows = rows_;
    f.table = reinterpret_cast<const T*>(c.inputs[0]);
    f.ids = c.inputs[1];
    f.to = reinterpret_cast<T*>(c.outputs[0]);
    f.number = number_;
    c.queue.each(count_ * f.row.size, f);
  }

  std::int64_t rows_;
  std::int64_t count_;
  std::int64_t row_bytes_ = 1;
  tensor::dtype number_;
};

// Row-major; ids of any integer type.
template <class Queue>
class embedding_bag_routine final : public routine<Queue> {
 public:
  explicit embedding_bag_routine(types inputs) {
    function_.rows = inputs[0].dims[0];
    function_.row = loop_size{tensor::element_count(inputs[0].dims) / function_.rows};
    function_.bag = inputs[1].dims[inputs[1].rank() - 1];
    function_.element = inputs[0].element;
    function_.number = inputs[1].element;
    bags_ = tensor::element_count(inputs[1].dims) / function_.bag;
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    f.table = c.inputs[0];
    f.ids = c.inputs[1];
    f.to = c.outputs[0];
    c.queue.each(bags_ * f.row.size, f);
  }

 private:
  bag_function function_;
  std::int64_t bags_ = 1;
};

}  // namespace unity::backend::cuda
