// Operators and graphs on other sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Not a size, where one may be.
inline constexpr std::size_t size_none = static_cast<std::size_t>(-1);

// Does resized() rewrite all attributes of the operator that hold sizes. What is not listed either has none, or keeps
// the sizes that it has to.
[[nodiscard]] inline bool follows_sizes(const algebra& a, const operation& op) {
  constexpr std::array<std::string_view, 14> kinds{
      "input",  "weight", "constant", "fill", "pool_kernel", "identity_kernel", "identity_matrix",
      "conv2d", "split",  "slice",    "pad",  "expand",      "reshape",         "opaque"};
  const std::string_view name = a.signature(op.kind).name;
  for (const auto k : kinds) {
    if (k == name) {
      return true;
    }
  }
  return false;
}

// An operator, the types that it has, and the sizes that it shall have.
struct resizing {
  const operation& op;
  std::span<const tensor_type> inputs;  // types before
  std::span<const tensor_type> outputs;
  std::vector<shape> new_inputs{};
  std::vector<shape> new_outputs{};
  // Of a slice or pad, per dimension: the new sizes before and after the part that stays. Empty: as they are, and of
  // dimensions that a slice takes whole and that have other sizes all is taken.
  shape before{};
  shape after{};
};

class attribute_resizer {
 public:
  attribute_resizer(const algebra& a, const resizing& r) : algebra_{a}, r_{r}, op_{r.op} {}

  [[nodiscard]] operation run() && {
    const std::string_view name = algebra_.signature(op_.kind).name;
    if (name == "expand") {
      resize_expand();
    } else if (name == "opaque") {
      resize_opaque();
    } else if (name == "split") {
      resize_split();
    } else if (name == "slice") {
      resize_slice();
    } else if (name == "pad") {
      resize_pad();
    } else if (name == "conv2d") {
      set("groups", {r_.new_inputs[0][1] / r_.new_inputs[1][1]});
    } else if (name == "pool_kernel") {
      set("channels", {r_.new_outputs[0][0]});
    } else if (name == "identity_matrix") {
      set("size", {r_.new_outputs[0][0]});
    } else if (name == "identity_kernel") {
      set("channels", {r_.new_outputs[0][0]});
      set("groups", {r_.new_outputs[0][0] / r_.new_outputs[0][1]});
    } else if (follows_sizes(algebra_, op_)) {
      set("dims", attribute(std::span<const std::int64_t>{r_.new_outputs[0]}));
    }
    return std::move(op_);
  }

 private:
  [[nodiscard]] attribute& field(std::string_view name) {
    const auto& fields = algebra_.definition_of(op_.kind).fields;
    std::size_t i = 0;
    while (i + 1 < fields.size() && fields[i].signature.name != name) {
      ++i;
    }
    return op_.attributes[i];
  }
  void set(std::string_view name, attribute value) { field(name) = std::move(value); }

  // Ones stay ones: there the operand's size holds.
  void resize_expand() {
    auto& dims = field("dims");
    const auto skipped = r_.new_outputs[0].size() - dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
      dims[d] = dims[d] == 1 ? 1 : r_.new_outputs[0][d + skipped];
    }
  }
  void resize_opaque() {
    attribute dims;
    for (const auto& s : r_.new_outputs) {
      dims.push_back(static_cast<std::int64_t>(s.size()));
      dims.append(s.begin(), s.end());
    }
    set("dims", std::move(dims));
  }
  void resize_split() {
    const auto axis = static_cast<std::size_t>(field("axis")[0]);
    attribute sizes;
    for (const auto& s : r_.new_outputs) {
      sizes.push_back(s[axis]);
    }
    set("sizes", std::move(sizes));
  }
  void resize_slice() {
    const auto axes = field("axes");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<std::size_t>(axes[i]);
      auto& start = field("starts")[i];
      auto& end = field("ends")[i];
      if (field("steps")[i] == 1) {
        start = !r_.before.empty() ? r_.before[d] : r_.new_inputs[0][d] == r_.inputs[0].dims[d] ? start : 0;
        end = start + r_.new_outputs[0][d];
      } else {
        end += r_.new_inputs[0][d] - r_.inputs[0].dims[d];
      }
    }
  }
  void resize_pad() {
    if (r_.before.empty()) {
      return;
    }
    auto& pads = field("pads");
    for (std::size_t d = 0; d < pads.size() / 2; ++d) {
      pads[d] = r_.before[d];
      pads[pads.size() / 2 + d] = r_.after[d];
    }
  }

  const algebra& algebra_;
  const resizing& r_;
  operation op_;
};

[[nodiscard]] inline operation resized(const algebra& a, const resizing& r) { return attribute_resizer{a, r}.run(); }

}  // namespace unity::tensor::detail
