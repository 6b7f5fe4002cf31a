// Softmax, layer norm and the lookup of rows, as routines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/row_functions.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

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
