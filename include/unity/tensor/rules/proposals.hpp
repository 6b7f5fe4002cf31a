// Guesses operand shapes and attributes that an operator may accept: the building blocks of random instances of rules.
// Over 500 lines because each family of operators guesses in its own way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <range/v3/view/zip.hpp>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/rules/guesses.hpp>
#include <unity/tensor/rules/layer_shapes.hpp>
#include <unity/tensor/rules/partial_instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Fills in the open parts. Guesses need not fit, only fit often.
class proposer {
 public:
  proposer(random_engine& random, const rule_hints& hints) : draw_{random, hints} {}

  void meet(const shape& s) { draw_.meet(s); }

  void fill_in(proposal& p);

 private:
  using size = guesses::size;
  struct family {
    std::string_view kind;
    void (proposer::*fill)(proposal&);
  };
  static const family* find(std::string_view kind);

  void unary(proposal& p);
  void binary(proposal& p);
  // Mostly a shape that broadcasts with the other; sometimes any shape, which may have a higher rank.
  shape beside(const shape& other) { return draw_.chance(20) ? draw_.any_shape() : draw_.fitting(other); }
  void scalar_multiply(proposal& p);
  void matmul(proposal& p);
  // Batch dimensions that are compatible with those of a matrix operand.
  shape leading(const shape& of);
  void linear(proposal& p);

  void window(proposal& p, std::span<const size> kernel);
  void conv2d(proposal& p);
  static constexpr std::array<size, 2> fallback{1, 1};
  void integer_conv2d(proposal& p);
  void quantized_conv2d(proposal& p);
  void quantized_matmul(proposal& p);
  // Scales and zero points: numbers, or along a dimension of this size those of the second matrix or kernel.
  void scales(proposal& p, size along);
  // Guesses operands 0 and 3, and the attributes, with a family of two operands.
  void quantized(proposal& p, void (proposer::*fill)(proposal&));
  void image(proposal& p);
  void pool(proposal& p);
  void batch_norm(proposal& p);
  void layer_norm(proposal& p);
  void along_axis(proposal& p);
  void along_axes(proposal& p);

  void concat(proposal& p);
  void split(proposal& p);
  void slice(proposal& p);
  void strided_slice(proposal& p);
  void pad(proposal& p);
  void enlarge(proposal& p);
  void transpose(proposal& p);
  void reshape(proposal& p);
  void expand(proposal& p);
  void squeeze(proposal& p);
  void unsqueeze(proposal& p);
  void embedding(proposal& p);
  void segment(proposal& p);
  void source(proposal& p);
  // For operators without a family: an axis of the first operand, and lists with a number for each of its dimensions.
  void other(proposal& p);
  // The rank of the first operand, if a known list tells it.
  [[nodiscard]] static std::optional<std::size_t> listed_rank(const proposal& p);
  [[nodiscard]] std::optional<attribute> list_for(std::string_view name, const shape& x);

  guesses draw_;
  shape batch_{};  // for matrix products
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_PROPOSALS)

#include <algorithm>
#include <vector>

#include <unity/tensor/operation.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void proposer::fill_in(proposal& p) {
  if (!guess_layer(draw_, p)) {
    const auto* known = find(p.kind);
    (this->*(known != nullptr ? known->fill : &proposer::other))(p);
  }
  for (auto& o : p.operands) {
    o = o ? *o : draw_.any_shape();
  }
  for (auto&& [field, value] : ranges::views::zip(p.fields, p.attributes)) {
    value = value ? *value : draw_.any_value(field);
  }
}

UNITY_INLINE void proposer::unary(proposal& p) {
  if (!p.operands[0]) {
    p.operands[0] = draw_.any_shape();
  }
}

UNITY_INLINE void proposer::binary(proposal& p) {
  auto& a = p.operands[0];
  auto& b = p.operands[1];
  const bool open = !a && !b;
  if (open) {
    a = draw_.any_shape();
  }
  if (!a) {
    a = beside(*b);
  } else if (!b) {
    b = open ? draw_.fitting(*a) : beside(*a);
  }
  if (open && draw_.swaps()) {
    std::swap(a, b);
  }
}

UNITY_INLINE void proposer::scalar_multiply(proposal& p) {
  unary(p);
  if (!p.operands[1]) {
    p.operands[1] = shape{};
  }
}

UNITY_INLINE void proposer::matmul(proposal& p) {
  auto& a = p.operands[0];
  auto& b = p.operands[1];
  const bool open = !a && !b;
  if (open) {
    if (!draw_.chance(70)) {
      batch_ = draw_.shape_of_rank(draw_.below(3));
    }
    a = batch_;
    a->push_back(draw_.shared("m"));
    a->push_back(draw_.shared("k", 30));
  }
  if (!b && a->size() >= 2) {
    b = leading(*a);
    b->push_back(a->back());
    b->push_back(draw_.shared("n", 50));
    if (open && draw_.swaps()) {
      a = shape(std::span<const size>{*a}.subspan(a->size() - 2));
    }
  } else if (!a && b->size() >= 2) {
    a = leading(*b);
    a->push_back(draw_.shared("m", 50));
    a->push_back((*b)[b->size() - 2]);
  }
}

UNITY_INLINE shape proposer::leading(const shape& of) {
  shape batch(std::span<const size>{of}.first(of.size() - 2));
  if (draw_.chance(30)) {
    batch.clear();
  }
  return batch;
}

UNITY_INLINE void proposer::linear(proposal& p) {
  auto& x = p.operands[0];
  auto& w = p.operands[1];
  const auto bias = p.operands.size() > 2 ? p.operands[2] : std::nullopt;
  if (!w) {
    w = shape{x && !x->empty() ? x->back() : draw_.shared("k", 30),
              bias && !bias->empty() ? (*bias)[0] : draw_.shared("n", 50)};
  }
  if (!x && !w->empty()) {
    x = draw_.shape_of_rank(draw_.below(3));
    for (auto& d : *x) {
      d = draw_.shared("m");
    }
    x->push_back((*w)[0]);
  }
  if (p.operands.size() > 2 && !bias && !w->empty()) {
    p.operands[2] = shape{w->back()};
  }
}

UNITY_INLINE void proposer::window(proposal& p, std::span<const size> kernel) {
  auto& padding = p.at("padding");
  if (!padding) {
    padding = attribute{draw_.chance(40) ? 0 : draw_.between(0, 3)};
  }
  const bool is_explicit = *padding == attribute{0};
  auto& pads = p.at("pads");
  if (!pads && is_explicit && draw_.chance(30)) {
    pads = attribute{kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2};
  } else if (!pads) {
    pads = attribute{0, 0, 0, 0};
    for (std::size_t i = 0; is_explicit && i < 4; ++i) {
      (*pads)[i] = draw_.chance(60) ? 0 : draw_.between(0, kernel[i % 2]);
    }
  }
  if (auto& stride = p.at("stride"); !stride) {
    stride = draw_.chance(50) ? attribute{1, 1} : attribute{draw_.between(1, 3), draw_.between(1, 3)};
  }
}

UNITY_INLINE void proposer::conv2d(proposal& p) {
  auto& x = p.operands[0];
  auto& w = p.operands[1];
  auto& groups = p.at("groups");
  if (!groups) {
    const auto by_shapes = x && w && w->size() == 4 && x->size() == 4 && (*w)[1] > 0;
    const auto divisor = x && x->size() == 4 && draw_.chance(50) ? (*x)[1]
                         : draw_.chance(40)                      ? 1
                                                                 : draw_.shared("groups");
    groups = attribute{std::max<size>(1, by_shapes ? (*x)[1] / (*w)[1] : divisor)};
  }
  const auto g = std::max<size>(1, groups->empty() ? 1 : (*groups)[0]);
  if (!w) {
    const auto in = x && x->size() == 4 ? (*x)[1] / g : draw_.shared("ic", 50);
    const auto out = p.operands.size() > 2 && p.operands[2] && !p.operands[2]->empty() ? (*p.operands[2])[0] / g
                                                                                       : draw_.shared("oc", 50);
    w = shape{saturating_multiply(g, out), in, draw_.shared_kernel("kh"), draw_.shared_kernel("kw")};
  }
  if (!x && w->size() == 4) {
    const auto in = saturating_multiply((*w)[1], g);
    x = shape{draw_.shared("batch"), in, draw_.shared_extent("h"), draw_.shared_extent("w")};
  }
  if (p.operands.size() > 2 && !p.operands[2]) {
    p.operands[2] = shape{w->empty() ? 1 : w->front()};
  }
  if (auto& dilation = p.at("dilation"); !dilation) {
    dilation = draw_.chance(60) ? attribute{1, 1} : attribute{draw_.between(1, 2), draw_.between(1, 2)};
  }
  window(p, w->size() == 4 ? std::span<const size>{*w}.subspan(2) : std::span<const size>{fallback});
}

UNITY_INLINE void proposer::integer_conv2d(proposal& p) {
  if (p.operands.size() > 2 && !p.operands[2]) {
    p.operands[2] = shape{};
  }
  conv2d(p);
  if (p.operands.size() > 3 && !p.operands[3]) {
    p.operands[3] = draw_.chance(50) ? shape{} : shape{p.operands[1]->empty() ? 1 : p.operands[1]->front()};
  }
}

UNITY_INLINE void proposer::quantized_conv2d(proposal& p) {
  quantized(p, &proposer::conv2d);
  const auto channels = p.operands[3]->empty() ? 1 : p.operands[3]->front();
  scales(p, channels);
  if (p.operands.size() > 8 && !p.operands[8]) {
    p.operands[8] = shape{channels};
  }
}

UNITY_INLINE void proposer::quantized_matmul(proposal& p) {
  quantized(p, &proposer::matmul);
  for (const std::size_t i : {0U, 3U}) {
    p.operands[i] = p.operands[i] ? *p.operands[i] : draw_.any_shape();
  }
  scales(p, p.operands[3]->empty() ? 1 : p.operands[3]->back());
}

UNITY_INLINE void proposer::scales(proposal& p, size along) {
  const auto second = draw_.chance(50) ? shape{} : shape{along};
  for (const std::size_t i : {1U, 2U, 4U, 5U, 6U, 7U}) {
    if (!p.operands[i]) {
      p.operands[i] = i == 4 || i == 5 ? second : shape{};
    }
  }
}

UNITY_INLINE void proposer::quantized(proposal& p, void (proposer::*fill)(proposal&)) {
  auto two = p;
  two.operands = {p.operands[0], p.operands[3]};
  (this->*fill)(two);
  p.operands[0] = two.operands[0];
  p.operands[3] = two.operands[1];
  p.attributes = std::move(two.attributes);
}

UNITY_INLINE void proposer::image(proposal& p) {
  if (auto met = p.operands[0] ? std::nullopt : draw_.met_shape(); met && met->size() == 4) {
    p.operands[0] = *met;
  }
  if (!p.operands[0]) {
    p.operands[0] =
        shape{draw_.shared("batch"), draw_.shared("channels", 50), draw_.shared_extent("h"), draw_.shared_extent("w")};
  }
}

UNITY_INLINE void proposer::pool(proposal& p) {
  image(p);
  auto& kernel = p.at("kernel");
  if (!kernel) {
    kernel = attribute{draw_.shared_kernel("kh"), draw_.shared_kernel("kw")};
  }
  if (checked_element_count(*kernel)) {  // fits nothing otherwise
    window(p, *kernel);
  }
}

UNITY_INLINE void proposer::batch_norm(proposal& p) {
  if (!p.operands[0]) {
    p.operands[0] = draw_.chance(60) ? draw_.shape_of_rank(4) : draw_.shape_of_rank(2 + draw_.below(3));
  }
  const auto channels = p.operands[0]->size() < 2 ? 1 : (*p.operands[0])[1];
  for (std::size_t i = 1; i < p.operands.size(); ++i) {
    p.operands[i] = p.operands[i] ? p.operands[i] : shape{channels};
  }
}

UNITY_INLINE void proposer::layer_norm(proposal& p) {
  unary(p);
  const auto& x = *p.operands[0];
  auto& axis = p.at("axis");
  if (!axis && !x.empty()) {
    axis = attribute{static_cast<size>(draw_.below(x.size()))};
  }
  for (std::size_t i = 1; i < p.operands.size(); ++i) {
    if (!p.operands[i] && axis && static_cast<std::size_t>((*axis)[0]) < x.size()) {
      p.operands[i] = shape(std::span<const size>{x}.subspan(static_cast<std::size_t>((*axis)[0])));
    }
  }
}

UNITY_INLINE void proposer::along_axis(proposal& p) {
  unary(p);
  auto& axis = p.at("axis");
  if (!axis && !p.operands[0]->empty()) {
    axis = attribute{draw_.axis_below(p.operands[0]->size())};
  }
}

UNITY_INLINE void proposer::along_axes(proposal& p) {
  unary(p);
  auto& axes = p.at("axes");
  if (!axes && !p.operands[0]->empty()) {
    axes = draw_.some_axes(p.operands[0]->size());
  }
}

UNITY_INLINE void proposer::concat(proposal& p) {
  const auto known = std::find_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.has_value(); });
  auto base = known != p.operands.end() ? **known : draw_.any_shape();
  auto& axis = p.at("axis");
  if (!axis && !base.empty()) {
    axis = attribute{draw_.axis_below(base.size())};
  }
  for (auto& o : p.operands) {
    if (!o) {
      if (axis && static_cast<std::size_t>((*axis)[0]) < base.size()) {
        base[static_cast<std::size_t>((*axis)[0])] = draw_.any_size();
      }
      o = base;
    }
  }
}

UNITY_INLINE void proposer::split(proposal& p) {
  auto& x = p.operands[0];
  auto& axis = p.at("axis");
  auto& sizes = p.at("sizes");
  if (axis && ((*axis)[0] < 0 || (*axis)[0] >= static_cast<size>(max_rank))) {
    return;  // fits nothing
  }
  const auto unread = p.most_results - p.results;
  const auto count = p.results + (sizes || unread == 0 || draw_.chance(50) ? 0 : 1 + draw_.below(unread));
  if (!x) {
    x = draw_.any_shape();
    if (const auto least = axis ? static_cast<std::size_t>((*axis)[0]) + 1 : 1; x->size() < least) {
      x = draw_.shape_of_rank(least);
    }
    axis = axis ? axis : attribute{draw_.axis_below(x->size())};
    auto& extent = (*x)[static_cast<std::size_t>((*axis)[0])];
    if (!sizes) {
      sizes = attribute{};
      for (std::size_t i = 0; i < count; ++i) {
        sizes->push_back(draw_.any_size());
      }
    }
    extent = 0;
    for (const auto s : *sizes) {
      extent = saturating_add(extent, s);
    }
  } else if (!x->empty()) {
    axis = axis ? axis : attribute{draw_.axis_below(x->size())};
    if (!sizes && static_cast<std::size_t>((*axis)[0]) < x->size()) {
      sizes = draw_.parts((*x)[static_cast<std::size_t>((*axis)[0])], count);
    }
  }
}

UNITY_INLINE void proposer::slice(proposal& p) {
  const bool open = !p.operands[0];
  unary(p);
  auto& x = *p.operands[0];
  auto& axes = p.at("axes");
  if (!axes && !x.empty()) {
    axes = draw_.chance(60) ? attribute{draw_.axis_below(x.size())} : draw_.some_axes(x.size());
  }
  for (const auto a : open&& axes ? *axes : attribute{}) {
    if (static_cast<std::size_t>(a) < x.size()) {
      x[static_cast<std::size_t>(a)] = draw_.between(1, 9);  // long enough for two cuts
    }
  }
  attribute starts;
  attribute ends;
  attribute steps;
  for (const auto a : axes.value_or(attribute{})) {
    const auto extent = a >= 0 && static_cast<std::size_t>(a) < x.size() ? x[static_cast<std::size_t>(a)] : 1;
    const bool all = draw_.chance(30);
    starts.push_back(all ? 0 : draw_.between(0, extent / 2));
    ends.push_back(all ? extent : draw_.between(std::min(starts.back() + 1, extent), extent));
    steps.push_back(draw_.chance(50) ? 1 : draw_.between(1, 3));
  }
  p.at("starts") = p.at("starts") ? p.at("starts") : starts;
  p.at("ends") = p.at("ends") ? p.at("ends") : ends;
  p.at("steps") = p.at("steps") ? p.at("steps") : steps;
}

UNITY_INLINE void proposer::strided_slice(proposal& p) {
  unary(p);
  const auto& x = *p.operands[0];
  auto& axes = p.at("axes");
  if (!axes && !x.empty()) {
    axes = draw_.some_axes(x.size());
  }
  attribute starts;
  attribute counts;
  attribute steps;
  for (const auto a : axes.value_or(attribute{})) {
    const bool exists = a >= 0 && static_cast<std::size_t>(a) < x.size();
    const auto extent = std::max<size>(1, exists ? x[static_cast<std::size_t>(a)] : 1);
    const auto step = draw_.chance(50) ? 1 : draw_.between(1, 3);
    const auto count = draw_.between(1, (extent - 1) / step + 1);
    const auto first = draw_.between(0, extent - 1 - (count - 1) * step);
    const bool descends = draw_.chance(40);
    starts.push_back(descends ? first + (count - 1) * step : first);
    counts.push_back(count);
    steps.push_back(descends ? -step : step);
  }
  p.at("starts") = p.at("starts") ? p.at("starts") : starts;
  p.at("counts") = p.at("counts") ? p.at("counts") : counts;
  p.at("steps") = p.at("steps") ? p.at("steps") : steps;
}

UNITY_INLINE void proposer::pad(proposal& p) {
  unary(p);
  auto& pads = p.at("pads");
  if (!pads) {
    pads = attribute{};
    const size most = draw_.chance(20) ? 0 : 2;
    for (std::size_t i = 0; i < 2 * p.operands[0]->size(); ++i) {
      pads->push_back(draw_.between(0, most));
    }
  }
  if (auto& value = p.at("value"); !value && draw_.chance(60)) {
    value = real_attribute(0.0);
  }
}

UNITY_INLINE void proposer::enlarge(proposal& p) {
  if (!p.operands[0]) {
    p.operands[0] = shape{draw_.shared("oc"), draw_.shared("ic"), draw_.shared_kernel("kh"), draw_.shared_kernel("kw")};
  }
  if (auto& kernel = p.at("kernel"); !kernel && p.operands[0]->size() == 4) {
    const auto& w = *p.operands[0];
    kernel = attribute{w[2] + 2 * draw_.between(0, 1), w[3] + 2 * draw_.between(0, 1)};
  }
}

UNITY_INLINE void proposer::transpose(proposal& p) {
  auto& permutation = p.at("permutation");
  if (!p.operands[0]) {
    p.operands[0] = permutation ? draw_.shape_of_rank(permutation->size()) : draw_.any_shape();
  }
  if (!permutation) {
    permutation = attribute{};
    for (std::size_t d = 0; d < p.operands[0]->size(); ++d) {
      permutation->insert(permutation->begin() + draw_.between(0, static_cast<size>(d)), static_cast<size>(d));
    }
  }
}

UNITY_INLINE void proposer::reshape(proposal& p) {
  auto& dims = p.at("dims");
  if (dims && !checked_element_count(*dims)) {
    return;  // fits nothing
  }
  if (!p.operands[0]) {
    p.operands[0] = dims ? draw_.reshaped(shape(std::span<const size>{*dims})) : draw_.any_shape();
  }
  if (!dims) {
    dims = attribute(std::span<const size>{draw_.chance(30) ? *p.operands[0] : draw_.reshaped(*p.operands[0])});
  }
}

UNITY_INLINE void proposer::expand(proposal& p) {
  unary(p);
  if (auto& dims = p.at("dims"); !dims) {
    auto joint = *p.operands[0];
    for (auto& d : joint) {
      d = d == 1 ? draw_.any_size() : d;
    }
    dims = attribute{};
    if (draw_.chance(40)) {
      dims->push_back(draw_.any_size());
    }
    dims->append(joint.begin(), joint.end());
  }
}

UNITY_INLINE void proposer::squeeze(proposal& p) {
  auto& axes = p.at("axes");
  if (!p.operands[0]) {
    p.operands[0] = draw_.any_shape();
    if (!axes && !p.operands[0]->empty()) {
      axes = draw_.some_axes(p.operands[0]->size());
    }
    for (const auto a : axes.value_or(attribute{})) {
      if (static_cast<std::size_t>(a) < p.operands[0]->size()) {
        (*p.operands[0])[static_cast<std::size_t>(a)] = 1;
      }
    }
  } else if (!axes) {
    axes = attribute{};
    for (std::size_t d = 0; d < p.operands[0]->size(); ++d) {
      if ((*p.operands[0])[d] == 1) {
        axes->push_back(static_cast<size>(d));
      }
    }
  }
}

UNITY_INLINE void proposer::unsqueeze(proposal& p) {
  unary(p);
  if (auto& axes = p.at("axes"); !axes) {
    axes = attribute{static_cast<size>(draw_.below(p.operands[0]->size() + 1))};
  }
}

UNITY_INLINE void proposer::embedding(proposal& p) {
  if (!p.operands[0]) {
    p.operands[0] = draw_.shape_of_rank(1 + draw_.below(3));
  }
  if (!p.operands[1]) {
    const std::size_t least = p.kind == "embedding_bag" ? 1 : 0;
    p.operands[1] = draw_.shape_of_rank(least + draw_.below(3));
  }
}

UNITY_INLINE void proposer::segment(proposal& p) {
  const bool is_softmax = p.kind == "segment_softmax";
  const bool is_weighted = p.kind == "segment_weighted_sum";
  if (!p.operands[0]) {
    p.operands[0] = draw_.shape_of_rank(is_weighted ? 3 : 1 + draw_.below(3));
  }
  const auto& x = *p.operands[0];
  const auto fill = [&](std::size_t operand, const shape& dims) {
    if (operand < p.operands.size() && !p.operands[operand]) {
      p.operands[operand] = dims;
    }
  };
  const std::size_t offsets = is_weighted ? 2 : 1;
  const auto edges = draw_.shared("edges");
  if (is_weighted && x.size() == 3) {
    fill(1, {edges, x[1]});
  }
  fill(offsets, {draw_.shared("vertices") + 1});
  if (!is_softmax && !x.empty()) {
    fill(offsets + 1, {edges});
    fill(offsets + 2, {x[0] + 1});
    fill(offsets + 3, {edges});
    fill(offsets + 4, {edges});
  }
}

UNITY_INLINE void proposer::source(proposal& p) {
  for (std::size_t i = 0; i < p.fields.size(); ++i) {
    const auto& name = p.fields[i].signature.name;
    if (!p.attributes[i] && name == "dims") {
      p.attributes[i] = draw_.chance(40) ? attribute{} : attribute(std::span<const size>{draw_.any_shape()});
    } else if (!p.attributes[i] && name == "kernel") {
      p.attributes[i] = attribute{draw_.shared_kernel("kh"), draw_.shared_kernel("kw")};
    } else if (!p.attributes[i] && name == "channels") {
      p.attributes[i] = attribute{draw_.shared("channels")};
    }
  }
}

UNITY_INLINE void proposer::other(proposal& p) {
  if (p.operands.empty()) {
    return;
  }
  auto& x = p.operands[0];
  const auto met = std::find_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.has_value(); });
  if (const auto rank = x ? std::nullopt : listed_rank(p)) {
    x = draw_.shape_of_rank(*rank);
  } else if (!x) {
    x = met != p.operands.end() ? beside(**met) : draw_.any_shape();
  }
  for (auto& o : p.operands) {
    o = o ? *o : beside(*x);
  }
  for (auto&& [field, value] : ranges::views::zip(p.fields, p.attributes)) {
    const std::string_view name = field.signature.name;
    if (!value && name == "axis" && !x->empty()) {
      value = attribute{draw_.axis_below(x->size())};
    } else if (!value && name == "k") {  // a diagonal
      value = attribute{draw_.between(-3, 3)};
    } else if (!value && field.signature.form == attribute_form::integers) {
      value = list_for(name, *x);
    }
  }
}

UNITY_INLINE std::optional<std::size_t> proposer::listed_rank(const proposal& p) {
  for (const auto& [field, value] : ranges::views::zip(p.fields, p.attributes)) {
    const std::string_view name = field.signature.name;
    const auto rank = !value ? 0 : name == "pads" ? value->size() / 2 : value->size();
    if (value && (name == "repeats" || name == "dims" || name == "pads") && rank <= max_rank) {
      return rank;
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<attribute> proposer::list_for(std::string_view name, const shape& x) {
  if (name == "axes" && !x.empty()) {
    return draw_.some_axes(x.size());
  }
  if (name == "dims") {
    return attribute(std::span<const size>{draw_.shape_of_rank(x.size())});
  }
  if (name != "pads" && name != "repeats") {
    return std::nullopt;
  }
  const auto one = [&] {
    const auto pad = draw_.chance(10) ? -1 : draw_.between(0, 2);  // a negative pad leaves elements out
    return name == "pads" ? pad : draw_.between(1, 3);
  };
  attribute all;
  const bool same = draw_.chance(40);
  for (std::size_t i = 0; i < (name == "pads" ? 2 : 1) * x.size(); ++i) {
    all.push_back(same && i > 0 ? all[0] : one());
  }
  return all;
}

UNITY_INLINE auto proposer::find(std::string_view kind) -> const proposer::family* {
  static constexpr auto families = std::to_array<family>({
      {"matmul", &proposer::matmul},
      {"linear", &proposer::linear},
      {"conv2d", &proposer::conv2d},
      {"integer_conv2d", &proposer::integer_conv2d},
      {"quantized_conv2d", &proposer::quantized_conv2d},
      {"quantized_matmul", &proposer::quantized_matmul},
      {"max_pool", &proposer::pool},
      {"average_pool", &proposer::pool},
      {"global_average_pool", &proposer::image},
      {"global_max_pool", &proposer::image},
      {"add", &proposer::binary},
      {"sub", &proposer::binary},
      {"mul", &proposer::binary},
      {"div", &proposer::binary},
      {"pow", &proposer::binary},
      {"maximum", &proposer::binary},
      {"minimum", &proposer::binary},
      {"scalar_multiply", &proposer::scalar_multiply},
      {"softmax", &proposer::along_axis},
      {"layer_norm", &proposer::layer_norm},
      {"rms_norm", &proposer::layer_norm},
      {"batch_norm", &proposer::batch_norm},
      {"group_norm", &proposer::batch_norm},
      {"instance_norm", &proposer::batch_norm},
      {"reduce_sum", &proposer::along_axes},
      {"reduce_mean", &proposer::along_axes},
      {"reduce_max", &proposer::along_axes},
      {"concat", &proposer::concat},
      {"split", &proposer::split},
      {"slice", &proposer::slice},
      {"strided_slice", &proposer::strided_slice},
      {"pad", &proposer::pad},
      {"enlarge", &proposer::enlarge},
      {"transpose", &proposer::transpose},
      {"reshape", &proposer::reshape},
      {"expand", &proposer::expand},
      {"squeeze", &proposer::squeeze},
      {"unsqueeze", &proposer::unsqueeze},
      {"embedding", &proposer::embedding},
      {"embedding_bag", &proposer::embedding},
      {"segment_sum", &proposer::segment},
      {"segment_mean", &proposer::segment},
      {"segment_max", &proposer::segment},
      {"segment_softmax", &proposer::segment},
      {"segment_weighted_sum", &proposer::segment},
      {"fill", &proposer::source},
      {"pool_kernel", &proposer::source},
      {"identity_kernel", &proposer::source},
      {"identity_matrix", &proposer::source},
  });
  const auto found = std::find_if(families.begin(), families.end(), [&](const family& f) { return f.kind == kind; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace unity::tensor::detail

#endif
