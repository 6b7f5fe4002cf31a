#include <unity/gnn/vertex_data.hpp>

#include <vector>

#include <catch2/catch.hpp>

#include "../support/message_of.hpp"

namespace tests_of_vertex_data {

using namespace unity;
using gnn::vertex_role;

TEST_CASE("a vertex data set needs features and a valid label for each vertex") {
  const gnn::vertex_dataset data{gnn::csr_graph{{0, 0, 0}, {}},
                                 {3, {1, 2, 3, 4, 5, 6}},
                                 {1, gnn::no_label},
                                 2,
                                 {vertex_role::train, vertex_role::none}};
  const auto complaint_of = [](const gnn::vertex_dataset& d) {
    return test::message_of([&] { gnn::check(d, "set"); });
  };
  CHECK(complaint_of(data).empty());
  CHECK(data.features.row(1)[0] == 4);
  CHECK(gnn::class_count(data.labels) == 2);
  CHECK(gnn::class_count({}) == 0);
  auto other = data;
  other.features.values.resize(3);
  CHECK(complaint_of(other) == "set: 1 rows of features; expected one for each of the 2 vertices");
  other = data;
  other.features.values.push_back(0);
  CHECK(complaint_of(other) == "set: 7 features; expected rows of 3");
  other = data;
  other.labels[0] = 2;
  CHECK(complaint_of(other) == "set: vertex 0 has label 2; expected one of the 2 classes");
  other = data;
  other.roles[1] = vertex_role::test;
  CHECK(complaint_of(other) == "set: vertex 1 has label -1; expected one of the 2 classes");
}

TEST_CASE("renumbering a vertex data set moves features and labels and roles with their vertices") {
  const gnn::vertex_dataset data{gnn::csr_graph{{0, 1, 1, 3}, {2, 0, 1}},
                                 {2, {1, 2, 3, 4, 5, 6}},
                                 {0, 1, gnn::no_label},
                                 2,
                                 {vertex_role::train, vertex_role::test, vertex_role::none}};
  const gnn::vertex_dataset moved{gnn::csr_graph{{0, 0, 2, 3}, {0, 2, 1}},
                                  {2, {3, 4, 5, 6, 1, 2}},
                                  {1, gnn::no_label, 0},
                                  2,
                                  {vertex_role::test, vertex_role::none, vertex_role::train}};
  CHECK(gnn::renumbered(data, std::vector<gnn::vertex_id>{2, 0, 1}) == moved);
  CHECK(gnn::renumbered(moved, std::vector<gnn::vertex_id>{1, 2, 0}) == data);
  auto without_values = [](gnn::vertex_dataset of) {
    of.features.values.clear();
    return of;
  };
  CHECK(gnn::renumbered(without_values(data), std::vector<gnn::vertex_id>{2, 0, 1}) == without_values(moved));
}

}  // namespace tests_of_vertex_data
