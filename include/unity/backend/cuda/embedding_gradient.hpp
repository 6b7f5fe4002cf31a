// The adjoints of lookups: each row of the table is a sum of cotangents, in the order of the ids and without atomic
// operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/host_device.hpp>
#include <unity/backend/cuda/loops.hpp>
#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/row_functions.hpp>
#include <unity/backend/detail/aligned_size.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

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

}  // namespace unity::backend::cuda
