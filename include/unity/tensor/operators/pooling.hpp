// Pooling of images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/sliding.hpp>

namespace unity::tensor::operators {

// The window of one dimension; a pad as large as the kernel's reach would make windows of nothing.
[[nodiscard]] inline slide pool_slide(space& s, const attribute_reader& a, std::size_t d, std::int64_t dilation) {
  auto w = slide_of(s, a, d, a.integers("kernel")[d], dilation, a.flag("ceil_mode"));
  s.require(w.before < w.reach() && w.after < w.reach(), "pads smaller than the kernel");
  return w;
}

// Shapes: x[n, c, h, w] -> [n, c, oh, ow]. kind: how the kernel indices may be split.
inline void iterate_pool(space& s, const slide& y, const slide& x, bool count_padding, index_kind kind) {
  if (s.failed()) {
    return;
  }
  const auto n = s.parallel("n");
  const auto c = s.parallel("c");
  const auto oh = s.parallel("oh", y.out);
  const auto ow = s.parallel("ow", x.out);
  const auto tap = [&](const char* name, std::int64_t size) {
    return kind == index_kind::whole ? s.whole(name, size) : s.reduced(name, size);
  };
  const auto slides = [&](const slide& w, int outer, int inner) {
    const auto from = count_padding ? -w.before : 0;
    const auto to = count_padding ? w.in + w.after : w.in;
    return s.sliding({outer, inner, w.stride, w.dilation, w.before, w.in, from, to});
  };
  const auto rows = slides(y, oh, tap("kh", y.kernel));
  const auto columns = slides(x, ow, tap("kw", x.kernel));
  s.read({n, c, rows, columns});
  s.write({n, c, oh, ow});
}

[[nodiscard]] inline definition max_pool() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto dilation = a.integers("dilation");
    if (s.require_numeric() && s.require(s.rank(0) == 4, "an operand of rank 4", 0)) {
      const auto y = pool_slide(s, a, 0, dilation[0]);
      const auto x = pool_slide(s, a, 1, dilation[1]);
      iterate_pool(s, y, x, false, index_kind::whole);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::largest(kernels::x(0));
  };
  return define(
      "max_pool", 1, 1,
      {integers_field("kernel", 2), integers_field("stride", {1, 1}), padding_field(),
       integers_field("pads", {0, 0, 0, 0}), integers_field("dilation", {1, 1}), flag_field("ceil_mode", false)},
      primitive{iteration, kernel});
}

// count_include_pad: divide by the kernel's size within the padded image, not within the image.
[[nodiscard]] inline definition average_pool() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require_floating() && s.require(s.rank(0) == 4, "an operand of rank 4", 0)) {
      const auto y = pool_slide(s, a, 0, 1);
      const auto x = pool_slide(s, a, 1, 1);
      iterate_pool(s, y, x, a.flag("count_include_pad"), index_kind::whole);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::sum(kernels::x(0)) / kernels::count();
  };
  return define(
      "average_pool", 1, 1,
      {integers_field("kernel", 2), integers_field("stride", {1, 1}), padding_field(),
       integers_field("pads", {0, 0, 0, 0}), flag_field("ceil_mode", false), flag_field("count_include_pad", false)},
      primitive{iteration, kernel});
}

// Shapes: x[n, c, h, w] -> [n, c, 1, 1].
[[nodiscard]] inline definition global_pool(std::string name, scalar_kernel kernel, index_kind kind) {
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

[[nodiscard]] inline std::vector<definition> pools() {
  using namespace kernels;
  return {max_pool(), average_pool(), global_pool("global_average_pool", sum(x(0)) / count(), index_kind::reduction),
          global_pool("global_max_pool", largest(x(0)), index_kind::whole)};
}

}  // namespace unity::tensor::operators
