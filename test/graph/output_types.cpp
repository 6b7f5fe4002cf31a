#include <unity/graph/concepts.hpp>

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>

namespace tests_of_output_types {

using namespace unity;

TEST_CASE("output_types lists types in the order of the outputs with repetitions", "[output_types]") {
  compact_graph<int, std::string> g;
  CHECK(output_types(g).empty());
  const std::vector<std::string> types{"a", "b"};
  const auto n = g.add_node(1, {}, types);
  const std::vector<value_id> outputs{g.results(n)[1], g.results(n)[0], g.results(n)[1]};
  g.set_outputs(outputs);
  CHECK(output_types(g) == std::vector<std::string>{"b", "a", "b"});
}

}  // namespace tests_of_output_types
