// Pooling of images and its adjoints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// The window along one dimension of an image of size `in`. Requires pads smaller than the window, which otherwise could
// lie in padding entirely.
[[nodiscard]] slide pool_slide_over(space& s, const attribute_reader& a, std::size_t d, std::int64_t in,
                                    std::int64_t dilation);
[[nodiscard]] inline slide pool_slide(space& s, const attribute_reader& a, std::size_t d, std::int64_t dilation) {
  return pool_slide_over(s, a, d, s.dims(0)[2 + d], dilation);
}

// The accesses of an image and of its pooled result.
struct pool_space {
  std::array<access, 4> image{};
  std::array<access, 4> result{};
};

// Declares the iteration space. images: the size of the first two dimensions if no operand has them. The kernel indices
// cannot be split.
[[nodiscard]] pool_space declare_pool(space& s, const slide& y, const slide& x, bool count_padding,
                                      std::int64_t images = 0);

// Shapes: x[n, c, h, w] -> [n, c, oh, ow].
void iterate_pool(space& s, const slide& y, const slide& x, bool count_padding);

[[nodiscard]] inline std::vector<value_id> max_pool_adjoint(body_builder& b, const attribute_reader& a,
                                                            const adjoint_problem& p) {
  return {b.add("max_pool_gradient", std::array{p.operand(0), p.result(0), p.cotangents[0]},
                shared_attributes(a, {"kernel", "stride", "padding", "pads", "dilation", "ceil_mode"}))};
}
[[nodiscard]] std::vector<value_id> average_pool_adjoint(body_builder& b, const attribute_reader& a,
                                                         const adjoint_problem& p);

[[nodiscard]] definition max_pool();

// count_include_pad: divide by the window size within the padded image instead of the image.
[[nodiscard]] definition average_pool();

// Shapes: x[n, c, h, w] -> [n, c, 1, 1].
[[nodiscard]] definition global_pool(std::string name, scalar_kernel kernel, index_kind kind);

[[nodiscard]] std::vector<definition> pools();

// The attributes that determine windows.
[[nodiscard]] inline std::vector<attribute_field> window_fields() {
  return {integers_field("kernel", 2),          integers_field("stride", {1, 1}),   padding_field(),
          integers_field("pads", {0, 0, 0, 0}), integers_field("dilation", {1, 1}), flag_field("ceil_mode", false)};
}
[[nodiscard]] std::vector<attribute_field> with_fields(std::vector<attribute_field> fields,
                                                       std::vector<attribute_field> more);

// The windows of an image of these sizes, of rank 4.
[[nodiscard]] pool_space pool_over(space& s, const attribute_reader& a, std::span<const std::int64_t> image,
                                   bool count_padding = false, std::int64_t images = 0);

// The divisor of each average, for an image of shape dims. Shapes: -> [oh, ow].
[[nodiscard]] definition pool_counts();

// Adds each element to all elements of its window. Shapes: [n, c, oh, ow] -> dims.
[[nodiscard]] definition pool_scatter();

// The number of occurrences of the largest element in each window.
// Shapes: x[n, c, h, w], largest[n, c, oh, ow] -> [n, c, oh, ow].
[[nodiscard]] definition pool_ties();

// Adds each element of the last operand to the largest elements of its window.
// Shapes: x[n, c, h, w], largest[n, c, oh, ow], [n, c, oh, ow] -> [n, c, h, w].
[[nodiscard]] definition pool_select();

// Equal largest elements share the cotangent of their window.
// Shapes: x[n, c, h, w], max_pool(x)[n, c, oh, ow], cotangent[n, c, oh, ow] -> [n, c, h, w].
[[nodiscard]] definition max_pool_gradient();

// Shapes: cotangent[n, c, oh, ow] -> dims.
[[nodiscard]] definition average_pool_gradient();

[[nodiscard]] inline std::vector<definition> pool_gradients() {
  return {pool_counts(), pool_scatter(), pool_ties(), pool_select(), max_pool_gradient(), average_pool_gradient()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_POOLING)

namespace unity::tensor::operators {

UNITY_INLINE slide pool_slide_over(space& s, const attribute_reader& a, std::size_t d, std::int64_t in,
                                   std::int64_t dilation) {
  auto w = slide_over(s, a, d, in, a.integers("kernel")[d], dilation, a.flag("ceil_mode"));
  s.require(w.before < w.reach() && w.after < w.reach(), "pads smaller than the kernel");
  return w;
}

UNITY_INLINE pool_space declare_pool(space& s, const slide& y, const slide& x, bool count_padding,
                                     std::int64_t images) {
  if (s.failed()) {
    return {};
  }
  const auto n = s.parallel("n", images);
  const auto c = s.parallel("c", images);
  const auto oh = s.parallel("oh", y.out);
  const auto ow = s.parallel("ow", x.out);
  const auto slides = [&](const slide& w, int outer, int inner) {
    const auto from = count_padding ? -w.before : 0;
    const auto to = count_padding ? w.in + w.after : w.in;
    return s.sliding({outer, inner, w.stride, w.dilation, w.before, w.in, from, to});
  };
  const auto rows = slides(y, oh, s.whole("kh", y.kernel));
  const auto columns = slides(x, ow, s.whole("kw", x.kernel));
  return {{n, c, rows, columns}, {n, c, oh, ow}};
}

UNITY_INLINE void iterate_pool(space& s, const slide& y, const slide& x, bool count_padding) {
  const auto p = declare_pool(s, y, x, count_padding);
  s.read(p.image);
  s.write(p.result);
}

UNITY_INLINE std::vector<value_id> average_pool_adjoint(body_builder& b, const attribute_reader& a,
                                                        const adjoint_problem& p) {
  return {b.add("average_pool_gradient", std::array{p.cotangents[0]},
                shared_attributes(a, {"kernel", "stride", "padding", "pads", "ceil_mode", "count_include_pad"},
                                  {{"dims", p.inputs[0].dims}}))};
}

UNITY_INLINE definition max_pool() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto dilation = a.integers("dilation");
    if (s.require_numeric() && s.require_rank(0, 4)) {
      const auto y = pool_slide(s, a, 0, dilation[0]);
      const auto x = pool_slide(s, a, 1, dilation[1]);
      iterate_pool(s, y, x, false);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::largest(kernels::x(0));
  };
  return define(
             "max_pool", 1, 1,
             {integers_field("kernel", 2), integers_field("stride", {1, 1}), padding_field(),
              integers_field("pads", {0, 0, 0, 0}), integers_field("dilation", {1, 1}), flag_field("ceil_mode", false)},
             primitive{iteration, kernel})
      .with_adjoint(max_pool_adjoint);
}

UNITY_INLINE definition average_pool() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require_floating() && s.require_rank(0, 4)) {
      const auto y = pool_slide(s, a, 0, 1);
      const auto x = pool_slide(s, a, 1, 1);
      iterate_pool(s, y, x, a.flag("count_include_pad"));
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::sum(kernels::x(0)) / kernels::count();
  };
  return define("average_pool", 1, 1,
                {integers_field("kernel", 2), integers_field("stride", {1, 1}), padding_field(),
                 integers_field("pads", {0, 0, 0, 0}), flag_field("ceil_mode", false),
                 flag_field("count_include_pad", false)},
                primitive{iteration, kernel})
      .with_adjoint(average_pool_adjoint);
}

UNITY_INLINE definition global_pool(std::string name, scalar_kernel kernel, index_kind kind) {
  const auto iteration = [kind](space& s, const attribute_reader&) {
    if (kind == index_kind::whole ? s.require_numeric() : s.require_floating()) {
      const auto n = s.parallel("n");
      const auto c = s.parallel("c");
      const auto h = kind == index_kind::whole ? s.whole("h") : s.reduced("h");
      const auto w = kind == index_kind::whole ? s.whole("w") : s.reduced("w");
      s.read({n, c, h, w});
      s.write({n, c, access{}, access{}});
    }
  };
  const auto value = [kernel = std::move(kernel)](const attribute_reader&, std::span<const tensor_type>) {
    return kernel;
  };
  return define(std::move(name), 1, 1, {}, primitive{iteration, value});
}

UNITY_INLINE std::vector<definition> pools() {
  using namespace kernels;
  return {max_pool(), average_pool(), global_pool("global_average_pool", sum(x(0)) / count(), index_kind::reduction),
          global_pool("global_max_pool", largest(x(0)), index_kind::whole)};
}

UNITY_INLINE std::vector<attribute_field> with_fields(std::vector<attribute_field> fields,
                                                      std::vector<attribute_field> more) {
  for (auto& f : more) {
    fields.push_back(std::move(f));
  }
  return fields;
}

UNITY_INLINE pool_space pool_over(space& s, const attribute_reader& a, std::span<const std::int64_t> image,
                                  bool count_padding, std::int64_t images) {
  if (!s.require(image.size() == 4, "a shape of rank 4")) {
    return {};
  }
  const auto dilation = a.integers("dilation");
  const auto y = pool_slide_over(s, a, 0, image[2], dilation[0]);
  const auto x = pool_slide_over(s, a, 1, image[3], dilation[1]);
  return declare_pool(s, y, x, count_padding, images);
}

UNITY_INLINE definition pool_counts() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto p = pool_over(s, a, a.integers("dims"), a.flag("count_include_pad"), 1);
    s.write(std::array{p.result[2], p.result[3]}, a.choice<dtype>("element"));
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) { return kernels::count(); };
  return define("pool_counts", 0, 1,
                with_fields(window_fields(),
                            {flag_field("count_include_pad", false), integers_field("dims"), dtype_field("element")}),
                primitive{iteration, kernel});
}

UNITY_INLINE definition pool_scatter() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require_floating() && s.require_rank(0, 4)) {
      const auto p = pool_over(s, a, a.integers("dims"));
      s.read(p.result);
      s.write(p.image);
      s.require(s.failed() || s.results()[0].dims == shape(a.integers("dims")), "a shape that agrees with the operand");
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) { return kernels::sum(kernels::x(0)); };
  return define("pool_scatter", 1, 1, with_fields(window_fields(), {integers_field("dims")}),
                primitive{iteration, kernel})
      .divided_by(resize_dims);
}

UNITY_INLINE definition pool_ties() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require_floating() && s.require_rank(0, 4) && s.require_rank(1, 4)) {
      const auto p = pool_over(s, a, s.dims(0));
      s.read(p.image);
      s.read(p.result);
      s.write(p.result);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::sum(kernels::equal(kernels::x(0), kernels::x(1)));
  };
  return define("pool_ties", 2, 1, window_fields(), primitive{iteration, kernel});
}

UNITY_INLINE definition pool_select() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    bool ranks = s.require_floating();
    for (std::size_t i = 0; i < 3; ++i) {
      ranks = ranks && s.require_rank(i, 4);
    }
    if (ranks) {
      const auto p = pool_over(s, a, s.dims(0));
      s.read(p.image);
      s.read(p.result);
      s.read(p.result);
      s.write(p.image);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), x(1)) * x(2));
  };
  return define("pool_select", 3, 1, window_fields(), primitive{iteration, kernel});
}

UNITY_INLINE definition max_pool_gradient() {
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto attributes = shared_attributes(a, {"kernel", "stride", "padding", "pads", "dilation", "ceil_mode"});
    const auto ties = b.add("pool_ties", std::array{x[0], x[1]}, attributes);
    return std::vector{b.add("pool_select", std::array{x[0], x[1], b.add("div", {x[2], ties})}, attributes)};
  };
  return define("max_pool_gradient", 3, 1, window_fields(), composite{body});
}

UNITY_INLINE definition average_pool_gradient() {
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto attributes = shared_attributes(a, {"kernel", "stride", "padding", "pads", "ceil_mode", "dims"});
    const auto element = b.type(x[0]).element;
    const auto counts =
        b.add("pool_counts", std::span<const value_id>{},
              shared_attributes(a, {"kernel", "stride", "padding", "pads", "ceil_mode", "count_include_pad", "dims"},
                                {{"element", name_of(element)}}));
    return std::vector{b.add("pool_scatter", std::array{b.add("div", {x[0], counts})}, attributes)};
  };
  auto fields = window_fields();
  std::erase_if(fields, [](const attribute_field& f) { return f.signature.name == "dilation"; });
  return define("average_pool_gradient", 1, 1,
                with_fields(std::move(fields), {flag_field("count_include_pad", false), integers_field("dims")}),
                composite{body})
      .divided_by(resize_dims);
}

}  // namespace unity::tensor::operators

#endif
