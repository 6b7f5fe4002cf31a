// Which sizes of two graphs are related, according to the definitions of their operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/attribute.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor::detail {

using size_number = size_classes::number;
using size_numbers = std::vector<size_number>;

// A size that is a function of another: the number of positions of a sliding window.
struct size_function {
  size_number from;
  size_number to;
  std::function<std::int64_t(std::int64_t)> apply;  // not positive: no such size
};

// The numbers of all sizes of a graph.
struct graph_sizes {
  std::vector<size_numbers> dims;  // for each value
  std::vector<size_numbers> own;   // for each node: sizes that occur only in its attributes (resized_attributes)
};

// Reads graphs. Sources with the same name share their sizes, as do opaque operators with equal attributes.
class size_relations {
 public:
  explicit size_relations(const algebra& a) : algebra_{a} {}

  // keeps(name): whether the sizes of the source with this name must stay.
  [[nodiscard]] graph_sizes read(const tensor_graph& g, const std::function<bool(std::string_view)>& keeps);

  // Finishes after all graphs have been read.
  void settle();

  [[nodiscard]] std::span<const size_function> functions() const noexcept { return functions_; }

  size_classes classes;

 private:
  struct node_view {
    const operation& op;
    std::vector<tensor_type> operand_types{};
    std::vector<size_numbers> operands{};
    std::vector<size_numbers> results{};
  };

  size_numbers add_all(const shape& dims);
  void fix_all(const std::vector<size_numbers>& tensors);
  // Unites the sizes of two tensors; if they differ, fixes both, because they cannot be related.
  void unite_all(const size_numbers& a, const size_numbers& b);

  [[nodiscard]] static node_view node_of(const tensor_graph& g, node_id n, const std::vector<size_numbers>& dims,
                                         const operation& op);

  void share_by_name(const node_view& n, const std::function<bool(std::string_view)>& keeps);

  // outer: the attributes of the composite that contains the node, which resizing does not rewrite.
  void relate(const node_view& n, const attribute_list* outer, size_numbers& own);

  void relate_body(const node_view& n, const tensor_graph& body);

  void relate_primitive(const node_view& n, const space& s, bool top);
  void link(const access& a, size_number dim, const size_numbers& indices);
  void relate_window(const node_view& n, const space& s, std::size_t operand, std::size_t d);
  void relate_relabelling(const node_view& n, const attribute_list* outer);
  void relate_view(const node_view& n, const view_map& map, size_numbers& own);
  void relate_piece(const node_view& n, const piece& p, std::size_t d, bool is_only, size_numbers& own);
  void relate_strided(const node_view& n, const piece& p, std::size_t d);
  std::pair<size_number, size_number> cut_out(size_number dim, std::int64_t start, size_number segment);
  bool unite_functions();

  const algebra& algebra_;
  std::map<std::string, size_numbers> named_;
  std::map<std::pair<kind_id, attribute_list>, std::vector<size_numbers>> equal_;
  std::vector<size_function> functions_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_SIZE_RELATIONS)

#include <variant>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/detail/relate_primitive.hpp>
#include <unity/tensor/detail/relate_view.hpp>
#include <unity/tensor/detail/resize.hpp>

namespace unity::tensor::detail {

UNITY_INLINE graph_sizes size_relations::read(const tensor_graph& g,
                                              const std::function<bool(std::string_view)>& keeps) {
  graph_sizes s{{}, std::vector<size_numbers>(g.node_count())};
  for (const auto v : value_ids(g)) {
    s.dims.push_back(add_all(g.type(v).dims));
  }
  for (const auto n : node_ids(g)) {
    const auto node = node_of(g, n, s.dims, g.operation(n));
    share_by_name(node, keeps);
    relate(node, nullptr, s.own[n.index()]);
  }
  return s;
}

UNITY_INLINE void size_relations::settle() {
  do {
    classes.settle();
  } while (unite_functions());
}

UNITY_INLINE size_numbers size_relations::add_all(const shape& dims) {
  size_numbers numbers;
  for (const auto size : dims) {
    numbers.push_back(classes.add(size));
  }
  return numbers;
}

UNITY_INLINE void size_relations::fix_all(const std::vector<size_numbers>& tensors) {
  for (const auto& dims : tensors) {
    for (const auto n : dims) {
      classes.fix(n);
    }
  }
}

UNITY_INLINE void size_relations::unite_all(const size_numbers& a, const size_numbers& b) {
  if (a.size() != b.size()) {
    fix_all({a, b});
    return;
  }
  for (std::size_t d = 0; d < a.size(); ++d) {
    classes.unite(a[d], b[d]);
  }
}

UNITY_INLINE auto size_relations::node_of(const tensor_graph& g, node_id n, const std::vector<size_numbers>& dims,
                                          const operation& op) -> node_view {
  node_view v{op};
  for (const auto x : g.operands(n)) {
    v.operand_types.push_back(g.type(x));
    v.operands.push_back(dims[x.index()]);
  }
  for (const auto x : g.results(n)) {
    v.results.push_back(dims[x.index()]);
  }
  return v;
}

UNITY_INLINE void size_relations::share_by_name(const node_view& n,
                                                const std::function<bool(std::string_view)>& keeps) {
  const auto& d = algebra_.definition_of(n.op.kind);
  if (d.source != source_kind::none) {
    const auto name = algebra_.read(n.op).word("name");
    const auto [known, is_new] = named_.emplace(name, n.results[0]);
    if (!is_new) {
      unite_all(known->second, n.results[0]);
    }
    if (keeps && keeps(name)) {
      fix_all(n.results);
    }
  } else if (std::holds_alternative<opaque>(d.body) || n.operands.empty()) {
    // Equal constants, such as fills, may be one node in the other graph.
    const auto [known, is_new] = equal_.try_emplace({n.op.kind, n.op.attributes}, n.results);
    for (std::size_t i = 0; !is_new && i < n.results.size(); ++i) {
      unite_all(known->second[i], n.results[i]);
    }
  }
}

UNITY_INLINE void size_relations::relate(const node_view& n, const attribute_list* outer, size_numbers& own) {
  if (const auto s = algebra_.iteration(n.op, n.operand_types)) {
    relate_primitive(n, *s, outer == nullptr);
  } else if (const auto map = algebra_.index_map(n.op, n.operand_types)) {
    if (map->relabels()) {
      relate_relabelling(n, outer);
    } else {
      relate_view(n, *map, own);
    }
  } else if (const auto body = algebra_.body(n.op, n.operand_types)) {
    relate_body(n, *body);
  } else if (!follows_sizes(algebra_, n.op)) {
    fix_all(n.operands);
    fix_all(n.results);
  }
}

UNITY_INLINE void size_relations::relate_body(const node_view& n, const tensor_graph& body) {
  std::vector<size_numbers> dims;
  for (const auto v : value_ids(body)) {
    const auto producer = body.producer(v).index();
    dims.push_back(producer < n.operands.size() ? n.operands[producer] : add_all(body.type(v).dims));
  }
  size_numbers own;
  for (auto i = n.operands.size(); i < body.node_count(); ++i) {
    const node_id inner{i};
    relate(node_of(body, inner, dims, body.operation(inner)), &n.op.attributes, own);
  }
  for (std::size_t r = 0; r < n.results.size(); ++r) {
    unite_all(n.results[r], dims[body.outputs()[r].index()]);
  }
}

}  // namespace unity::tensor::detail

#endif
