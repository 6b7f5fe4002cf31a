// What checks of equivalence need of an evaluation: which rounding a value has met, when two outputs differ by more
// than that, where NaN arises, and weights that keep magnitudes.

#include <unity/tensor/detail/checked_evaluation.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/source_values.hpp>

#include "../../support/cases.hpp"
#include "../testing.hpp"

namespace tests_of_checked_evaluation {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::detail::checked_evaluation;
using unity::tensor::detail::relative_error;
using unity::tensor::detail::rounded_output;
using unity::tensor::detail::source_values;
using unity::tensor::detail::value_rounding;
using unity::tensor::test::standard;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr dtype all_elements[] = {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16, dtype::int64,
                                  dtype::int32,   dtype::int8,    dtype::uint8,   dtype::boolean};

// The value as the element type stores it.
double stored(dtype t, double x) {
  switch (t) {
    case dtype::float32: return static_cast<double>(static_cast<float>(x));
    case dtype::float16: return static_cast<double>(from_float16(to_float16(x)));
    case dtype::bfloat16: return static_cast<double>(from_bfloat16(to_bfloat16(x)));
    default: return x;
  }
}

// Data for the sources whose name begins with "g"; integers if "i" follows.
std::optional<dense<double>> given(std::string_view name) {
  if (name[0] != 'g') {
    return std::nullopt;
  }
  const auto size = static_cast<double>(name.size());
  return name[1] == 'i' ? dense<double>{{3}, {0, 1, size}} : dense<double>{{3}, {0.7, -1.9, size / 3}};
}

source_roles roles_of(const tensor_graph& g) {
  source_roles roles{standard()};
  roles.read(g);
  return roles;
}

value_id as(builder& b, value_id v, dtype t) { return b.apply("cast", {v}, {{"element", name_of(t)}})[0]; }

// Sources with and without given data, fills, casts between element types, and sums of earlier values. All values are
// outputs.
tensor_graph random_graph(random_engine& random) {
  builder b{standard()};
  std::vector<value_id> values;
  const auto any_type = [&] { return all_elements[random.below(8)]; };
  const auto any_value = [&] { return values[random.below(values.size())]; };
  for (std::size_t i = 0; i < 14; ++i) {
    const auto what = i < 3 ? i : random.below(8);
    const auto element = any_type();
    const auto name = fmt::format("{}{}{}", random.below(2) == 0 ? "g" : "x", is_floating(element) ? "r" : "i", i);
    if (what == 0) {
      values.push_back(b.input(name, {3}, element));
    } else if (what == 1) {
      values.push_back(b.weight(name, {3}, element));
    } else if (what == 2) {
      values.push_back(b.fill(random.unit(), {3}));
    } else if (what < 6) {
      values.push_back(as(b, any_value(), any_type()));
    } else {
      const auto x = any_value();
      values.push_back(as(b, any_value(), b.type(x).element));
      values.push_back(b.add(x, values.back()));
    }
  }
  std::vector<value_id> all;
  for (const auto v : value_ids(b.graph())) {
    all.push_back(v);
  }
  return std::move(b).finish(all);
}

// Whether `v` is or depends on a value that satisfies the predicate.
template <class Predicate>
bool depends(const tensor_graph& g, value_id v, const Predicate& is) {
  const auto operands = g.operands(g.producer(v));
  return is(v) || std::any_of(operands.begin(), operands.end(), [&](value_id o) { return depends(g, o, is); });
}

double unit_of(dtype t) {
  return t == dtype::float64    ? 0x1p-53
         : t == dtype::float32  ? 0x1p-24
         : t == dtype::float16  ? 0x1p-11
         : t == dtype::bfloat16 ? 0x1p-8
                                : 0;
}

bool is_ungiven_source(const tensor_graph& g, value_id v) {
  const auto& op = g.operation(g.producer(v));
  return standard().definition_of(op.kind).source != source_kind::none && standard().read(op).word("name")[0] != 'g';
}

double root_mean_square(const dense<double>& t) {
  double squares = 0;
  for (const auto x : t.data) {
    squares += x * x;
  }
  return std::sqrt(squares / static_cast<double>(t.data.size()));
}

// The operation and type of the source with this name, for source_values::get.
dense<double> source_of(const tensor_graph& g, const source_values& sources, std::string_view name) {
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (standard().definition_of(op.kind).source != source_kind::none && standard().read(op).word("name") == name) {
      return sources.get<double>(op, g.type(g.results(n)[0]));
    }
  }
  return {};
}

}  // namespace

TEST_CASE("unit_roundoff is half the distance from 1 to the next number of the element type") {
  for (const auto t : all_elements) {
    CAPTURE(name_of(t));
    const auto unit = tensor::detail::unit_roundoff(t);
    CHECK((unit > 0) == is_floating(t));
    if (is_floating(t)) {
      CHECK(stored(t, 1 + 2 * unit) == 1 + 2 * unit);
      CHECK(stored(t, 1 + unit) == 1);  // a tie, to even
      if (t != dtype::float64) {
        CHECK(stored(t, 1 + 1.25 * unit) == 1 + 2 * unit);
      }
      CHECK((1 + 2 * unit) - 1 == 2 * unit);
    }
  }
}

TEST_CASE("roundings and fixed decisions of values follow from all that they depend on", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  const source_data data = given;
  std::size_t decided = 0;
  constexpr std::uint64_t rounds = 200;
  for (std::uint64_t round = 0; round < unity::test::cases(rounds); ++round) {
    CAPTURE(round);
    const auto g = random_graph(random);
    const source_values sources{standard(), roles_of(g), data};
    const auto roundings = tensor::detail::roundings_of(standard(), g, sources);
    REQUIRE(roundings.size() == g.value_count());
    bool decides = false;
    std::vector<bool> fixed;
    for (const auto v : value_ids(g)) {
      CAPTURE(v.index());
      const bool varies = depends(g, v, [&](value_id o) { return is_ungiven_source(g, o); });
      CHECK(roundings[v.index()].varies == varies);
      const auto unit = roundings[v.index()].unit;
      CHECK_FALSE(depends(g, v, [&](value_id o) { return unit_of(g.type(o).element) > unit; }));
      CHECK((unit == 0 || depends(g, v, [&](value_id o) { return unit_of(g.type(o).element) == unit; })));
      fixed.push_back(!varies);
      decides = decides || (!varies && unit > 0 && !is_floating(g.type(v).element));
    }
    decided += decides ? 1 : 0;
    // Each node has one result here, so nodes and values have the same numbers.
    CHECK(tensor::detail::fixed_decisions(g, roundings) == (decides ? fixed : std::vector<bool>{}));
  }
  CHECK(decided > 0);
  CHECK(decided < unity::test::cases(rounds));
}

TEST_CASE("relative_error is the largest difference in units of the largest element") {
  const dense<double> a{{4}, {1, -8, 2, 0.5}};
  CHECK(relative_error(a, a) == 0);
  CHECK(relative_error(a, {{4}, {1, -8, 3, 0.25}}) == 1.0 / 8);
  CHECK(relative_error(a, {{4}, {1, 8, 3, 0.25}}) == 2);
  CHECK(relative_error(a, {{4}, {1, -8, 2, nan}}) == infinite);
  CHECK(relative_error(a, {{4}, {1, -8, 2, infinite}}) == infinite);
  // Infinities count only if they differ, and are no scale.
  CHECK(relative_error({{3}, {infinite, 4, nan}}, {{3}, {infinite, 5, nan}}) == 1.0 / 4);
  CHECK(relative_error({{2}, {infinite, 4}}, {{2}, {-infinite, 4}}) == infinite);
  CHECK(relative_error({{1}, {nan}}, {{1}, {1}}) == infinite);
  // Elements near zero are no scale either.
  CHECK(relative_error({{1}, {0}}, {{1}, {1e-12}}) == Approx(1e-4));
  CHECK(relative_error({{0}, {}}, {{0}, {}}) == 0);
}

TEST_CASE("rounded_output tells real numbers apart if they differ by more than the first graph's own noise") {
  const dense<double> real{{2}, {1, 0.5}};
  const auto off_by = [](double error) { return dense<double>{{2}, {1, 0.5 + error}}; };
  constexpr double unit = 0x1p-11;
  constexpr double tolerance = 1e-7;
  rounded_output exact{dtype::float16, {true, unit}};
  CHECK_FALSE(exact.differs(real, real, real, tolerance));
  CHECK(exact.error() == 0);
  CHECK_FALSE(exact.differs(real, real, off_by(31 * unit), tolerance));
  CHECK(exact.error() == Approx(31 * unit));
  CHECK(exact.differs(real, real, off_by(33 * unit), tolerance));
  CHECK_FALSE(exact.differs(real, real, off_by(33 * unit), 2 * unit));
  rounded_output noisy{dtype::float16, {true, unit}};
  CHECK_FALSE(noisy.differs(real, off_by(10 * unit), off_by(-90 * unit), tolerance));  // noise 10, difference 100
  CHECK(noisy.differs(real, off_by(10 * unit), off_by(-110 * unit), tolerance));
  // The noise of earlier points counts: it is estimated on all.
  CHECK_FALSE(noisy.differs(real, real, off_by(100 * unit), tolerance));
  CHECK(exact.differs(real, real, off_by(100 * unit), tolerance));
  rounded_output sharp{dtype::float64, {true, 0x1p-53}};
  CHECK(sharp.differs(real, real, off_by(2e-7), tolerance));
  CHECK_FALSE(sharp.differs(real, real, off_by(0.9e-7), tolerance));
  CHECK(sharp.differs(real, real, {{2}, {1, nan}}, tolerance));
}

TEST_CASE("rounded_output tells integers apart by how many elements differ") {
  dense<double> real{{100}};
  for (std::size_t i = 0; i < 100; ++i) {
    real.data[i] = static_cast<double>(i);
  }
  const auto changed = [&](std::size_t count) {
    auto other = real;
    for (std::size_t i = 0; i < count; ++i) {
      other.data[i] += 1;
    }
    return other;
  };
  for (const value_rounding exact : {value_rounding{false, 0}, {true, 0}, {false, 0x1p-24}}) {
    rounded_output integers{dtype::int64, exact};
    CHECK_FALSE(integers.differs(real, real, real, 0.5));
    CHECK(integers.differs(real, real, changed(1), 0.5));  // a decision that is the same at every point
    CHECK(integers.error() == Approx(0.01));
    CHECK_FALSE(integers.differs(changed(5), real, real, 0.5));
  }
  // Real numbers that vary decide the integers, so some may fall on either side: as many as rounding explains.
  rounded_output decided{dtype::int64, {true, 0x1p-24}};
  CHECK(decided.differs(real, real, changed(1), 0));
  CHECK_FALSE(decided.differs(changed(5), real, changed(33), 0));  // 1 - 0.95^8 is 0.337
  CHECK(decided.differs(changed(5), real, changed(34), 0));
  rounded_output coarse{dtype::int64, {true, 0x1p-8}};
  CHECK_FALSE(coarse.differs(real, real, changed(12), 0));  // 32 units are an eighth
  CHECK(coarse.differs(real, real, changed(13), 0));
  rounded_output large{dtype::int64, {false, 0}};
  const dense<double> beyond{{1}, {0x1p60}};
  CHECK_FALSE(large.differs(beyond, beyond, {{1}, {0x1p60 + 0x1p9}}, 0));
  CHECK(large.differs(beyond, beyond, {{1}, {0x1p60 + 0x1p11}}, 0));
}

TEST_CASE("checked_evaluation rounds the results of the nodes that it is told to", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  const source_data data = given;
  for (std::uint64_t round = 0; round < unity::test::cases(100); ++round) {
    CAPTURE(round);
    const auto g = random_graph(random);
    source_values sources{standard(), roles_of(g), data};
    sources.move_to(random(), random.below(2) == 0);
    for (const auto rounds : {0, 1, 2}) {  // none, all, some
      std::vector<bool> rounded(rounds == 0 ? 0 : g.node_count(), true);
      for (std::size_t n = 0; rounds == 2 && n < rounded.size(); ++n) {
        rounded[n] = random.below(2) == 0;
      }
      std::vector<dense<double>> expected;
      for (const auto n : node_ids(g)) {
        const auto& op = g.operation(n);
        const auto& made = g.type(g.results(n)[0]);
        std::vector<dense<double>> operands;
        std::vector<tensor_type> types;
        for (const auto v : g.operands(n)) {
          operands.push_back(expected[v.index()]);
          types.push_back(g.type(v));
        }
        const bool is_source = standard().definition_of(op.kind).source != source_kind::none;
        expected.push_back(is_source ? sources.get<double>(op, made)
                                     : evaluate<double>(standard(), op, operands, types)[0]);
        for (auto& x : expected.back().data) {
          x = !rounded.empty() && rounded[n.index()] ? stored(made.element, x) : x;
        }
      }
      checked_evaluation<double> run{standard(), g, rounded};
      CHECK(run.run(sources) == expected);
      CHECK(run.problem().empty());
    }
  }
}

TEST_CASE("checked_evaluation names the first node that gives NaN, run by run") {
  double x = 0;
  const source_data data = [&](std::string_view) { return dense<double>{{1}, {x}}; };
  builder b{standard()};
  const auto v = b.input("x", {1});
  const auto root = b.apply("sqrt", {v})[0];
  const auto log = b.apply("log", {v})[0];
  const auto sum = b.add(root, log);
  const auto g = std::move(b).finish({sum});
  const source_values sources{standard(), roles_of(g), data};
  checked_evaluation<double> run{standard(), g};
  x = -1;
  CHECK(std::isnan(run.run(sources)[0].data[0]));
  CHECK(run.problem() == "node 1 (sqrt) gives NaN");
  x = 1;
  CHECK(run.run(sources)[0].data[0] == 1);
  CHECK(run.problem().empty());
  x = 0;  // infinite, but not NaN
  CHECK(run.run(sources)[0].data[0] == -infinite);
  CHECK(run.problem().empty());
  checked_evaluation<modular61> residues{standard(), g};
  static_cast<void>(residues.run(sources));
  CHECK(residues.problem().empty());
}

TEST_CASE("checked_evaluation gives opaque operators a meaning that depends on their name and operands") {
  const auto opaque = [](builder& b, value_id v, std::string_view name) {
    return b.apply("opaque", {v}, {{"name", name}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 4}}})[0];
  };
  builder b{standard()};
  const auto x = b.input("x", {5});
  const auto y = b.relu(x);
  const auto g =
      std::move(b).finish({opaque(b, x, "f"), opaque(b, b.relu(x), "f"), opaque(b, y, "f"), opaque(b, x, "h")});
  const source_data data;
  source_values sources{standard(), roles_of(g), data};
  const auto check = [&](const auto& f) {
    CHECK(f[1] == f[2]);  // a function
    CHECK_FALSE(f[0] == f[1]);
    CHECK_FALSE(f[0] == f[3]);
  };
  sources.move_to(1, false);
  checked_evaluation<double> run{standard(), g};
  const auto first = run.run(sources);
  check(first);
  check(checked_evaluation<modular61>{standard(), g}.run(sources));
  sources.move_to(2, false);
  CHECK_FALSE(run.run(sources)[0] == first[0]);
}

TEST_CASE("calibrated weights give products of magnitude one where they would grow or vanish", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t off = 0;  // how often the last product would not have this magnitude
  for (std::uint64_t round = 0; round < unity::test::cases(10); ++round) {
    CAPTURE(round);
    constexpr std::int64_t width = 24;
    builder b{standard()};
    auto x = b.input("x", {4, width});
    std::vector<value_id> products;
    for (std::size_t i = 0; i < 8; ++i) {
      auto w = b.weight(fmt::format("w{}", i), {width, width});
      w = random.below(3) == 0 ? b.transpose(w, {1, 0}) : w;  // behind a view
      x = b.matmul(x, w);
      products.push_back(x);
      x = random.below(2) == 0 ? b.relu(x) : b.mul(x, b.fill(random.below(2) == 0 ? 1e-3 : 3.0));
    }
    const auto g = std::move(b).finish(products);
    const source_data none;
    source_values sources{standard(), roles_of(g), none};
    for (const bool biased : {false, true}) {
      sources.move_to(random(), biased);
      const auto input = source_of(g, sources, "x");
      checked_evaluation<double> run{standard(), g};
      const auto before = run.run(sources);
      off += std::abs(std::log2(root_mean_square(before.back()))) > 1 ? 1 : 0;
      run.calibrate(sources);
      CHECK(source_of(g, sources, "x") == input);
      for (const auto& product : run.run(sources)) {
        const auto size = root_mean_square(product);
        CHECK(size >= 0.5 * (1 - 1e-9));
        CHECK(size <= 2 * (1 + 1e-9));
      }
      // Once is enough: another time changes nothing.
      const auto weight = source_of(g, sources, "w7");
      run.calibrate(sources);
      CHECK(source_of(g, sources, "w7") == weight);
    }
  }
  CHECK(off > 0);
}

TEST_CASE("calibration scales a weight once, at its first use") {
  constexpr std::int64_t width = 60;
  builder b{standard()};
  const auto x = b.input("x", {4, width});
  const auto w = b.weight("w", {width, width});
  const auto once = b.matmul(x, w);
  const auto twice = b.matmul(once, w);
  const auto small = b.weight("small", {2, 80});
  const auto both = b.matmul(small, b.weight("large", {80, width}));
  const auto g = std::move(b).finish({once, twice, both});
  const source_data none;
  source_values sources{standard(), roles_of(g), none};
  sources.move_to(3, false);
  checked_evaluation<double> run{standard(), g};
  const auto before = run.run(sources);
  const auto w_before = source_of(g, sources, "w");
  const auto small_before = source_of(g, sources, "small");
  const auto large_before = source_of(g, sources, "large");
  const auto size = root_mean_square(before[0]);
  REQUIRE(size > 2);
  run.calibrate(sources);
  const auto w_after = source_of(g, sources, "w");
  for (std::size_t i = 0; i < w_before.data.size(); ++i) {
    REQUIRE(w_after.data[i] == Approx(w_before.data[i] / size));
  }
  const auto after = run.run(sources);
  CHECK(root_mean_square(after[0]) == Approx(1));
  CHECK(root_mean_square(after[1]) == Approx(root_mean_square(before[1]) / (size * size)));
  // Of two weights the larger one is scaled: a product is linear in each.
  CHECK(source_of(g, sources, "small") == small_before);
  CHECK_FALSE(source_of(g, sources, "large") == large_before);
}

}  // namespace tests_of_checked_evaluation
