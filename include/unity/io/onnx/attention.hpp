// ONNX's attention, rotary embeddings and classification losses.
#pragma once

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

// Without past keys and values, and only if nothing reads the query-key products.
import_result import_attention(import_node& n);
void export_attention(export_node& n);

import_result import_rotary_embedding(import_node& n);
void export_rotary_embedding(export_node& n);

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss whose probabilities nothing reads.
import_result import_likelihood_loss(import_node& n);
void export_likelihood_loss(export_node& n);

[[nodiscard]] onnx_family attention_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_ATTENTION)

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

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

}  // namespace unity::io::detail

#endif
