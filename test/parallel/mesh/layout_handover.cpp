// The time to hand a tensor over between layouts, counted element by element.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>

#include "../../support/cases.hpp"

namespace tests_of_layout_handover {

namespace {

using namespace unity;
using parallel::mesh_layout;

const tensor::tensor_type matrix{tensor::dtype::float32, tensor::layout::row_major, false, {8, 12}};

mesh_layout random_layout(random_engine& random, const hardware::device_mesh& m) {
  mesh_layout l;
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    l.set(a, random.below(3) == 0 ? mesh_layout::copies : static_cast<unsigned>(random.below(2)));
  }
  return l;
}
// The mesh of consecutive devices from `first` on.
hardware::device_mesh block(std::size_t first, hardware::mesh_sizes sizes) {
  hardware::device_mesh m{{}, sizes, {}};
  std::size_t count = 1;
  for (const auto s : sizes) {
    count *= static_cast<std::size_t>(s);
  }
  for (std::size_t d = 0; d < count; ++d) {
    m.devices.emplace_back(first + d);
  }
  return m;
}
bool has(const parallel::box& b, std::int64_t row, std::int64_t column) {
  return b.begin[0] <= row && row < b.end[0] && b.begin[1] <= column && column < b.end[1];
}

}  // namespace

TEST_CASE("blocks of a mesh layout have equal sizes and hold each element equally often") {
  const std::uint64_t seed = 3;
  INFO("seed " << seed);
  random_engine random{seed};
  const auto m = block(0, {2, 2});
  for (std::uint64_t i = 0; i < unity::test::cases(20); ++i) {
    const auto l = random_layout(random, m);
    std::int64_t held = 0;
    for (std::size_t p = 0; p < m.devices.size(); ++p) {
      const auto b = parallel::box_at(matrix.dims, m, l, p);
      CHECK(4 * b.volume() == parallel::shard_bytes(matrix, m, l).count());
      held += b.volume();
    }
    for (std::int64_t row = 0; row < 8; ++row) {
      for (std::int64_t column = 0; column < 12; ++column) {
        std::size_t copies = 0;
        for (std::size_t p = 0; p < m.devices.size(); ++p) {
          copies += has(parallel::box_at(matrix.dims, m, l, p), row, column) ? 1 : 0;
        }
        CHECK(static_cast<std::int64_t>(copies) == held / (8 * 12));
      }
    }
  }
}

TEST_CASE("a handover is free if no device lacks data; else it takes at least what one lacks") {
  const std::uint64_t seed = 4;
  INFO("seed " << seed);
  random_engine random{seed};
  const auto m = hardware::preset("p100:2x4");
  const hardware::route_table routes{m.network};
  std::size_t moved = 0;
  std::size_t free = 0;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const auto from = random.below(2) == 0 ? block(random.below(5), {2, 2}) : block(random.below(7), {2});
    const auto to = random.below(2) == 0 ? block(random.below(5), {4}) : block(random.below(8), {1});
    const auto held = random_layout(random, from);
    const auto read = random_layout(random, to);
    if (to.devices.size() == 4 && read[0] == 1U && 12 % 4 != 0) {
      continue;
    }
    const auto takes = parallel::handover(m, routes, matrix, from, held, to, read).count();
    double least = 0;  // lower bound: what the neediest device lacks, over the fastest link
    std::int64_t fastest = 1;
    for (const auto& c : m.network.cables()) {
      fastest = std::max(fastest, c.bytes_per_second);
    }
    for (std::size_t p = 0; p < to.devices.size(); ++p) {
      const auto wanted = parallel::box_at(matrix.dims, to, read, p);
      const auto here = std::find(from.devices.begin(), from.devices.end(), to.devices[p]);
      std::int64_t lacking = 0;
      for (std::int64_t row = 0; row < 8; ++row) {
        for (std::int64_t column = 0; column < 12; ++column) {
          const bool is_there =
              here != from.devices.end() &&
              has(parallel::box_at(matrix.dims, from, held, static_cast<std::size_t>(here - from.devices.begin())), row,
                  column);
          lacking += has(wanted, row, column) && !is_there ? 1 : 0;
        }
      }
      least = std::max(least, 4e12 * static_cast<double>(lacking) / static_cast<double>(fastest));
    }
    CAPTURE(i, from.devices.size(), to.devices.size());
    CHECK((takes == 0) == (least == 0));
    CHECK(static_cast<double>(takes) >= std::floor(least));
    moved += takes > 0 ? 1 : 0;
    free += takes == 0 ? 1 : 0;
  }
  CHECK(moved > 0);
  CHECK(free > 0);
}

TEST_CASE("a handover of one message takes its route's time; two replicas are no slower than one") {
  const auto m = hardware::preset("p100:1x4");
  const hardware::route_table routes{m.network};
  const auto whole = block(0, {1});
  mesh_layout copies;
  copies.set(0, mesh_layout::copies);
  const auto cost = routes.cost(m.network, hardware::device_id{std::size_t{0}}, hardware::device_id{std::size_t{1}});
  const auto start = hardware::start_of(m, hardware::device_id{std::size_t{0}}).start;
  const auto one = parallel::handover(m, routes, matrix, whole, copies, block(1, {1}), copies);
  CHECK(std::abs((one - start - hardware::transfer_time(cost, bytes{4 * 8 * 12})).count()) <= 1);
  // Two readers of two replicas: each may receive from its own, which takes no longer than both receiving from one.
  const auto of_two = parallel::handover(m, routes, matrix, block(0, {2}), copies, block(2, {2}), copies);
  const auto of_one = parallel::handover(m, routes, matrix, whole, copies, block(2, {2}), copies);
  CHECK(of_two <= of_one);
}

}  // namespace tests_of_layout_handover
