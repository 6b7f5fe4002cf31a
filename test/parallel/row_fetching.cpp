// Tables of which servers send rows: the bytes of rows, and when they are fewer than those of the table.
#include <unity/parallel/row_fetching.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "operators.hpp"

namespace tests_of_row_fetching {

using namespace unity;
using parallel::test::operators;
using tensor::dtype;

namespace {

constexpr std::int64_t table_bytes = 100 * 8 * 4;
constexpr std::int64_t row = 8 * 4;

// Lookups in a table of 100 rows of 8 numbers.
struct looked_up {
  tensor::tensor_graph graph;
  parallel::training_graph training;
  parallel::strategy configurations;

  explicit looked_up(tensor::tensor_graph g)
      : graph{std::move(g)}, training{operators(), graph}, configurations(graph.node_count()) {}

  [[nodiscard]] const parallel::weight_uses& table() const { return training.weights()[0]; }
  // Puts the k-th lookup on these devices.
  void put(std::size_t k, std::initializer_list<std::size_t> devices) {
    auto& c = configurations[table().uses[k].node.index()];
    c.devices = {};
    for (const auto d : devices) {
      c.devices.push_back(hardware::device_id{d});
    }
  }
};

tensor::tensor_graph single() {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {100, 8});
  return std::move(b).finish({b.embedding(table, b.input("ids", {4, 5}, dtype::int64))});
}

parallel::weight_sync served(std::size_t parts) {
  parallel::synchronizer s;
  s.kind = parallel::sync_kind::parameter_server;
  s.destination = hardware::device_id{std::size_t{0}};
  s.is_sparse = true;
  s.is_proxied = false;
  return {0, std::vector<parallel::synchronizer>(parts, s)};
}

}  // namespace

TEST_CASE("fetched rows are one per index with its index, or one per bag with all its indices") {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {100, 8});
  const auto rows = b.embedding(table, b.input("ids", {4, 5}, dtype::int64));
  const auto bags = b.embedding_bag(table, b.input("bags", {6, 3}, dtype::int32));
  const looked_up x{std::move(b).finish({rows, bags})};
  REQUIRE(x.table().uses.size() == 2);
  auto one = x.table();
  one.uses.pop_back();
  CHECK(row_bytes(operators(), x.graph, one) == bytes{20 * 8 + 20 * row});
  CHECK(row_bytes(operators(), x.graph, x.table()) == bytes{20 * 8 + 20 * row + 18 * 4 + 6 * row});
  one.uses = {x.table().uses[1]};
  CHECK(row_bytes(operators(), x.graph, one) == bytes{18 * 4 + 6 * row});
}

TEST_CASE("reading_devices counts each device of all lookups once") {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {100, 8});
  const auto ids = b.input("ids", {4}, dtype::int64);
  const auto first = b.embedding(table, ids);
  const auto second = b.embedding(table, ids);
  looked_up x{std::move(b).finish({first, second})};
  REQUIRE(x.table().uses.size() == 2);
  x.put(0, {0, 1, 1});
  CHECK(reading_devices(x.configurations, x.table()) == 2);
  x.put(1, {1, 3});
  CHECK(reading_devices(x.configurations, x.table()) == 3);
}

TEST_CASE("rows are fetched only if all parts are served without copies and rows are fewer bytes") {
  looked_up x{single()};
  const auto are_fetched = [&](const parallel::weight_sync& sync) {
    return are_rows_fetched(operators(), x.graph, x.configurations, x.table(), sync);
  };
  constexpr std::int64_t rows = 20 * 8 + 20 * row;
  static_assert(4 * rows == table_bytes);
  x.put(0, {2});
  CHECK(are_fetched(served(1)));
  CHECK(are_fetched(served(3)));
  CHECK_FALSE(are_fetched(served(4)));  // each of four servers sends as many rows: as many bytes as the table
  x.put(0, {2, 3});
  CHECK(are_fetched(served(7)));  // the table would go to two devices
  CHECK_FALSE(are_fetched(served(8)));
  auto sync = served(2);
  sync.axis = 1;
  CHECK_FALSE(are_fetched(sync));
  sync = served(2);
  sync.parts[1].is_proxied = true;
  CHECK_FALSE(are_fetched(sync));
  sync = served(2);
  sync.parts[1].is_sparse = false;
  CHECK_FALSE(are_fetched(sync));
  sync = served(2);
  sync.parts[1].kind = parallel::sync_kind::all_reduce;
  CHECK_FALSE(are_fetched(sync));
  CHECK_FALSE(are_fetched({}));
}

}  // namespace tests_of_row_fetching
