#include <unity/io/dot.hpp>
#include <unity/parallel/box.hpp>

#include <cstddef>
#include <string>

#include <catch2/catch.hpp>

#include <unity/parallel/pcg/figure_plans.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_pcg_dot {

namespace io = unity::io;
namespace parallel = unity::parallel;
namespace tensor = unity::tensor;

namespace {

const parallel::pcg_algebra& parallel_algebra() {
  static const parallel::pcg_algebra a{tensor::training_algebra()};
  return a;
}
parallel::pcg figure_2b() {
  return parallel::figure_2b(parallel_algebra(),
                             tensor::zoo::build(parallel_algebra().operators(), "zoo:mlp?form=fig1"));
}
std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a DOT picture of a PCG colours operators and parallel operators differently") {
  const auto g = figure_2b();
  const auto text = io::to_dot(parallel_algebra(), g, "figure \"2b\"");
  CHECK(count_of(text, io::operator_colour) == 3);  // two products and a relu
  CHECK(count_of(text, "#e0e0e0") == 4);            // three sources and an output
  CHECK(count_of(text, io::parallel_operator_colour) == g.node_count() - 6);
  CHECK_THAT(text, Catch::Contains("digraph \"figure \\\"2b\\\"\""));
  CHECK_THAT(text, Catch::Contains("partition\\nof 1 by 2") && Catch::Contains("reduce\\nby 2") &&
                       Catch::Contains("replicate\\nby 2"));
  CHECK_THAT(text, Catch::Contains("weight\\nw1") && Catch::Contains("float32[64,512] partial 2"));
}

TEST_CASE("a DOT picture of a PCG has an edge for each operand and output") {
  const auto g = figure_2b();
  std::size_t edges = g.outputs().size();
  for (const auto n : unity::node_ids(g)) {
    edges += g.operands(n).size();
  }
  CHECK(count_of(io::to_dot(parallel_algebra(), g, "t"), " -> ") == edges);
}

}  // namespace tests_of_pcg_dot
