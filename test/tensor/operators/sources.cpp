#include <unity/tensor/operators/sources.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/tensor/scalar.hpp>

#include "../testing.hpp"

namespace tests_of_sources {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("input / weight / constant have their declared type; weight and constant are constant") {
  for (const std::string name : {"input", "weight", "constant"}) {
    const auto op = standard().make_operation(name, {{"name", "x"}, {"element", "int32"}, {"dims", {2, 3}}});
    const auto t = standard().infer(op, {})->at(0);
    CHECK(t.element == dtype::int32);
    CHECK(t.dims == shape{2, 3});
    CHECK(t.constant == (name != "input"));
  }
  CHECK(refusal_of("input", {{"name", "x"}, {"dims", {2, 0}}}, {}) == "positive sizes");
  CHECK(refusal_of("weight", {{"name", "x"}, {"dims", {INT64_MAX, 2}}}, {}) ==
        "a result of positive sizes and a countable number of elements");
  CHECK(refusal_of("input", {{"name", "x"}, {"dims", shape(17, 1)}}, {}) ==
        "a result of positive sizes and a countable number of elements");
}

TEST_CASE("source values are determined by name and seed") {
  const auto value = [](const char* name, std::uint64_t seed) {
    return evaluate<double>(standard(), standard().make_operation("input", {{"name", name}, {"dims", {4}}}), {}, {},
                            seed)[0];
  };
  CHECK(value("x", 1) == value("x", 1));
  CHECK_FALSE(value("x", 1) == value("y", 1));
  CHECK_FALSE(value("x", 1) == value("x", 2));
}

TEST_CASE("arbitrary source values have the expected ranges per kind and element type") {
  const auto of = [](const char* kind, const char* element) {
    return evaluate<double>(standard(),
                            standard().make_operation(kind, {{"name", "x"}, {"element", element}, {"dims", {500}}}), {},
                            {})[0]
        .data;
  };
  const auto input = of("input", "float32");
  const auto weight = of("weight", "float32");
  const auto ids = of("input", "int64");
  const auto flags = of("input", "bool");
  CHECK(*std::min_element(input.begin(), input.end()) < -0.9);
  CHECK(*std::max_element(input.begin(), input.end()) > 0.9);
  CHECK(*std::min_element(weight.begin(), weight.end()) >= 0.125);
  CHECK(*std::max_element(ids.begin(), ids.end()) == 3);
  CHECK(*std::min_element(ids.begin(), ids.end()) == 0);
  CHECK(*std::max_element(flags.begin(), flags.end()) == 1);
}

TEST_CASE("constant tensors have exact elements in double and modulo a prime") {
  CHECK(run("fill", {{"value", 2.5}, {"dims", {2}}}, {}).data == std::vector<double>{2.5, 2.5});
  CHECK(run("fill", {{"value", 3.0}, {"dims", {}}}, {}) == dense<double>{{}, {3}});
  CHECK(run("identity_matrix", {{"size", 2}}, {}) == dense<double>{{2, 2}, {1, 0, 0, 1}});
  CHECK(run("pool_kernel", {{"channels", 2}, {"kernel", {1, 3}}}, {}) ==
        tabulate({2, 1, 1, 3}, [](const shape&) { return 1.0 / 3; }));
  CHECK(run("identity_kernel", {{"channels", 4}, {"groups", 2}, {"kernel", {1, 3}}}, {}) ==
        tabulate({4, 2, 1, 3}, [](const shape& p) { return p[0] % 2 == p[1] && p[3] == 1 ? 1.0 : 0.0; }));
  const auto third = evaluate<modular61>(
      standard(), standard().make_operation("pool_kernel", {{"channels", 1}, {"kernel", {1, 3}}}), {}, {})[0];
  CHECK(third.data[0] * modular61{3} == modular61{1});
}

TEST_CASE("constant tensors refuse invalid attributes") {
  CHECK(refusal_of("identity_kernel", {{"channels", 4}, {"kernel", {2, 3}}}, {}) == "an odd kernel");
  CHECK(refusal_of("identity_kernel", {{"channels", 4}, {"groups", 3}, {"kernel", {3, 3}}}, {}) ==
        "channels that are a multiple of groups");
  CHECK(refusal_of("pool_kernel", {{"channels", 4}, {"kernel", {0, 3}}}, {}) == "a positive kernel");
  CHECK(refusal_of("pool_kernel", {{"channels", 0}, {"kernel", {3, 3}}}, {}) == "positive channels");
  CHECK(refusal_of("identity_matrix", {{"size", -1}}, {}) == "a positive size");
}

}  // namespace tests_of_sources
