// Builds the tensor graph during import, and maps ONNX values to its nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Small tensors whose values are known during import: shapes, axes, sizes, scalar constants.

// Integers and booleans are in `integers`, floating-point numbers in `reals`, row-major. Unlike elsewhere, a dimension
// may be 0, which is how ONNX expresses absent axes and sizes. Regular.
struct known_tensor {
  tensor::dtype element = tensor::dtype::int64;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;

  [[nodiscard]] bool is_real() const noexcept { return tensor::is_floating(element); }
  [[nodiscard]] std::size_t size() const noexcept { return is_real() ? reals.size() : integers.size(); }
  [[nodiscard]] double real(std::size_t i) const { return is_real() ? reals[i] : static_cast<double>(integers[i]); }

  friend bool operator==(const known_tensor&, const known_tensor&) = default;
};

// A tensor with more elements is data, not shape arithmetic.
inline constexpr std::size_t most_known_elements = 1U << 16U;

[[nodiscard]] std::optional<std::size_t> known_count(std::span<const std::int64_t> dims);

[[nodiscard]] inline known_tensor known_integers(std::vector<std::int64_t> values,
                                                 tensor::dtype element = tensor::dtype::int64) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {element, {size}, std::move(values), {}};
}
[[nodiscard]] inline known_tensor known_scalar(std::int64_t value) { return {tensor::dtype::int64, {}, {value}, {}}; }

[[nodiscard]] std::optional<known_tensor> known_from(const tensor_data& data);

[[nodiscard]] inline tensor_data data_from(const known_tensor& known) {
  const tensor::shape dims(std::span<const std::int64_t>{known.dims});
  return known.is_real() ? make_data(known.element, dims, known.reals) : make_data(known.element, dims, known.integers);
}

// Rounds the result of a computation in double or 64 bits to the element type.
[[nodiscard]] inline known_tensor settle(known_tensor known) {
  return known_from(data_from(known)).value_or(known_tensor{});
}

// An axis counted from the front; empty if it is outside of [-rank, rank).
[[nodiscard]] std::optional<std::size_t> front_axis(std::int64_t axis, std::size_t rank);

// Ascending axes counted from the front; empty if one is out of range or repeated.
[[nodiscard]] std::optional<std::vector<std::int64_t>> front_axes(std::span<const std::int64_t> axes, std::size_t rank);

// What Slice selects along one dimension: indices from, from + step, ... (count of them).
struct slice_range {
  std::int64_t from = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
[[nodiscard]] std::optional<slice_range> clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step,
                                                     std::int64_t size);

// The dimensions that Reshape requests: 0 copies a dimension (unless zeros are allowed), -1 is inferred.
[[nodiscard]] std::optional<std::vector<std::int64_t>> reshaped(std::span<const std::int64_t> from,
                                                                std::span<const std::int64_t> wanted, bool allow_zero);

// A value of the ONNX graph. Constants get a node in the tensor graph when something first reads them.
struct onnx_value {
  value_id value{};                           // null until a node represents it
  std::shared_ptr<const known_tensor> known;  // its elements, if they are constant and few
  std::shared_ptr<tensor_data> data;          // its elements, if they are constant
  bool weight = false;                        // changed by training, so it is not shape arithmetic
  bool varies = false;                        // its elements depend on open sizes
  std::string name;

  // Whether it is a constant without elements, which no node can represent.
  [[nodiscard]] bool is_empty() const noexcept { return known != nullptr && known->size() == 0; }
};

// An operator does not accept its operands.
struct not_accepted {
  std::string found;
  std::string expected;
};

class graph_maker {
 public:
  explicit graph_maker(const tensor::algebra& algebra) : algebra_{&algebra} {}

  [[nodiscard]] tensor::tensor_graph& graph() noexcept { return graph_; }
  [[nodiscard]] data_table& data() noexcept { return data_; }
  [[nodiscard]] const tensor::tensor_type& type(value_id v) const { return graph_.type(v); }

  // The numbers of the slice that computes a value, with ends as positions; empty if no slice does.
  [[nodiscard]] tensor::shape slice_numbers(value_id v) const;

  // Throws: not_accepted.
  std::vector<value_id> emit(std::string_view name, std::span<const value_id> operands,
                             std::span<const tensor::named_attribute> attributes);
  value_id source(std::string_view kind, std::string_view name, tensor::dtype element, const tensor::shape& dims);
  value_id fill(double value, tensor::dtype element, const tensor::shape& dims = {});

  // The node that represents an ONNX value; constants get theirs here.
  // Throws: not_accepted for a tensor without elements.
  value_id materialize(onnx_value& v);
  // A node with its own data. Precondition: the value has no node yet.
  value_id constant(onnx_value& v);

 private:
  static tensor::shape dims_of(const known_tensor& known) {
    return tensor::shape(std::span<const std::int64_t>{known.dims});
  }
  static bool is_uniform(const known_tensor& known) {
    return known.is_real() && known.size() > 0 &&
           std::all_of(known.reals.begin(), known.reals.end(), [&](double x) { return x == known.reals.front(); });
  }
  const tensor::algebra* algebra_;
  tensor::tensor_graph graph_;
  data_table data_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_GRAPH_MAKER)

#include <limits>
#include <map>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/tensor/algebra_inference.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::size_t> known_count(std::span<const std::int64_t> dims) {
  std::size_t count = 1;
  for (const auto d : dims) {
    if (d < 0 || (d > 0 && count > most_known_elements / static_cast<std::size_t>(d))) {
      return std::nullopt;
    }
    count *= static_cast<std::size_t>(d);
  }
  return dims.size() <= tensor::max_rank ? std::optional{count} : std::nullopt;
}

UNITY_INLINE std::optional<known_tensor> known_from(const tensor_data& data) {
  known_tensor known{data.element, {data.dims.begin(), data.dims.end()}, {}, {}};
  if (!known_count(known.dims)) {
    return std::nullopt;
  }
  if (known.is_real()) {
    known.reals = elements_of<double>(data);
  } else {
    known.integers = elements_of<std::int64_t>(data);
  }
  return known;
}

UNITY_INLINE std::optional<std::size_t> front_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> front_axes(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<std::int64_t> all;
  for (const auto a : axes) {
    const auto axis = front_axis(a, rank);
    if (!axis) {
      return std::nullopt;
    }
    all.push_back(static_cast<std::int64_t>(*axis));
  }
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end() ? std::optional{all} : std::nullopt;
}

UNITY_INLINE std::optional<slice_range> clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step,
                                                    std::int64_t size) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  if (step == 0 || step == least) {
    return std::nullopt;
  }
  const auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    return std::clamp(at < 0 ? (at < -size ? least : at + size) : at, low, high);
  };
  const auto low = step > 0 ? std::int64_t{0} : std::int64_t{-1};
  const auto from = clamp(start, 0, step > 0 ? size : size - 1);
  const auto to = end == least && step < 0 ? low : clamp(end, low, step > 0 ? size : size - 1);
  const auto distance = step > 0 ? to - from : from - to;
  const auto stride = step > 0 ? step : -step;
  return slice_range{from, step, distance > 0 ? (distance - 1) / stride + 1 : 0};
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> reshaped(std::span<const std::int64_t> from,
                                                               std::span<const std::int64_t> wanted, bool allow_zero) {
  std::vector<std::int64_t> dims(wanted.begin(), wanted.end());
  std::int64_t count = 1;
  for (const auto d : from) {
    count *= d;
  }
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= from.size()) {
        return std::nullopt;
      }
      dims[i] = from[i];
    }
    if (dims[i] == -1) {
      if (open) {
        return std::nullopt;
      }
      open = i;
    } else if (dims[i] < 0 || (dims[i] > 0 && known > tensor::max_elements / dims[i])) {
      return std::nullopt;
    } else {
      known *= dims[i];
    }
  }
  if (open) {
    if (known == 0 || count % known != 0) {
      return std::nullopt;
    }
    dims[*open] = count / known;
    known *= dims[*open];
  }
  return known == count ? std::optional{dims} : std::nullopt;
}

UNITY_INLINE tensor::shape graph_maker::slice_numbers(value_id v) const {
  const auto& op = graph_.operation(graph_.producer(v));
  const auto& name = algebra_->signature(op.kind).name;
  tensor::shape all;
  if (name == "slice" || name == "strided_slice") {
    for (const auto& list : op.attributes) {
      for (const auto n : list) {
        all.push_back(n);
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<value_id> graph_maker::emit(std::string_view name, std::span<const value_id> operands,
                                                     std::span<const tensor::named_attribute> attributes) {
  const auto op = algebra_->make_operation(name, attributes);
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_->infer(op, types);
  if (!results) {
    std::string found = fmt::format("{} of", name);
    for (const auto& t : types) {
      found += fmt::format(" {}", tensor::to_string(t));
    }
    throw not_accepted{types.empty() ? std::string{name} : found, algebra_->why_not(op, types)};
  }
  const auto node = graph_.add_node(op, operands, *results);
  return {graph_.results(node).begin(), graph_.results(node).end()};
}

UNITY_INLINE value_id graph_maker::source(std::string_view kind, std::string_view name, tensor::dtype element,
                                          const tensor::shape& dims) {
  const tensor::named_attribute attributes[] = {
      {"name", name}, {"element", tensor::name_of(element)}, {"dims", std::span<const std::int64_t>{dims}}};
  return emit(kind, {}, attributes).front();
}

UNITY_INLINE value_id graph_maker::fill(double value, tensor::dtype element, const tensor::shape& dims) {
  const tensor::named_attribute attributes[] = {
      {"value", value}, {"element", tensor::name_of(element)}, {"dims", std::span<const std::int64_t>{dims}}};
  return emit("fill", {}, attributes).front();
}

UNITY_INLINE value_id graph_maker::materialize(onnx_value& v) {
  if (!v.value.valid()) {
    v.value = v.known != nullptr && !v.weight && !v.varies && is_uniform(*v.known)
                  ? fill(v.known->reals.front(), v.known->element, dims_of(*v.known))
                  : constant(v);
  }
  return v.value;
}

UNITY_INLINE value_id graph_maker::constant(onnx_value& v) {
  if (v.data == nullptr) {
    v.data = std::make_shared<tensor_data>(data_from(*v.known));
  }
  const auto stated = v.name;
  for (int k = 1; data_.contains(v.name); ++k) {  // branches of nodes such as If may use a name again
    v.name = fmt::format("{}_{}", stated, k);
  }
  const auto made = source(v.weight ? "weight" : "constant", v.name, v.data->element, v.data->dims);
  data_[v.name] = std::move(*v.data);
  v.data.reset();
  return made;
}

}  // namespace unity::io::detail

#endif
