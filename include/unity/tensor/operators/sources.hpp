// Operators without operands: graph inputs, weights, constants and TASO's four constant tensors. Also opaque operators,
// which unity does not know and passes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// name: the operator's name in its source format; signature: bytes that distinguish operators that may compute
// differently; elements: the dtype of each result; dims: rank and sizes of each result, concatenated.
[[nodiscard]] definition unknown();

[[nodiscard]] inline std::vector<definition> unknowns() { return {unknown()}; }

// An external tensor with a name.
[[nodiscard]] definition named_source(std::string name, source_kind kind);

// All elements are `value`; with value 1 this is TASO's I_ewmul.
[[nodiscard]] definition fill();

[[nodiscard]] inline bool require_kernel(space& s, std::span<const std::int64_t> kernel) {
  return s.require(kernel[0] > 0 && kernel[1] > 0, "a positive kernel");
}

// The kernel of the depthwise convolution that averages: [channels, 1, kh, kw].
// Source: TASO's C_pool.
[[nodiscard]] definition pool_kernel();

// The kernel of the identity convolution: [channels, channels / groups, kh, kw].
// Source: TASO's I_conv.
[[nodiscard]] definition identity_kernel();

// The identity matrix.
// Source: TASO's I_matmul.
[[nodiscard]] definition identity_matrix();

[[nodiscard]] std::vector<definition> sources();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_SOURCES)

namespace unity::tensor::operators {

UNITY_INLINE definition unknown() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    j.allow_mixed_elements();
    auto dims = a.integers("dims");
    for (const auto element : a.integers("elements")) {
      if (!j.require(element >= 0 && element < static_cast<std::int64_t>(dtype_names.size()), "known element types") ||
          !j.require(!dims.empty() && dims[0] >= 0 && dims[0] < static_cast<std::int64_t>(dims.size()),
                     "a rank and as many sizes per result")) {
        return;
      }
      const auto rank = static_cast<std::size_t>(dims[0]);
      j.result(shape(dims.subspan(1, rank)), static_cast<dtype>(element));
      dims = dims.subspan(1 + rank);
    }
    j.require(dims.empty() && !a.integers("elements").empty(), "a rank and as many sizes per result");
  };
  return define("opaque", op_signature::any, op_signature::any,
                {word_field("name"), word_field("signature"), integers_field("elements"), integers_field("dims")},
                opaque{types})
      .resized_by([](const attribute_writer& w, const resizing& r) {
        attribute dims;
        for (const auto& s : r.new_outputs) {
          dims.push_back(static_cast<std::int64_t>(s.size()));
          dims.append(s.begin(), s.end());
        }
        w.set("dims", std::move(dims));
      });
}

UNITY_INLINE definition named_source(std::string name, source_kind kind) {
  const auto iteration = [](space& s, const attribute_reader& a) {
    small_vector<access, 8> dims;
    for (const auto size : a.integers("dims")) {
      if (!s.require(size > 0, "positive sizes")) {
        return;
      }
      dims.push_back(s.parallel("i", size));
    }
    s.write(dims, a.choice<dtype>("element"));
  };
  auto d = define(std::move(name), 0, 1, {word_field("name"), dtype_field("element"), integers_field("dims")},
                  primitive{iteration, {}});
  d.source = kind;
  d.resize = resize_dims;
  return d;
}

UNITY_INLINE definition fill() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    small_vector<access, 8> dims;
    for (const auto size : a.integers("dims")) {
      if (!s.require(size > 0, "positive sizes")) {
        return;
      }
      dims.push_back(s.parallel("i", size));
    }
    s.write(dims, a.choice<dtype>("element"));
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    return kernels::literal(a.real("value"));
  };
  return define("fill", 0, 1, {real_field("value"), dtype_field("element"), integers_field("dims")},
                primitive{iteration, kernel})
      .resized_by(resize_dims);
}

UNITY_INLINE definition pool_kernel() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto kernel = a.integers("kernel");
    if (require_kernel(s, kernel) && s.require(a.integer("channels") > 0, "positive channels")) {
      const auto c = s.parallel("c", a.integer("channels"));
      s.write({c, access{}, s.parallel("kh", kernel[0]), s.parallel("kw", kernel[1])});
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    const auto size = a.integers("kernel");
    return kernels::literal(1) / kernels::literal(static_cast<double>(size[0]) * static_cast<double>(size[1]));
  };
  return define("pool_kernel", 0, 1, {integer_field("channels"), integers_field("kernel", 2)},
                primitive{iteration, kernel})
      .resized_by([](const attribute_writer& w, const resizing& r) { w.set("channels", {r.new_outputs[0][0]}); });
}

UNITY_INLINE definition identity_kernel() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto kernel = a.integers("kernel");
    const auto channels = a.integer("channels");
    const auto groups = a.integer("groups");
    if (require_kernel(s, kernel) && s.require(kernel[0] % 2 == 1 && kernel[1] % 2 == 1, "an odd kernel") &&
        s.require(channels > 0 && groups > 0 && channels % groups == 0, "channels that are a multiple of groups")) {
      const auto out = s.parallel("o", channels / groups);
      const auto in = s.parallel("i", channels / groups);
      const auto kh = s.parallel("kh", kernel[0]);
      const auto kw = s.parallel("kw", kernel[1]);
      const auto group = s.parallel("g", groups);
      s.write({{group, out}, in, kh, kw});
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    using namespace kernels;
    const auto size = a.integers("kernel");
    const auto centre = [&](std::size_t d) { return literal(static_cast<double>(size[d] / 2)); };
    return equal(coordinate(0), coordinate(1)) * equal(coordinate(2), centre(0)) * equal(coordinate(3), centre(1));
  };
  return define("identity_kernel", 0, 1,
                {integer_field("channels"), integer_field("groups", 1), integers_field("kernel", 2)},
                primitive{iteration, kernel})
      .resized_by([](const attribute_writer& w, const resizing& r) {
        w.set("channels", {r.new_outputs[0][0]});
        w.set("groups", {r.new_outputs[0][0] / r.new_outputs[0][1]});
      });
}

UNITY_INLINE definition identity_matrix() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require(a.integer("size") > 0, "a positive size")) {
      const auto i = s.parallel("i", a.integer("size"));
      const auto j = s.parallel("j", a.integer("size"));
      s.write({i, j});
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::equal(kernels::coordinate(0), kernels::coordinate(1));
  };
  return define("identity_matrix", 0, 1, {integer_field("size")}, primitive{iteration, kernel})
      .resized_by([](const attribute_writer& w, const resizing& r) { w.set("size", {r.new_outputs[0][0]}); });
}

UNITY_INLINE std::vector<definition> sources() {
  return {named_source("input", source_kind::input),
          named_source("weight", source_kind::constant),
          named_source("constant", source_kind::constant),
          fill(),
          pool_kernel(),
          identity_kernel(),
          identity_matrix()};
}

}  // namespace unity::tensor::operators

#endif
