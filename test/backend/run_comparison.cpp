#include <unity/backend/run_comparison.hpp>

#include <catch2/catch.hpp>

#include <string>

#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/operators.hpp"

namespace tests_of_run_comparison {

namespace {

using namespace unity;
using namespace unity::backend;
using unity::test::standard::operators;

tensor::tensor_graph relus(int count) {
  tensor::builder b{operators()};
  auto x = b.input("x", {32, 32});
  for (int i = 0; i < count; ++i) {
    x = b.relu(x);
  }
  return std::move(b).finish({x});
}
comparison_options quick() {
  comparison_options o;
  o.run.fuse = false;
  o.repeat.seconds = 0;
  return o;
}

TEST_CASE("comparing equal graphs finds no error and times both equally often") {
  reference_backend b{operators()};
  const auto found = compare_runs(b, operators(), relus(40), relus(1), quick());
  CHECK(found.max_relative_error == 0);
  CHECK(found.first.repetitions == 5);
  CHECK(found.second.repetitions == 5);
  CHECK(found.first_counts.launches == 40);
  CHECK(found.second_counts.launches == 1);
  CHECK(found.first.median > found.second.median);
}

TEST_CASE("comparing graphs makes at most the given number of repetitions") {
  reference_backend b{operators()};
  auto o = quick();
  o.repeat.seconds = 1e9;
  o.repeat.most = 12;
  CHECK(compare_runs(b, operators(), relus(1), relus(1), o).first.repetitions == 12);
}

TEST_CASE("comparing differing graphs reports their relative error") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {32, 32});
  const auto other = std::move(b).finish({b.add(b.relu(x), b.relu(x))});
  reference_backend backend{operators()};
  CHECK(compare_runs(backend, operators(), relus(1), other, quick()).max_relative_error == Approx(1));
}

TEST_CASE("comparing graphs with differing outputs is refused") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {32, 32});
  const auto two = std::move(b).finish({b.relu(x), b.tanh(x)});
  reference_backend backend{operators()};
  CHECK_THROWS_WITH(compare_runs(backend, operators(), relus(1), two, quick()),
                    Catch::Contains("2 outputs; expected 1"));
  tensor::builder c{operators()};
  const auto other = std::move(c).finish({c.relu(c.input("x", {32, 16}))});
  CHECK_THROWS_WITH(compare_runs(backend, operators(), relus(1), other, quick()),
                    Catch::Contains("output 0 of the second graph"));
}

TEST_CASE("timing one graph makes the requested number of repetitions") {
  reference_backend b{operators()};
  const auto g = relus(3);
  executor run{b, operators(), g, {.fuse = false}};
  const auto found = time_runs(run, {.least = 7, .seconds = 0});
  CHECK(found.repetitions == 7);
  CHECK(found.median > picoseconds{});
}

TEST_CASE("a graph with an operator without a kernel is refused by its node") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto fine = std::move(b).finish({b.relu(x)});
  reference_backend backend{operators()};
  CHECK_NOTHROW(expect_kernels(backend, operators(), fine));
  tensor::builder c{operators()};
  const auto unknown = c.apply("opaque", {c.input("x", {2, 3})},
                               {{"name", "m"}, {"signature", "s"}, {"elements", {0}}, {"dims", {1, 4}}})[0];
  CHECK_THROWS_WITH(expect_kernels(backend, operators(), std::move(c).finish({unknown})),
                    Catch::Contains("node 1 (opaque)"));
}

}  // namespace

}  // namespace tests_of_run_comparison
