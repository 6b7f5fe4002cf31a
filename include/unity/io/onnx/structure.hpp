// Checks that an ONNX graph is well-formed: every name is defined once, before it is read. Gives better messages than
// the packaged checker, and supports opsets that the checker does not know.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

// The outer names that the subgraphs of a node read, without duplicates, in order of first use.
class captures {
 public:
  explicit captures(const onnx::NodeProto& node);
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  using scope = std::unordered_set<std::string>;

  void scan(const onnx::AttributeProto& a);
  void scan(const onnx::GraphProto& g);
  void use(const std::string& name);

  std::vector<scope> scopes_;
  scope seen_;
  std::vector<std::string> names_;
};

class structure_check {
 public:
  structure_check(const onnx::GraphProto& graph, std::string file) : graph_{&graph}, file_{std::move(file)} {}

  // Throws: unity::error for a name that is defined twice, never, too late or in terms of itself.
  void run();

 private:
  static constexpr int outside = -1;

  [[nodiscard]] std::string place(int node) const {
    return node_place(graph_->node(node), static_cast<std::size_t>(node));
  }
  void define(const std::string& name, int node, const std::string& by);
  [[nodiscard]] std::vector<std::string> reads(int node) const;
  void check_reads(int node) const;
  // Whether `node` directly or indirectly reads what `other` defines.
  [[nodiscard]] bool depends(int node, int other) const;

  const onnx::GraphProto* graph_;
  std::string file_;
  std::unordered_map<std::string, int> producers_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_STRUCTURE)

#include <string_view>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::io::detail {

UNITY_INLINE captures::captures(const onnx::NodeProto& node) {
  for (const auto& a : node.attribute()) {
    scan(a);
  }
}

UNITY_INLINE void captures::scan(const onnx::AttributeProto& a) {
  if (a.has_g()) {
    scan(a.g());
  }
  for (const auto& g : a.graphs()) {
    scan(g);
  }
}

UNITY_INLINE void captures::scan(const onnx::GraphProto& g) {
  scope local;
  for (const auto& i : g.input()) {
    local.insert(i.name());
  }
  for (const auto& t : g.initializer()) {
    local.insert(t.name());
  }
  scopes_.push_back(std::move(local));
  for (const auto& node : g.node()) {
    for (const auto& in : node.input()) {
      use(in);
    }
    for (const auto& a : node.attribute()) {
      scan(a);
    }
    scopes_.back().insert(node.output().begin(), node.output().end());
  }
  for (const auto& out : g.output()) {
    use(out.name());
  }
  scopes_.pop_back();
}

UNITY_INLINE void captures::use(const std::string& name) {
  if (name.empty()) {
    return;
  }
  for (const auto& s : scopes_) {
    if (s.contains(name)) {
      return;
    }
  }
  if (seen_.insert(name).second) {
    names_.push_back(name);
  }
}

UNITY_INLINE void structure_check::run() {
  for (const auto& i : graph_->input()) {
    define(i.name(), outside, "an input");
  }
  for (const auto& t : graph_->initializer()) {
    if (!producers_.contains(t.name())) {  // older files also list initializers as inputs
      define(t.name(), outside, "an initializer");
    }
  }
  for (int i = 0; i < graph_->node_size(); ++i) {
    for (const auto& out : graph_->node(i).output()) {
      if (!out.empty()) {
        define(out, i, place(i));
      }
    }
  }
  for (int i = 0; i < graph_->node_size(); ++i) {
    check_reads(i);
  }
  for (const auto& out : graph_->output()) {
    if (!producers_.contains(out.name())) {
      throw error{fmt::format("{}: output {}", file_, in_quotes(out.name())), "is not defined",
                  "the name of a value of the graph"};
    }
  }
}

UNITY_INLINE void structure_check::define(const std::string& name, int node, const std::string& by) {
  if (name.empty()) {
    throw error{fmt::format("{}: {}", file_, by), "has no name", "a name"};
  }
  if (!producers_.emplace(name, node).second) {
    throw error{fmt::format("{}: {}", file_, by), fmt::format("defines {} a second time", in_quotes(name)),
                "each name once"};
  }
}

UNITY_INLINE std::vector<std::string> structure_check::reads(int node) const {
  const auto& n = graph_->node(node);
  std::vector<std::string> all(n.input().begin(), n.input().end());
  const captures inner{n};
  all.insert(all.end(), inner.names().begin(), inner.names().end());
  return all;
}

UNITY_INLINE void structure_check::check_reads(int node) const {
  for (const auto& name : reads(node)) {
    const auto found = producers_.find(name);
    if (name.empty() || (found != producers_.end() && found->second < node)) {
      continue;
    }
    const auto where = fmt::format("{}: {}", file_, place(node));
    if (found == producers_.end()) {
      throw error{where, fmt::format("reads {}, which nothing defines", in_quotes(name)),
                  "an input, an initializer or the output of a node"};
    }
    if (depends(found->second, node)) {
      throw error{where, fmt::format("depends on itself through {}", in_quotes(name)), "a graph without cycles"};
    }
    throw error{where, fmt::format("reads {} before {} defines it", in_quotes(name), place(found->second)),
                "nodes in topological order"};
  }
}

UNITY_INLINE bool structure_check::depends(int node, int other) const {
  std::unordered_set<int> seen{node};
  std::vector<int> open{node};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at == other) {
      return true;
    }
    for (const auto& name : reads(at)) {
      const auto found = producers_.find(name);
      if (found != producers_.end() && found->second != outside && seen.insert(found->second).second) {
        open.push_back(found->second);
      }
    }
  }
  return false;
}

}  // namespace unity::io::detail

#endif
