// Convolutions and their adjoints on oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// The convolution of an image [n, c, h, w] with a kernel [oc, c / groups, kh, kw], from the attributes of conv2d and
// its adjoints.
struct convolution_geometry {
  dnnl_dims stride;
  dnnl_dims dilates;  // oneDNN's convention: 0 means adjacent taps
  dnnl_dims before;
  dnnl_dims after;
  tensor::shape kernel;
  std::int64_t groups;

  convolution_geometry(const tensor::attribute_reader& a, types inputs, const tensor::shape& image,
                       const tensor::shape& weights);

  // Whether it is a matrix product per image: one tap, which visits every point once.
  [[nodiscard]] bool is_product() const;
  // The dimensions of the part of the kernel for `filters` outputs. These must be whole groups: oneDNN has groups as a
  // separate dimension.
  [[nodiscard]] tensor::shape weights(std::int64_t filters) const;
  [[nodiscard]] tensor::shape weights() const { return weights(kernel[0]); }
  // The memory format of an image or a result: the library's choice, except for products, which use the plain format.
  [[nodiscard]] dnnl_desc free(const dnnl_desc& plain) const { return is_product() ? plain : any_desc(plain.dims()); }
  // The forward convolution of an adjoint: the library needs it as a hint. image, weights, result: plain.
  // Throws: dnnl::error if the library has no such convolution.
  [[nodiscard]] dnnl::convolution_forward::primitive_desc forward(const onednn& library, const dnnl_desc& image,
                                                                  const dnnl_desc& weights,
                                                                  const dnnl_desc& result) const;
};

// Inputs: cotangent and weights, float32, row-major. Memory formats as in convolution_routine.
// Throws: dnnl::error if the library has no such convolution.
[[nodiscard]] std::unique_ptr<routine> convolution_input_gradient_routine(const onednn& library,
                                                                          const tensor::attribute_reader& a,
                                                                          types inputs, types outputs);

namespace detail {

struct range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
};

// Tiles of the gradient of a kernel: a range of filters, and a range of images that one partial sum covers. Depends
// only on the sizes.
struct weight_tiling {
  std::vector<range> filters;
  std::vector<range> images;

  weight_tiling(const convolution_geometry& g, const tensor::shape& image, const tensor::shape& result);

 private:
  // Divides [0, n) into at most `parts` parts that begin at multiples of unit.
  [[nodiscard]] static std::vector<range> divide(std::int64_t n, std::int64_t unit, std::int64_t parts);
};

// Some channels of some images, in place.
struct image_part {
  dnnl_desc desc;
  std::size_t offset;  // unit: bytes

  image_part(const tensor::shape& whole, range images, range channels);
};

}  // namespace detail

// The library divides the sum over images among its threads, so the last bits depend on their number, and it is slow
// for small groups. Here one thread computes one tile, and partial sums of the same filters are added in the order of
// the images.
class convolution_weight_gradient_routine final : public routine {
 public:
  // Inputs: image and cotangent, float32, row-major.
  // Throws: dnnl::error if the library has no such convolution.
  convolution_weight_gradient_routine(const onednn& library, const tensor::attribute_reader& a, types inputs,
                                      types outputs, int threads);

  // The partial sums, then a part for each thread.
  [[nodiscard]] std::size_t workspace() const override {
    return terms_size() + static_cast<std::size_t>(threads_) * desk_;
  }

  void run(const call& c) const override;

 private:
  // While this exists, primitives are created for, and run on, the calling thread alone.
  struct one_thread_each {
    int threads;
    explicit one_thread_each(int all) : threads{all} { use_threads(1); }
    one_thread_each(const one_thread_each&) = delete;
    one_thread_each& operator=(const one_thread_each&) = delete;
    ~one_thread_each() { use_threads(threads); }
  };

  struct tile {
    std::unique_ptr<onednn_routine> run;
    std::size_t image;     // offset in bytes
    std::size_t result;    // offset in bytes
    std::size_t gradient;  // offset in bytes
  };

  [[nodiscard]] std::size_t gradient_size() const { return static_cast<std::size_t>(weights_) * sizeof(float); }
  [[nodiscard]] std::size_t terms_size() const {
    return terms_ == 1 ? 0 : backend::detail::aligned_size(terms_ * gradient_size());
  }

  void add_tile(const onednn& library, types inputs, detail::range filters, detail::range images, std::size_t term);

  [[nodiscard]] dnnl::convolution_backward_weights::primitive_desc primitive(const onednn& library,
                                                                             const dnnl_desc& image,
                                                                             const dnnl_desc& result,
                                                                             const dnnl_desc& weights) const;

  static void run_tile(const call& c, const tile& t, std::byte* gradient, std::byte* desk);

  void add_up(const call& c, int threads) const;

  convolution_geometry geometry_;
  std::int64_t weights_;  // number of weights
  int threads_;
  std::size_t terms_ = 1;
  std::size_t desk_ = 0;
  std::vector<tile> tiles_;
};

// Inputs: float32, row-major.
// Throws: dnnl::error if the library has no such convolution.
//
// A 1x1 convolution of stride 1 is a matrix product on plain images. All others are fastest on images in the library's
// own format, even including the time for conversion: 1.2 to 4 times on layers of ResNeXt-50 and on depthwise ones
// (bench/onednn_overhead.cpp).
[[nodiscard]] std::unique_ptr<routine> convolution_routine(const onednn& library, const tensor::attribute_reader& a,
                                                           types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_CONVOLUTION)

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <span>

#include <unity/backend/cpu/elements.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu {

UNITY_INLINE convolution_geometry::convolution_geometry(const tensor::attribute_reader& a, types inputs,
                                                        const tensor::shape& image, const tensor::shape& weights)
    : kernel{weights}, groups{a.integer("groups")} {
  tensor::space s{inputs};
  for (std::size_t d = 0; d < 2; ++d) {
    const auto w =
        tensor::operators::slide_over(s, a, d, image[2 + d], weights[2 + d], a.integers("dilation")[d], false);
    stride.push_back(w.stride);
    dilates.push_back(w.dilation - 1);
    before.push_back(w.before);
    after.push_back(w.after);
  }
}

UNITY_INLINE bool convolution_geometry::is_product() const {
  const dnnl_dims once{1, 1};
  const dnnl_dims nothing{0, 0};
  return groups == 1 && kernel[2] * kernel[3] == 1 && stride == once && before == nothing && after == nothing;
}

UNITY_INLINE tensor::shape convolution_geometry::weights(std::int64_t filters) const {
  const auto each = kernel[0] / groups;
  return groups == 1 ? tensor::shape{filters, kernel[1], kernel[2], kernel[3]}
                     : tensor::shape{filters / each, each, kernel[1], kernel[2], kernel[3]};
}

UNITY_INLINE auto convolution_geometry::forward(const onednn& library, const dnnl_desc& image, const dnnl_desc& weights,
                                                const dnnl_desc& result) const
    -> dnnl::convolution_forward::primitive_desc {
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, free(image),
           any_desc(weights.dims()), free(result), stride, dilates, before, after},
          onednn_routine::user_scratch(),
          library.engine};
}

UNITY_INLINE std::unique_ptr<routine> convolution_input_gradient_routine(const onednn& library,
                                                                         const tensor::attribute_reader& a,
                                                                         types inputs, types outputs) {
  const convolution_geometry g{a, inputs, outputs[0].dims, inputs[1].dims};
  const auto image = plain_desc(outputs[0].dims);
  const auto result = plain_desc(inputs[0].dims);
  const auto weights = plain_desc(g.weights());
  using backward = dnnl::convolution_backward_data;
  const backward::desc d{dnnl::algorithm::convolution_direct,
                         g.free(image),
                         any_desc(weights.dims()),
                         g.free(result),
                         g.stride,
                         g.dilates,
                         g.before,
                         g.after};
  const backward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine,
                                    g.forward(library, image, weights, result)};

  auto r = std::make_unique<onednn_routine>(library);
  const bool in_place = pd.diff_src_desc() == image;
  const auto target = in_place ? place::output(0) : r->reserve(pd.diff_src_desc().get_size());
  const auto cotangent = r->take(0, result, pd.diff_dst_desc(), false);
  const auto kernel = r->take(1, weights, pd.weights_desc(), inputs[1].constant);
  r->add(backward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), cotangent},
          {DNNL_ARG_WEIGHTS, pd.weights_desc(), kernel},
          {DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), target}});
  if (!in_place) {
    r->add_reorder(pd.diff_src_desc(), target, image, place::output(0));
  }
  return r;
}

}  // namespace unity::backend::cpu

namespace unity::backend::cpu::detail {

UNITY_INLINE weight_tiling::weight_tiling(const convolution_geometry& g, const tensor::shape& image,
                                          const tensor::shape& result) {
  constexpr std::int64_t most = 16;                            // maximum number of tiles
  constexpr std::int64_t least_work = std::int64_t{1} << 18U;  // multiplications per tile
  constexpr std::int64_t least_filters = 64;  // per tile: each tile converts the images to the library's format
  const auto weights = tensor::element_count(g.kernel);
  const auto values = tensor::element_count(image) + tensor::element_count(result);
  const auto work = weights / g.kernel[0] * tensor::element_count(result);
  const auto tiles = std::clamp<std::int64_t>(work / least_work, 1, most);
  // Partial sums are no larger in total than the operands they are computed from.
  const auto terms = std::clamp<std::int64_t>(values / weights, 1, std::min(tiles, image[0]));
  const auto group = g.groups == 1 ? 1 : g.kernel[0] / g.groups;
  const auto unit = group * ((least_filters + group - 1) / group);
  images = divide(image[0], 1, terms);
  filters = divide(g.kernel[0], unit, (tiles + terms - 1) / terms);
}

UNITY_INLINE std::vector<range> weight_tiling::divide(std::int64_t n, std::int64_t unit, std::int64_t parts) {
  const auto units = (n + unit - 1) / unit;
  const auto count = std::min(parts, units);
  std::vector<range> all;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back({units * i / count * unit, std::min(n, units * (i + 1) / count * unit)});
  }
  return all;
}

UNITY_INLINE image_part::image_part(const tensor::shape& whole, range images, range channels) {
  const auto strides = tensor::strides_of(whole);
  // For a dimension of size 1 use the stride of a dense tensor.
  const auto between = images.size() == 1 ? channels.size() * strides[1] : strides[0];
  desc =
      strided_desc({images.size(), channels.size(), whole[2], whole[3]}, {between, strides[1], strides[2], strides[3]});
  offset = static_cast<std::size_t>(images.begin * strides[0] + channels.begin * strides[1]) * sizeof(float);
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE convolution_weight_gradient_routine::convolution_weight_gradient_routine(const onednn& library,
                                                                                      const tensor::attribute_reader& a,
                                                                                      types inputs, types outputs,
                                                                                      int threads)
    : geometry_{a, inputs, inputs[0].dims, outputs[0].dims},
      weights_{tensor::element_count(outputs[0].dims)},
      threads_{threads} {
  const one_thread_each alone{threads};
  const detail::weight_tiling tiling{geometry_, inputs[0].dims, inputs[1].dims};
  terms_ = tiling.images.size();
  for (const auto filters : tiling.filters) {
    for (std::size_t term = 0; term < terms_; ++term) {
      add_tile(library, inputs, filters, tiling.images[term], term);
    }
  }
}

UNITY_INLINE void convolution_weight_gradient_routine::run(const call& c) const {
  const auto threads = std::min(c.threads, threads_);
  auto* const to = terms_ == 1 ? c.outputs[0] : c.work;
  std::atomic_flag failed;
  std::exception_ptr failure;
  {
    const one_thread_each alone{c.threads};
    parallel_for(threads, static_cast<std::int64_t>(tiles_.size()), 1,
                 [&](int thread, std::int64_t begin, std::int64_t end) {
                   auto* const desk = c.work + terms_size() + static_cast<std::size_t>(thread) * desk_;
                   try {
                     for (auto i = begin; i < end; ++i) {
                       run_tile(c, tiles_[static_cast<std::size_t>(i)], to, desk);
                     }
                   } catch (...) {  // it must not leave a thread
                     if (!failed.test_and_set()) {
                       failure = std::current_exception();
                     }
                   }
                 });
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  if (terms_ > 1) {
    add_up(c, threads);
  }
}

UNITY_INLINE void convolution_weight_gradient_routine::add_tile(const onednn& library, types inputs,
                                                                detail::range filters, detail::range images,
                                                                std::size_t term) {
  const auto& g = geometry_;
  const auto per_group = g.kernel[0] / g.groups;
  const auto channels =
      g.groups == 1 ? detail::range{0, g.kernel[1]}
                    : detail::range{filters.begin / per_group * g.kernel[1], filters.end / per_group * g.kernel[1]};
  const detail::image_part x{inputs[0].dims, images, channels};
  const detail::image_part y{inputs[1].dims, images, filters};
  const auto weights = plain_desc(g.weights(filters.size()));
  const auto pd = primitive(library, x.desc, y.desc, weights);
  auto r = std::make_unique<onednn_routine>(onednn{library.engine, dnnl::stream{library.engine}});
  const bool in_place = pd.diff_weights_desc() == weights;
  const auto target = in_place ? place::output(0) : r->reserve(pd.diff_weights_desc().get_size());
  const auto image = r->take(0, x.desc, pd.src_desc(), false);
  const auto result = r->take(1, y.desc, pd.diff_dst_desc(), false);
  r->add(dnnl::convolution_backward_weights{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_SRC, pd.src_desc(), image},
          {DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), result},
          {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), target}});
  if (!in_place) {
    r->add_reorder(pd.diff_weights_desc(), target, weights, place::output(0));
  }
  desk_ = std::max(desk_, backend::detail::aligned_size(r->workspace()));
  const auto first = static_cast<std::size_t>(filters.begin * (weights_ / g.kernel[0])) * sizeof(float);
  tiles_.push_back({std::move(r), x.offset, y.offset, term * gradient_size() + first});
}

UNITY_INLINE auto convolution_weight_gradient_routine::primitive(const onednn& library, const dnnl_desc& image,
                                                                 const dnnl_desc& result,
                                                                 const dnnl_desc& weights) const
    -> dnnl::convolution_backward_weights::primitive_desc {
  const auto& g = geometry_;
  const auto plain = [](const dnnl_desc& part) {
    const auto dims = part.dims();
    return plain_desc(std::span<const std::int64_t>{dims});
  };
  const auto x = plain(image), y = plain(result);
  const dnnl::convolution_backward_weights::desc d{dnnl::algorithm::convolution_direct,
                                                   g.free(x),
                                                   any_desc(weights.dims()),
                                                   g.free(y),
                                                   g.stride,
                                                   g.dilates,
                                                   g.before,
                                                   g.after};
  return {d, onednn_routine::user_scratch(), library.engine, g.forward(library, x, weights, y)};
}

UNITY_INLINE void convolution_weight_gradient_routine::run_tile(const call& c, const tile& t, std::byte* gradient,
                                                                std::byte* desk) {
  const std::array<const std::byte*, 2> in{c.inputs[0] + t.image, c.inputs[1] + t.result};
  std::array<std::byte*, 1> out{gradient + t.gradient};
  t.run->run({in, out, desk, 1});
}

UNITY_INLINE void convolution_weight_gradient_routine::add_up(const call& c, int threads) const {
  const auto* const terms = reinterpret_cast<const float*>(c.work);
  auto* const to = reinterpret_cast<float*>(c.outputs[0]);
  constexpr std::int64_t least_elements = 16384;
  parallel_for(threads, weights_, least_elements, [&](int, std::int64_t begin, std::int64_t end) {
    with_widest_vectors([&] {
      constexpr std::int64_t block = 4096;
      for (auto first = begin; first < end; first += block) {
        const auto last = std::min(first + block, end);
        std::copy(terms + first, terms + last, to + first);
        for (std::size_t t = 1; t < terms_; ++t) {
          const auto* const more = terms + static_cast<std::int64_t>(t) * weights_;
          write_each(to, 1, first, last, [&](std::int64_t i) { return to[i] + more[i]; });
        }
      }
    });
  });
}

UNITY_INLINE std::unique_ptr<routine> convolution_routine(const onednn& library, const tensor::attribute_reader& a,
                                                          types inputs, types outputs) {
  const convolution_geometry g{a, inputs, inputs[0].dims, inputs[1].dims};
  const bool product = g.is_product();
  const auto image = plain_desc(inputs[0].dims);
  const auto result = plain_desc(outputs[0].dims);
  const auto weights = plain_desc(g.weights());
  const auto free = [&](const dnnl_desc& d) { return product ? d : any_desc(d.dims()); };
  const bool biased = inputs.size() == 3;
  const auto bias = biased ? plain_desc(inputs[2].dims) : dnnl_desc{};
  using convolution = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto any_weights = any_desc(weights.dims());
  const auto d = biased ? convolution::desc{kind,         direct,   free(image), any_weights, bias,
                                            free(result), g.stride, g.dilates,   g.before,    g.after}
                        : convolution::desc{kind,     direct,    free(image), any_weights, free(result),
                                            g.stride, g.dilates, g.before,    g.after};
  // The library applies the activation of a product element by element: up to 5 times slower than a second pass.
  const auto ending = a.choice<tensor::operators::activation>("activation");
  const bool ends_later = product && ending != tensor::operators::activation::none;
  const convolution::primitive_desc pd{d, ends_later ? onednn_routine::user_scratch() : ending_with(ending),
                                       library.engine};

  auto r = std::make_unique<onednn_routine>(library);
  const bool in_place = pd.dst_desc() == result;
  const auto target = in_place ? place::output(0) : r->reserve(pd.dst_desc().get_size());
  std::vector<argument> arguments{
      {DNNL_ARG_SRC, pd.src_desc(), r->take(0, image, pd.src_desc(), false)},
      {DNNL_ARG_WEIGHTS, pd.weights_desc(), r->take(1, weights, pd.weights_desc(), inputs[1].constant)},
      {DNNL_ARG_DST, pd.dst_desc(), target}};
  if (biased) {
    arguments.push_back({DNNL_ARG_BIAS, bias, place::input(2)});
  }
  r->add(convolution{pd}, pd.scratchpad_desc(), std::move(arguments));
  if (ends_later) {
    const auto of_results = dnnl::eltwise_forward::desc{kind, eltwise_of(ending), pd.dst_desc(), 0, 0};
    const dnnl::eltwise_forward::primitive_desc last{of_results, onednn_routine::user_scratch(), library.engine};
    r->add(dnnl::eltwise_forward{last}, last.scratchpad_desc(),
           {{DNNL_ARG_SRC, pd.dst_desc(), target}, {DNNL_ARG_DST, pd.dst_desc(), target}});
  }
  if (!in_place) {
    r->add_reorder(pd.dst_desc(), target, result, place::output(0));
  }
  return r;
}

}  // namespace unity::backend::cpu

#endif
