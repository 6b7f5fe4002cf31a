#include <unity/parallel/shard_layout.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>

#include "../support/cases.hpp"
#include "operators.hpp"
#include "random_plan.hpp"

namespace tests_of_shard_layout {

using namespace unity;
using parallel::configuration;
using parallel::layout_of;
using parallel::shard_layout;
using parallel::test::operators;
using parallel::test::type;

namespace {

using device_list = parallel::shard_layout::device_list;

device_list on(std::initializer_list<std::size_t> numbers) {
  device_list all;
  for (const auto d : numbers) {
    all.push_back(hardware::device_id{d});
  }
  return all;
}

configuration divided(parallel::degree_list degrees, std::initializer_list<std::size_t> devices) {
  configuration c;
  c.degrees = degrees;
  for (const auto d : devices) {
    c.devices.push_back(hardware::device_id{d});
  }
  return c;
}

parallel::operator_dimensions product() {
  return *parallel::dimensions_of(operators(), operators().make_operation("matmul", {}),
                                  std::vector{type({8, 4}), type({4, 6}, true)});
}

// A convolution of 8 x 8 images.
parallel::operator_dimensions convolution(std::int64_t kernel, std::int64_t stride) {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 3, 8, 8});
  const auto y = b.conv2d(x, b.weight("w", {4, 3, kernel, kernel}), {.stride = {stride, stride}});
  const auto g = std::move(b).finish({y});
  return parallel::graph_dimensions{operators(), g}[g.producer(y)];
}

bool holds(const shard_layout& layout, const parallel::box& b, const tensor::shape& dims, hardware::device_id d) {
  for (std::size_t k = 0; k < layout.devices.size(); ++k) {
    const auto& there = layout.devices[k];
    bool fits = std::find(there.begin(), there.end(), d) != there.end();
    const auto part = position_of(k, layout.parts);
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const auto size = dims[axis] / layout.parts[axis];
      fits = fits && part[axis] * size <= b.begin[axis] && b.end[axis] <= (part[axis] + 1) * size;
    }
    if (fits) {
      return true;
    }
  }
  return false;
}

// By part of the layout, row-major: the devices of the tasks that have elements of it, each once, in task order.
std::vector<device_list> holders(const shard_layout& layout, const std::vector<parallel::box>& boxes,
                                 const tensor::shape& dims, const configuration& c) {
  std::vector<device_list> all(layout.devices.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto part = parallel::whole(dims);
    const auto digits = position_of(k, layout.parts);
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const auto size = dims[axis] / layout.parts[axis];
      part.begin[axis] = digits[axis] * size;
      part.end[axis] = part.begin[axis] + size;
    }
    for (std::size_t t = 0; t < boxes.size(); ++t) {
      const auto d = c.devices[t];
      if (!intersection(part, boxes[t]).empty() && std::find(all[k].begin(), all[k].end(), d) == all[k].end()) {
        all[k].push_back(d);
      }
    }
  }
  return all;
}

// The number of different boxes; a layout has as many parts.
std::int64_t different(const std::vector<parallel::box>& boxes) {
  std::vector<parallel::box> met;
  for (const auto& b : boxes) {
    if (std::find(met.begin(), met.end(), b) == met.end()) {
      met.push_back(b);
    }
  }
  return static_cast<std::int64_t>(met.size());
}

}  // namespace

TEST_CASE("a matmul divided by rows and columns gives each tensor its own shard layout") {
  const auto l = layout_of(product(), divided({2, 3}, {5, 4, 3, 2, 1, 0}));
  CHECK(l.results[0] == shard_layout{{2, 3}, {on({5}), on({4}), on({3}), on({2}), on({1}), on({0})}});
  CHECK(l.operands[0] == shard_layout{{2, 1}, {on({5, 4, 3}), on({2, 1, 0})}});
  CHECK(l.operands[1] == shard_layout{{1, 3}, {on({5, 2}), on({4, 1}), on({3, 0})}});
}

TEST_CASE("a shard layout counts partial sums as added up and lists the devices of all replicas") {
  auto c = divided({2, 1}, {0, 1, 2, 3});
  c.reductions = {2};
  const auto l = layout_of(product(), c);
  CHECK(l.operands[0] == shard_layout{{2, 2}, {on({0}), on({2}), on({1}), on({3})}});
  CHECK(l.operands[1] == shard_layout{{2, 1}, {on({0, 1}), on({2, 3})}});
  CHECK(l.results[0] == shard_layout{{2, 1}, {on({0, 2}), on({1, 3})}});
  c.reductions = {};
  c.copies = 2;
  CHECK(layout_of(product(), c).operands[1] == shard_layout{{1, 1}, {on({0, 1, 2, 3})}});
}

TEST_CASE("a shard layout lists a device once for each part that its tasks hold") {
  const auto l = layout_of(product(), divided({2, 2}, {3, 3, 1, 3}));
  CHECK(l.results[0] == shard_layout{{2, 2}, {on({3}), on({3}), on({1}), on({3})}});
  CHECK(l.operands[0] == shard_layout{{2, 1}, {on({3}), on({1, 3})}});
}

TEST_CASE("a convolution operand has a shard layout unless windows of its tasks overlap") {
  const auto rows = [](std::int64_t kernel, std::int64_t stride, std::int64_t degree) {
    const auto o = convolution(kernel, stride);
    configuration c;
    c.degrees = parallel::degree_list(o.divisible.size(), 1);
    for (std::size_t k = 0; k < o.divisible.size(); ++k) {
      if (o.divisible[k].dimension == 2) {
        c.degrees[k] = degree;
      }
    }
    for (std::int64_t t = 0; t < degree; ++t) {
      c.devices.push_back(hardware::device_id{static_cast<std::size_t>(t)});
    }
    return layout_of(o, c);
  };
  CHECK(rows(2, 2, 2).operands[0] == shard_layout{{1, 1, 2, 1}, {on({0}), on({1})}});
  CHECK(rows(1, 2, 4).operands[0].parts == parallel::degree_list{1, 1, 4, 1});  // nobody reads the odd rows
  CHECK(rows(3, 1, 1).operands[0].parts == parallel::degree_list{1, 1, 1, 1});
  CHECK(rows(3, 1, 2).operands[0].empty());  // both read the middle rows
  CHECK(rows(3, 1, 2).results[0] == shard_layout{{1, 1, 2, 1}, {on({0}), on({1})}});
}

TEST_CASE("shard layouts of random plans cover what each task reads and writes", "[law]") {
  std::size_t laid = 0;
  std::size_t left_out = 0;
  std::size_t several = 0;  // layouts of several parts
  const auto cases = unity::test::cases(300);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    const auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    const parallel::graph_dimensions all{operators(), p->graph};
    for (const auto n : node_ids(p->graph)) {
      const auto& o = all[n];
      const auto& c = p->configurations[n.index()];
      if (o.inputs.empty()) {
        continue;
      }
      const auto l = layout_of(o, c);
      const auto tasks = parallel::shards_of(o, c.grid());
      const auto check_layout = [&](const shard_layout& layout, const tensor::shape& dims, const auto& box_of) {
        std::vector<parallel::box> boxes;
        for (const auto& task : tasks) {
          boxes.push_back(box_of(task));
        }
        REQUIRE(parallel::product(layout.parts) == different(boxes));
        REQUIRE(layout.devices == holders(layout, boxes, dims, c));
        several += layout.devices.size() > 1 ? 1 : 0;
      };
      for (std::size_t i = 0; i < o.inputs.size(); ++i) {
        if (!l.operands[i].empty()) {
          check_layout(l.operands[i], o.inputs[i].dims, [i](const parallel::shard& s) { return s.operands[i]; });
        }
      }
      for (std::size_t r = 0; r < o.outputs.size(); ++r) {
        check_layout(l.results[r], o.outputs[r].dims, [r](const parallel::shard& s) { return s.results[r]; });
      }
      bool all_there = true;
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        for (std::size_t i = 0; i < o.inputs.size(); ++i) {
          all_there = all_there && (l.operands[i].empty() ||
                                    holds(l.operands[i], tasks[t].operands[i], o.inputs[i].dims, c.devices[t]));
        }
        for (std::size_t r = 0; r < o.outputs.size(); ++r) {
          all_there = all_there && holds(l.results[r], tasks[t].results[r], o.outputs[r].dims, c.devices[t]);
        }
      }
      CHECK(all_there);
      for (const auto& operand : l.operands) {
        ++(operand.empty() ? left_out : laid);
        CHECK((!operand.empty() || !o.structure.windows.empty()));
      }
    }
  }
  CHECK(laid > 2 * cases);
  CHECK(left_out < laid / 10);
  CHECK(several > cases / 4);
}

}  // namespace tests_of_shard_layout
