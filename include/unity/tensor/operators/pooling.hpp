// Pooling of images.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/sliding.hpp>
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

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_POOLING)

#include <span>

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
    if (s.require_numeric() && s.require(s.rank(0) == 4, "an operand of rank 4", 0)) {
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
    if (s.require_floating() && s.require(s.rank(0) == 4, "an operand of rank 4", 0)) {
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

}  // namespace unity::tensor::operators

#endif
