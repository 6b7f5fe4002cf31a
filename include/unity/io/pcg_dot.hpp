// Draws parallel computation graphs as Graphviz text: operators green, parallelization operators orange.
// Source: Unger et al., Unity (OSDI 2022), figure 6.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>

namespace unity::io {

inline constexpr std::string_view operator_colour = "#b8e0a8";
inline constexpr std::string_view parallel_operator_colour = "#f7b26b";

namespace detail {

// "partition\nof 0 by 4"
[[nodiscard]] std::string parallel_label(const parallel::parallel_operator& p);

[[nodiscard]] std::string pcg_statement(const parallel::pcg_algebra& a, const parallel::pcg& g, node_id n);

}  // namespace detail

// Edges show how tensors are divided, in the form of to_string of their types. Complexity: linear in nodes and edges.
[[nodiscard]] std::string to_dot(const parallel::pcg_algebra& a, const parallel::pcg& g, std::string_view title);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PCG_DOT)

#include <fmt/core.h>

#include <unity/io/dot.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string parallel_label(const parallel::parallel_operator& p) {
  std::string label{parallel::parallel_names[static_cast<std::size_t>(p.kind)]};
  label += parallel::has_axis(p.kind) ? fmt::format("\\nof {}", p.axis) : "";
  label +=
      parallel::has_degree(p.kind) ? fmt::format("{}{}", parallel::has_axis(p.kind) ? " by " : "\\nby ", p.degree) : "";
  return label;
}

UNITY_INLINE std::string pcg_statement(const parallel::pcg_algebra& a, const parallel::pcg& g, node_id n) {
  const auto& op = g.operation(n);
  const auto p = a.read(op);
  const bool is_source = !p && g.operands(n).empty();
  auto label = p ? parallel_label(*p) : dot_text(a.signature(op.kind).name);
  if (is_source && a.operators().signature(op.kind).attributes.size() == op.attributes.size()) {
    const auto& fields = a.operators().signature(op.kind).attributes;
    for (const auto& [field, value] : ranges::views::zip(fields, op.attributes)) {
      label += field.name == "name" ? fmt::format("\\n{}", dot_text(tensor::to_word(value), 40)) : "";
    }
  }
  return fmt::format("  n{} [label=\"{}\", fillcolor=\"{}\"{}];\n", n.index(), label,
                     p           ? parallel_operator_colour
                     : is_source ? dot_colour("input")
                                 : operator_colour,
                     is_source ? ", shape=ellipse" : "");
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_dot(const parallel::pcg_algebra& a, const parallel::pcg& g, std::string_view title) {
  const auto name = detail::dot_text(title);
  auto text = fmt::format("digraph \"{}\" {{\n  label=\"{}\";\n{}", name, name, detail::dot_header);
  const auto edge = [&](value_id v, const std::string& to) {
    text +=
        fmt::format("  n{} -> {} [label=\"{}\"];\n", g.producer(v).index(), to, detail::dot_text(to_string(g.type(v))));
  };
  for (const auto i : node_ids(g)) {
    text += detail::pcg_statement(a, g, i);
    for (const auto v : g.operands(i)) {
      edge(v, fmt::format("n{}", i.index()));
    }
  }
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    const auto id = fmt::format("out{}", i);
    text += fmt::format("  {} [label=\"output {}\", shape=ellipse, fillcolor=\"{}\"];\n", id, i,
                        detail::dot_colour("input"));
    edge(g.outputs()[i], id);
  }
  return fmt::format("{}}}\n", text);
}

}  // namespace unity::io

#endif
