// One ONNX node, as seen by the import functions of operator families.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/known.hpp>
#include <unity/io/onnx/node_attributes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

class import_node {
 public:
  import_node(const onnx::NodeProto& node, std::int64_t opset, graph_maker& maker, std::span<onnx_value* const> inputs,
              std::string where)
      : attributes{node, where},
        node_{&node},
        opset_{opset},
        maker_{&maker},
        inputs_{inputs},
        where_{std::move(where)} {}

  const node_attributes attributes;

  [[nodiscard]] std::string_view type() const { return node_->op_type(); }
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] std::size_t input_count() const noexcept { return inputs_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Whether the node's i-th result has a name, so that something may read it.
  [[nodiscard]] bool wants(int i) const { return i < node_->output_size() && !node_->output(i).empty(); }
  [[nodiscard]] int output_count() const { return node_->output_size(); }

  [[nodiscard]] value_id input(std::size_t i) const;
  // By value: emit may move the types of the graph.
  [[nodiscard]] tensor::tensor_type type(std::size_t i) const { return maker_->type(input(i)); }
  [[nodiscard]] tensor::tensor_type type_of(value_id v) const { return maker_->type(v); }
  [[nodiscard]] std::size_t rank(std::size_t i) const { return type(i).rank(); }
  // The elements of a constant input if they are few, else null.
  [[nodiscard]] const known_tensor* known(std::size_t i) const { return has(i) ? inputs_[i]->known.get() : nullptr; }
  [[nodiscard]] std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const {
    const auto* k = known(i);
    return k != nullptr && !k->is_real() ? std::optional{k->integers} : std::nullopt;
  }
  [[nodiscard]] std::optional<double> known_real(std::size_t i) const {
    const auto* k = known(i);
    return k != nullptr && k->size() == 1 && !inputs_[i]->varies ? std::optional{k->real(0)} : std::nullopt;
  }
  // A list that is an attribute, or input `place` from opset `since` on. `found` is false if it is an input that is not
  // known; then the operator depends on run-time values.
  struct list_or_input {
    bool found = true;
    std::optional<std::vector<std::int64_t>> values{};
  };
  [[nodiscard]] list_or_input list(std::string_view name, std::size_t place, std::int64_t since) const;
  // The axis counted from the front.
  // Throws: unity::error if it is out of range.
  [[nodiscard]] std::int64_t axis(std::int64_t axis, std::size_t rank) const;
  [[nodiscard]] tensor::shape axes(std::span<const std::int64_t> axes, std::size_t rank) const;

  value_id emit(std::string_view name, std::initializer_list<value_id> operands,
                std::initializer_list<tensor::named_attribute> attributes_ = {}) {
    return emit_all(name, {operands.begin(), operands.size()}, attributes_).front();
  }
  std::vector<value_id> emit_all(std::string_view name, std::span<const value_id> operands,
                                 std::initializer_list<tensor::named_attribute> attributes_ = {}) {
    return maker_->emit(name, operands, {attributes_.begin(), attributes_.size()});
  }
  std::vector<value_id> emit_all(std::string_view name, std::span<const value_id> operands,
                                 std::span<const tensor::named_attribute> attributes_) {
    return maker_->emit(name, operands, attributes_);
  }
  value_id emit(std::string_view name, std::span<const value_id> operands,
                std::span<const tensor::named_attribute> attributes_) {
    return maker_->emit(name, operands, attributes_).front();
  }
  value_id reshape(value_id v, const tensor::shape& dims) {
    return type_of(v).dims == dims ? v : emit("reshape", {v}, {{"dims", dims}});
  }
  // A scalar with the element type of `like`.
  value_id scalar(double value, value_id like) { return maker_->fill(value, type_of(like).element); }
  value_id fill(double value, tensor::dtype element, const tensor::shape& dims) {
    return maker_->fill(value, element, dims);
  }

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{where_, found, expected};
  }

 private:
  const onnx::NodeProto* node_;
  std::int64_t opset_;
  graph_maker* maker_;
  std::span<onnx_value* const> inputs_;
  std::string where_;
};

// The values that replace the node's results; empty if this library cannot express the node, which then becomes opaque.
// Throws: not_accepted if an operator does not accept its operands.
using import_result = std::optional<std::vector<value_id>>;
using import_row = import_result (*)(import_node&);

inline import_result one(value_id v) { return std::vector{v}; }

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_IMPORT_NODE)

#include <fmt/core.h>

#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE value_id import_node::input(std::size_t i) const {
  if (!has(i)) {
    refuse(fmt::format("has no input {}", i), "one");
  }
  return maker_->materialize(*inputs_[i]);
}

UNITY_INLINE auto import_node::list(std::string_view name, std::size_t place, std::int64_t since) const
    -> list_or_input {
  if (opset_ < since) {
    return {true, attributes.integers(name)};
  }
  return {!has(place) || known_integers(place).has_value(), known_integers(place)};
}

UNITY_INLINE std::int64_t import_node::axis(std::int64_t axis, std::size_t rank) const {
  const auto front = front_axis(axis, rank);
  if (!front) {
    refuse(fmt::format("has axis {}", axis), fmt::format("one within rank {}", rank));
  }
  return static_cast<std::int64_t>(*front);
}

UNITY_INLINE tensor::shape import_node::axes(std::span<const std::int64_t> axes, std::size_t rank) const {
  const auto front = front_axes(axes, rank);
  if (!front) {
    refuse("has axes that are doubled or outside", fmt::format("axes within rank {}", rank));
  }
  return tensor::shape(std::span<const std::int64_t>{*front});
}

}  // namespace unity::io::detail

#endif
