// Operators over the edges of a graph: definitions and adjoints against plain loops.
#include <unity/tensor/operators/segment.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>

#include "../../support/cases.hpp"
#include "../../support/operators.hpp"
#include "../random_edges.hpp"
#include "../testing.hpp"

namespace tests_of_segment {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

using unity::value_id;

constexpr auto& training = unity::test::training::operators;

// A builder with the sources of a graph, and their values.
struct graph_case {
  random_edges g;
  std::int64_t heads;
  std::int64_t size;
  builder b{training()};
  edge_values e{};
  named_values values{};

  graph_case(unity::random_engine& random)
      : g{draw_edges(random.between(1, 9), random.between(1, 9), random.between(1, 40), random)},
        heads{random.between(1, 3)},
        size{random.between(1, 3)} {
    const auto add = [&](const char* name, const std::vector<std::int64_t>& x) {
      values[name] = numbers(x);
      return b.input(name, {std::ssize(x)}, random.below(2) == 0 ? dtype::int32 : dtype::int64);
    };
    e.offsets = add("offsets", g.offsets);
    e.sources = add("sources", g.sources);
    e.out_offsets = add("out_offsets", g.out_offsets);
    e.targets = add("targets", g.targets);
    e.out_edges = add("out_edges", g.out_edges);
  }

  value_id source(const char* name, shape dims, unity::random_engine& random) {
    values[name] = random_tensor(dims, random);
    return b.input(name, dims, dtype::float64);
  }
  [[nodiscard]] rows_of rows(const char* name) const {
    const auto& t = values.at(name);
    return {element_count(t.dims) / t.dims[0], t};
  }
  [[nodiscard]] std::vector<dense<double>> results(std::vector<value_id> outputs) {
    return run_on(training(), std::move(b).finish(outputs), values);
  }
};

void check_rows(const dense<double>& found, const shape& dims, const rows_of& expected) {
  CHECK(distance(found, {dims, expected.data}) < 1e-12);
}

// The adjoint of one operator at these operands, per operand that has one.
std::map<std::size_t, dense<double>> cotangents(const char* name, const std::vector<dense<double>>& operands,
                                                const types& t, const dense<double>& cotangent) {
  const auto op = training().make_operation(name);
  const auto adjoint = adjoint_of(training(), op, t);
  auto given = operands;
  given.push_back(evaluate<double>(training(), op, operands, t)[0]);
  given.push_back(cotangent);
  std::vector<const double*> at;
  for (const auto& x : given) {
    at.push_back(x.data.data());
  }
  const auto found = unity::tensor::detail::evaluate_body<double>(training(), adjoint.graph, at);
  std::map<std::size_t, dense<double>> all;
  for (std::size_t i = 0; i < found.size(); ++i) {
    all[adjoint.operands[i]] = found[i];
  }
  return all;
}

constexpr std::uint64_t seed = 11;

}  // namespace

TEST_CASE("segment operators agree with loops over edges", "[law]") {
  const auto cases = unity::test::cases(60);
  for (std::uint64_t i = 0; i < cases; ++i) {
    CAPTURE(seed, i);
    unity::random_engine random{seed + i};
    graph_case c{random};
    const edge_loops loops{c.g};
    const shape heads{c.heads, c.size};
    const auto x = c.source("x", {c.g.sources_count, c.heads, c.size}, random);
    const auto z = c.source("z", {c.g.edges(), c.heads}, random);
    const auto a = c.source("a", {c.g.vertices, c.heads, c.size}, random);
    const auto dot = c.b.apply("segment_dot", {a, x, c.e.offsets, c.e.sources})[0];
    const auto found = c.results({c.b.segment_sum(x, c.e), c.b.segment_mean(x, c.e), c.b.segment_max(x, c.e),
                                  c.b.segment_softmax(z, c.e), c.b.segment_weighted_sum(x, z, c.e), dot});
    const shape rows{c.g.vertices, c.heads, c.size};
    const shape edges{c.g.edges(), c.heads};
    check_rows(found[0], rows, loops.sum(c.rows("x"), false));
    check_rows(found[1], rows, loops.sum(c.rows("x"), true));
    check_rows(found[2], rows, loops.largest(c.rows("x")));
    check_rows(found[3], edges, loops.softmax(c.rows("z")));
    check_rows(found[4], rows, loops.weighted_sum(c.rows("x"), c.rows("z")));
    check_rows(found[5], edges, loops.dot(c.rows("a"), c.rows("x"), c.heads));
  }
}

TEST_CASE("adjoints of segment operators agree with loops over edges", "[law]") {
  const auto cases = unity::test::cases(60);
  for (std::uint64_t i = 0; i < cases; ++i) {
    CAPTURE(seed, i);
    unity::random_engine random{seed + i};
    const auto g = draw_edges(random.between(1, 9), random.between(1, 9), random.between(1, 40), random);
    const edge_loops loops{g};
    const auto h = random.between(1, 3);
    const auto f = random.between(1, 3);
    const auto integers = [&](const std::vector<std::int64_t>& v) { return type({std::ssize(v)}, dtype::int64); };
    const auto real = [](shape dims) { return type(std::move(dims), dtype::float64); };
    auto x = random_tensor({g.sources_count, h, f}, random);
    for (auto& e : x.data) {  // several edges have the largest
      e = std::round(3 * e);
    }
    const auto w = random_tensor({g.edges(), h}, random);
    const auto dy = random_tensor({g.vertices, h, f}, random);
    const auto dz = random_tensor({g.edges(), h}, random);
    const rows_of x_rows{h * f, x};
    const rows_of dy_rows{h * f, dy};
    const std::vector lists{numbers(g.offsets), numbers(g.sources), numbers(g.out_offsets), numbers(g.targets),
                            numbers(g.out_edges)};
    const types list_types{integers(g.offsets), integers(g.sources), integers(g.out_offsets), integers(g.targets),
                           integers(g.out_edges)};
    for (const bool mean : {false, true}) {
      const auto dx = cotangents(mean ? "segment_mean" : "segment_sum", {x, lists[0], lists[1], lists[2], lists[3]},
                                 {real(x.dims), list_types[0], list_types[1], list_types[2], list_types[3]}, dy);
      REQUIRE(dx.size() == 1);
      check_rows(dx.at(0), x.dims, loops.sum_gradient(dy_rows, mean));
    }
    const auto of_max =
        cotangents("segment_max", {x, lists[0], lists[1]}, {real(x.dims), list_types[0], list_types[1]}, dy);
    REQUIRE(of_max.size() == 1);
    check_rows(of_max.at(0), x.dims, loops.largest_gradient(x_rows, dy_rows));
    const auto of_softmax = cotangents("segment_softmax", {w, lists[0]}, {real(w.dims), list_types[0]}, dz);
    REQUIRE(of_softmax.size() == 1);
    check_rows(of_softmax.at(0), w.dims, loops.softmax_gradient(loops.softmax({h, w}), {h, dz}));
    auto all = lists;
    all.insert(all.begin(), {x, w});
    types all_types{real(x.dims), real(w.dims)};
    all_types.insert(all_types.end(), list_types.begin(), list_types.end());
    const auto of_weighted = cotangents("segment_weighted_sum", all, all_types, dy);
    REQUIRE(of_weighted.size() == 2);
    check_rows(of_weighted.at(0), x.dims, loops.weighted_sum_gradient(dy_rows, {h, w}));
    check_rows(of_weighted.at(1), w.dims, loops.dot(dy_rows, x_rows, h));
  }
}

TEST_CASE("segment_max reads missing sources as zeros and segment operators ignore stray edges") {
  const dense<double> x{{2, 1}, {-3, -5}};
  const types t{type({2, 1}), type({4}, dtype::int32), type({6}, dtype::int64)};
  // Edges of each vertex: 1 and 2; none; 3. Edges 0, 4 and 5 belong to no vertex.
  const dense<double> offsets{{4}, {1, 3, 3, 4}};
  const dense<double> sources{{6}, {0, 1, 7, 0, 0, 1}};
  const auto max =
      evaluate<double>(training(), training().make_operation("segment_max"), std::vector{x, offsets, sources}, t)[0];
  CHECK(max.data == std::vector<double>{0, 0, -3});
  const dense<double> z{{6, 1}, {1, 2, 2, 4, 5, 6}};
  const auto softmax = evaluate<double>(training(), training().make_operation("segment_softmax"),
                                        std::vector{z, offsets}, types{type({6, 1}), t[1]})[0];
  CHECK(softmax.data == std::vector<double>{0, 0.5, 0.5, 1, 0, 0});
}

TEST_CASE("segment operators check the sizes and types of edge lists") {
  const auto x = type({5, 3});
  const auto list = [](std::int64_t n, dtype t = dtype::int32) { return type({n}, t); };
  CHECK(shapes("segment_sum", {}, {x, list(5), list(7, dtype::int64), list(6), list(7)}) == std::vector<shape>{{4, 3}});
  CHECK(shapes("segment_mean", {}, {type({5}), list(5), list(7), list(6), list(7)}) == std::vector<shape>{{4}});
  CHECK(shapes("segment_max", {}, {type({5, 2, 3}), list(2), list(7)}) == std::vector<shape>{{1, 2, 3}});
  CHECK(shapes("segment_softmax", {}, {type({7, 2}), list(5)}) == std::vector<shape>{{7, 2}});
  CHECK(shapes("segment_weighted_sum", {},
               {type({5, 2, 3}), type({7, 2}), list(5), list(7), list(6), list(7), list(7)}) ==
        std::vector<shape>{{4, 2, 3}});
  CHECK(refusal_of("segment_sum", {}, {x, list(5), list(7), list(5), list(7)}) ==
        "a number per edge, or one offset more than there are vertices in operand 3");
  CHECK(refusal_of("segment_sum", {}, {x, list(5), list(7), list(6), list(8)}) ==
        "a number per edge, or one offset more than there are vertices in operand 4");
  CHECK(refusal_of("segment_sum", {}, {x, list(1), list(7), list(6), list(7)}) ==
        "one offset more than there are vertices in operand 1");
  CHECK(refusal_of("segment_max", {}, {x, list(5), list(7, dtype::int8)}) == "int32 or int64 in operand 2");
  CHECK(refusal_of("segment_max", {}, {x, type({5, 1}, dtype::int32), list(7)}) == "rank 1 in operand 1");
  CHECK(refusal_of("segment_softmax", {}, {list(7), list(5)}) == "floating-point elements in operand 0");
  CHECK(refusal_of("segment_weighted_sum", {},
                   {type({5, 2, 3}), type({7, 3}), list(5), list(7), list(6), list(7), list(7)}) ==
        "a weight per edge and head in operand 1");
}

TEST_CASE("work of segment operators counts edges rather than the incidence matrix") {
  const auto work_of = [](const char* name, const types& t) {
    const auto op = training().make_operation(name);
    const auto w = training().work(op, t, *training().infer(op, t));
    return std::pair{w.operations.count(), w.moved.count()};
  };
  using numbers = std::pair<std::int64_t, std::int64_t>;
  constexpr std::int64_t n = 100;
  constexpr std::int64_t e = 1000;
  const auto list = [](std::int64_t count, dtype t = dtype::int32) { return type({count}, t); };
  const types sum{type({50, 8}), list(n + 1, dtype::int64), list(e), list(51), list(e)};
  // For each edge a row and its number; then the offsets and the result.
  const auto bytes = e * 8 * 4 + e * 4 + (n + 1) * 8 + n * 8 * 4;
  CHECK(work_of("segment_sum", sum) == numbers{e * 8, bytes});
  CHECK(work_of("segment_max", {sum[0], sum[1], sum[2]}) == numbers{e * 8, bytes});
  CHECK(work_of("segment_softmax", {type({e, 8}), list(n + 1)}) == numbers{5 * e * 8, 2 * e * 8 * 4 + (n + 1) * 4});
  CHECK(work_of("segment_dot", {type({n, 2, 8}), type({50, 2, 8}), list(n + 1), list(e)}) ==
        numbers{2 * e * 16, e * 16 * 4 + n * 16 * 4 + (n + 1) * 4 + e * 4 + e * 2 * 4});
}

}  // namespace tests_of_segment
