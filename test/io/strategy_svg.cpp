#include <unity/io/strategy_svg.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/operators.hpp"
#include "operators_of.hpp"
#include "plan_complaint.hpp"

namespace tests_of_strategy_svg {

using namespace unity;
using hardware::device_id;
using io::test::operators_of;
using test::training::operators;

namespace {

// relu(x w) + x v on two devices: the first product divided by samples, the second by parameters.
parallel::plan small_plan() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 6});
  const auto y = b.relu(b.matmul(x, b.weight("w", {6, 4})));
  parallel::plan p{
      std::move(b).finish({b.add(y, b.matmul(x, b.weight("v", {6, 4})))}), {}, hardware::preset("p100:1x2")};
  const parallel::graph_dimensions all{operators(), p.graph};
  const device_id first{std::size_t{0}};
  const device_id second{std::size_t{1}};
  for (const auto n : node_ids(p.graph)) {
    p.configurations.push_back(parallel::on_device(all[n], first));
  }
  for (std::size_t n = 0, products = 0; n < p.graph.node_count(); ++n) {
    if (all[node_id{n}].op.kind == operators().kind("matmul")) {
      p.configurations[n] = products++ == 0 ? parallel::configuration{{2, 1}, {first, second}}
                                            : parallel::configuration{{1, 2}, {second, first}};
    }
  }
  return p;
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++n;
  }
  return n;
}
// Whether every element is closed, in order, and attributes are quoted.
bool is_well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (auto at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    const auto end = text.find('>', at);
    if (end == std::string::npos) {
      return false;
    }
    const auto tag = text.substr(at + 1, end - at - 1);
    const auto name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (count(tag, "\"") % 2 != 0 || tag.find('<') != std::string::npos) {
      return false;
    }
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        return false;
      }
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty();
}

}  // namespace

TEST_CASE("the SVG of a small strategy equals its golden file") {
  const auto svg = io::to_strategy_svg(operators(), small_plan(), "small <plan>");
  const auto golden = std::filesystem::path{UNITY_TEST_SOURCE_DIR} / "test/io/small_strategy.svg";
  CHECK(svg == read_file(golden));
  CHECK(is_well_formed(svg));
}

TEST_CASE("a box of a strategy's SVG has one field per part with its device") {
  const auto p = test::lenet_plan();  // node 3: two by two, row-major on devices 3, 1, 2, 2
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto g = io::detail::grid_of(all[node_id{std::size_t{3}}], p.configurations[3]);
  CHECK(g.samples == 2);
  CHECK(g.parameters == 2);
  CHECK(g.rows == 2);
  CHECK(g.columns == 2);
  using places = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(g.places == places{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  const auto svg = io::to_strategy_svg(operators(), p);
  CHECK_THAT(
      svg,
      Catch::Contains(
          "<rect class=\"d3 a\" x=\"0\" y=\"0\" width=\"24\" height=\"16\"/><rect class=\"d1 a\" x=\"24\" y=\"0\"") &&
          Catch::Contains("<rect class=\"d2 a\" x=\"0\" y=\"16\""));
}

TEST_CASE("attribute degrees divide the fields of a strategy's SVG by rows and columns") {
  auto p = test::lenet_plan();
  auto& c = p.configurations[3];
  p.machine = hardware::preset("p100:4x4");
  c.degrees = {2, 1, 4, 2};  // samples, parameters, height, width
  c.devices.clear();
  for (std::size_t d = 0; d < 16; ++d) {
    c.devices.push_back(device_id{d});
  }
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto g = io::detail::grid_of(all[node_id{std::size_t{3}}], c);
  CHECK(g.rows == 8);
  CHECK(g.columns == 2);
  CHECK(g.places[0] == std::pair<std::int64_t, std::int64_t>{0, 0});
  CHECK(g.places[1] == std::pair<std::int64_t, std::int64_t>{0, 1});  // width
  CHECK(g.places[2] == std::pair<std::int64_t, std::int64_t>{1, 0});  // height
  CHECK(g.places[8] == std::pair<std::int64_t, std::int64_t>{4, 0});  // samples
}

TEST_CASE("copies divide the fields of a strategy's SVG by columns") {
  auto p = test::lenet_plan();
  auto& c = p.configurations[3];
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto& o = all[node_id{std::size_t{3}}];
  c.degrees = {2, 1, 1, 1};
  c.copies = 2;
  c.devices = {device_id{0U}, device_id{1U}, device_id{2U}, device_id{3U}};
  REQUIRE(why_not(o, c, 4).empty());
  const auto g = io::detail::grid_of(o, c);
  CHECK(g.rows == 2);
  CHECK(g.columns == 2);
  CHECK(g.places == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 0}, {0, 1}, {1, 1}});
  const auto svg = io::to_strategy_svg(operators(), p, "copies");
  CHECK(is_well_formed(svg));
  CHECK_THAT(svg, Catch::Contains("sample dimension 0 by 2, 2 copies, on n0/gpu0 to n0/gpu3"));
}

TEST_CASE("boxes of a strategy's SVG do not overlap and devices have distinct colours") {
  const auto* const model =
      GENERATE("zoo:nmt", "zoo:inception_v3", "zoo:resnet101", "zoo:dlrm", "zoo:rnntc?seq=3", "zoo:lenet");
  const auto* const on = GENERATE("p100:1x4", "k80:16x4");
  CAPTURE(model, on);
  const auto p = test::random_plan(model, on, 3);
  const auto svg = io::to_strategy_svg(operators(), p, model);
  CHECK(is_well_formed(svg));
  CHECK(count(svg, "<use ") == operators_of(p.graph).size());
  const auto colours = io::detail::device_colours(p.machine.network);
  CHECK(std::set<std::string>(colours.begin(), colours.end()).size() == p.machine.network.device_count());
  const auto l = io::layout_of(operators(), p.graph);
  std::map<std::pair<int, int>, int> taken;
  int overlaps = 0;
  for (const auto& a : l.corners) {
    if (a) {
      CHECK(std::min(a->x, a->y) >= 0);
      CHECK(a->x + io::strategy_layout::box_width <= l.width);
      CHECK(a->y + io::strategy_layout::box_height <= l.height);
      for (const auto& b : l.corners) {
        overlaps += &a != &b && b && std::abs(a->x - b->x) < io::strategy_layout::box_width &&
                            std::abs(a->y - b->y) < io::strategy_layout::box_height
                        ? 1
                        : 0;
      }
    }
  }
  CHECK(overlaps == 0);
}

TEST_CASE("a strategy's SVG lays out unrolled networks by layers and steps") {
  const auto nmt = tensor::zoo::build(operators(), "zoo:nmt?seq=5");
  const auto l = io::layout_of(operators(), nmt);
  REQUIRE(l.frames.size() == 9);
  CHECK(l.frames[1].name == "encoder.lstm0");
  std::map<int, std::set<int>> columns;  // of cells, by row
  for (const auto n : node_ids(nmt)) {
    if (nmt.operation(n).kind == operators().kind("lstm_cell")) {
      columns[l.corners[n.index()]->y].insert(l.corners[n.index()]->x);
    }
  }
  CHECK(columns.size() == 4);
  for (const auto& [y, xs] : columns) {
    CHECK(xs.size() == 5);
    CHECK(xs == columns.begin()->second);
  }
  const auto lenet = io::layout_of(operators(), tensor::zoo::build(operators(), "zoo:lenet"));
  CHECK(lenet.frames.empty());
}

TEST_CASE("edges of a strategy's SVG go from operators to their readers") {
  const auto g = tensor::zoo::build(operators(), "zoo:inception_v3");
  const auto l = io::layout_of(operators(), g);
  std::set<std::pair<int, int>> starts;
  std::set<std::pair<int, int>> ends;
  for (const auto& [from, to] : l.segments) {
    starts.insert({from.x, from.y});
    ends.insert({to.x, to.y});
    CHECK(to.x > from.x);
  }
  std::set<std::size_t> read;
  for (const auto n : node_ids(g)) {
    for (const auto from :
         g.operands(n).empty() ? std::vector<std::size_t>{} : io::detail::read_operators(g, n.index())) {
      read.insert(from);
      CHECK(ends.contains({l.corners[n.index()]->x, l.corners[n.index()]->y + io::strategy_layout::box_height / 2}));
    }
  }
  for (const auto n : read) {
    CHECK(starts.contains(
        {l.corners[n]->x + io::strategy_layout::box_width, l.corners[n]->y + io::strategy_layout::box_height / 2}));
  }
}

TEST_CASE("an invalid plan is not drawn as SVG") {
  auto p = test::lenet_plan();
  p.configurations[3].degrees[0] = 3;
  CHECK_THROWS_WITH(io::to_strategy_svg(operators(), p), Catch::Contains("node 3 (conv2d)"));
}

}  // namespace tests_of_strategy_svg
