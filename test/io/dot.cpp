#include <unity/io/dot.hpp>

#include <cstddef>
#include <string>

#include <catch2/catch.hpp>

#include <unity/tensor/builder.hpp>

namespace tests_of_dot {

namespace io = unity::io;
namespace tensor = unity::tensor;

namespace {

const tensor::algebra& standard() {
  static const tensor::algebra algebra = tensor::standard_algebra();
  return algebra;
}
tensor::tensor_graph small_graph() {
  tensor::builder b{standard()};
  const auto x = b.input("x \"1\"\\", {2, 3});
  const auto y = b.matmul(x, b.weight("w", {3, 4}), "relu");
  return std::move(b).finish({b.softmax(y, 1)});
}
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a DOT picture shows operators with non-default attributes and tensor sizes on edges") {
  const auto text = io::to_dot(standard(), small_graph(), {"a model"});
  CHECK_THAT(text, Catch::Contains("digraph \"a model\""));
  CHECK_THAT(text, Catch::Contains("matmul\\nactivation=relu") && Catch::Contains("softmax\\naxis=1"));
  CHECK_THAT(text, Catch::Contains("[label=\"2x3\"]") && Catch::Contains("[label=\"2x4\"]"));
  CHECK_THAT(text, !Catch::Contains("weight"));
  CHECK(count_of(text, " -> ") == 3);
}

TEST_CASE("a DOT picture shows weights if show_sources is set") {
  io::dot_options options;
  options.show_sources = true;
  CHECK_THAT(io::to_dot(standard(), small_graph(), options), Catch::Contains("weight\\nname=w"));
}

TEST_CASE("special characters of names are escaped or replaced in DOT") {
  CHECK_THAT(io::to_dot(standard(), small_graph()), Catch::Contains("name=x \\\"1\\\"\\\\"));
  CHECK(io::detail::dot_text("a\nb\xff") == "a.b.");
}

TEST_CASE("in DOT highlighted nodes have wider borders and operator families differ in colour") {
  io::dot_options options;
  options.highlighted = {unity::node_id{2U}};
  const auto text = io::to_dot(standard(), small_graph(), options);
  CHECK(count_of(text, "penwidth") == 1);
  CHECK(io::detail::dot_colour("matmul") != io::detail::dot_colour("reshape"));
  CHECK(io::detail::dot_colour("relu") == io::detail::dot_colour("gelu"));
}

TEST_CASE("a DOT comparison draws both graphs as clusters with separate node names") {
  const auto text = io::to_dot(standard(), small_graph(), {"before: 2 ms"}, small_graph(), {"after: 1 ms"});
  CHECK_THAT(text, Catch::Contains("subgraph cluster_before") && Catch::Contains("subgraph cluster_after"));
  CHECK_THAT(text, Catch::Contains("label=\"before: 2 ms\"") && Catch::Contains("b_n0") && Catch::Contains("a_n0"));
}

}  // namespace tests_of_dot
