#include <unity/io/vertex_dataset.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/io/graph_text.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/vertex_files.hpp>

#include "../support/message_of.hpp"
#include "../support/shared_file.hpp"

namespace tests_of_vertex_dataset {

using namespace unity;
using gnn::vertex_role;

namespace {

struct scratch_folder {
  std::filesystem::path path = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "vertex_dataset";
  scratch_folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~scratch_folder() { std::filesystem::remove_all(path); }
};

gnn::vertex_dataset small() {
  return {gnn::csr_graph{{0, 1, 3}, {0, 0, 1}},
          gnn::feature_matrix{2, {1, 2, 3, 4}},
          {1, 0},
          2,
          {vertex_role::train, vertex_role::none}};
}

auto count(const gnn::vertex_dataset& data, vertex_role role) {
  return std::count(data.roles.begin(), data.roles.end(), role);
}

}  // namespace

TEST_CASE("a vertex data set survives a round trip through files with binary or CSV features") {
  const scratch_folder folder;
  const auto prefix = folder.path / "set";
  io::write_vertex_dataset(prefix, small());
  CHECK(io::read_vertex_dataset(prefix) == small());
  std::filesystem::remove(folder.path / "set.feats.bin");
  atomic_write(folder.path / "set.feats.csv", io::features_csv(small().features));
  CHECK(io::read_vertex_dataset(prefix) == small());
}

TEST_CASE("inconsistent vertex data set files are refused with the reason") {
  const scratch_folder folder;
  const auto prefix = folder.path / "set";
  const auto complaint = [&] { return test::message_of([&] { static_cast<void>(io::read_vertex_dataset(prefix)); }); };
  CHECK(complaint() ==
        prefix.string() + ".graph: cannot be read (No such file or directory); expected a readable file");
  io::write_vertex_dataset(prefix, small());
  atomic_write(folder.path / "set.label", "1\n");
  CHECK(complaint() == prefix.string() + ": 1 labels; expected one for each of the 2 vertices");
  atomic_write(folder.path / "set.label", "1\n2000000000\n");
  CHECK(complaint() == prefix.string() + ": vertex 1 has label 2000000000; expected a class below the 2 vertices");
  atomic_write(folder.path / "set.label", "1\n0\n");
  atomic_write(folder.path / "set.mask", "Train\n");
  CHECK(complaint() == prefix.string() + ": 1 roles; expected one for each of the 2 vertices");
  auto unknown = small();
  unknown.labels[1] = gnn::no_label;
  CHECK(test::message_of([&] { io::write_vertex_dataset(prefix, unknown); }) ==
        prefix.string() + ": vertex 1 without a class; expected one");
  unknown.roles[1] = vertex_role::test;
  CHECK(test::message_of([&] { io::write_vertex_dataset(prefix, unknown); }) ==
        prefix.string() + ": vertex 1 has label -1; expected one of the 2 classes");
}

TEST_CASE("an SVMlight label below 0 is refused, and a vertex without a label has none") {
  const scratch_folder folder;
  const auto prefix = folder.path / "text";
  atomic_write(folder.path / "text.graph", "1\n0\n");
  atomic_write(folder.path / "text.split", "1\n0\n");
  atomic_write(folder.path / "text.svmlight", "0 0:1\n \n");
  CHECK(io::read_vertex_dataset(prefix).labels == std::vector<std::int32_t>{0, gnn::no_label});
  atomic_write(folder.path / "text.svmlight", "0 0:1\n-1 0:1\n");
  CHECK(test::message_of([&] { static_cast<void>(io::read_vertex_dataset(prefix)); }) ==
        prefix.string() + ".svmlight: vertex 1 has label -1; expected a class, 0 or more");
}

TEST_CASE("Cora and Citeseer are read with their published sizes and their texts round-trip", "[shared]") {
  struct published {
    const char* name;
    gnn::vertex_id vertices;
    std::size_t columns;
    std::int32_t classes;
    std::ptrdiff_t training;
  };
  for (const auto& set : {published{"cora", 2708, 1433, 7, 140}, published{"citeseer", 3327, 3703, 6, 120}}) {
    CAPTURE(set.name);
    const auto graph = test::shared_file(std::string{"data/graphs/"} + set.name + ".graph.gz");
    if (!graph) {
      return;
    }
    auto prefix = graph->parent_path() / set.name;
    const auto data = io::read_vertex_dataset(prefix);
    CHECK(data.graph.vertices() == set.vertices);
    CHECK(gnn::is_symmetric(data.graph));
    CHECK(data.features.columns == set.columns);
    CHECK(data.classes == set.classes);
    CHECK(count(data, vertex_role::train) == set.training);
    CHECK(count(data, vertex_role::validation) == 500);
    CHECK(count(data, vertex_role::test) == 1000);

    const auto text_of = [&](const char* ending) {
      auto path = prefix;
      return io::read_packed(path += ending).front().text;
    };
    const auto neighbours = text_of(".graph.gz");
    CHECK((io::neighbours_text(io::parse_neighbours(neighbours, "")) == neighbours));
    const auto features = text_of(".svmlight.gz");
    CHECK((io::svmlight_text(io::parse_svmlight(features, "")) == features));
    const auto split = text_of(".split.gz");
    CHECK((io::split_text(io::parse_split(split, "")) == split));
  }
}

}  // namespace tests_of_vertex_dataset
