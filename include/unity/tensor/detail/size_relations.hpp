// Relates the sizes of two graphs, according to the definitions of their operators. Over 500 lines because relations of
// sizes, sums and slices refine the same classes.
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
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

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
  std::vector<size_numbers> own;   // for each node: sizes that occur only in its attributes
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
  // A segment of a dimension, and the parts before and after it.
  struct cut {
    size_number before;
    size_number segment;
    size_number after;
  };
  struct cut_segments {
    std::map<std::int64_t, cut> by_end;
    std::map<std::int64_t, cut> by_start;
  };

  std::map<size_number, cut_segments> cuts_;  // by class
  std::map<std::string, size_numbers> named_;
  std::map<std::pair<kind_id, attribute_list>, std::vector<size_numbers>> equal_;
  std::vector<size_function> functions_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_SIZE_RELATIONS)

#include <algorithm>
#include <numeric>
#include <variant>

#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor::detail {

// Members of size_relations: sizes of views.

// The common refinement of two shapes of the same memory. Sizes without one are fixed.
class shape_refinement {
 public:
  shape_refinement(size_classes& classes, const size_numbers& from, const size_numbers& to)
      : classes_{classes}, sides_{walk{from}, walk{to}} {}

  // Returns the common factors of the shapes.
  size_numbers run();

 private:
  struct walk {
    const size_numbers& dims;
    std::vector<size_numbers> factors{};  // of the dimensions visited so far
    std::int64_t rest = 1;                // what remains of the last of them
  };

  bool next(walk& side) const;
  // Advances both sides to where they have passed equally many elements.
  void skip();
  std::int64_t take_rest(walk& side);

  size_classes& classes_;
  walk sides_[2];
  size_numbers found_;
};

UNITY_INLINE size_numbers shape_refinement::run() {
  while (next(sides_[0]) && next(sides_[1])) {
    const auto common = std::gcd(sides_[0].rest, sides_[1].rest);
    if (common == 1) {
      skip();
      continue;
    }
    found_.push_back(classes_.add(common));
    for (auto& side : sides_) {
      side.factors.back().push_back(found_.back());
      side.rest /= common;
    }
  }
  for (auto& side : sides_) {
    for (std::size_t d = 0; d < side.factors.size(); ++d) {
      classes_.add_product(side.dims[d], side.factors[d]);
    }
  }
  return std::move(found_);
}

UNITY_INLINE bool shape_refinement::next(walk& side) const {
  while (side.rest == 1 && side.factors.size() < side.dims.size()) {
    side.rest = classes_.size(side.dims[side.factors.size()]);
    side.factors.emplace_back();
  }
  return side.rest > 1;
}

UNITY_INLINE void shape_refinement::skip() {
  std::int64_t passed[2] = {take_rest(sides_[0]), take_rest(sides_[1])};
  while (passed[0] != passed[1]) {
    const std::size_t behind = passed[0] < passed[1] ? 0 : 1;
    next(sides_[behind]);
    passed[behind] *= take_rest(sides_[behind]);
  }
}

UNITY_INLINE std::int64_t shape_refinement::take_rest(walk& side) {
  side.factors.back().push_back(classes_.add(side.rest));
  classes_.fix(side.factors.back().back());
  return std::exchange(side.rest, 1);
}

UNITY_INLINE void size_relations::relate_relabelling(const node_view& n, const attribute_list* outer) {
  for (const auto factor : shape_refinement{classes, n.operands[0], n.results[0]}.run()) {
    // Values of attributes of a composite (such as a number of heads) do not follow sizes.
    for (const auto& a : outer != nullptr ? *outer : attribute_list{}) {
      if (std::find(a.begin(), a.end(), classes.size(factor)) != a.end()) {
        classes.fix(factor);
      }
    }
  }
}

UNITY_INLINE void size_relations::relate_view(const node_view& n, const view_map& map, size_numbers& own) {
  for (const auto& p : map.pieces()) {
    for (std::size_t d = 0; d < p.source.size(); ++d) {
      if (p.source[d].along >= 0) {
        relate_piece(n, p, d, map.pieces().size() == 1, own);
      } else {
        classes.fix(n.operands[p.operand][d]);
      }
    }
  }
}

// Cuts `segment` out of `dim`. Returns the parts before and after it, or size_none for an empty part.
UNITY_INLINE std::pair<size_number, size_number> size_relations::cut_out(size_number dim, std::int64_t start,
                                                                         size_number segment) {
  const auto rest = classes.size(dim) - start - classes.size(segment);
  const auto before = start > 0 ? classes.add(start) : size_none;
  const auto after = rest > 0 ? classes.add(rest) : size_none;
  const auto add_sum = [&](size_number whole, size_numbers parts) {
    std::erase(parts, size_none);
    if (whole != size_none) {
      classes.add_sum(whole, parts);
    }
  };
  auto& known = cuts_[classes.find(dim)];
  const auto end = start + classes.size(segment);
  const auto same = known.by_start.find(start);
  const auto left = known.by_end.find(start);
  const auto right = known.by_start.find(end);
  // A segment that is known, or next to a known one, is related to that alone: there can be thousands beside it.
  if (same != known.by_start.end() && classes.size(same->second.segment) == classes.size(segment)) {
    add_sum(before, {same->second.before});
    add_sum(segment, {same->second.segment});
    add_sum(after, {same->second.after});
  } else if (left != known.by_end.end()) {
    add_sum(before, {left->second.before, left->second.segment});
    add_sum(left->second.after, {segment, after});
  } else if (right != known.by_start.end()) {
    add_sum(after, {right->second.segment, right->second.after});
    add_sum(right->second.before, {before, segment});
  } else {
    add_sum(dim, {before, segment, after});
  }
  known.by_end.emplace(end, cut{before, segment, after});
  known.by_start.emplace(start, cut{before, segment, after});
  return {before, after};
}

// Relates sizes along dimension d of the operand of the piece. is_only: the rest of the result is padding.
UNITY_INLINE void size_relations::relate_piece(const node_view& n, const piece& p, std::size_t d, bool is_only,
                                               size_numbers& own) {
  constexpr std::int64_t most_padding = 16;  // larger padding may change
  const auto& s = p.source[d];
  const auto e = static_cast<std::size_t>(s.along);
  const auto from = n.operands[p.operand][d];
  const auto to = n.results[p.result][e];
  if (s.step != 1) {
    relate_strided(n, p, d);
    return;
  }
  const auto size = p.sizes[e];
  const bool all = size == classes.size(from);
  const auto segment = all ? from : size == classes.size(to) ? to : classes.add(size);
  const auto around_source = all ? std::pair{size_none, size_none} : cut_out(from, s.start, segment);
  const auto around_target =
      size == classes.size(to) ? std::pair{size_none, size_none} : cut_out(to, p.origin[e], segment);
  if (all && size == classes.size(to)) {
    classes.unite(from, to);
  }
  own.resize(2 * std::max(n.operands[p.operand].size(), n.results[p.result].size()), size_none);
  const auto [before, after] = all ? around_target : around_source;
  own[e] = before;
  own[own.size() / 2 + e] = after;
  if (is_only) {
    for (const auto padding : {around_target.first, around_target.second}) {
      if (padding != size_none && (classes.size(padding) <= most_padding || !follows_sizes(algebra_, n.op))) {
        classes.fix(padding);
      }
    }
  }
}

// Every step-th element of a slice: what lies before the start and after the end keeps its size.
UNITY_INLINE void size_relations::relate_strided(const node_view& n, const piece& p, std::size_t d) {
  const auto e = static_cast<std::size_t>(p.source[d].along);
  const auto from = n.operands[p.operand][d];
  const auto to = n.results[p.result][e];
  if (algebra_.signature(n.op.kind).name != "slice") {
    fix_all({{from, to}});
    return;
  }
  const auto r = algebra_.read(n.op);
  const auto axes = r.integers("axes");
  const auto i =
      static_cast<std::size_t>(std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) - axes.begin());
  const auto outside = r.integers("starts")[i] + classes.size(from) - r.integers("ends")[i];
  functions_.push_back({from, to, [outside, step = p.source[d].step](std::int64_t size) {
                          return size > outside ? (size - outside - 1) / step + 1 : 0;
                        }});
}

}  // namespace unity::tensor::detail

// Members of size_relations: sizes of primitive operators, and sizes that are functions of others.

namespace unity::tensor::detail {}  // namespace unity::tensor::detail

namespace unity::tensor::detail {

// Relates a dimension to the indices that run along it.
UNITY_INLINE void size_relations::link(const access& a, size_number dim, const size_numbers& indices) {
  size_numbers inside;
  for (std::size_t i = 0; i < a.size(); ++i) {
    inside.push_back(indices[a[i]]);
  }
  classes.add_product(dim, std::move(inside));
}

UNITY_INLINE void size_relations::relate_primitive(const node_view& n, const space& s, bool top) {
  size_numbers indices;
  for (const auto& i : s.indices()) {
    indices.push_back(classes.add(i.size));
  }
  std::vector<bool> follows(indices.size(), top && follows_sizes(algebra_, n.op));
  for (const auto& w : s.windows()) {
    follows[static_cast<std::size_t>(w.outer)] = true;
  }
  for (std::size_t o = 0; o < n.operands.size(); ++o) {
    for (std::size_t d = 0; d < n.operands[o].size(); ++d) {
      const auto& a = s.operand(o)[d];
      if (a.is_window()) {
        relate_window(n, s, o, d);
      } else {
        link(a, n.operands[o][d], indices);
      }
      if (a.size() == 1) {
        follows[a[0]] = true;
      }
    }
  }
  for (std::size_t r = 0; r < n.results.size(); ++r) {
    for (std::size_t d = 0; d < n.results[r].size(); ++d) {
      link(s.result_accesses(r)[d], n.results[r][d], indices);
    }
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    // A mean or a maximum of two elements reveals little about the operand, and a normalization of two nothing.
    if (n.operands.size() == 1 && s.indices()[i].kind != index_kind::parallel) {
      classes.require_at_least(indices[i], 4);
    }
    if (!follows[i]) {
      classes.fix(indices[i]);
    }
  }
  for (const auto& w : s.windows()) {
    if (w.inner >= 0) {
      classes.fix(indices[static_cast<std::size_t>(w.inner)]);
    }
  }
  // Indices whose positions are compared have equal sizes, as in an identity matrix.
  const auto kernel = std::get<primitive>(algebra_.definition_of(n.op.kind).body).kernel;
  const auto program = kernel ? kernel(algebra_.read(n.op), n.operand_types).outer : scalar_program{};
  for (std::size_t i = 0; i + 2 < program.size(); ++i) {
    if (program[i].op == scalar_op::coordinate && program[i + 1].op == scalar_op::coordinate &&
        program[i + 2].op == scalar_op::equal) {
      classes.unite(indices[static_cast<std::size_t>(program[i].number)],
                    indices[static_cast<std::size_t>(program[i + 1].number)]);
    }
  }
}

UNITY_INLINE void size_relations::relate_window(const node_view& n, const space& s, std::size_t operand,
                                                std::size_t d) {
  const auto& w = s.windows()[s.operand(operand)[d].window_number()];
  const auto reach = w.inner < 0 ? 1 : (s.size_of(w.inner) - 1) * w.dilation + 1;
  classes.require_at_least(n.operands[operand][d], reach);
  for (std::size_t e = 0; e < n.results[0].size(); ++e) {
    const auto& a = s.result_accesses(0)[e];
    if (a.size() == 1 && a[0] == static_cast<std::size_t>(w.outer)) {
      const auto places = [&a = algebra_, op = n.op, types = n.operand_types, operand, d, e](std::int64_t size) {
        auto probe = types;
        probe[operand].dims[d] = size;
        const auto results = a.infer(op, probe);
        return results ? (*results)[0].dims[e] : 0;
      };
      functions_.push_back({n.operands[operand][d], n.results[0][e], places});
    }
  }
}

// Unites sizes that follow from the same size and are equal. Returns whether anything changed.
UNITY_INLINE bool size_relations::unite_functions() {
  bool news = false;
  std::map<std::pair<size_number, std::int64_t>, size_number> known;
  for (const auto& f : functions_) {
    const auto [at, is_new] = known.emplace(std::pair{classes.find(f.from), classes.size(f.to)}, f.to);
    if (!is_new && classes.find(at->second) != classes.find(f.to)) {
      classes.unite(at->second, f.to);
      news = true;
    }
  }
  return news;
}

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
