// A change of a graph as a value: what goes, what comes, and who reads something else from now on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity {

// A node that an edit adds. It reads exactly the values that it names.
template <class Op, class Type>
struct added_node {
  Op operation;
  std::vector<value_id> operands;
  std::vector<Type> types;  // of its results

  friend bool operator==(const added_node&, const added_node&) = default;
};

struct redirection {
  value_id from;
  value_id to;

  friend bool operator==(const redirection&, const redirection&) = default;
};

// A change of one graph. Values are named as before the change; the results of added nodes are numbered on from
// there, in order. Regular.
template <class Op, class Type>
struct edit {
  std::vector<node_id> removed;
  std::vector<added_node<Op, Type>> added;
  std::vector<redirection> redirected;  // kept nodes and outputs read `to` where they read `from`; each `from` once

  friend bool operator==(const edit&, const edit&) = default;
};

template <dataflow_graph G>
using edit_of = edit<operation_t<G>, type_t<G>>;

// The graph after an edit, and where everything went.
template <class Op, class Type>
struct edited {
  compact_graph<Op, Type> graph;
  std::vector<node_id> nodes;    // of each node before: its id now, null if removed
  std::vector<node_id> added;    // of each added node: its id now
  std::vector<value_id> values;  // of each value as the edit names it: its id now, null if its node was removed
  std::vector<node_id> changed;  // the kept nodes that read something else than before: their ids now, ascending
};

namespace detail {

// What is read for each of `count` values.
inline std::vector<value_id> redirections(std::size_t count, std::span<const redirection> redirected) {
  std::vector<value_id> now(count);
  for (std::size_t v = 0; v < count; ++v) {
    now[v] = value_id{v};
  }
  for (const auto& [from, to] : redirected) {
    UNITY_EXPECTS(from.index() < count && now[from.index()] == from, "values of the graph, each redirected once");
    now[from.index()] = to;
  }
  return now;
}

// The graph before with the edit written over it, as far as a topological order asks. Node ids are those
// before, then the added; removed nodes stay, unconnected.
class edit_overlay {
 public:
  template <dataflow_graph G>
  edit_overlay(const G& g, const edit_of<G>& e);

  [[nodiscard]] std::size_t node_count() const noexcept { return removed_.size(); }
  [[nodiscard]] std::size_t value_count() const noexcept { return producers_.size(); }
  [[nodiscard]] char operation(node_id) const noexcept { return 0; }
  [[nodiscard]] char type(value_id) const noexcept { return 0; }
  [[nodiscard]] node_id producer(value_id v) const { return producers_[v.index()]; }
  [[nodiscard]] std::span<const value_id> operands(node_id n) const { return slice(operands_, first_operand_, n); }
  [[nodiscard]] std::span<const value_id> results(node_id n) const { return slice(results_, first_result_, n); }
  [[nodiscard]] std::span<const value_id> outputs() const noexcept { return outputs_; }

  [[nodiscard]] bool removed(node_id n) const { return removed_[n.index()] != 0; }
  [[nodiscard]] bool changed(node_id n) const { return changed_[n.index()] != 0; }

 private:
  [[nodiscard]] static std::span<const value_id> slice(const std::vector<value_id>& values,
                                                       const std::vector<std::uint32_t>& first, node_id n) {
    return {values.data() + first[n.index()], first[n.index() + std::size_t{1}] - first[n.index()]};
  }
  [[nodiscard]] value_id checked(value_id v) const {
    UNITY_EXPECTS(v.index() < producers_.size(), "values of the graph or of added nodes");
    UNITY_EXPECTS(!removed(producers_[v.index()]), "kept nodes, added nodes and outputs that read no removed value");
    return v;
  }
  void close_node() {
    first_operand_.push_back(static_cast<std::uint32_t>(operands_.size()));
    first_result_.push_back(static_cast<std::uint32_t>(results_.size()));
  }
  template <dataflow_graph G>
  void mark_removed(const G& g, const edit_of<G>& e);
  template <dataflow_graph G>
  void name_values(const G& g, const edit_of<G>& e);
  template <dataflow_graph G>
  void read_kept(const G& g, const std::vector<value_id>& now);

  std::vector<char> removed_;
  std::vector<char> changed_;
  std::vector<node_id> producers_;
  std::vector<std::uint32_t> first_operand_{0};
  std::vector<value_id> operands_;
  std::vector<std::uint32_t> first_result_{0};
  std::vector<value_id> results_;
  std::vector<value_id> outputs_;
};

template <dataflow_graph G>
void edit_overlay::mark_removed(const G& g, const edit_of<G>& e) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  removed_.assign(nodes + e.added.size(), 0);
  changed_.assign(nodes + e.added.size(), 0);
  for (const node_id n : e.removed) {
    UNITY_EXPECTS(n.index() < nodes, "removed nodes that are nodes of the graph");
    removed_[n.index()] = 1;
  }
}

template <dataflow_graph G>
void edit_overlay::name_values(const G& g, const edit_of<G>& e) {
  for (std::size_t v = 0; v < graph_traits<G>::value_count(g); ++v) {
    producers_.push_back(graph_traits<G>::producer(g, value_id{v}));
  }
  for (std::size_t i = 0; i < e.added.size(); ++i) {
    producers_.insert(producers_.end(), e.added[i].types.size(), node_id{graph_traits<G>::node_count(g) + i});
  }
}

// The operands and results of kept nodes, and the outputs, where now[v] is read for v.
template <dataflow_graph G>
void edit_overlay::read_kept(const G& g, const std::vector<value_id>& now) {
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (removed_[n] == 0) {
      for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
        operands_.push_back(checked(now[v.index()]));
        changed_[n] = static_cast<char>(changed_[n] != 0 || now[v.index()] != v);
      }
      for (const value_id v : graph_traits<G>::results(g, node_id{n})) {
        results_.push_back(v);
      }
    }
    close_node();
  }
  for (const value_id v : graph_traits<G>::outputs(g)) {
    outputs_.push_back(checked(now[v.index()]));
  }
}

template <dataflow_graph G>
edit_overlay::edit_overlay(const G& g, const edit_of<G>& e) {
  mark_removed(g, e);
  name_values(g, e);
  read_kept(g, redirections(graph_traits<G>::value_count(g), e.redirected));
  std::size_t next = graph_traits<G>::value_count(g);
  for (const auto& added : e.added) {
    std::ranges::for_each(added.operands, [this](value_id v) { operands_.push_back(checked(v)); });
    for (std::size_t i = 0; i < added.types.size(); ++i) {
      results_.emplace_back(next++);
    }
    close_node();
  }
}

}  // namespace detail

namespace detail {

// Writes the nodes of an overlay into the graph after the edit, one by one, operands first.
template <dataflow_graph G>
class edit_writer {
 public:
  edit_writer(const G& g, const edit_of<G>& e, const edit_overlay& overlay)
      : graph_{g}, edit_{e}, overlay_{overlay}, nodes_before_{graph_traits<G>::node_count(g)} {
    after_.nodes.resize(nodes_before_);
    after_.added.resize(e.added.size());
    after_.values.resize(overlay.value_count());
  }

  void write(node_id n) {
    const node_id now = n.index() < nodes_before_ ? write_kept(n) : write_added(n.index() - nodes_before_, n);
    if (overlay_.changed(n)) {
      after_.changed.push_back(now);
    }
    std::size_t i = 0;
    for (const value_id v : overlay_.results(n)) {
      after_.values[v.index()] = after_.graph.results(now)[i++];
    }
  }
  [[nodiscard]] edited<operation_t<G>, type_t<G>> finish() && {
    after_.graph.set_outputs(renamed(overlay_.outputs()));
    return std::move(after_);
  }

 private:
  node_id write_kept(node_id n) {
    std::vector<type_t<G>> types;
    for (const value_id v : overlay_.results(n)) {
      types.push_back(graph_traits<G>::type(graph_, v));
    }
    const auto& operation = graph_traits<G>::operation(graph_, n);
    return after_.nodes[n.index()] = after_.graph.add_node(operation, renamed(overlay_.operands(n)), types);
  }
  node_id write_added(std::size_t i, node_id n) {
    const auto& added = edit_.added[i];
    return after_.added[i] = after_.graph.add_node(added.operation, renamed(overlay_.operands(n)), added.types);
  }
  [[nodiscard]] std::vector<value_id> renamed(std::span<const value_id> values) const {
    std::vector<value_id> names;
    for (const value_id v : values) {
      names.push_back(after_.values[v.index()]);
    }
    return names;
  }

  const G& graph_;
  const edit_of<G>& edit_;
  const edit_overlay& overlay_;
  std::size_t nodes_before_;
  edited<operation_t<G>, type_t<G>> after_{};
};

}  // namespace detail

// The graph after the edit; nothing if it would have a cycle. Nodes keep their relative order where dependences allow.
// Expects that no kept or added node and no output reads a removed value, redirections considered.
// Complexity: O((N + E) log N).
template <dataflow_graph G>
[[nodiscard]] std::optional<edited<operation_t<G>, type_t<G>>> apply_edit(const G& g, const edit_of<G>& e) {
  const detail::edit_overlay overlay{g, e};
  const auto order = topological_order(overlay);
  if (!order) {
    return std::nullopt;
  }
  detail::edit_writer<G> writer{g, e, overlay};
  for (const node_id n : *order) {
    if (!overlay.removed(n)) {
      writer.write(n);
    }
  }
  return std::move(writer).finish();
}

}  // namespace unity
