// Reassembles graphs from pieces.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/systems/unity/segments.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Whether an operator is a boundary before or behind a piece, as `name` says.
[[nodiscard]] inline bool is_boundary(const tensor::algebra& a, const tensor::operation& op, std::string_view name) {
  return a.signature(op.kind).name == "opaque" && a.read(op).word("signature") == boundary_signature &&
         a.read(op).word("name").starts_with(name);
}
// Of a boundary: the index of the piece's entry or exit.
[[nodiscard]] std::size_t boundary_number(const tensor::algebra& a, const tensor::operation& op);

namespace detail {

// Appends pieces to a graph.
class piece_writer {
 public:
  explicit piece_writer(const tensor::algebra& a) : a_{a} {}

  // Appends an operator of the piece; map: from values of the piece to values of the result.
  void add(const tensor::tensor_graph& piece, node_id node, std::vector<value_id>& map) {
    std::vector<value_id> operands;
    for (const auto v : piece.operands(node)) {
      operands.push_back(map[v.index()]);
    }
    const auto own = out_.results(add_inferred(a_, out_, piece.operation(node), operands));
    for (std::size_t r = 0; r < own.size(); ++r) {
      map[piece.results(node)[r].index()] = own[r];
    }
  }
  // Whether an operator is a source that stands for the value before a piece.
  [[nodiscard]] bool is_entry(const tensor::operation& op) const {
    const auto& name = a_.signature(op.kind).name;
    return (name == "weight" || name == "input") && a_.read(op).word("name").starts_with(before_name);
  }
  // Whether the source has a name, which pieces replace by their own; other sources stay as they are.
  [[nodiscard]] bool is_named_source(const tensor::operation& op) const {
    const auto& name = a_.signature(op.kind).name;
    return name == "weight" || name == "input" || name == "constant";
  }
  // The index of a source of the piece; the largest number for other operators.
  [[nodiscard]] std::size_t source_number(const tensor::operation& op) const;
  [[nodiscard]] tensor::tensor_graph take(const std::vector<value_id>& outputs) && {
    out_.set_outputs(outputs);
    return std::move(out_);
  }

 private:
  const tensor::algebra& a_;
  tensor::tensor_graph out_{};
};

}  // namespace detail

// `count` copies of a piece with boundaries in a row, each reading the results of the one before. Complexity: linear in
// the result.
[[nodiscard]] tensor::tensor_graph repeated(const tensor::algebra& a, const tensor::tensor_graph& piece,
                                            std::size_t count);

// The graph with each segment replaced by its (possibly rewritten) piece. Complexity: linear in the graph.
[[nodiscard]] tensor::tensor_graph assembled(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             std::span<const segment_graph> segments,
                                             const std::map<fingerprint, tensor::tensor_graph>& pieces);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_SEGMENT_ASSEMBLY)

#include <limits>
#include <string>

#include <unity/core/printable.hpp>

namespace unity::systems::detail {

UNITY_INLINE std::size_t piece_writer::source_number(const tensor::operation& op) const {
  constexpr auto none = std::numeric_limits<std::size_t>::max();
  const auto text = is_named_source(op) ? a_.read(op).word("name") : std::string{};
  return text.starts_with('s') ? to_number<std::size_t>(std::string_view{text}.substr(1)).value_or(none) : none;
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE std::size_t boundary_number(const tensor::algebra& a, const tensor::operation& op) {
  const auto name = a.read(op).word("name");
  return to_number<std::size_t>(std::string_view{name}.substr(name.rfind('_') + 1)).value();
}

UNITY_INLINE tensor::tensor_graph repeated(const tensor::algebra& a, const tensor::tensor_graph& piece,
                                           std::size_t count) {
  detail::piece_writer w{a};
  std::vector<value_id> outputs;
  value_id left{};  // by the previous copy
  for (std::size_t c = 0; c < count; ++c) {
    std::vector<value_id> map(piece.value_count());
    for (const auto node : node_ids(piece)) {
      const auto& op = piece.operation(node);
      if (is_boundary(a, op, behind_name) && c + 1 < count) {
        left = map[piece.operands(node)[0].index()];
      } else if (c > 0 && is_boundary(a, op, before_name)) {
        map[piece.results(node)[0].index()] = left;
      } else if (c == 0 || !w.is_entry(op)) {
        w.add(piece, node, map);
      }
    }
    for (const auto v : piece.outputs()) {
      if (map[v.index()].valid()) {
        outputs.push_back(map[v.index()]);
      }
    }
  }
  return std::move(w).take(outputs);
}

UNITY_INLINE tensor::tensor_graph assembled(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            std::span<const segment_graph> segments,
                                            const std::map<fingerprint, tensor::tensor_graph>& pieces) {
  detail::piece_writer w{a};
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty() && w.is_named_source(g.operation(n))) {
      w.add(g, n, now);
    }
  }
  for (const auto& s : segments) {
    const auto& piece = pieces.at(s.shape);
    std::vector<value_id> map(piece.value_count());
    for (const auto node : node_ids(piece)) {
      const auto& op = piece.operation(node);
      if (is_boundary(a, op, behind_name)) {
        now[s.exits[boundary_number(a, op)].index()] = map[piece.operands(node)[0].index()];
      } else if (is_boundary(a, op, before_name)) {
        map[piece.results(node)[0].index()] = now[s.entries[boundary_number(a, op)].index()];
      } else if (const auto source = w.source_number(op); piece.operands(node).empty() && source < s.sources.size()) {
        map[piece.results(node)[0].index()] = now[s.sources[source].index()];
      } else if (!w.is_entry(op)) {
        w.add(piece, node, map);
      }
    }
    // Outputs of the graph that the piece produces, in their order.
    auto next = s.exits.size();
    for (const auto v : s.outputs) {
      now[v.index()] = map[piece.outputs()[next++].index()];
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  return std::move(w).take(outputs);
}

}  // namespace unity::systems

#endif
