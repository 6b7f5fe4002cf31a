// Operators over the edges of a graph: sums, maxima and softmax over the in-edges of each vertex.
//
// A graph of m sources, n vertices and e edges is given by its in-edges in compressed rows (CSR): the in-edges of
// vertex v are the positions offsets[v] .. offsets[v + 1], and sources[k] is the source of edge k. out_offsets and
// targets are the same edges grouped by source; out_edges[j] is the in-edge position of edge j in that order. Offsets
// must not decrease; a source or target out of range stands for a row of zeros.
//
// Definitions are products with the incidence matrix, which has n e elements; backends do not materialize it.
// Source: ROC (MLSys 2020) section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

// 1 if begin <= k < end, 0 elsewhere. Shapes: begins[n], ends[n] -> [n, edges], integers to `element`.
[[nodiscard]] definition incidence();

// Row v is the sum of the rows of x at the sources of the in-edges of v. The last two operands do not affect the value;
// the adjoint, which is the same operator on the transposed graph, needs them.
// Shapes: x[m, c...], offsets[n + 1], sources[e], out_offsets[m + 1], targets[e] -> [n, c...].
[[nodiscard]] definition segment_sum();

// segment_sum divided by the number of in-edges; 0 if there are none.
[[nodiscard]] definition segment_mean();

// The maximum per column over the in-edges; 0 if there are none.
// Shapes: x[m, c...], offsets[n + 1], sources[e] -> [n, c...].
[[nodiscard]] definition segment_max();

// The edges that attain a maximum share its cotangent equally.
// Shapes: x[m, c...], segment_max(x)[n, c...], cotangent[n, c...], offsets[n + 1], sources[e] -> [m, c...].
[[nodiscard]] definition segment_max_gradient();

// Softmax over the in-edges of each vertex, per column; 0 for an edge that belongs to no vertex.
// Shapes: z[e, h...], offsets[n + 1] -> [e, h...].
[[nodiscard]] definition segment_softmax();

// Shapes: segment_softmax(z)[e, h...], cotangent[e, h...], offsets[n + 1] -> [e, h...].
[[nodiscard]] definition segment_softmax_gradient();

// Row v is the sum over its in-edges k of w[k] times the row of x at the source of k, per head.
// Shapes: x[m, h, f], w[e, h], offsets[n + 1], sources[e], out_offsets[m + 1], targets[e], out_edges[e] -> [n, h, f].
[[nodiscard]] definition segment_weighted_sum();

// The cotangent of x: the same sum over the transposed graph.
// Shapes: cotangent[n, h, f], w[e, h], out_offsets[m + 1], targets[e], out_edges[e] -> [m, h, f].
[[nodiscard]] definition segment_weighted_sum_gradient();

// For each edge and head, the dot product of the rows of its target and its source: the cotangent of w.
// Shapes: a[n, h, f], x[m, h, f], offsets[n + 1], sources[e] -> [e, h].
[[nodiscard]] definition segment_dot();

[[nodiscard]] inline std::vector<definition> segments() {
  return {incidence(), segment_sum(), segment_mean(), segment_max(), segment_softmax(), segment_weighted_sum()};
}
[[nodiscard]] inline std::vector<definition> segment_gradients() {
  return {segment_max_gradient(), segment_softmax_gradient(), segment_weighted_sum_gradient(), segment_dot()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_SEGMENT)

#include <array>
#include <initializer_list>
#include <span>
#include <utility>

#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

namespace detail {

// The shape with this many rows instead.
[[nodiscard]] inline shape with_rows(std::int64_t rows, const shape& like) {
  auto dims = like;
  dims[0] = rows;
  return dims;
}

inline constexpr std::int64_t any_number = -1;
inline constexpr std::int64_t any_offsets = -2;
// Requires that the operand is a vector of `count` integers.
bool require_numbers(judgement& j, std::size_t operand, std::int64_t count);

// Requires rows of floating-point elements of the type of the first operand. rank 0: any rank but 0.
bool require_rows(judgement& j, std::size_t operand, std::size_t rank = 0);

[[nodiscard]] inline value_id part(body_builder& b, value_id x, std::int64_t begin, std::int64_t end) {
  return b.add("slice", {x}, {{"axes", {0}}, {"starts", {begin}}, {"ends", {end}}, {"steps", {1}}});
}

[[nodiscard]] inline value_id reshaped(body_builder& b, value_id x, const shape& dims) {
  return b.type(x).dims == dims ? x : b.add("reshape", {x}, {{"dims", dims}});
}

// Builds definitions: the incidence matrix for a number of edges, and row sums with it.
class edge_rows {
 public:
  edge_rows(body_builder& b, value_id offsets, std::int64_t edges, dtype element);

  // Shapes: [e, c...] -> [n, c...].
  [[nodiscard]] value_id sums(value_id of_edges) const { return product(matrix_, vertices_, of_edges); }
  // Gives each edge the row of its vertex. Shapes: [n, c...] -> [e, c...].
  [[nodiscard]] value_id spread(value_id of_vertices) const {
    const auto turned = b_.add("transpose", {matrix_}, {{"permutation", {1, 0}}});
    return product(turned, edges_, of_vertices);
  }
  // The maximum per vertex; 0 without edges. Shapes: [e, c...] -> [n, c...].
  [[nodiscard]] value_id largest(value_id of_edges) const;
  // 1 for a vertex with edges, 0 for others. Shapes: [n, 1...], of this rank.
  [[nodiscard]] value_id has_edges(std::size_t rank) const;

  [[nodiscard]] value_id number(double value) const {
    return b_.add("fill", {}, {{"value", value}, {"element", name_of(element_)}, {"dims", {}}});
  }

 private:
  [[nodiscard]] value_id product(value_id matrix, std::int64_t rows, value_id x) const;

  body_builder& b_;
  std::int64_t vertices_;
  std::int64_t edges_;
  dtype element_;
  value_id matrix_;
};

// The work per edge: a number of operations on each element of a row of operand `rows`, which is read (or written)
// `times` times per edge. Each operand in `once` is read once.
struct edge_work {
  std::size_t edges;  // the operand with one row per edge
  std::size_t rows;
  std::int64_t operations = 1;
  std::int64_t times = 1;
  small_vector<std::size_t, 6> once{};

  [[nodiscard]] operator_work operator()(const attribute_reader&, std::span<const tensor_type> inputs,
                                         std::span<const tensor_type> outputs) const;
};

[[nodiscard]] inline definition with_work(definition d, const edge_work& w) {
  d.own_work = w;
  return d;
}

UNITY_INLINE bool require_numbers(judgement& j, std::size_t operand, std::int64_t count) {
  const auto where = static_cast<int>(operand);
  const auto element = j.inputs()[operand].element;
  return j.require(element == dtype::int32 || element == dtype::int64, "int32 or int64", where) &&
         j.require_rank(operand, 1) &&
         j.require(count != any_offsets || j.dims(operand)[0] >= 2, "one offset more than there are vertices", where) &&
         j.require(count < 0 || j.dims(operand)[0] == count,
                   "a number per edge, or one offset more than there are vertices", where);
}

UNITY_INLINE bool require_rows(judgement& j, std::size_t operand, std::size_t rank) {
  const auto where = static_cast<int>(operand);
  return j.require(is_floating(j.inputs()[operand].element), "floating-point elements", where) &&
         j.require(j.inputs()[operand].element == j.inputs()[0].element, "the element type of operand 0", where) &&
         (rank == 0 ? j.require(j.rank(operand) >= 1, "rank 1 or more", where) : j.require_rank(operand, rank));
}

UNITY_INLINE edge_rows::edge_rows(body_builder& b, value_id offsets, std::int64_t edges, dtype element)
    : b_{b}, vertices_{b.type(offsets).dims[0] - 1}, edges_{edges}, element_{element} {
  matrix_ = b.add("incidence", {part(b, offsets, 0, vertices_), part(b, offsets, 1, vertices_ + 1)},
                  {{"edges", edges}, {"element", name_of(element)}});
}

UNITY_INLINE value_id edge_rows::product(value_id matrix, std::int64_t rows, value_id x) const {
  const auto dims = b_.type(x).dims;
  const auto flat = reshaped(b_, x, {dims[0], element_count(dims) / dims[0]});
  return reshaped(b_, b_.add("matmul", {matrix, flat}), with_rows(rows, dims));
}

// Edges of other vertices count as the minimum of the column.
UNITY_INLINE value_id edge_rows::largest(value_id of_edges) const {
  const auto dims = b_.type(of_edges).dims;
  auto along = shape(dims.size() + 1, 1);
  along[0] = vertices_;
  along[1] = edges_;
  const auto is_edge = b_.add("reshape", {matrix_}, {{"dims", along}});
  const auto negative = b_.add("negate", {of_edges});
  const auto least = b_.add("negate", {b_.add("reduce_max", {negative}, {{"axes", {0}}})});
  const auto others = b_.add("mul", {b_.add("sub", {number(1), is_edge}), least});
  const auto all = b_.add("add", {b_.add("mul", {is_edge, of_edges}), others});
  const auto most = b_.add("reduce_max", {all}, {{"axes", {1}}, {"keep_dims", 0}});
  return b_.add("mul", {most, has_edges(dims.size())});
}

UNITY_INLINE value_id edge_rows::has_edges(std::size_t rank) const {
  auto dims = shape(rank, 1);
  dims[0] = vertices_;
  const auto any = b_.add("reduce_max", {matrix_}, {{"axes", {1}}});
  return reshaped(b_, any, dims);
}

UNITY_INLINE operator_work edge_work::operator()(const attribute_reader&, std::span<const tensor_type> inputs,
                                                 std::span<const tensor_type> outputs) const {
  const auto& x = inputs[rows];
  const auto width = element_count(x.dims) / x.dims[0];
  const auto elements = saturating_multiply(inputs[edges].dims[0], width);
  auto moved = total_bytes(outputs);
  for (const auto i : once) {
    moved += size_in_bytes(inputs[i]);
  }
  const auto gathered = saturating_multiply(elements, times * size_of(x.element));
  return {flops{saturating_multiply(elements, operations)}, bytes{saturating_add(moved.count(), gathered)}};
}

}  // namespace detail

UNITY_INLINE definition incidence() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto edges = a.integer("edges");
    s.allow_mixed_elements();
    for (std::size_t i = 0; i < 2; ++i) {
      const auto where = static_cast<int>(i);
      if (!s.require(is_integral(s.inputs()[i].element), "integers", where) || !s.require_rank(i, 1)) {
        return;
      }
    }
    if (s.require(edges > 0 && edges <= max_elements, "a positive number of edges")) {
      const auto k = s.parallel("k", edges);  // must come first: the kernel refers to it by number
      const auto v = s.parallel("v");
      s.read({v});
      s.read({v});
      s.write(std::array<access, 2>{v, k}, a.choice<dtype>("element"));
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    const auto has_come = [](int operand) {
      return equal(apply(scalar_op::maximum, x(operand), coordinate(0)), coordinate(0));
    };
    return has_come(0) * (literal(1) - has_come(1));
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}, value_id{}};
  };
  return define("incidence", 2, 1, {integer_field("edges"), dtype_field("element")}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_elements({dtype::int64, dtype::int64});
}

UNITY_INLINE definition segment_sum() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0) && detail::require_numbers(j, 1, detail::any_offsets) &&
        detail::require_numbers(j, 2, detail::any_number) && detail::require_numbers(j, 3, j.dims(0)[0] + 1) &&
        detail::require_numbers(j, 4, j.dims(2)[0])) {
      j.result(detail::with_rows(j.dims(1)[0] - 1, j.dims(0)));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const detail::edge_rows rows{b, x[1], b.type(x[2]).dims[0], b.type(x[0]).element};
    return std::vector{rows.sums(b.add("embedding", {x[0], x[2]}))};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    std::vector<value_id> all(5);
    all[0] = b.add("segment_sum", {p.cotangents[0], p.operand(3), p.operand(4), p.operand(1), p.operand(2)});
    return all;
  };
  return detail::with_work(define("segment_sum", 5, 1, {}, composite{body, types})
                               .with_adjoint(adjoint)
                               .with_elements({dtype::float32, dtype::int64, dtype::int64, dtype::int64, dtype::int64}),
                           {.edges = 2, .rows = 0, .once = {1, 2}});
}

UNITY_INLINE definition segment_mean() {
  auto d = segment_sum();
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto element = name_of(b.type(x[0]).element);
    const auto vertices = b.type(x[1]).dims[0] - 1;
    const auto counts = b.add("sub", {detail::part(b, x[1], 1, vertices + 1), detail::part(b, x[1], 0, vertices)});
    auto along = shape(b.type(x[0]).rank(), 1);
    along[0] = vertices;
    const auto one = b.add("fill", {}, {{"value", 1.0}, {"element", element}, {"dims", {}}});
    const auto divisor = b.add("maximum", {b.add("cast", {counts}, {{"element", element}}), one});
    return std::vector{b.add("div", {b.add("segment_sum", x), detail::reshaped(b, divisor, along)})};
  };
  d.signature.name = "segment_mean";
  std::get<composite>(d.body).body = body;
  d.own_adjoint = {};
  return d;
}

UNITY_INLINE definition segment_max() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0) && detail::require_numbers(j, 1, detail::any_offsets) &&
        detail::require_numbers(j, 2, detail::any_number)) {
      j.result(detail::with_rows(j.dims(1)[0] - 1, j.dims(0)));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const detail::edge_rows rows{b, x[1], b.type(x[2]).dims[0], b.type(x[0]).element};
    return std::vector{rows.largest(b.add("embedding", {x[0], x[2]}))};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    std::vector<value_id> all(3);
    all[0] = b.add("segment_max_gradient", {p.operand(0), p.result(0), p.cotangents[0], p.operand(1), p.operand(2)});
    return all;
  };
  return detail::with_work(define("segment_max", 3, 1, {}, composite{body, types})
                               .with_adjoint(adjoint)
                               .with_elements({dtype::float32, dtype::int64, dtype::int64}),
                           {.edges = 2, .rows = 0, .once = {1, 2}});
}

UNITY_INLINE definition segment_max_gradient() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (!detail::require_rows(j, 0) || !detail::require_rows(j, 1) || !detail::require_rows(j, 2) ||
        !detail::require_numbers(j, 3, detail::any_offsets) || !detail::require_numbers(j, 4, detail::any_number)) {
      return;
    }
    const auto result = detail::with_rows(j.dims(3)[0] - 1, j.dims(0));
    if (j.require(j.dims(1) == result, "a row per vertex", 1) &&
        j.require(j.dims(2) == result, "a row per vertex", 2)) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto t = b.type(x[0]);
    const detail::edge_rows rows{b, x[3], b.type(x[4]).dims[0], t.element};
    const auto of_sources = b.add("embedding", {x[0], x[4]});
    // 1 - nonzero(a - b)
    const auto apart = b.add("sub", {of_sources, rows.spread(x[1])});
    const auto differs =
        b.add("cast", {b.add("cast", {apart}, {{"element", "bool"}})}, {{"element", name_of(t.element)}});
    const auto is_largest = b.add("sub", {rows.number(1), differs});
    const auto counts = b.add("maximum", {rows.sums(is_largest), rows.number(1)});
    const auto shares = b.add("mul", {rows.spread(b.add("div", {x[2], counts})), is_largest});
    return std::vector{b.add("embedding_gradient", {x[4], shares}, {{"rows", t.dims[0]}})};
  };
  return detail::with_work(
      define("segment_max_gradient", 5, 1, {}, composite{body, types})
          .with_elements({dtype::float32, dtype::float32, dtype::float32, dtype::int64, dtype::int64}),
      {.edges = 4, .rows = 0, .operations = 4, .times = 3, .once = {1, 2, 3, 4}});
}

UNITY_INLINE definition segment_softmax() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0) && detail::require_numbers(j, 1, detail::any_offsets)) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto t = b.type(x[0]);
    const detail::edge_rows rows{b, x[1], t.dims[0], t.element};
    const auto powers = b.add("exp", {b.add("sub", {x[0], rows.spread(rows.largest(x[0]))})});
    const auto is_empty = b.add("sub", {rows.number(1), rows.has_edges(t.rank())});
    const auto sums = b.add("add", {rows.sums(powers), is_empty});
    return std::vector{b.add("mul", {powers, rows.spread(b.add("reciprocal", {sums}))})};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    return std::vector{b.add("segment_softmax_gradient", {p.result(0), p.cotangents[0], p.operand(1)}), value_id{}};
  };
  return detail::with_work(define("segment_softmax", 2, 1, {}, composite{body, types})
                               .with_adjoint(adjoint)
                               .with_elements({dtype::float32, dtype::int64}),
                           {.edges = 0, .rows = 0, .operations = 5, .once = {1}});
}

UNITY_INLINE definition segment_softmax_gradient() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0) && detail::require_rows(j, 1) &&
        j.require(j.dims(0) == j.dims(1), "operands of one shape") &&
        detail::require_numbers(j, 2, detail::any_offsets)) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto t = b.type(x[0]);
    const detail::edge_rows rows{b, x[2], t.dims[0], t.element};
    const auto means = rows.spread(rows.sums(b.add("mul", {x[0], x[1]})));
    return std::vector{b.add("mul", {x[0], b.add("sub", {x[1], means})})};
  };
  return detail::with_work(define("segment_softmax_gradient", 3, 1, {}, composite{body, types})
                               .with_elements({dtype::float32, dtype::float32, dtype::int64}),
                           {.edges = 0, .rows = 0, .operations = 4, .times = 2, .once = {2}});
}

UNITY_INLINE definition segment_weighted_sum() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (!detail::require_rows(j, 0, 3) || !detail::require_rows(j, 1, 2) ||
        !j.require(j.dims(1)[1] == j.dims(0)[1], "a weight per edge and head", 1) ||
        !detail::require_numbers(j, 2, detail::any_offsets) || !detail::require_numbers(j, 4, j.dims(0)[0] + 1)) {
      return;
    }
    const auto edges = j.dims(1)[0];
    if (detail::require_numbers(j, 3, edges) && detail::require_numbers(j, 5, edges) &&
        detail::require_numbers(j, 6, edges)) {
      j.result(detail::with_rows(j.dims(2)[0] - 1, j.dims(0)));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const detail::edge_rows rows{b, x[2], b.type(x[3]).dims[0], b.type(x[0]).element};
    const auto weights = b.add("unsqueeze", {x[1]}, {{"axes", {2}}});
    return std::vector{rows.sums(b.add("mul", {b.add("embedding", {x[0], x[3]}), weights}))};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    std::vector<value_id> all(7);
    if (p.wanted[0]) {
      all[0] = b.add("segment_weighted_sum_gradient",
                     {p.cotangents[0], p.operand(1), p.operand(4), p.operand(5), p.operand(6)});
    }
    if (p.wanted[1]) {
      all[1] = b.add("segment_dot", {p.cotangents[0], p.operand(0), p.operand(2), p.operand(3)});
    }
    return all;
  };
  return detail::with_work(define("segment_weighted_sum", 7, 1, {}, composite{body, types})
                               .with_adjoint(adjoint)
                               .with_elements({dtype::float32, dtype::float32, dtype::int64, dtype::int64, dtype::int64,
                                               dtype::int64, dtype::int64}),
                           {.edges = 3, .rows = 0, .operations = 2, .once = {1, 2, 3}});
}

UNITY_INLINE definition segment_weighted_sum_gradient() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0, 3) && detail::require_rows(j, 1, 2) &&
        j.require(j.dims(1)[1] == j.dims(0)[1], "a weight per edge and head", 1) &&
        detail::require_numbers(j, 2, detail::any_offsets) && detail::require_numbers(j, 3, j.dims(1)[0]) &&
        detail::require_numbers(j, 4, j.dims(1)[0])) {
      j.result(detail::with_rows(j.dims(2)[0] - 1, j.dims(0)));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const detail::edge_rows rows{b, x[2], b.type(x[3]).dims[0], b.type(x[0]).element};
    const auto weights = b.add("unsqueeze", {b.add("embedding", {x[1], x[4]})}, {{"axes", {2}}});
    return std::vector{rows.sums(b.add("mul", {b.add("embedding", {x[0], x[3]}), weights}))};
  };
  return detail::with_work(
      define("segment_weighted_sum_gradient", 5, 1, {}, composite{body, types})
          .with_elements({dtype::float32, dtype::float32, dtype::int64, dtype::int64, dtype::int64}),
      {.edges = 3, .rows = 0, .operations = 2, .once = {1, 2, 3, 4}});
}

UNITY_INLINE definition segment_dot() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (detail::require_rows(j, 0, 3) && detail::require_rows(j, 1, 3) &&
        detail::require_numbers(j, 2, j.dims(0)[0] + 1) && detail::require_numbers(j, 3, detail::any_number) &&
        j.require(j.dims(1) == detail::with_rows(j.dims(1)[0], j.dims(0)), "rows as those of operand 0", 1)) {
      j.result({j.dims(3)[0], j.dims(0)[1]});
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const detail::edge_rows rows{b, x[2], b.type(x[3]).dims[0], b.type(x[0]).element};
    const auto products = b.add("mul", {rows.spread(x[0]), b.add("embedding", {x[1], x[3]})});
    return std::vector{b.add("reduce_sum", {products}, {{"axes", {2}}, {"keep_dims", 0}})};
  };
  return detail::with_work(define("segment_dot", 4, 1, {}, composite{body, types})
                               .with_elements({dtype::float32, dtype::float32, dtype::int64, dtype::int64}),
                           {.edges = 3, .rows = 1, .operations = 2, .once = {0, 2, 3}});
}

}  // namespace unity::tensor::operators

#endif
