// Which index runs along which dimension of every operand and result; shrinking and splitting operators depend on it.
// Over 500 lines because primitives, views, composites and opaque operators are unified by the same forest of indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/linearity.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// Finds which indices of several operators are equal, and splits them where a reshape merges or splits dimensions.

// How operators use an index.
struct index_marks {
  bool whole = false;
  bool statistic = false;
  bool summed = false;     // results without the index are sums over it
  bool collapsed = false;  // results without the index are other reductions

  index_marks& operator|=(const index_marks& o) noexcept;
  [[nodiscard]] index_kind kind(bool in_results) const noexcept;
};

// A forest of indices: an index that turned out equal to another, or to a product of two, points to it.
class index_unifier {
 public:
  using atom = std::size_t;
  using list = std::vector<atom>;  // from outer to inner

  atom make(const char* name, std::int64_t size, index_marks marks = {}) {
    atoms_.push_back({name, size, marks, {}});
    return atoms_.size() - 1;
  }

  // The list expanded to its current leaves.
  [[nodiscard]] list leaves(std::span<const atom> atoms) const;

  void mark(std::span<const atom> atoms, index_marks marks);

  // Both lists enumerate the same elements in the same order. Unifies their common refinement; indices without one
  // become whole.
  void unify(std::span<const atom> a, std::span<const atom> b);

  // The structure whose dimensions consist of the lists.
  [[nodiscard]] index_structure finish(const std::vector<std::vector<list>>& operands,
                                       const std::vector<std::vector<list>>& results) const;

 private:
  struct node {
    const char* name;
    std::int64_t size;
    index_marks marks;
    list parts;  // its parts, if it is not a leaf
  };

  void collect(atom a, list& found) const;

  // Splits off the outer part, of size `common`, of the leaf at `i`.
  atom head(list& leaves, std::size_t i, std::int64_t common);

  void merge(atom a, atom b);

  // Advances both lists to where they have passed equally many elements.
  void skip(const list& left, std::size_t& l, const list& right, std::size_t& r);

  [[nodiscard]] tensor_indices number(const std::vector<list>& dims, bool in_results,
                                      std::vector<std::optional<std::size_t>>& numbers, index_structure& out) const;

  std::vector<node> atoms_;
};

// Index structures of views, composites and opaque operators: see tensor/index_structure.hpp.

using dimension_lists = std::vector<index_unifier::list>;  // one per dimension of a tensor

[[nodiscard]] std::optional<index_structure> indices_of(const algebra& a, const operation& op,
                                                        std::span<const tensor_type> inputs);

// A new index along every dimension of every tensor.
[[nodiscard]] std::vector<dimension_lists> fresh(index_unifier& u, std::span<const tensor_type> types,
                                                 index_marks marks = {});

[[nodiscard]] index_unifier::list flat(const dimension_lists& dims);

// Unifies dimensions that the piece maps onto each other completely; partially mapped ones become whole.
void join(index_unifier& u, const piece& p, const shape& from, const shape& to, const dimension_lists& operand,
          const dimension_lists& result);

[[nodiscard]] index_structure structure_of(const view_map& map);

// Unifies the indices of the nodes of a body along its edges.
class body_indices {
 public:
  body_indices(const algebra& a, const tensor_graph& body);

  [[nodiscard]] index_structure finish(std::size_t operand_count) const;

 private:
  void add(node_id n);

  // Divides sums over the same index together, if each part is a partial sum of the results. A sum of two sums is a sum
  // again; a product of two sums is not, and if one of them cannot be divided, neither can the other.
  void join_sums();

  // One atom per index of a node, with its marks in the node.
  [[nodiscard]] index_unifier::list atoms_of(node_id n, const index_structure& own);

  // Halos do not propagate through a body, and the sizes of its operands can depend on the size of a kernel.
  void atoms_are_whole(const index_unifier::list& atoms, const window& w);

  const algebra& algebra_;
  const tensor_graph& body_;
  body_linearity linearity_;
  index_unifier unifier_;
  std::vector<dimension_lists> dims_;  // per value
  struct sum_over {
    node_id node;
    index_unifier::atom index;
  };
  std::vector<sum_over> sums_;
};

}  // namespace unity::tensor::detail

namespace unity::tensor {

// The indices of an operator on the inputs, derived from its definition; nothing if it does not accept the inputs. A
// primitive has the indices of its iteration space. A view shares an index between dimensions that it maps onto each
// other as a whole. A composite has the indices of its body, joined along its edges. An opaque operator has only
// indices that are never split.
// Source: Jia's dissertation (2020) table 3.1, generalized.
[[nodiscard]] inline std::optional<index_structure> dimension_indices(const algebra& a, const operation& op,
                                                                      std::span<const tensor_type> inputs) {
  return detail::indices_of(a, op, inputs);
}

// The maximal sets of operands, each ascending, in which the operator is jointly additive: f(x + y) = f(x) + f(y) if x
// and y are values of exactly those operands. Empty if there are none, if the operator does not accept the inputs, or
// for primitives and composites with more than 16 operands.
// Complexity: exponential in the number of operands of primitives and composites.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> linear_groups(const algebra& a, const operation& op,
                                                                         std::span<const tensor_type> inputs) {
  return detail::linear_groups_of(a, op, inputs);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_INDEX_STRUCTURE)

#include <algorithm>
#include <map>
#include <numeric>
#include <variant>

#include <unity/core/config.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/scalar.hpp>

namespace unity::tensor::detail {

UNITY_INLINE index_marks& index_marks::operator|=(const index_marks& o) noexcept {
  whole = whole || o.whole;
  statistic = statistic || o.statistic;
  summed = summed || o.summed;
  collapsed = collapsed || o.collapsed;
  return *this;
}

UNITY_INLINE index_kind index_marks::kind(bool in_results) const noexcept {
  const bool reduces = summed || collapsed;
  if (whole || (collapsed && !in_results && !statistic)) {
    return index_kind::whole;
  }
  if (statistic || (reduces && in_results)) {
    return index_kind::statistic;
  }
  return summed ? index_kind::reduction : index_kind::parallel;
}

UNITY_INLINE auto index_unifier::leaves(std::span<const atom> atoms) const -> list {
  list found;
  for (const auto a : atoms) {
    collect(a, found);
  }
  return found;
}

UNITY_INLINE void index_unifier::mark(std::span<const atom> atoms, index_marks marks) {
  for (const auto a : leaves(atoms)) {
    atoms_[a].marks |= marks;
  }
}

UNITY_INLINE void index_unifier::unify(std::span<const atom> a, std::span<const atom> b) {
  list left = leaves(a);
  list right = leaves(b);
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.size() && r < right.size()) {
    const auto x = atoms_[left[l]].size;
    const auto y = atoms_[right[r]].size;
    const auto common = std::gcd(x, y);
    if (x != y && (x == 1 || y == 1)) {
      ++(x == 1 ? l : r);
    } else if (common == 1 && x != 1) {
      skip(left, l, right, r);
    } else {
      merge(head(left, l, common), head(right, r, common));
      left = leaves(std::span{left}.subspan(l + 1));
      right = leaves(std::span{right}.subspan(r + 1));
      l = r = 0;
    }
  }
}

UNITY_INLINE index_structure index_unifier::finish(const std::vector<std::vector<list>>& operands,
                                                   const std::vector<std::vector<list>>& results) const {
  index_structure out;
  std::vector<std::optional<std::size_t>> numbers(atoms_.size());
  for (const auto& tensor : results) {
    out.results.push_back(number(tensor, true, numbers, out));
  }
  for (const auto& tensor : operands) {
    out.operands.push_back(number(tensor, false, numbers, out));
  }
  return out;
}

UNITY_INLINE void index_unifier::collect(atom a, list& found) const {
  if (atoms_[a].parts.empty()) {
    found.push_back(a);
  }
  for (const auto part : atoms_[a].parts) {
    collect(part, found);
  }
}

UNITY_INLINE auto index_unifier::head(list& leaves, std::size_t i, std::int64_t common) -> atom {
  const auto a = leaves[i];
  const auto whole = atoms_[a];
  if (whole.size == common) {
    return a;
  }
  const auto outer = make(whole.name, common, whole.marks);
  const auto inner = make(whole.name, whole.size / common, whole.marks);
  atoms_[a].parts = {outer, inner};
  leaves[i] = outer;
  leaves.insert(leaves.begin() + static_cast<std::ptrdiff_t>(i) + 1, inner);
  return outer;
}

UNITY_INLINE void index_unifier::merge(atom a, atom b) {
  if (a != b) {
    atoms_[a].marks |= atoms_[b].marks;
    atoms_[b].parts = {a};
  }
}

UNITY_INLINE void index_unifier::skip(const list& left, std::size_t& l, const list& right, std::size_t& r) {
  std::int64_t passed_left = 1;
  std::int64_t passed_right = 1;
  do {
    const bool is_left = passed_left <= passed_right;
    const auto a = is_left ? left[l++] : right[r++];
    atoms_[a].marks.whole = true;
    (is_left ? passed_left : passed_right) *= atoms_[a].size;
  } while (passed_left != passed_right);
}

UNITY_INLINE tensor_indices index_unifier::number(const std::vector<list>& dims, bool in_results,
                                                  std::vector<std::optional<std::size_t>>& numbers,
                                                  index_structure& out) const {
  tensor_indices result;
  for (const auto& dim : dims) {
    auto& d = result.emplace_back();
    for (const auto a : leaves(dim)) {
      if (!numbers[a]) {
        numbers[a] = out.indices.size();
        out.indices.push_back({atoms_[a].name, atoms_[a].marks.kind(in_results), atoms_[a].size});
      }
      d.indices.push_back(*numbers[a]);
    }
  }
  return result;
}

UNITY_INLINE std::vector<dimension_lists> fresh(index_unifier& u, std::span<const tensor_type> types,
                                                index_marks marks) {
  std::vector<dimension_lists> all;
  for (const auto& t : types) {
    auto& dims = all.emplace_back();
    for (const auto size : t.dims) {
      dims.push_back({u.make("i", size, marks)});
    }
  }
  return all;
}

UNITY_INLINE index_unifier::list flat(const dimension_lists& dims) {
  index_unifier::list all;
  for (const auto& d : dims) {
    all.insert(all.end(), d.begin(), d.end());
  }
  return all;
}

UNITY_INLINE void join(index_unifier& u, const piece& p, const shape& from, const shape& to,
                       const dimension_lists& operand, const dimension_lists& result) {
  for (std::size_t d = 0; d < from.size(); ++d) {
    const auto& s = p.source[d];
    if (s.along < 0) {
      u.mark(operand[d], {.whole = from[d] > 1});
      continue;
    }
    const auto r = static_cast<std::size_t>(s.along);
    if (s.start == 0 && s.step == 1 && p.origin[r] == 0 && p.sizes[r] == to[r] && from[d] == to[r]) {
      u.unify(operand[d], result[r]);
    } else {
      u.mark(operand[d], {.whole = true});
      u.mark(result[r], {.whole = true});
    }
  }
}

UNITY_INLINE index_structure structure_of(const view_map& map) {
  index_unifier u;
  const auto operands = fresh(u, map.inputs());
  const auto results = fresh(u, map.results());
  if (map.relabels()) {
    u.unify(flat(operands[0]), flat(results[0]));
  }
  for (const auto& p : map.pieces()) {
    join(u, p, map.dims(p.operand), map.results()[p.result].dims, operands[p.operand], results[p.result]);
  }
  return u.finish(operands, results);
}

UNITY_INLINE body_indices::body_indices(const algebra& a, const tensor_graph& body)
    : algebra_{a}, body_{body}, linearity_{a, body} {
  dims_.resize(body.value_count());
  for (const auto i : node_ids(body)) {
    add(i);
  }
  join_sums();
}

UNITY_INLINE void body_indices::join_sums() {
  std::map<index_unifier::atom, std::vector<node_id>> nodes;
  for (const auto& s : sums_) {
    for (const auto leaf : unifier_.leaves({&s.index, 1})) {
      nodes[leaf].push_back(s.node);
    }
  }
  for (const auto& [leaf, all] : nodes) {
    std::vector<dependence> seeds(body_.value_count(), dependence::none);
    for (const auto n : all) {
      for (const auto v : body_.results(n)) {
        seeds[v.index()] = dependence::additive;
      }
    }
    const bool adds_up = linearity_.of_outputs(seeds) != dependence::other;
    unifier_.mark({&leaf, 1}, {.summed = adds_up, .collapsed = !adds_up});
  }
}

// Adds the dimensions that run over positions which the kernel of a node reads.
inline void add_read_positions(const algebra& a, const tensor_graph& body, node_id n,
                               const std::vector<dimension_lists>& dims, dimension_lists& found) {
  const auto& op = body.operation(n);
  const auto* p = op.kind.valid() ? std::get_if<primitive>(&a.definition_of(op.kind).body) : nullptr;
  if (p == nullptr) {
    return;
  }
  std::vector<tensor_type> types;
  for (const auto v : body.operands(n)) {
    types.push_back(body.type(v));
  }
  const auto kernel = p->kernel(a.read(op), types);
  const auto reads = [&](std::size_t index) {
    const auto at = [&](const instruction& i) {
      return i.op == scalar_op::coordinate && static_cast<std::size_t>(i.number) == index;
    };
    return std::any_of(kernel.inner.begin(), kernel.inner.end(), at) ||
           std::any_of(kernel.outer.begin(), kernel.outer.end(), at);
  };
  const auto own = *indices_of(a, op, types);
  const auto add = [&](const tensor_indices& indices, value_id v) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (std::any_of(indices[d].indices.begin(), indices[d].indices.end(), reads)) {
        found.push_back(dims[v.index()][d]);
      }
    }
  };
  for (std::size_t x = 0; x < own.operands.size(); ++x) {
    add(own.operands[x], body.operands(n)[x]);
  }
  for (std::size_t r = 0; r < own.results.size(); ++r) {
    add(own.results[r], body.results(n)[r]);
  }
}

UNITY_INLINE index_structure body_indices::finish(std::size_t operand_count) const {
  std::vector<dimension_lists> results;
  for (const auto v : body_.outputs()) {
    results.push_back(dims_[v.index()]);
  }
  const std::vector<dimension_lists> operands{dims_.begin(),
                                              dims_.begin() + static_cast<std::ptrdiff_t>(operand_count)};
  auto out = unifier_.finish(operands, results);
  // Every part of a composite counts positions from 0, so an index whose positions a kernel of the body reads cannot be
  // divided. Along a statistic, the whole index is computed in every part.
  results.push_back({});
  for (const auto n : node_ids(body_)) {
    add_read_positions(algebra_, body_, n, dims_, results.back());
  }
  const auto numbered = unifier_.finish(operands, results);
  for (const auto& d : numbered.results.back()) {
    for (const auto i : d.indices) {
      if (i < out.indices.size() && out.indices[i].kind != index_kind::statistic) {
        out.indices[i].kind = index_kind::whole;
      }
    }
  }
  return out;
}

UNITY_INLINE void body_indices::atoms_are_whole(const index_unifier::list& atoms, const window& w) {
  unifier_.mark({{atoms[static_cast<std::size_t>(w.outer)]}}, {.whole = true});
  if (w.inner >= 0) {
    unifier_.mark({{atoms[static_cast<std::size_t>(w.inner)]}}, {.whole = true});
  }
}

UNITY_INLINE void body_indices::add(node_id n) {
  std::vector<tensor_type> types;
  for (const auto v : body_.operands(n)) {
    types.push_back(body_.type(v));
  }
  if (!body_.operation(n).kind.valid()) {
    dims_[body_.results(n)[0].index()] = fresh(unifier_, {&body_.type(body_.results(n)[0]), 1})[0];
    return;
  }
  const auto own = indices_of(algebra_, body_.operation(n), types);
  UNITY_EXPECTS(own.has_value(), "a body of operators that take their operands");
  const auto atoms = atoms_of(n, *own);
  const auto list_of = [&](const dimension_index& d) {
    index_unifier::list list;
    for (const auto i : d.indices) {
      list.push_back(atoms[i]);
    }
    return list;
  };
  for (std::size_t o = 0; o < own->operands.size(); ++o) {
    for (std::size_t d = 0; d < own->operands[o].size(); ++d) {
      const auto& dim = own->operands[o][d];
      const auto& value = dims_[body_.operands(n)[o].index()][d];
      unifier_.unify(value, list_of(dim));
      if (dim.window) {
        unifier_.mark(value, {.whole = true});
      }
    }
  }
  for (std::size_t r = 0; r < own->results.size(); ++r) {
    const auto v = body_.results(n)[r];
    for (std::size_t d = 0; d < own->results[r].size(); ++d) {
      const auto& dim = own->results[r][d];
      dims_[v.index()].push_back(
          dim.window ? index_unifier::list{unifier_.make("i", body_.type(v).dims[d], {.whole = true})} : list_of(dim));
    }
  }
}

UNITY_INLINE auto body_indices::atoms_of(node_id n, const index_structure& own) -> index_unifier::list {
  std::vector<bool> stays(own.indices.size());
  for (const auto& result : own.results) {
    for (const auto& d : result) {
      for (const auto i : d.indices) {
        stays[i] = true;
      }
    }
  }
  index_unifier::list atoms;
  for (std::size_t i = 0; i < own.indices.size(); ++i) {
    const auto kind = own.indices[i].kind;
    const index_marks marks{.whole = kind == index_kind::whole && stays[i],
                            .statistic = kind == index_kind::statistic,
                            .collapsed = kind == index_kind::whole && !stays[i]};
    atoms.push_back(unifier_.make(own.indices[i].name, own.indices[i].size, marks));
    if (kind == index_kind::reduction) {
      sums_.push_back({n, atoms.back()});
    }
  }
  for (const auto& w : own.windows) {
    atoms_are_whole(atoms, w);
  }
  return atoms;
}

UNITY_INLINE std::optional<index_structure> indices_of(const algebra& a, const operation& op,
                                                       std::span<const tensor_type> inputs) {
  if (const auto s = a.iteration(op, inputs)) {
    return structure_of(*s);
  }
  if (const auto map = a.index_map(op, inputs)) {
    return structure_of(*map);
  }
  if (const auto body = a.body(op, inputs)) {
    return body_indices{a, *body}.finish(inputs.size());
  }
  const auto results = a.infer(op, inputs);
  if (!results) {
    return std::nullopt;
  }
  index_unifier u;
  const auto operands = fresh(u, inputs, {.whole = true});
  return u.finish(operands, fresh(u, *results, {.whole = true}));
}

}  // namespace unity::tensor::detail

#endif
