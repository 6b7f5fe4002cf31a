// Draws tensor graphs as Graphviz text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

struct dot_options {
  std::string title{};
  std::unordered_set<node_id> highlighted{};  // drawn with a thick red border
  bool show_sources = false;                  // weights and constants as separate nodes
  bool show_types = true;                     // types on edges
};

namespace detail {

// Text for double quotes: escapes what has a meaning in Graphviz; replaces unprintable characters by dots.
[[nodiscard]] std::string dot_text(std::string_view text, std::size_t longest = 60);

// One colour per operator family, which suggests the cost of an operator.
[[nodiscard]] std::string_view dot_colour(std::string_view kind);

class dot_writer {
 public:
  dot_writer(const tensor::algebra& algebra, const tensor::tensor_graph& graph, const dot_options& options,
             std::string prefix)
      : algebra_{&algebra}, graph_{&graph}, options_{&options}, prefix_{std::move(prefix)} {}

  // The statements of one graph, without the braces around them.
  [[nodiscard]] std::string body() const;

 private:
  [[nodiscard]] std::string_view kind(node_id n) const { return algebra_->signature(graph_->operation(n).kind).name; }
  [[nodiscard]] bool shown(node_id n) const {
    return options_->show_sources || !graph_->operands(n).empty() || kind(n) == "input";
  }
  [[nodiscard]] std::string name(node_id n) const { return fmt::format("{}n{}", prefix_, n.index()); }

  [[nodiscard]] std::string statement(node_id n) const;
  // Attributes that differ from their defaults; at most a few, to keep the picture small.
  [[nodiscard]] std::vector<std::string> attributes(node_id n) const;
  [[nodiscard]] static std::string value(const attribute_signature& a, const attribute& v);
  [[nodiscard]] std::string edge(value_id v, const std::string& to) const;

  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  const dot_options* options_;
  std::string prefix_;
};

inline constexpr std::string_view dot_header =
    "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10];\n"
    "  edge [fontname=\"Helvetica\", fontsize=8, color=\"#606060\"];\n";

[[nodiscard]] inline std::string dot_cluster(const std::string& id, std::string_view label, const std::string& body) {
  return fmt::format("  subgraph cluster_{} {{\n  label=\"{}\";\n  fontname=\"Helvetica\";\n{}  }}\n", id,
                     dot_text(label), body);
}

}  // namespace detail

// One graph. Complexity: linear in nodes and edges.
[[nodiscard]] inline std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& graph,
                                        const dot_options& options = {}) {
  return fmt::format("digraph \"{}\" {{\n  label=\"{}\";\n{}{}}}\n", detail::dot_text(options.title),
                     detail::dot_text(options.title), detail::dot_header,
                     detail::dot_writer{algebra, graph, options, ""}.body());
}

// Two graphs side by side, each in a frame with the title of its options.
[[nodiscard]] std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& before,
                                 const dot_options& before_options, const tensor::tensor_graph& after,
                                 const dot_options& after_options);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_DOT)

#include <cstdio>

#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string dot_text(std::string_view text, std::size_t longest) {
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += byte < 0x20 || byte >= 0x7f ? '.' : c;
  }
  return text.size() > longest ? fmt::format("{}...", out) : out;
}

UNITY_INLINE std::string_view dot_colour(std::string_view kind) {
  struct family {
    std::string_view colour;
    std::string_view kinds;
  };
  static constexpr family families[] = {
      {"#f4a582",
       " matmul linear conv2d attention lstm_cell segment_sum segment_mean segment_max segment_weighted_sum "},
      {"#fddbc7",
       " softmax layer_norm batch_norm reduce_sum reduce_mean reduce_max max_pool average_pool "
       "global_average_pool global_max_pool segment_softmax "},
      {"#d1e5f0",
       " concat split slice pad enlarge transpose reshape squeeze unsqueeze expand embedding embedding_bag cast "
       "identity "},
      {"#e0e0e0", " input weight constant fill pool_kernel identity_kernel identity_matrix "},
      {"#e9d5f5", " opaque "}};
  for (const auto& f : families) {
    if (f.kinds.find(fmt::format(" {} ", kind)) != std::string_view::npos) {
      return f.colour;
    }
  }
  return "#d9f0d3";  // element-wise
}

UNITY_INLINE std::string dot_writer::body() const {
  std::string out;
  for (const auto n : node_ids(*graph_)) {
    if (shown(n)) {
      out += statement(n);
      for (const auto v : graph_->operands(n)) {
        out += edge(v, name(n));
      }
    }
  }
  for (std::size_t i = 0; i < graph_->outputs().size(); ++i) {
    const auto id = fmt::format("{}out{}", prefix_, i);
    out += fmt::format("  {} [label=\"output {}\", shape=ellipse, fillcolor=\"#e0e0e0\"];\n", id, i);
    out += edge(graph_->outputs()[i], id);
  }
  return out;
}

UNITY_INLINE std::string dot_writer::statement(node_id n) const {
  auto label = dot_text(kind(n));
  for (const auto& a : attributes(n)) {
    label += fmt::format("\\n{}", a);
  }
  std::string out = fmt::format("  {} [label=\"{}\", fillcolor=\"{}\"", name(n), label, dot_colour(kind(n)));
  if (graph_->operands(n).empty()) {
    out += ", shape=ellipse";
  }
  if (options_->highlighted.contains(n)) {
    out += ", color=\"#b2182b\", penwidth=3";
  }
  return fmt::format("{}];\n", out);
}

UNITY_INLINE std::vector<std::string> dot_writer::attributes(node_id n) const {
  const auto& op = graph_->operation(n);
  const auto& signature = algebra_->signature(op.kind);
  std::vector<std::string> all;
  for (const auto& [field, number] : ranges::views::zip(signature.attributes, op.attributes)) {
    const bool dull = number == field.default_value || field.name == "signature" || field.name == "element" ||
                      field.name == "elements" || (field.name == "dims" && graph_->operands(n).empty());
    if (!dull && all.size() < 4) {
      all.push_back(dot_text(fmt::format("{}={}", field.name, value(field, number)), 40));
    }
  }
  if (op.order == tensor::layout::column_major) {
    all.push_back("column_major");
  }
  return all;
}

UNITY_INLINE std::string dot_writer::value(const attribute_signature& a, const attribute& v) {
  switch (a.form) {
    case attribute_form::word: return tensor::to_word(v);
    case attribute_form::choice: return a.choices.at(static_cast<std::size_t>(v[0]));
    case attribute_form::real: return fmt::format("{:g}", tensor::to_real(v[0]));
    case attribute_form::integer: return fmt::format("{}", v[0]);
    case attribute_form::integers: break;
  }
  std::string list;
  for (const auto x : v) {
    list += fmt::format("{}{}", list.empty() ? "[" : ",", x);
  }
  return fmt::format("{}]", list.empty() ? "[" : list);
}

UNITY_INLINE std::string dot_writer::edge(value_id v, const std::string& to) const {
  const auto from = graph_->producer(v);
  if (!shown(from)) {
    return {};
  }
  std::string out = fmt::format("  {} -> {}", name(from), to);
  if (options_->show_types) {
    std::string sizes;
    for (const auto d : graph_->type(v).dims) {
      sizes += fmt::format("{}{}", sizes.empty() ? "" : "x", d);
    }
    out += fmt::format(" [label=\"{}\"]", sizes);
  }
  return fmt::format("{};\n", out);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& before,
                                const dot_options& before_options, const tensor::tensor_graph& after,
                                const dot_options& after_options) {
  return fmt::format("digraph comparison {{\n{}{}{}}}\n", detail::dot_header,
                     detail::dot_cluster("before", before_options.title,
                                         detail::dot_writer{algebra, before, before_options, "b_"}.body()),
                     detail::dot_cluster("after", after_options.title,
                                         detail::dot_writer{algebra, after, after_options, "a_"}.body()));
}

}  // namespace unity::io

#endif
