// The features of table 4.2 on published graphs.
#include <unity/gnn/vertex_features.hpp>

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include <unity/gnn/csr_graph.hpp>
#include <unity/io/vertex_dataset.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_published_features {

using namespace unity;

TEST_CASE("Cora and Citeseer with self edges have the published runs and reads", "[shared]") {
  struct published {
    const char* name;
    std::uint64_t runs;
    std::uint64_t reads;
  };
  for (const auto& set : {published{"cora", 12271, 12272}, published{"citeseer", 11893, 11893}}) {
    CAPTURE(set.name);
    const auto file = test::shared_file(std::string{"data/graphs/"} + set.name + ".graph.gz");
    if (!file) {
      return;
    }
    const auto data = io::read_vertex_dataset(file->parent_path() / set.name);
    const auto g = gnn::with_self_edges(data.graph);
    const gnn::vertex_feature_sums sums{g, {static_cast<std::uint32_t>(data.features.columns)}};
    const auto x = sums.total();
    CHECK(x[0] == g.vertices());
    CHECK(x[1] == g.edges());
    CHECK(x[2] == set.runs);
    CHECK(x[3] == set.reads);
    CHECK(x[4] >= x[1] * data.features.columns / 32);
    CHECK(x[4] <= x[1] * data.features.columns / 32 + x[2]);
  }
}

}  // namespace tests_of_published_features
