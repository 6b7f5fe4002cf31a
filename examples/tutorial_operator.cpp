// Tutorial 1: a new operator, defined in one place. The library derives everything else.
//
// run:
#include <array>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>

using namespace unity::tensor;

// d[i, j] = sum over k of (x[i, k] - y[j, k])^2
definition squared_distance() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_floating()) {
      const auto i = s.parallel("i"), j = s.parallel("j"), k = s.reduced("k");
      s.read({i, k});
      s.read({j, k});
      s.write({i, j});
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    const auto difference = kernels::x(0) - kernels::x(1);
    return kernels::sum(difference * difference);
  };
  return define("squared_distance", 2, 1, {}, primitive{iteration, kernel});
}

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

int main() {
  auto operators = standard_algebra();
  operators.add(squared_distance());

  builder b{operators};
  const auto x = b.input("x", {2, 3});
  const auto y = b.input("y", {4, 3});
  const auto distance = b.apply("squared_distance", {x, y})[0];
  check(b.dims(distance) == shape{2, 4}, "its shape is inferred");

  const auto op = operators.make_operation("squared_distance");
  const std::array<tensor_type, 2> types{b.type(x), tensor_type{.dims = {4, 5}}};
  check(operators.why_not(op, types) == "agreement with the size of k in operand 1",
        "operands that do not fit are told why");

  const std::array<tensor_type, 2> points{tensor_type{.dims = {1, 2}}, tensor_type{.dims = {2, 2}}};
  const std::vector<dense<double>> values{{{1, 2}, {0, 0}}, {{2, 2}, {3, 4, 1, 0}}};
  const auto found = evaluate<double>(operators, op, std::span{values}, points);
  check(found[0] == dense<double>{{1, 2}, {25, 1}}, "it is evaluated");

  const std::array result{tensor_type{.dims = {1, 2}}};
  const auto work = operators.work(op, points, result);
  check(work.operations.count() == 1 * 2 * 2 * 4, "its arithmetic is counted: sub, sub, mul, add at every point");
  check(work.moved.count() == (2 + 4 + 2) * 4, "and its memory traffic: every element once");
  return failures;
}
