// The largest elements of a vector and the sorted positions of all, by comparing each element with every other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/rows.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// Counts the elements that precede an element in the order of tensor/operators/selection.hpp: its sorted position.
// Writes either that position, or at that position the index of the element.
struct magnitude_place_function {
  std::int64_t count = 0;
  std::int64_t selected = 0;  // number of largest elements; 0: positions of all
  const std::byte* x = nullptr;
  const std::byte* y = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  tensor::dtype number = tensor::dtype::int32;

  [[nodiscard]] UNITY_HOST_DEVICE static bool is_larger(double a, double b) { return b == b && !(a <= b); }

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& g, std::int64_t i) const {
    const auto own = std::abs(load_element<double>(element, y, i));
    double before = 0;
    for (std::int64_t j = g.rank(); j < count; j += g.size()) {
      const auto other = std::abs(load_element<double>(element, x, j));
      before += is_larger(other, own) || (j < i && !is_larger(own, other)) ? 1 : 0;
    }
    before = g.sum(before);
    if (g.rank() == 0 && selected == 0) {
      store_element(number, to, i, before);
    } else if (g.rank() == 0 && before < static_cast<double>(selected)) {
      store_element(number, to, static_cast<std::int64_t>(before), static_cast<double>(i));
    }
  }
};

// The sum of the indices of the elements with a given sorted position.
struct placed_elements_function {
  std::int64_t count = 0;
  const std::byte* places = nullptr;
  std::byte* to = nullptr;
  tensor::dtype number = tensor::dtype::int32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& g, std::int64_t place) const {
    double sum = 0;
    for (std::int64_t i = g.rank(); i < count; i += g.size()) {
      sum += load_element<double>(number, places, i) == static_cast<double>(place) ? static_cast<double>(i) : 0;
    }
    sum = g.sum(sum);
    if (g.rank() == 0) {
      store_element(number, to, place, sum);
    }
  }
};

// Inputs: one vector, or two of the same size: the elements of the second are placed among those of the first.
template <class Queue>
class magnitude_place_routine final : public routine<Queue> {
 public:
  // selects: the indices of the largest elements instead of the sorted positions of all.
  magnitude_place_routine(types inputs, types outputs, bool selects) {
    function_.count = tensor::element_count(inputs[0].dims);
    function_.selected = selects ? tensor::element_count(outputs[0].dims) : 0;
    function_.element = inputs[0].element;
    function_.number = outputs[0].element;
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    f.x = c.inputs.front();
    f.y = c.inputs.back();
    f.to = c.outputs[0];
    c.queue.rows(f.count, row_width(f.count), f);
  }

 private:
  magnitude_place_function function_;
};

template <class Queue>
class placed_elements_routine final : public routine<Queue> {
 public:
  placed_elements_routine(types inputs, types outputs) : places_{tensor::element_count(outputs[0].dims)} {
    function_.count = tensor::element_count(inputs[0].dims);
    function_.number = inputs[0].element;
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    f.places = c.inputs[0];
    f.to = c.outputs[0];
    c.queue.rows(places_, row_width(f.count), f);
  }

 private:
  std::int64_t places_;
  placed_elements_function function_;
};

// Null if it is not a selection operator.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> selection(std::string_view name, types inputs, types outputs) {
  if (name == "elements_at_places") {
    return std::make_unique<placed_elements_routine<Queue>>(inputs, outputs);
  }
  if (name == "magnitude_place" || name == "top_k") {
    return std::make_unique<magnitude_place_routine<Queue>>(inputs, outputs, name == "top_k");
  }
  return nullptr;
}

}  // namespace unity::backend::cuda
