// An operator with its attributes, as a node of a tensor graph stores it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Regular. The algebra (tensor/algebra.hpp) defines what the kind means and which attributes it has, in which order.
struct operation {
  kind_id kind{};
  attribute_list attributes{};
  layout order = layout::row_major;  // of the results

  friend bool operator==(const operation&, const operation&) = default;
};

using tensor_graph = compact_graph<operation, tensor_type>;

}  // namespace unity::tensor

template <>
struct std::hash<unity::tensor::operation> {
  std::size_t operator()(const unity::tensor::operation& op) const noexcept {
    auto h = unity::hash_combine(op.kind.index(), static_cast<std::uint64_t>(op.order));
    for (const auto& a : op.attributes) {
      h = unity::hash_combine(h, unity::hash_value(a));
    }
    return h;
  }
};
