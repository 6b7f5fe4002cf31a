// ONNX's layers: recurrent ones, einsum, transposed convolutions, resizing, attention, rotary embeddings, losses.
#pragma once

#include <optional>

#include <unity/io/onnx/family.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// ONNX's attention, rotary embeddings and classification losses.

// Without past keys and values, and only if nothing reads the query-key products.
import_result import_attention(import_node& n);
void export_attention(export_node& n);

import_result import_rotary_embedding(import_node& n);
void export_rotary_embedding(export_node& n);

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss whose probabilities nothing reads.
import_result import_likelihood_loss(import_node& n);
void export_likelihood_loss(export_node& n);

[[nodiscard]] onnx_family attention_family();

// ONNX's recurrent layers, einsum, transposed convolutions and image resizing: one operator each, as in indexing.hpp.

// With explicit pads: engines disagree on which side gets an odd one.
import_result import_conv_transpose(import_node& n);

// One function for all three. Default activations, layout 0, all steps of all sequences.
import_result import_recurrent(import_node& n);

// The sizes that follow from known sizes or scales, for all dimensions or those of `axes`; empty if they are unknown or
// not whole numbers.
[[nodiscard]] std::optional<tensor::shape> resized_dims(const import_node& n);
// Nearest and linear interpolation, in the common coordinate modes.
import_result import_resize(import_node& n);

void export_recurrent(export_node& n);
void export_resize(export_node& n);

[[nodiscard]] onnx_family layer_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_LAYERS)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_attention(import_node& n) {
  const bool is_plain = n.attributes.real("softcap", 0) == 0 && n.attributes.find("softmax_precision") == nullptr &&
                        n.attributes.integer("left_window_size", -1) < 0 &&
                        n.attributes.integer("right_window_size", -1) < 0 && !n.wants(1) && !n.wants(2) && !n.wants(3);
  if (!is_plain || n.has(4) || n.has(5) || n.has(6) || n.type(1).element != n.type(0).element ||
      n.type(2).element != n.type(0).element) {
    return std::nullopt;
  }
  const bool is_flat = n.rank(0) == 3;
  const auto heads = is_flat ? n.attributes.integer("q_num_heads", 0) : 0;
  const auto key_heads = is_flat ? n.attributes.integer("kv_num_heads", 0) : 0;
  std::vector<value_id> operands{n.input(0), n.input(1), n.input(2)};
  if (n.has(3)) {
    // A mask may be shorter than the keys and have another element type; such masks are not supported.
    const auto mask = n.type(3);
    const auto keys = n.type(1).dims[n.rank(1) - 2];
    if (mask.rank() == 0 || (mask.dims[mask.rank() - 1] != keys && mask.dims[mask.rank() - 1] != 1) ||
        (mask.element != tensor::dtype::boolean && mask.element != n.type(0).element)) {
      return std::nullopt;
    }
    operands.push_back(n.input(3));
  }
  return n.emit_all("dot_product_attention", operands,
                    {{"heads", heads},
                     {"key_heads", key_heads},
                     {"scale", n.attributes.real("scale", 0)},
                     {"causal", n.attributes.integer("is_causal", 0)}});
}

UNITY_INLINE void export_attention(export_node& n) {
  std::vector<onnx_attribute> attributes;
  if (n.attributes.integer("heads") != 0) {
    attributes.push_back({"q_num_heads", n.attributes.integer("heads")});
    attributes.push_back({"kv_num_heads", n.attributes.integer("key_heads")});
  }
  if (n.attributes.real("scale") != 0) {
    attributes.push_back({"scale", n.attributes.real("scale")});
  }
  if (n.attributes.flag("causal")) {
    attributes.push_back({"is_causal", std::int64_t{1}});
  }
  const std::string outputs[] = {n.result()};
  n.out.node("Attention", n.inputs(), outputs, attributes);
}

UNITY_INLINE import_result import_rotary_embedding(import_node& n) {
  const bool is_flat = n.rank(0) == 3;
  const auto heads = is_flat ? n.attributes.integer("num_heads", 0) : 0;
  const auto turned = n.attributes.integer("rotary_embedding_dim", 0);
  const auto features = is_flat && heads > 0 ? n.type(0).dims[2] / heads : n.type(0).dims[n.rank(0) - 1];
  const auto angles = n.type(1).dims[n.rank(1) - 1];
  if ((is_flat && heads <= 0) || 2 * angles != (turned == 0 ? features : turned)) {
    return std::nullopt;
  }
  std::vector<value_id> operands{n.input(0), n.input(1), n.input(2)};
  if (n.has(3)) {
    operands.push_back(n.input(3));
  }
  return n.emit_all("rotary_embedding", operands,
                    {{"heads", heads}, {"interleaved", n.attributes.integer("interleaved", 0)}});
}

UNITY_INLINE void export_rotary_embedding(export_node& n) {
  std::vector<onnx_attribute> attributes;
  const auto heads = n.attributes.integer("heads");
  const auto features = n.type(0).dims[n.type(0).rank() - 1] / (heads == 0 ? 1 : heads);
  const auto turned = 2 * n.type(1).dims[n.type(1).rank() - 1];
  if (heads != 0) {
    attributes.push_back({"num_heads", heads});
  }
  if (turned != features) {
    attributes.push_back({"rotary_embedding_dim", turned});
  }
  if (n.attributes.flag("interleaved")) {
    attributes.push_back({"interleaved", std::int64_t{1}});
  }
  const std::string outputs[] = {n.result()};
  n.out.node("RotaryEmbedding", n.inputs(), outputs, attributes);
}

UNITY_INLINE import_result import_likelihood_loss(import_node& n) {
  if (n.wants(1) || (n.has(2) && n.type(2).element != n.type(0).element)) {
    return std::nullopt;
  }
  std::vector<value_id> operands{n.input(0), n.input(1)};
  if (n.has(2)) {
    operands.push_back(n.input(2));
  }
  return n.emit_all(n.type() == "SoftmaxCrossEntropyLoss" ? "softmax_cross_entropy" : "negative_log_likelihood",
                    operands,
                    {{"reduction", n.attributes.word("reduction", "mean")},
                     {"ignores", n.attributes.find("ignore_index") != nullptr ? 1 : 0},
                     {"ignored", n.attributes.integer("ignore_index", 0)}});
}

UNITY_INLINE void export_likelihood_loss(export_node& n) {
  std::vector<onnx_attribute> attributes{{"reduction", n.choice("reduction")}};
  if (n.attributes.flag("ignores")) {
    attributes.push_back({"ignore_index", n.attributes.integer("ignored")});
  }
  const std::string outputs[] = {n.result()};
  n.out.node(n.kind() == "softmax_cross_entropy" ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss", n.inputs(),
             outputs, attributes);
}

UNITY_INLINE onnx_family attention_family() {
  return {{{"Attention", import_attention},
           {"RotaryEmbedding", import_rotary_embedding},
           {"NegativeLogLikelihoodLoss", import_likelihood_loss},
           {"SoftmaxCrossEntropyLoss", import_likelihood_loss}},
          {{"dot_product_attention", export_attention, 23},
           {"rotary_embedding", export_rotary_embedding, 23},
           {"negative_log_likelihood", export_likelihood_loss, 12},
           {"softmax_cross_entropy", export_likelihood_loss, 12}}};
}

[[nodiscard]] inline import_result import_einsum(import_node& n) {
  return accepted(n, "einsum", n.input_count(), {{"equation", n.attributes.word("equation", "")}});
}

UNITY_INLINE import_result import_conv_transpose(import_node& n) {
  if (n.rank(0) < 3 || n.rank(0) > 4 || n.attributes.find("output_shape") != nullptr) {
    return std::nullopt;
  }
  const auto spatial = n.rank(0) - 2;
  const auto strides = n.attributes.integers("strides", std::vector<std::int64_t>(spatial, 1));
  const auto dilations = n.attributes.integers("dilations", std::vector<std::int64_t>(spatial, 1));
  const auto more = n.attributes.integers("output_padding", std::vector<std::int64_t>(spatial, 0));
  auto pads = n.attributes.integers("pads", std::vector<std::int64_t>(2 * spatial, 0));
  const auto automatic = n.attributes.word("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    return std::nullopt;
  }
  if (automatic == "VALID") {
    pads.assign(2 * spatial, 0);
  }
  return accepted(n, "conv_transpose", n.has(2) ? 3 : 2,
                  {{"stride", strides},
                   {"pads", pads},
                   {"dilation", dilations},
                   {"output_padding", more},
                   {"groups", n.attributes.integer("group", 1)}});
}

UNITY_INLINE import_result import_recurrent(import_node& n) {
  const auto type = n.type();
  const bool is_lstm = type == "LSTM";
  const auto direction = n.attributes.word("direction", "forward");
  const bool plain = n.opset() >= 7 && n.attributes.integer("layout", 0) == 0 &&
                     n.attributes.integer("input_forget", 0) == 0 && n.attributes.find("activations") == nullptr &&
                     n.attributes.find("activation_alpha") == nullptr &&
                     n.attributes.find("activation_beta") == nullptr && n.attributes.find("clip") == nullptr;
  if (!plain || n.has(7) || (direction != "forward" && direction != "reverse" && direction != "bidirectional") ||
      n.rank(0) != 3) {
    return std::nullopt;
  }
  if (n.has(4)) {
    const auto lengths = n.known_integers(4);
    const auto steps = n.type(0).dims[0];
    if (!lengths || std::any_of(lengths->begin(), lengths->end(), [&](std::int64_t l) { return l != steps; })) {
      return std::nullopt;
    }
  }
  std::vector<value_id> operands{n.input(0), n.input(1), n.input(2)};
  for (const auto i : {std::size_t{3}, std::size_t{5}, std::size_t{6}}) {
    if (n.has(i)) {
      operands.push_back(n.input(i));
    }
  }
  const int bias = n.has(3) ? 1 : 0;
  const int h = n.has(5) ? 1 : 0;
  try {
    if (is_lstm) {
      return n.emit_all("lstm", operands,
                        {{"direction", direction}, {"bias", bias}, {"initial_h", h}, {"initial_c", n.has(6) ? 1 : 0}});
    }
    if (type == "RNN") {
      return n.emit_all("rnn", operands, {{"direction", direction}, {"bias", bias}, {"initial_h", h}});
    }
    return n.emit_all("gru", operands,
                      {{"direction", direction},
                       {"bias", bias},
                       {"initial_h", h},
                       {"reset_after", n.attributes.integer("linear_before_reset", 0) != 0 ? 1 : 0}});
  } catch (const not_accepted&) {
    return std::nullopt;
  }
}

UNITY_INLINE std::optional<tensor::shape> resized_dims(const import_node& n) {
  const auto& type = n.type(0);
  const auto rank = type.rank();
  const bool first = n.opset() < 11;  // Upsample, or Resize of opset 10
  const bool by_size = !first && n.has(3);
  std::vector<double> values;
  if (n.type() == "Upsample" && n.opset() < 9) {
    return std::nullopt;
  }
  const auto* k = n.known(by_size ? 3 : first ? 1 : 2);
  for (std::size_t i = 0; k != nullptr && i < k->size(); ++i) {
    values.push_back(k->real(i));
  }
  std::vector<std::int64_t> every(rank);
  std::iota(every.begin(), every.end(), std::int64_t{0});
  const auto axes = n.attributes.integers("axes", every);
  if (values.size() != axes.size()) {
    return std::nullopt;
  }
  auto dims = type.dims;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto& size = dims[static_cast<std::size_t>(n.axis(axes[i], rank))];
    const auto to = by_size ? values[i] : static_cast<double>(size) * values[i];
    if (!(to >= 1) || to != std::floor(to) || to > static_cast<double>(tensor::max_elements)) {
      return std::nullopt;
    }
    size = static_cast<std::int64_t>(to);
  }
  return dims;
}

UNITY_INLINE import_result import_resize(import_node& n) {
  const bool first = n.opset() < 11;
  const auto mode = n.attributes.word("mode", "nearest");
  const auto where = n.attributes.word("coordinate_transformation_mode", first ? "asymmetric" : "half_pixel");
  const auto rounding = n.attributes.word("nearest_mode", first ? "floor" : "round_prefer_floor");
  const auto dims = resized_dims(n);
  const auto is_one_of = [](std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (!dims || !is_one_of(mode, {"nearest", "linear"}) || n.attributes.integer("antialias", 0) != 0 ||
      !is_one_of(where, {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) ||
      !is_one_of(rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      n.attributes.word("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return std::nullopt;
  }
  return accepted(n, "resize", 1, {{"mode", mode}, {"coordinates", where}, {"rounding", rounding}, {"dims", *dims}});
}

inline void export_einsum(export_node& n) {
  n.emit("Einsum", n.inputs(), n.result(), {{"equation", n.attributes.word("equation")}});
}

// Without output padding, the size is the smallest from which a convolution makes the operand's size.
inline void export_conv2d_transpose(export_node& n) {
  if (n.choice("padding") != "explicit") {
    n.refuse(fmt::format("padding {}", n.choice("padding")), "explicit pads");
  }
  const auto& x = n.type(0).dims;
  const auto& w = n.type(1).dims;
  const auto stride = n.integers("stride");
  const auto dilation = n.integers("dilation");
  const auto pads = n.integers("pads");
  std::vector<std::int64_t> more;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto least = stride[d] * (x[2 + d] - 1) + dilation[d] * (w[2 + d] - 1) + 1 - pads[d] - pads[2 + d];
    more.push_back(n.result_type().dims[2 + d] - least);
  }
  n.emit("ConvTranspose", n.inputs(), n.result(),
         {{"strides", stride},
          {"pads", pads},
          {"dilations", dilation},
          {"output_padding", more},
          {"group", n.attributes.integer("groups")},
          {"kernel_shape", std::vector<std::int64_t>{w.begin() + 2, w.end()}}});
}

inline void export_conv_transpose(export_node& n) {
  const auto& w = n.type(1).dims;
  n.emit("ConvTranspose", n.inputs(), n.result(),
         {{"strides", n.integers("stride")},
          {"pads", n.integers("pads")},
          {"dilations", n.integers("dilation")},
          {"output_padding", n.integers("output_padding")},
          {"group", n.attributes.integer("groups")},
          {"kernel_shape", std::vector<std::int64_t>{w.begin() + 2, w.end()}}});
}

// Absent inputs that precede present ones have empty names.
UNITY_INLINE void export_recurrent(export_node& n) {
  if (n.opset() < 7) {
    n.refuse("a recurrent layer", "opset 7 or later");
  }
  const bool is_lstm = n.kind() == "lstm";
  auto inputs = n.inputs();
  const bool with_c = is_lstm && n.attributes.flag("initial_c");
  const bool with_h = n.attributes.flag("initial_h");
  if (!n.attributes.flag("bias") && (with_h || with_c)) {
    inputs.insert(inputs.begin() + 3, "");
  }
  if (with_h || with_c) {
    inputs.insert(inputs.begin() + 4, "");
  }
  if (with_c && !with_h) {
    inputs.insert(inputs.begin() + 5, "");
  }
  std::vector<onnx_attribute> with{{"hidden_size", n.type(2).dims[2]}, {"direction", n.choice("direction")}};
  if (n.kind() == "gru") {
    with.push_back({"linear_before_reset", n.attributes.integer("reset_after")});
  }
  n.out.node(is_lstm ? "LSTM" : n.kind() == "gru" ? "GRU" : "RNN", inputs, n.results(), with);
}

UNITY_INLINE void export_resize(export_node& n) {
  const auto& from = n.type(0).dims;
  const auto dims = n.integers("dims");
  std::vector<onnx_attribute> with{{"mode", n.choice("mode")}};
  std::vector<std::string> inputs{n.input(0)};
  if (n.opset() < 11) {
    if (n.choice("coordinates") != "asymmetric" || (n.choice("mode") == "nearest" && n.choice("rounding") != "floor")) {
      n.refuse(fmt::format("coordinates {}, {}", n.choice("coordinates"), n.choice("rounding")), "opset 11 or later");
    }
    std::vector<double> scales;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      scales.push_back(static_cast<double>(dims[d]) / static_cast<double>(from[d]));
    }
    inputs.push_back(n.out.fresh("scales"));
    n.out.initializer(inputs.back(),
                      make_data(tensor::dtype::float32, {static_cast<std::int64_t>(scales.size())}, scales));
  } else {
    with.push_back({"coordinate_transformation_mode", n.choice("coordinates")});
    if (n.choice("mode") == "nearest") {
      with.push_back({"nearest_mode", n.choice("rounding")});
    }
    if (n.opset() < 13) {  // where the region is a required input
      inputs.push_back(n.out.fresh("no_region"));
      n.out.initializer(inputs.back(), make_data(tensor::dtype::float32, {0}, std::vector<double>{}));
      inputs.push_back(inputs.back());
    } else {
      inputs.insert(inputs.end(), 2, "");
    }
    inputs.push_back(n.out.integers(dims));
  }
  const std::string outputs[] = {n.result()};
  n.out.node(n.opset() < 10 ? "Upsample" : "Resize", inputs, outputs, with);
}

UNITY_INLINE onnx_family layer_family() {
  return {{{"Einsum", import_einsum},
           {"ConvTranspose", import_conv_transpose},
           {"Resize", import_resize},
           {"Upsample", import_resize},
           {"LSTM", import_recurrent},
           {"GRU", import_recurrent},
           {"RNN", import_recurrent}},
          {{"einsum", export_einsum},
           {"conv2d_transpose", export_conv2d_transpose},
           {"conv_transpose", export_conv_transpose},
           {"resize", export_resize},
           {"lstm", export_recurrent},
           {"gru", export_recurrent},
           {"rnn", export_recurrent}}};
}

}  // namespace unity::io::detail

#endif
