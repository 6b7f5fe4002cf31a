// Cuts a graph at operators that all paths pass through, and extracts pieces as graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

// Steps [first, last) of a spine.
struct segment_range {
  std::size_t first = 0;
  std::size_t last = 0;

  friend bool operator==(const segment_range&, const segment_range&) = default;
};

// Counts, for two operator kinds, the rules whose source has an operator of the second kind that reads one of the
// first.
class rule_edges {
 public:
  explicit rule_edges(const rule_set& rules);
  [[nodiscard]] std::size_t across(kind_id from, kind_id to) const {
    const auto found = count_.find({from, to});
    return found == count_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<kind_id, kind_id>, std::size_t> count_{};
};

// Cuts a spine into segments of at least `least` operators each, so that the fewest substitutions lie across the cuts:
// for each segment, the first position with the fewest among those up to twice as far. A small graph is one segment.
// Source: Unger et al., Unity (OSDI 2022), section 5.3.
[[nodiscard]] std::vector<segment_range> cut(const tensor::tensor_graph& g, const parallel::operator_graph& ops,
                                             std::span<const parallel::spine_step> steps, const rule_edges& rules,
                                             std::size_t least);

// Divides the operators, in order, into windows of at least `least` and less than about twice as many, for graphs that
// no single operator divides. Cuts at the first position that the fewest values and substitutions cross. Attached
// operators are in no window of their own. Complexity: linear in the graph.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> windows(const tensor::tensor_graph& g,
                                                              const parallel::operator_graph& ops,
                                                              const rule_edges& rules, std::size_t least);

// A piece of a graph as a graph of its own. Each value that crosses its boundary gets an opaque operator, which nothing
// rewrites: "before" on sources, or "behind". Sources are renamed in the order in which the piece reads them, so equal
// pieces have equal graphs.
struct segment_graph {
  tensor::tensor_graph graph{};
  std::vector<value_id> sources{};  // of the whole graph: what source i of the piece stands for
  std::vector<value_id> entries{};  // values of the whole graph, ascending; empty: the piece begins it
  std::vector<value_id> exits{};    // likewise; empty: the piece ends it
  // outputs of the whole graph that the piece makes; they follow the exits in its own outputs
  std::vector<value_id> outputs{};
  fingerprint shape{};  // equal for equal pieces
};

inline constexpr std::string_view before_name = "before";
inline constexpr std::string_view behind_name = "behind";
// The signature of boundaries. Those of a model's operators have a '#' (io/onnx/untranslated.hpp).
inline constexpr std::string_view boundary_signature = "boundary of a piece";

namespace detail {

[[nodiscard]] tensor::operation boundary(const tensor::algebra& a, const std::string& name,
                                         const tensor::tensor_type& t);

// A value that comes from before a piece. is_trained: it depends on weights that training changes.
struct piece_entry {
  value_id value{};
  bool is_trained = false;
};

class segment_writer {
 public:
  // number: distinguishes boundaries of different segments.
  segment_writer(const tensor::algebra& a, const tensor::tensor_graph& g, std::size_t number)
      : a_{a},
        g_{g},
        before_{fmt::format("{}{}", before_name, number)},
        behind_{fmt::format("{}{}", behind_name, number)} {}

  // nodes: ascending.
  [[nodiscard]] segment_graph run(std::span<const node_id> nodes, std::span<const piece_entry> entries,
                                  std::span<const value_id> exits) &&;

 private:
  void enter(const piece_entry& e);
  value_id source(const char* kind, const std::string& name, const tensor::tensor_type& t) {
    return add(a_.make_operation(kind, {{"name", name}, {"element", name_of(t.element)}, {"dims", dims_of(t)}}), {});
  }
  [[nodiscard]] static std::vector<std::int64_t> dims_of(const tensor::tensor_type& t) {
    return {t.dims.begin(), t.dims.end()};
  }
  value_id add(const tensor::operation& op, const std::vector<value_id>& operands);
  void count(const tensor::operation& op, const std::vector<value_id>& operands);
  // Adds a source when it is first read. Its name contains its index.
  value_id value(value_id v);

  const tensor::algebra& a_;
  const tensor::tensor_graph& g_;
  std::string before_;
  std::string behind_;
  segment_graph s_{};
  std::unordered_map<std::size_t, value_id> map_{};  // values of the whole graph
  hasher hash_{};
};

}  // namespace detail

namespace detail {

// Effects: appends the operator with results of the types that it infers. Whether a value is constant depends on what
// is in the graph: in a piece, what came from outside is not.
node_id add_inferred(const tensor::algebra& a, tensor::tensor_graph& g, const tensor::operation& op,
                     std::span<const value_id> operands);

void add_with_attached(const parallel::operator_graph& ops, std::uint32_t op, std::vector<node_id>& nodes);

}  // namespace detail

// The piece of some ascending operators and what is attached to them; no path may leave them and return. number: the
// index of the piece. Complexity: linear in the piece and its readers, except for sorting.
[[nodiscard]] segment_graph segment_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                       const parallel::operator_graph& ops, std::span<const std::uint32_t> operators,
                                       std::size_t number);

// The operators of a segment, ascending.
[[nodiscard]] std::vector<std::uint32_t> operators_of(const parallel::operator_graph& ops,
                                                      std::span<const parallel::spine_step> steps, segment_range range);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_SEGMENTS)

#include <algorithm>
#include <numeric>
#include <set>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE rule_edges::rule_edges(const rule_set& rules) {
  for (const auto& r : rules) {
    std::set<std::pair<kind_id, kind_id>> edges;
    for (const auto& n : r.source.nodes) {
      for (const auto& o : n.operands) {
        if (!o.is_variable) {
          edges.emplace(r.source.nodes[o.slot].kind, n.kind);
        }
      }
    }
    for (const auto& e : edges) {
      ++count_[e];
    }
  }
}

UNITY_INLINE std::vector<segment_range> cut(const tensor::tensor_graph& g, const parallel::operator_graph& ops,
                                            std::span<const parallel::spine_step> steps, const rule_edges& rules,
                                            std::size_t least) {
  const auto size_of = [&](const parallel::spine_step& s) { return parallel::operators_of(ops.tree(), s).size(); };
  const auto can_end = [&](const parallel::spine_step& s) {
    return s.last != parallel::operand_source::none && g.results(ops.node(s.last)).size() == 1 &&
           !ops.placed(s.last).is_output && tensor::is_floating(g.type(g.results(ops.node(s.last))[0]).element);
  };
  const auto lost = [&](const parallel::spine_step& s) {
    std::size_t sum = 0;
    for (const auto reader : ops.graph().successors(node_id{s.last})) {
      sum += rules.across(g.operation(ops.node(s.last)).kind,
                          g.operation(ops.node(static_cast<std::uint32_t>(reader.index()))).kind);
    }
    return sum;
  };
  std::vector<std::size_t> behind(steps.size() + 1, 0);  // operators from a step on
  for (auto i = steps.size(); i-- > 0;) {
    behind[i] = behind[i + 1] + size_of(steps[i]);
  }
  std::vector<segment_range> all;
  for (std::size_t first = 0; first < steps.size();) {
    auto best = steps.size();
    std::size_t fewest = 0;
    for (auto i = first; i + 1 < steps.size() && behind[first] - behind[i + 1] <= 2 * least && behind[i + 1] >= least;
         ++i) {
      if (behind[first] - behind[i + 1] < least || !can_end(steps[i])) {
        continue;
      }
      if (const auto l = lost(steps[i]); best == steps.size() || l < fewest) {
        best = i + 1;
        fewest = l;
      }
    }
    // A step may have more than twice as many operators: then cut right behind it.
    for (auto i = first; best == steps.size() && i + 1 < steps.size() && behind[i + 1] >= least; ++i) {
      if (behind[first] - behind[i + 1] >= least && can_end(steps[i])) {
        best = i + 1;
      }
    }
    all.push_back({first, best});
    first = best;
  }
  return all;
}

UNITY_INLINE std::vector<std::vector<std::uint32_t>> windows(const tensor::tensor_graph& g,
                                                             const parallel::operator_graph& ops,
                                                             const rule_edges& rules, std::size_t least) {
  std::vector<std::uint32_t> order;
  std::vector<std::size_t> place(ops.size());
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    place[i] = order.size();
    if (!ops.is_attached(i)) {
      order.push_back(i);
    }
  }
  const auto kind = [&](std::uint32_t i) { return g.operation(ops.node(i)).kind; };
  // crossings of a cut before a position; first differences, then sums
  std::vector<std::int64_t> across(order.size() + 1);
  for (const auto i : order) {
    auto last = place[i];
    for (const auto reader : ops.graph().successors(node_id{i})) {
      const auto other = static_cast<std::uint32_t>(reader.index());
      const auto lost = static_cast<std::int64_t>(rules.across(kind(i), kind(other)));
      last = std::max(last, place[other]);
      across[place[i] + 1] += lost;
      across[place[other] + 1] -= lost;
    }
    across[place[i] + 1] += 1;
    across[last + 1] -= 1;
  }
  std::partial_sum(across.begin(), across.end(), across.begin());
  std::vector<std::vector<std::uint32_t>> all;
  for (std::size_t first = 0; first < order.size();) {
    auto end = order.size();
    if (end - first >= 2 * least) {
      const auto from = across.begin() + static_cast<std::ptrdiff_t>(first + least);
      const auto to = across.begin() + static_cast<std::ptrdiff_t>(std::min(first + 2 * least, end - least) + 1);
      end = static_cast<std::size_t>(std::min_element(from, to) - across.begin());
    }
    all.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(first),
                     order.begin() + static_cast<std::ptrdiff_t>(end));
    first = end;
  }
  return all;
}

}  // namespace unity::systems

namespace unity::systems::detail {

UNITY_INLINE tensor::operation boundary(const tensor::algebra& a, const std::string& name,
                                        const tensor::tensor_type& t) {
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(t.dims.size())};
  dims.insert(dims.end(), t.dims.begin(), t.dims.end());
  return a.make_operation("opaque", {{"name", name},
                                     {"signature", std::string{boundary_signature}},
                                     {"elements", {static_cast<std::int64_t>(t.element)}},
                                     {"dims", dims}});
}

UNITY_INLINE node_id add_inferred(const tensor::algebra& a, tensor::tensor_graph& g, const tensor::operation& op,
                                  std::span<const value_id> operands) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(g.type(v));
  }
  const auto made = a.infer(op, types);
  UNITY_EXPECTS(made.has_value(), "an operator that takes its operands");
  return g.add_node(op, operands, *made);
}

UNITY_INLINE void segment_writer::enter(const piece_entry& e) {
  const auto name = fmt::format("{}_{}", before_, s_.entries.size());
  const auto& t = g_.type(e.value);
  std::vector<value_id> sources{source("input", name, t)};
  if (e.is_trained) {  // depends both on inputs and on trained weights
    sources.push_back(source("weight", name, t));
  }
  map_[e.value.index()] = add(boundary(a_, name, t), sources);
  hash_.add(e.is_trained ? 1 : 2).add(std::hash<tensor::tensor_type>{}(t));
  s_.entries.push_back(e.value);
}

UNITY_INLINE segment_graph segment_writer::run(std::span<const node_id> nodes, std::span<const piece_entry> entries,
                                               std::span<const value_id> exits) && {
  for (const auto& e : entries) {
    enter(e);
  }
  for (const auto n : nodes) {
    std::vector<value_id> operands;
    for (const auto v : g_.operands(n)) {
      operands.push_back(value(v));
    }
    const auto own = add_inferred(a_, s_.graph, g_.operation(n), operands);
    count(s_.graph.operation(own), operands);
    for (const auto& [whole, part] : ranges::views::zip(g_.results(n), s_.graph.results(own))) {
      map_[whole.index()] = part;
    }
  }
  std::vector<value_id> outputs;
  hash_.add(entries.size()).add(exits.size());
  for (const auto v : exits) {
    hash_.add(map_.at(v.index()).index());
    const auto name = fmt::format("{}_{}", behind_, s_.exits.size());
    outputs.push_back(add(boundary(a_, name, g_.type(v)), {map_.at(v.index())}));
    s_.exits.push_back(v);
  }
  for (const auto v : g_.outputs()) {
    if (const auto found = map_.find(v.index()); found != map_.end() &&
                                                 !std::binary_search(s_.entries.begin(), s_.entries.end(), v) &&
                                                 !g_.operands(g_.producer(v)).empty()) {
      outputs.push_back(found->second);
      s_.outputs.push_back(v);
      hash_.add(found->second.index());
    }
  }
  s_.graph.set_outputs(outputs);
  s_.shape = hash_.result();
  return std::move(s_);
}

UNITY_INLINE value_id segment_writer::add(const tensor::operation& op, const std::vector<value_id>& operands) {
  return s_.graph.results(add_inferred(a_, s_.graph, op, operands))[0];
}

UNITY_INLINE void segment_writer::count(const tensor::operation& op, const std::vector<value_id>& operands) {
  hash_.add(std::hash<tensor::operation>{}(op));
  for (const auto v : operands) {
    hash_.add(v.index());
  }
}

UNITY_INLINE value_id segment_writer::value(value_id v) {
  if (const auto found = map_.find(v.index()); found != map_.end()) {
    return found->second;
  }
  const auto maker = g_.producer(v);
  UNITY_EXPECTS(g_.operands(maker).empty(), "a piece that reads itself, what is before it, and sources");
  auto op = g_.operation(maker);
  const auto& t = g_.type(v);
  const auto& signature = a_.signature(op.kind);
  if (signature.name == "input" || signature.name == "weight" || signature.name == "constant") {
    op = a_.make_operation(
        signature.name,
        {{"name", fmt::format("s{}", s_.sources.size())}, {"element", name_of(t.element)}, {"dims", dims_of(t)}});
  }
  count(op, {});
  const std::vector<tensor::tensor_type> types{t};
  const auto own = s_.graph.results(s_.graph.add_node(op, {}, types))[0];
  map_[v.index()] = own;
  s_.sources.push_back(v);
  return own;
}

UNITY_INLINE void add_with_attached(const parallel::operator_graph& ops, std::uint32_t op,
                                    std::vector<node_id>& nodes) {
  nodes.push_back(ops.node(op));
  for (const auto& s : ops.sources(op)) {
    if (s.from != parallel::operand_source::none && ops.is_attached(s.from)) {
      add_with_attached(ops, s.from, nodes);
    }
  }
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE segment_graph segment_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                      const parallel::operator_graph& ops, std::span<const std::uint32_t> operators,
                                      std::size_t number) {
  const auto is_inside = [&](std::uint32_t op) {
    return ops.is_attached(op) || std::binary_search(operators.begin(), operators.end(), op);
  };
  std::vector<node_id> nodes;
  std::map<value_id, bool> entries;  // value to whether it is trained
  std::set<value_id> exits;
  for (const auto op : operators) {
    detail::add_with_attached(ops, op, nodes);
    const auto sources = ops.sources(op);
    for (std::size_t x = 0; x < sources.size(); ++x) {
      if (sources[x].from != parallel::operand_source::none && !is_inside(sources[x].from)) {
        auto& is_trained = entries[g.operands(ops.node(op))[x]];
        is_trained = is_trained || ops.placed(op).wanted[x];
      }
    }
    for (const auto reader : ops.graph().successors(node_id{op})) {
      const auto other = static_cast<std::uint32_t>(reader.index());
      for (std::size_t x = 0; !is_inside(other) && x < ops.sources(other).size(); ++x) {
        if (ops.sources(other)[x].from == op) {
          exits.insert(g.operands(ops.node(other))[x]);
        }
      }
    }
  }
  std::sort(nodes.begin(), nodes.end());
  std::vector<detail::piece_entry> from;
  for (const auto& [value, is_trained] : entries) {
    from.push_back({value, is_trained});
  }
  const std::vector<value_id> to(exits.begin(), exits.end());
  return detail::segment_writer{a, g, number}.run(nodes, from, to);
}

UNITY_INLINE std::vector<std::uint32_t> operators_of(const parallel::operator_graph& ops,
                                                     std::span<const parallel::spine_step> steps, segment_range range) {
  std::vector<std::uint32_t> all;
  for (auto i = range.first; i < range.last; ++i) {
    const auto some = parallel::operators_of(ops.tree(), steps[i]);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace unity::systems

#endif
