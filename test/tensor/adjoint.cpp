#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operators/elementwise.hpp>
#include <unity/tensor/operators/sources.hpp>
#include <unity/tensor/standard_operators.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/scalar.hpp>

#include "../support/operators.hpp"
#include "random_case.hpp"
#include "random_edges.hpp"
#include "testing.hpp"

namespace tests_of_adjoint {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

using unity::node_id;
using unity::value_id;

constexpr int rounds = 20;

constexpr auto& training = unity::test::training::operators;

bool is_real(const tensor_type& t) { return is_floating(t.element); }

// Calls check(name, case, results, random) on cases of every standard operator that maps reals to reals.
template <class Check>
void for_real_cases(std::uint64_t seed, const Check& check) {
  CAPTURE(seed);
  for (const auto& [name, make] : cases()) {
    unity::random_engine random{seed};
    for (int round = 0; round < rounds; ++round) {
      const auto c = draw(name, random);
      const auto results = *standard().infer(c.op, c.inputs);
      if (name == "opaque" || !std::any_of(c.inputs.begin(), c.inputs.end(), is_real) || !is_real(results[0])) {
        continue;
      }
      CAPTURE(name, round);
      check(name, c, results, random);
    }
  }
}

// Magnitudes from 0.1 to 2.5 in steps of 0.06 with random signs, away from the kinks of piecewise smooth functions;
// beyond 40 elements, magnitudes repeat nearly. Positive where the operator requires it; integers are row numbers.
std::vector<dense<double>> smooth_point(const std::string& name, const types& inputs, unity::random_engine& random) {
  std::int64_t count = 0;
  for (const auto& t : inputs) {
    count += element_count(t.dims);
  }
  std::vector<double> lattice;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size =
        0.1 + 0.06 * static_cast<double>(i % 40) + 0.01 * static_cast<double>(i / 40) / static_cast<double>(count);
    lattice.push_back(random.below(2) == 0 ? size : -size);
  }
  std::shuffle(lattice.begin(), lattice.end(), random);
  std::vector<dense<double>> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    dense<double> t{inputs[i].dims};
    const bool positive = name == "sqrt" || name == "log" || name == "reduce_log_sum" || (name == "pow" && i == 0) ||
                          (name == "batch_norm" && i == 4);
    for (auto& x : t.data) {
      x = lattice.back();
      lattice.pop_back();
      x = name == "floor" || name == "ceil" || name == "round" ? x + std::copysign(0.03, x) : x;  // no step at 1
      x = positive ? std::abs(x) : is_real(inputs[i]) ? x : static_cast<double>(random.below(4));
    }
    values.push_back(std::move(t));
  }
  draw_lists(name, values, random);
  return values;
}

template <class Scalar>
dense<Scalar> random_like(const shape& dims, unity::random_engine& random) {
  dense<Scalar> t{dims};
  for (auto& x : t.data) {
    if constexpr (std::same_as<Scalar, double>) {
      x = 2 * random.unit() - 1;
    } else {
      x = Scalar::of_residue(random());
    }
  }
  return t;
}

template <class Scalar>
Scalar dot(const dense<Scalar>& a, const dense<Scalar>& b) {
  REQUIRE(a.dims == b.dims);
  Scalar sum{};
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    sum += a.data[i] * b.data[i];
  }
  return sum;
}

template <class Scalar>
Scalar dot(const std::vector<dense<Scalar>>& a, const std::vector<dense<Scalar>>& b) {
  Scalar sum{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += dot(a[i], b[i]);
  }
  return sum;
}

template <class Scalar>
std::vector<dense<Scalar>> cotangents_of(const operator_adjoint& adjoint, const std::vector<dense<Scalar>>& inputs,
                                         const std::vector<dense<Scalar>>& results,
                                         const std::vector<dense<Scalar>>& cotangents) {
  std::vector<const Scalar*> given;
  for (const auto* all : {&inputs, &results, &cotangents}) {
    for (const auto& t : *all) {
      given.push_back(t.data.data());
    }
  }
  return unity::tensor::detail::evaluate_body<Scalar>(training(), adjoint.graph, std::span<const Scalar* const>{given});
}

std::vector<tensor_type> types_at(const tensor_graph& g, std::span<const value_id> values) {
  std::vector<tensor_type> all;
  for (const auto v : values) {
    all.push_back(g.type(v));
  }
  return all;
}

}  // namespace

TEST_CASE("adjoints of real-valued operators agree with central differences", "[adjoint]") {
  std::set<std::string> checked;
  for_real_cases(1, [&](const std::string& name, const random_case& c, const types& results, auto& random) {
    const auto adjoint = adjoint_of(training(), c.op, c.inputs);
    const auto x = smooth_point(name, c.inputs, random);
    const auto y = evaluate<double>(training(), c.op, x, c.inputs);
    std::vector<dense<double>> cotangents;
    for (const auto& t : results) {
      cotangents.push_back(random_like<double>(t.dims, random));
    }
    const auto found = cotangents_of(adjoint, x, y, cotangents);
    REQUIRE(found.size() == adjoint.operands.size());
    double expected = 0;
    double derived = 0;
    double scale = 1;
    std::vector<dense<double>> direction;
    for (const auto& t : x) {
      direction.push_back(random_like<double>(t.dims, random));
    }
    constexpr double h = 1e-5;
    const auto moved = [&](double step) {
      auto at = x;
      for (std::size_t i = 0; i < at.size(); ++i) {
        for (std::size_t e = 0; is_real(c.inputs[i]) && e < at[i].data.size(); ++e) {
          at[i].data[e] += step * direction[i].data[e];
        }
      }
      return dot(evaluate<double>(training(), c.op, at, c.inputs), cotangents);
    };
    expected = (moved(h) - moved(-h)) / (2 * h);
    for (std::size_t k = 0; k < found.size(); ++k) {
      const auto part = dot(found[k], direction[adjoint.operands[k]]);
      derived += part;
      scale += std::abs(part);
    }
    CHECK(derived == Approx(expected).epsilon(1e-6).margin(2e-6 * scale));
    checked.insert(name);
  });
  // All operators with operands, except the opaque operator, the matrices of zeros and ones, positions, integer_div,
  // mod (of integers here), five comparisons, four logical operators, is_nan, is_inf, and six whose results have few
  // bits or are products of such numbers.
  CHECK(checked.size() == cases().size() - 9 - 2 - 4 - 13 - 6);
}

TEST_CASE("the adjoint of a linear operand group satisfies the inner-product identity exactly", "[adjoint]") {
  std::set<std::string> checked;
  for_real_cases(2, [&](const std::string& name, const random_case& c, const types& results, auto& random) {
    for (auto group : linear_groups(training(), c.op, c.inputs)) {
      // A group may contain operands that the result does not depend on, such as integers: only reals are kept.
      std::erase_if(group, [&](std::size_t i) { return !is_real(c.inputs[i]); });
      if (group.empty()) {
        continue;
      }
      std::vector<bool> wanted(c.inputs.size());
      std::vector<dense<modular61>> x;
      for (const auto& t : c.inputs) {
        x.push_back(random_like<modular61>(t.dims, random));
        for (auto& e : x.back().data) {
          e = is_real(t) ? e : modular61{random.between(0, 3)};
        }
      }
      draw_lists(name, x, random);
      for (const auto i : group) {
        wanted[i] = true;
      }
      const auto y = evaluate<modular61>(training(), c.op, x, c.inputs);
      std::vector<dense<modular61>> cotangents;
      for (const auto& t : results) {
        cotangents.push_back(random_like<modular61>(t.dims, random));
      }
      const auto adjoint = adjoint_of(training(), c.op, c.inputs, wanted);
      CHECK(adjoint.operands == group);
      const auto found = cotangents_of(adjoint, x, y, cotangents);
      modular61 back{};
      for (std::size_t k = 0; k < found.size(); ++k) {
        back += dot(found[k], x[adjoint.operands[k]]);
      }
      CHECK(back == dot(y, cotangents));
      checked.insert(name);
    }
  });
  for (const char* name : {"matmul",
                           "linear",
                           "conv2d",
                           "average_pool",
                           "global_average_pool",
                           "reduce_sum",
                           "reduce_mean",
                           "add",
                           "mul",
                           "div",
                           "scalar_multiply",
                           "concat",
                           "split",
                           "slice",
                           "pad",
                           "enlarge",
                           "transpose",
                           "expand",
                           "reshape",
                           "squeeze",
                           "unsqueeze",
                           "embedding",
                           "embedding_bag",
                           "attention",
                           "layer_norm",
                           "batch_norm",
                           "segment_sum",
                           "segment_mean",
                           "segment_weighted_sum",
                           "where"}) {
    CAPTURE(name);
    CHECK(checked.contains(name));
  }
}

TEST_CASE("the adjoint for one operand equals its part of the full adjoint", "[adjoint]") {
  for_real_cases(3, [](const std::string& name, const random_case& c, const types& results, auto& random) {
    const auto all = adjoint_of(training(), c.op, c.inputs);
    const auto x = smooth_point(name, c.inputs, random);
    const auto y = evaluate<double>(training(), c.op, x, c.inputs);
    std::vector<dense<double>> cotangents;
    for (const auto& t : results) {
      cotangents.push_back(random_like<double>(t.dims, random));
    }
    const auto expected = cotangents_of(all, x, y, cotangents);
    for (std::size_t k = 0; k < all.operands.size(); ++k) {
      std::vector<bool> wanted(c.inputs.size());
      wanted[all.operands[k]] = true;
      const auto one = adjoint_of(training(), c.op, c.inputs, wanted);
      REQUIRE(one.operands == std::vector{all.operands[k]});
      CHECK(one.graph.node_count() <= all.graph.node_count());
      CHECK(distance(cotangents_of(one, x, y, cotangents)[0], expected[k]) < 1e-12);
    }
  });
}

// Shapes, work, indices and evaluation of the operators in adjoints.
TEST_CASE("gradient operators inside adjoints have valid work and indices and consistent values", "[adjoint]") {
  std::set<std::string> seen;
  for_real_cases(4, [&](const std::string&, const random_case& c, const types&, auto& random) {
    const auto& g = adjoint_of(training(), c.op, c.inputs).graph;
    for (const auto i : node_ids(g)) {
      const auto& op = g.operation(i);
      if (!op.kind.valid() || op.kind.index() < standard().kind_count()) {
        continue;
      }
      const auto& name = training().signature(op.kind).name;
      CAPTURE(name);
      seen.insert(name);
      const auto inputs = types_at(g, g.operands(i));
      const auto results = types_at(g, g.results(i));
      const auto work = training().work(op, inputs, results);
      CHECK(work.operations.count() >= 0);
      CHECK((inputs.empty() || work.moved.count() > 0));
      const auto s = dimension_indices(training(), op, inputs);
      REQUIRE(s.has_value());
      for (std::size_t r = 0; r < results.size(); ++r) {
        REQUIRE(s->results[r].size() == results[r].dims.size());
        for (std::size_t d = 0; d < results[r].dims.size(); ++d) {
          const auto& dim = s->results[r][d];
          std::int64_t product = 1;
          for (const auto k : dim.indices) {
            product *= s->indices[k].size;
          }
          CHECK((dim.window ? s->windows[*dim.window].extent : product) == results[r].dims[d]);
        }
      }
      std::vector<dense<double>> values;
      std::vector<dense<float>> rounded;
      std::vector<dense<modular61>> residues;
      for (const auto& t : inputs) {
        values.push_back(random_like<double>(t.dims, random));
        for (auto& x : values.back().data) {
          x = is_real(t) ? x + std::copysign(0.25, x) : static_cast<double>(random.below(4));
        }
        rounded.push_back({t.dims, {values.back().data.begin(), values.back().data.end()}});
        residues.push_back(random_like<modular61>(t.dims, random));
      }
      const auto exact = evaluate<double>(training(), op, values, inputs);
      const auto single = evaluate<float>(training(), op, rounded, inputs);
      const auto modular = evaluate<modular61>(training(), op, residues, inputs);
      // Compares all results together: the cotangent of a mask that is equal for all keys is 0 up to rounding.
      std::vector<double> expected;
      std::vector<double> found;
      for (std::size_t r = 0; r < results.size(); ++r) {
        CHECK(exact[r].dims == results[r].dims);
        CHECK(modular[r].dims == results[r].dims);
        expected.insert(expected.end(), exact[r].data.begin(), exact[r].data.end());
        found.insert(found.end(), single[r].data.begin(), single[r].data.end());
      }
      const shape all{static_cast<std::int64_t>(expected.size())};
      const bool finite = std::all_of(expected.begin(), expected.end(), [](double x) { return std::isfinite(x); });
      CHECK((!finite || distance({all, found}, {all, expected}) < 1e-3));
    }
  });
  // The parts of pooling's adjoints occur only inside other operators.
  for (const auto& gradient : gradient_operators()) {
    const auto& name = gradient.signature.name;
    CAPTURE(name);
    CHECK((seen.contains(name) || name == "pool_counts" || name == "pool_scatter" || name == "pool_ties" ||
           name == "pool_select"));
  }
}

TEST_CASE("adjoints of max pooling and reduce_max divide the cotangent equally among tied maxima", "[adjoint]") {
  const auto half = [](const char* name, const attributes& a, const shape& dims, const shape& out) {
    const auto op = standard().make_operation(name, a);
    const types inputs{type(dims)};
    dense<double> x{dims};
    x.data = {1, 3, 3, 2};
    const std::vector at{x};
    const auto y = evaluate<double>(training(), op, at, inputs);
    dense<double> cotangent{out};
    cotangent.data = {8};
    return cotangents_of(adjoint_of(training(), op, inputs), at, y, {cotangent})[0].data;
  };
  const std::vector<double> expected{0, 4, 4, 0};
  CHECK(half("max_pool", {{"kernel", {2, 2}}}, {1, 1, 2, 2}, {1, 1, 1, 1}) == expected);
  CHECK(half("reduce_max", {{"axes", {0}}, {"keep_dims", 0}}, {4}, {}) == expected);
  CHECK(half("global_max_pool", {}, {1, 1, 2, 2}, {1, 1, 1, 1}) == expected);
}

TEST_CASE("the gradient of a norm is 0 where the norm is 0", "[adjoint]") {
  const auto gradient = [](const char* name, const attributes& a, const shape& out) {
    const auto op = standard().make_operation(name, a);
    const types inputs{type({3, 2})};
    const std::vector at{dense<double>{{3, 2}, {0, 0, 3, -4, 0, 2}}};
    const auto y = evaluate<double>(training(), op, at, inputs);
    dense<double> cotangent{out};
    std::fill(cotangent.data.begin(), cotangent.data.end(), 5);
    return cotangents_of(adjoint_of(training(), op, inputs), at, y, {cotangent})[0].data;
  };
  const std::vector<double> expected{0, 0, 3, -4, 0, 5};
  CHECK(gradient("reduce_l2", {{"axes", {1}}}, {3, 1}) == expected);
  CHECK(gradient("reduce_l2", {{"axes", {1}}, {"keep_dims", 0}}, {3}) == expected);
  for (const auto g : gradient("lp_norm", {{"axis", 1}}, {3, 2})) {
    CHECK(std::isfinite(g));
  }
}

TEST_CASE("adjoint_of reports why an adjoint cannot be built", "[adjoint]") {
  const auto message = [](const algebra& a, const operation& op, const types& inputs) -> std::string {
    try {
      static_cast<void>(adjoint_of(a, op, inputs));
    } catch (const unity::error& e) {
      return e.what();
    }
    return "";
  };
  const auto opaque =
      standard().make_operation("opaque", {{"name", "x"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 5}}});
  CHECK(message(training(), opaque, {type({5})}) ==
        "adjoint of x: no derivative; expected an operator with a known meaning");
  CHECK(message(standard(), standard().make_operation("relu"), {type({5})}) ==
        "operator relu_gradient: no definition; expected the name of an operator");
  CHECK(message(training(), standard().make_operation("matmul"), {type({5})}).find("expected") != std::string::npos);
}

TEST_CASE("adjoints omit integer operands and casts to integers", "[adjoint]") {
  const auto embedding =
      adjoint_of(training(), standard().make_operation("embedding"), types{type({7, 3}), type({4}, dtype::int64)});
  CHECK(embedding.operands == std::vector<std::size_t>{0});
  const auto cast = standard().make_operation("cast", {{"element", "int32"}});
  CHECK(adjoint_of(training(), cast, types{type({7})}).operands.empty());
}

TEST_CASE("adjoints of a user-defined primitive and composite are derived", "[adjoint]") {
  auto a = training_algebra();
  const auto silu = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::x(0) * kernels::apply(scalar_op::sigmoid, kernels::x(0));
  };
  const auto each = [](space& s, const attribute_reader&) { operators::iterate_each(s, dtype::float32); };
  a.add(define("silu", 1, 1, {}, primitive{each, silu}));
  a.add(define("silu_square", 1, 1, {},
               composite{[](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
                 const auto y = b.add("silu", {x[0]});
                 return std::vector{b.add("mul", {y, y})};
               }}));
  unity::random_engine random{5};
  const types inputs{type({3, 4})};
  for (const char* name : {"silu", "silu_square"}) {
    const auto op = a.make_operation(name);
    const auto adjoint = adjoint_of(a, op, inputs);
    const auto x = random_like<double>({3, 4}, random);
    const auto y = evaluate<double>(a, op, std::vector{x}, inputs)[0];
    const auto one = tabulate({3, 4}, [](const shape&) { return 1.0; });
    const double* given[] = {x.data.data(), y.data.data(), one.data.data()};
    const auto found =
        unity::tensor::detail::evaluate_body<double>(a, adjoint.graph, std::span<const double* const>{given})[0];
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      const auto s = 1 / (1 + std::exp(-x.data[i]));
      const auto slope = s + x.data[i] * s * (1 - s);
      const bool squared = std::string{name} == "silu_square";
      CHECK(found.data[i] == Approx(squared ? 2 * x.data[i] * s * slope : slope));
    }
  }
}

TEST_CASE("an operator whose first result is an integer has the adjoint of its real result", "[adjoint]") {
  auto a = training_algebra();
  a.add(define("whole_and_square", 1, 2, {},
               composite{[](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
                 return std::vector{b.add("cast", {x[0]}, {{"element", "int32"}}), b.add("mul", {x[0], x[0]})};
               }}));
  const types inputs{type({3})};
  const auto op = a.make_operation("whole_and_square");
  const auto adjoint = adjoint_of(a, op, inputs);
  REQUIRE(adjoint.operands == std::vector<std::size_t>{0});
  const std::vector<double> x{1.5, -2, 0.25};
  const std::vector<double> whole{1, -2, 0};
  const std::vector<double> square{2.25, 4, 0.0625};
  const std::vector<double> none{0, 0, 0};  // in the place of the cotangent that an integer has not
  const std::vector<double> cotangent{1, 3, -4};
  const double* given[] = {x.data(), whole.data(), square.data(), none.data(), cotangent.data()};
  const auto found =
      unity::tensor::detail::evaluate_body<double>(a, adjoint.graph, std::span<const double* const>{given})[0];
  CHECK(found.data == std::vector<double>{3, -12, -2});
}

TEST_CASE("adjoints of sums over user-defined kernels agree with central differences", "[adjoint]") {
  using kernels::x;
  const std::vector<scalar_kernel> terms{(x(0) - x(1)) * (x(0) - x(1)),                // read twice
                                         x(0) * x(0),                                  // one operand; j repeats it
                                         x(0) + x(1),                                  // no operand has all indices
                                         x(0) * x(1) * x(2),                           // three factors
                                         kernels::apply(scalar_op::exp, x(0) * x(1)),  // its derivative is its value
                                         kernels::apply(scalar_op::tanh, x(1)),        // not of all indices
                                         kernels::apply(scalar_op::abs, x(0)) / x(2) - x(1),  // of different dimensions
                                         kernels::literal(3) * kernels::apply(scalar_op::sigmoid, x(0) - x(2)) * x(1)};
  const auto iteration = [](space& s, const attribute_reader&) {
    const auto i = s.parallel("i"), j = s.parallel("j"), k = s.reduced("k");
    s.read({i, k});
    s.read({j, k});
    s.read({k, {}});
    s.write({i, j});
  };
  const types inputs{type({2, 3}), type({4, 3}), type({3, 1})};
  unity::random_engine random{7};
  for (std::size_t t = 0; t < terms.size(); ++t) {
    for (const bool root : {false, true}) {  // the sum itself, or a function of it
      CAPTURE(t, root);
      auto a = training_algebra();
      const auto kernel = [&](const attribute_reader&, std::span<const tensor_type>) {
        const auto sum = kernels::sum(terms[t]);
        return root ? kernels::apply(scalar_op::tanh, sum) : sum;
      };
      a.add(define("own", 3, 1, {}, primitive{iteration, kernel}));
      const auto op = a.make_operation("own");
      std::vector<dense<double>> at;
      std::vector<dense<double>> direction;
      for (const auto& each : inputs) {
        at.push_back(random_like<double>(each.dims, random));
        direction.push_back(random_like<double>(each.dims, random));
        for (auto& e : at.back().data) {
          e = std::copysign(0.3 + 0.5 * std::abs(e), e);  // away from 0
        }
      }
      const auto cotangent = random_like<double>({2, 4}, random);
      const auto adjoint = adjoint_of(a, op, inputs);
      const auto y = evaluate<double>(a, op, at, inputs)[0];
      const double* given[] = {at[0].data.data(), at[1].data.data(), at[2].data.data(), y.data.data(),
                               cotangent.data.data()};
      const auto found =
          unity::tensor::detail::evaluate_body<double>(a, adjoint.graph, std::span<const double* const>{given});
      double derived = 0;
      for (std::size_t o = 0; o < found.size(); ++o) {
        derived += dot(found[o], direction[adjoint.operands[o]]);
      }
      constexpr double h = 1e-6;
      const auto moved = [&](double step) {
        auto there = at;
        for (std::size_t o = 0; o < there.size(); ++o) {
          for (std::size_t e = 0; e < there[o].data.size(); ++e) {
            there[o].data[e] += step * direction[o].data[e];
          }
        }
        return dot(evaluate<double>(a, op, there, inputs)[0], cotangent);
      };
      CHECK(derived == Approx((moved(h) - moved(-h)) / (2 * h)).epsilon(1e-6).margin(1e-7));
    }
  }
}

}  // namespace tests_of_adjoint
