// Checks models before import: that a graph is well-formed, and its nodes against the packaged schemas of its opset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

// Checks that an ONNX graph is well-formed: every name is defined once, before it is read. Gives better messages than
// the packaged checker, and supports opsets that the checker does not know.

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

// Checks the nodes of a model against the packaged schemas of its opset. The packaged checker knows opsets up to 17 and
// is used wherever it applies; later changes are listed here.

// An operator that is newer than the packaged opset, or has newer attributes or inputs, and the first opset with them.
// Source: the schemas of onnx 1.23. Operators of which only the element types changed are left out.
struct newer_form {
  std::string_view type;
  std::int64_t since;
};
inline constexpr newer_form newer_forms[] = {{"AffineGrid", 20},
                                             {"Attention", 23},
                                             {"AveragePool", 19},
                                             {"BitCast", 26},
                                             {"BitwiseAnd", 18},
                                             {"BitwiseNot", 18},
                                             {"BitwiseOr", 18},
                                             {"BitwiseXor", 18},
                                             {"Cast", 19},
                                             {"CastLike", 19},
                                             {"CausalConvWithState", 27},
                                             {"CenterCropPad", 18},
                                             {"Col2Im", 18},
                                             {"CumProd", 26},
                                             {"DFT", 20},
                                             {"DeformConv", 19},
                                             {"Gelu", 20},
                                             {"GridSample", 20},
                                             {"GroupNormalization", 18},
                                             {"DequantizeLinear", 21},
                                             {"ImageDecoder", 20},
                                             {"LinearAttention", 27},
                                             {"LpPool", 18},
                                             {"Mish", 18},
                                             {"OptionalHasElement", 18},
                                             {"Pad", 18},
                                             {"QuantizeLinear", 19},
                                             {"RMSNormalization", 23},
                                             {"Range", 27},
                                             {"ReduceL1", 18},
                                             {"ReduceL2", 18},
                                             {"ReduceLogSum", 18},
                                             {"ReduceLogSumExp", 18},
                                             {"ReduceMax", 18},
                                             {"ReduceMean", 18},
                                             {"ReduceMin", 18},
                                             {"ReduceProd", 18},
                                             {"ReduceSumSquare", 18},
                                             {"RegexFullMatch", 20},
                                             {"Resize", 18},
                                             {"RotaryEmbedding", 23},
                                             {"SpaceToDepth", 28},
                                             {"Split", 18},
                                             {"StringConcat", 20},
                                             {"StringSplit", 20},
                                             {"SwiGLU", 28},
                                             {"Swish", 24},
                                             {"TensorScatter", 24}};

[[nodiscard]] bool has_newer_form(const onnx::NodeProto& node, std::int64_t opset);

// Throws: std::exception with the packaged checker's complaint about a node of the default domain at an opset that it
// knows, except for subgraphs.
void check_packaged(const onnx::NodeProto& node, std::int64_t opset);
[[nodiscard]] bool is_valid_at(const onnx::NodeProto& node, std::int64_t opset);
// Throws: as check_model.
void check_nodes(const onnx::GraphProto& graph, std::int64_t opset, std::string_view where, std::string_view expected);

// Effects: Constants of empty lists, which the packaged checker takes for lists that are missing, become Constants of
// empty tensors; also in subgraphs. Complexity: linear in the nodes.
void restate_empty_lists(onnx::GraphProto& graph);

// Throws: unity::error, `where: what is wrong; expected ...`. If the checker does not know one of the model's opsets,
// it checks only the nodes of the default domain that have not changed since the last opset it knows.
void check_model(onnx::ModelProto& model, std::int64_t opset, std::string_view where, std::string_view expected);

// The node without trailing optional outputs that are not in `read`: older opsets do not define the type of Dropout's
// mask.
[[nodiscard]] onnx::NodeProto without_unread(onnx::NodeProto node, const std::set<std::string>& read,
                                             std::int64_t opset);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_CHECK)

#include <algorithm>
#include <exception>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

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

UNITY_INLINE bool has_newer_form(const onnx::NodeProto& node, std::int64_t opset) {
  return std::any_of(std::begin(newer_forms), std::end(newer_forms),
                     [&](const newer_form& f) { return f.type == node.op_type() && opset >= f.since; });
}

UNITY_INLINE void check_packaged(const onnx::NodeProto& node, std::int64_t opset) {
  auto alone = node;
  for (auto& a : *alone.mutable_attribute()) {
    if (a.has_g()) {
      onnx::GraphProto none;
      none.set_name("none");
      *a.mutable_g() = none;
    }
  }
  onnx::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(packaged_ir_version));
  context.set_opset_imports({{"", static_cast<int>(opset)}});
  onnx::checker::check_node(alone, context, onnx::checker::LexicalScopeContext{});
}

UNITY_INLINE bool is_valid_at(const onnx::NodeProto& node, std::int64_t opset) {
  try {
    check_packaged(node, opset);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

UNITY_INLINE void check_nodes(const onnx::GraphProto& graph, std::int64_t opset, std::string_view where,
                              std::string_view expected) {
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    try {
      if (is_default_domain(node.domain()) && !has_newer_form(node, opset)) {
        check_packaged(node, std::min(opset, packaged_opset));
      }
    } catch (const std::exception& e) {
      throw error{fmt::format("{}: {}", where, node_place(node, static_cast<std::size_t>(i))), printable(e.what(), 300),
                  expected};
    }
    for (const auto& a : node.attribute()) {
      if (a.has_g()) {
        check_nodes(a.g(), opset, where, expected);
      }
    }
  }
}

UNITY_INLINE void restate_empty_lists(onnx::GraphProto& graph) {
  for (auto& n : *graph.mutable_node()) {
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) {
        restate_empty_lists(*a.mutable_g());
      }
      const bool is_integers = a.name() == "value_ints" && a.ints_size() == 0;
      const bool is_reals = a.name() == "value_floats" && a.floats_size() == 0;
      if (n.op_type() == "Constant" && is_default_domain(n.domain()) && (is_integers || is_reals)) {
        a.Clear();
        a.set_name("value");
        a.set_type(onnx::AttributeProto::TENSOR);
        a.mutable_t()->set_data_type(is_integers ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
        a.mutable_t()->add_dims(0);
      }
    }
  }
}

UNITY_INLINE void check_model(onnx::ModelProto& model, std::int64_t opset, std::string_view where,
                              std::string_view expected) {
  const auto& packaged = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  const bool known = std::all_of(model.opset_import().begin(), model.opset_import().end(), [&](const auto& import) {
    const auto found = packaged.find(is_default_domain(import.domain()) ? "" : import.domain());
    return found == packaged.end() || import.version() <= found->second.second;
  });
  if (!known) {
    return check_nodes(model.graph(), opset, where, expected);
  }
  const auto version = model.ir_version();
  model.set_ir_version(std::clamp<std::int64_t>(version, 4, packaged_ir_version));
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& e) {
    throw error{where, printable(e.what(), 300), expected};
  }
  model.set_ir_version(version);
}

UNITY_INLINE onnx::NodeProto without_unread(onnx::NodeProto node, const std::set<std::string>& read,
                                            std::int64_t opset) {
  const auto* schema =
      is_default_domain(node.domain())
          ? onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(std::min(opset, packaged_opset)), "")
          : nullptr;
  const auto is_optional = [&](int i) {
    return schema != nullptr && i < static_cast<int>(schema->outputs().size()) &&
           schema->outputs()[static_cast<std::size_t>(i)].GetOption() == onnx::OpSchema::Optional;
  };
  for (int i = node.output_size() - 1; i > 0 && is_optional(i) && !read.contains(node.output(i)); --i) {
    node.mutable_output()->RemoveLast();
  }
  return node;
}

}  // namespace unity::io::detail

#endif
