#include <unity/tensor/shrink.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "random_case.hpp"
#include "testing.hpp"

namespace tests_of_shrink {

namespace {

using namespace unity::tensor;
using unity::node_id;
using unity::value_id;
using unity::tensor::test::standard;

std::vector<tensor_type> types_of(const tensor_graph& g, std::span<const value_id> values) {
  std::vector<tensor_type> types;
  for (const auto v : values) {
    types.push_back(g.type(v));
  }
  return types;
}

// Whether every result has the type that its operator infers.
bool is_valid(const tensor_graph& g) {
  for (const auto n : node_ids(g)) {
    if (standard().infer(g.operation(n), types_of(g, g.operands(n))) != types_of(g, g.results(n))) {
      return false;
    }
  }
  return true;
}

// Whether both have the same operators in the same places, and attributes that differ only in sizes.
bool differs_in_sizes_alone(const tensor_graph& a, const tensor_graph& b) {
  const std::set<std::string_view> sizes{"dims", "sizes", "starts", "ends", "channels", "groups", "size"};
  const auto pad = standard().kind("pad");
  bool same = a.node_count() == b.node_count() && std::ranges::equal(a.outputs(), b.outputs());
  for (std::size_t i = 0; same && i < a.node_count(); ++i) {
    const node_id n{i};
    const auto& x = a.operation(n);
    const auto& y = b.operation(n);
    same = x.kind == y.kind && x.order == y.order && std::ranges::equal(a.operands(n), b.operands(n));
    for (std::size_t k = 0; same && k < x.attributes.size(); ++k) {
      const auto& name = standard().definition_of(x.kind).fields[k].signature.name;
      same = x.attributes[k].size() == y.attributes[k].size() &&
             (x.attributes[k] == y.attributes[k] || sizes.contains(name) || x.kind == pad);
    }
  }
  return same;
}

tensor_graph shrunk(const tensor_graph& g, const shrink_options& options = {}) {
  auto s = shrink(standard(), g, g, options);
  CHECK(s.first == s.second);
  CHECK(is_valid(s.first));
  CHECK(differs_in_sizes_alone(g, s.first));
  return std::move(s.first);
}
const shape& dims_of(const tensor_graph& g, value_id v) { return g.type(v).dims; }

attribute_reader attributes_of(const tensor_graph& g, value_id v) {
  return standard().read(g.operation(g.producer(v)));
}

}  // namespace

TEST_CASE("shrink keeps zoo models valid with less than 10 million elements") {
  unity::test::one_of_some is_tried;
  for (const auto& m : zoo::models) {
    for (const auto& f : m.forms) {
      if (!is_tried()) {
        continue;
      }
      const auto text = std::string{zoo::prefix} + std::string{m.name} + "?form=" + std::string{f.name};
      const auto g = zoo::build(standard(), text);
      const auto s = shrink(standard(), g, g);
      CAPTURE(text, s.sizes);
      CHECK(s.first == s.second);
      CHECK(is_valid(s.first));
      CHECK(differs_in_sizes_alone(g, s.first));
      CHECK(s.elements < 10'000'000);
      CHECK(s.sizes.find("elements as " + std::to_string(s.elements)) != std::string::npos);
    }
  }
}

TEST_CASE("shrink keeps random cases of every operator valid") {
  const std::uint64_t seed = 20240611;
  CAPTURE(seed);
  unity::random_engine random{seed};
  for (const auto& [name, make] : unity::tensor::test::cases()) {
    for (int i = 0; i < unity::test::all_or(50, 6); ++i) {
      const auto c = unity::tensor::test::draw(name, random);
      tensor_graph g;
      std::vector<value_id> operands;
      for (const auto& t : c.inputs) {
        const auto op = standard().make_operation(
            "input",
            {{"name", "x" + std::to_string(operands.size())}, {"element", name_of(t.element)}, {"dims", t.dims}});
        operands.push_back(g.results(g.add_node(op, {}, std::vector{t}))[0]);
      }
      const auto n = g.add_node(c.op, operands, *standard().infer(c.op, c.inputs));
      g.set_outputs(g.results(n));
      const auto s = shrink(standard(), g, g);
      CAPTURE(name, i, s.sizes);
      REQUIRE(is_valid(s.first));
      REQUIRE(differs_in_sizes_alone(g, s.first));
    }
  }
}

TEST_CASE("shrink gives unrelated equal sizes different values") {
  builder b{standard()};
  const auto left = b.input("x", {512, 512});
  const auto right = b.weight("w", {512, 512});
  const auto g = shrunk(std::move(b).finish({b.matmul(left, right)}));
  const auto& x = dims_of(g, left);
  const auto& w = dims_of(g, right);
  CHECK(x[1] == w[0]);
  CHECK(std::set{x[0], x[1], w[1]}.size() == 3);
  CHECK(std::max({x[0], x[1], w[1]}) <= 7);
}

TEST_CASE("shrink keeps small sizes and gives others unused sizes from the minimum on") {
  builder b{standard()};
  const auto g = std::move(b).finish({b.relu(b.input("x", {1, 2, 3, 100}))});
  CHECK(dims_of(shrunk(g), value_id{1u}) == shape{1, 2, 3, 4});
  CHECK(dims_of(shrunk(g, {.least = 5}), value_id{1u}) == shape{1, 2, 3, 5});
}

TEST_CASE("shrink reduces a huge embedding table to few rows") {
  builder b{standard()};
  const auto table = b.weight("table", {1'700'000, 128});
  const auto g = shrunk(std::move(b).finish({b.embedding(table, b.input("ids", {512, 40}, dtype::int64))}));
  CHECK(dims_of(g, table)[0] < 10);
}

TEST_CASE("shrink keeps images large enough for strides and kernels") {
  builder b{standard()};
  const auto x = b.input("x", {32, 3, 224, 224});
  const auto first = b.conv2d(x, b.weight("w", {64, 3, 7, 7}), {.stride = {2, 2}, .pads = {3, 3, 3, 3}});
  const auto pooled = b.max_pool(first, {.kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}});
  const auto y = b.conv2d(pooled, b.weight("v", {64, 64, 5, 5}));
  const auto g = shrunk(std::move(b).finish({y}));
  const auto& image = dims_of(g, x);
  CHECK(image[1] == 3);
  CHECK(image[2] < 40);
  CHECK(image[2] != image[3]);
  CHECK(dims_of(g, first)[2] >= 3);
  CHECK(dims_of(g, y)[2] >= 2);
}

TEST_CASE("shrink keeps the size of an image that one pooling window covers") {
  builder b{standard()};
  const auto x = b.input("x", {8, 2048, 8, 8});
  const auto g = shrunk(std::move(b).finish({b.average_pool(x, {.kernel = {8, 8}})}));
  CHECK(dims_of(g, x)[2] == 8);
  CHECK(dims_of(g, x)[1] < 8);
}

TEST_CASE("shrink keeps channels a multiple of convolution groups") {
  builder b{standard()};
  const auto x = b.input("x", {4, 1024, 9, 9});
  const auto w = b.weight("w", {2048, 32, 1, 1});
  const auto grouped = b.conv2d(x, w, {.groups = 32});
  const auto depthwise = b.conv2d(x, b.weight("d", {1024, 1, 3, 3}), {.padding = "same", .groups = 1024});
  const auto g = shrunk(std::move(b).finish({grouped, depthwise}));
  const auto groups = attributes_of(g, grouped).integer("groups");
  const auto channels = dims_of(g, x)[1];
  CHECK(groups > 1);
  CHECK(groups < 8);
  CHECK(channels == groups * dims_of(g, w)[1]);
  CHECK(attributes_of(g, depthwise).integer("groups") == channels);
}

TEST_CASE("shrink keeps splits and slices of one axis consistent") {
  builder b{standard()};
  const std::array weights{b.weight("u", {100, 384}), b.weight("v", {100, 640})};
  const auto x = b.matmul(b.input("x", {64, 100}), b.concat(1, weights));
  const auto parts = b.split(x, 1, {384, 640});
  const auto first = b.slice(x, {1}, {0}, {384});
  const auto second = b.slice(x, {1}, {384}, {1024});
  const auto across = b.slice(x, {0, 1}, {16, 300}, {32, 400});
  const auto g = shrunk(std::move(b).finish({parts[0], parts[1], first, second, across}));
  const auto u = dims_of(g, weights[0])[1];
  const auto v = dims_of(g, weights[1])[1];
  CHECK(dims_of(g, parts[0])[1] == u);
  CHECK(dims_of(g, first)[1] == u);
  CHECK(dims_of(g, second)[1] == v);
  CHECK(attributes_of(g, second).integers("starts")[0] == u);
  CHECK(attributes_of(g, second).integers("ends")[0] == u + v);
  CHECK(attributes_of(g, across).integers("starts")[1] < u);
  CHECK(attributes_of(g, across).integers("ends")[1] > u);
  CHECK(u + v < 40);
}

TEST_CASE("shrink keeps neighbouring slices of one axis consistent in any order") {
  const std::int64_t cuts[] = {0, 100, 250, 420, 600, 900, 1000};
  const std::size_t orders[][6] = {{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 4, 3, 0, 1, 5}};
  for (const auto& order : orders) {
    builder b{standard()};
    const auto x = b.input("x", {1000, 3});
    std::vector<value_id> slices(6);
    for (const auto i : order) {
      slices[i] = b.slice(x, {0}, {cuts[i]}, {cuts[i + 1]});
    }
    const auto g = shrunk(std::move(b).finish({b.concat(0, slices)}));
    std::int64_t start = 0;
    for (const auto s : slices) {
      CHECK(attributes_of(g, s).integers("starts")[0] == start);
      start += dims_of(g, s)[0];
      CHECK(attributes_of(g, s).integers("ends")[0] == start);
    }
    CHECK(dims_of(g, x)[0] == start);
    CHECK(start < 100);
  }
}

TEST_CASE("shrink takes about linear time for the steps of a recurrent layer") {
  const auto seconds = [](std::int64_t steps) {
    builder b{standard()};
    const auto x = b.input("x", {steps, 2, 4});
    const auto states = b.apply("lstm", {x, b.weight("w", {1, 16, 4}), b.weight("r", {1, 16, 4})});
    const auto g = std::move(b).finish({states[0]});
    const auto before = std::clock();
    CHECK(shrink(standard(), g, g).elements > 0);
    return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  };
  CHECK(seconds(1600) < 24 * seconds(200));  // squared: 64 times
}

TEST_CASE("shrink keeps factors of one axis consistent across reshapes") {
  builder b{standard()};
  const auto x = b.matmul(b.input("x", {4, 128, 768}), b.weight("w", {768, 2304}));
  const auto at_once = b.reshape(x, {4, 128, 3, 12, 64});
  const auto thirds = b.split(x, 2, {768, 768, 768});
  const auto heads = b.reshape(thirds[1], {4, 128, 12, 64});
  const auto flat = b.reshape(heads, {512, 768});
  const auto g = shrunk(std::move(b).finish({at_once, heads, flat}));
  const auto& d = dims_of(g, at_once);
  CHECK(d[2] == 3);
  CHECK(dims_of(g, x)[2] == 3 * d[3] * d[4]);
  CHECK(dims_of(g, thirds[1])[2] == d[3] * d[4]);
  CHECK(dims_of(g, heads) == shape{d[0], d[1], d[3], d[4]});
  CHECK(dims_of(g, flat) == shape{d[0] * d[1], d[3] * d[4]});
  CHECK(d[3] * d[4] < 50);
}

TEST_CASE("shrink cuts an axis alike before and after a reshape") {
  builder b{standard()};
  const auto x = b.input("x", {2, 1024});
  const auto heads = b.split(b.reshape(x, {2, 16, 64}), 1, {4, 12});
  const auto parts = b.split(x, 1, {256, 768});
  const auto g = shrunk(std::move(b).finish({heads[0], heads[1], parts[0], parts[1]}));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& d = dims_of(g, heads[i]);
    CHECK(dims_of(g, parts[i])[1] == d[1] * d[2]);
  }
  CHECK(dims_of(g, x)[1] < 200);
}

TEST_CASE("shrink keeps element counts equal across a reshape without common refinement") {
  builder b{standard()};
  const auto x = b.input("x", {100, 6, 4});
  const auto y = b.reshape(x, {100, 8, 3});
  const auto g = shrunk(std::move(b).finish({y}));
  CHECK(dims_of(g, y)[0] < 10);
  CHECK(dims_of(g, x)[1] * dims_of(g, x)[2] == dims_of(g, y)[1] * dims_of(g, y)[2]);
}

TEST_CASE("shrink fits an axis to two unrelated factorizations") {
  builder b{standard()};
  const auto x = b.input("x", {35, 12});
  const auto a = b.reshape(x, {35, 3, 4});
  const auto c = b.reshape(x, {35, 4, 3});
  const auto cut = b.slice(x, {1}, {0}, {5});
  const auto g = shrunk(std::move(b).finish({a, c, cut}));
  CHECK(dims_of(g, x)[1] == dims_of(g, a)[1] * dims_of(g, a)[2]);
  CHECK(dims_of(g, x)[1] == dims_of(g, c)[1] * dims_of(g, c)[2]);
}

TEST_CASE("shrink keeps image padding and adapts padding that completes a size") {
  builder b{standard()};
  const auto x = b.input("x", {8, 64, 56, 56});
  const auto image = b.pad(x, {0, 0, 1, 2, 0, 0, 3, 4});
  const auto channels = b.pad(x, {0, 0, 0, 0, 0, 192, 0, 0});
  const auto joined = b.concat(1, std::array{x, b.weight("w", {8, 192, 56, 56})});
  const auto g = shrunk(std::move(b).finish({image, b.add(channels, joined)}));
  CHECK(dims_of(g, image)[2] == dims_of(g, x)[2] + 4);
  CHECK(dims_of(g, channels)[1] == dims_of(g, joined)[1]);
  CHECK(dims_of(g, channels)[1] < 20);
}

TEST_CASE("shrink keeps complementary strided slices at half of an even size") {
  builder b{standard()};
  const auto x = b.input("x", {8, 3, 640, 640});
  const auto odd = b.apply("slice", {x}, {{"axes", {2}}, {"starts", {1}}, {"ends", {640}}, {"steps", {2}}})[0];
  const auto even = b.apply("slice", {x}, {{"axes", {2}}, {"starts", {0}}, {"ends", {640}}, {"steps", {2}}})[0];
  const auto g = shrunk(std::move(b).finish({b.concat(1, std::array{even, odd})}));
  CHECK(dims_of(g, x)[2] % 2 == 0);
  CHECK(dims_of(g, odd)[2] * 2 == dims_of(g, x)[2]);
  CHECK(dims_of(g, x)[2] < 20);
}

TEST_CASE("shrink resizes constants that depend on a size") {
  builder b{standard()};
  const auto x = b.input("x", {16, 512, 9, 9});
  const auto pooled = b.conv2d(x, b.pool_kernel(512, {3, 3}), {.padding = "same", .groups = 512});
  const auto same = b.conv2d(x, b.identity_kernel(512, {3, 3}, 32), {.padding = "same", .groups = 32});
  const auto row = b.input("row", {16, 512});
  const auto product = b.matmul(row, b.identity_matrix(512));
  const auto one = b.apply("expand", {b.fill(1, {1, 512})}, {{"dims", {16, 1}}})[0];
  const auto g = shrunk(std::move(b).finish({pooled, same, b.add(product, one)}));
  CHECK(dims_of(g, x)[1] < 60);
  CHECK(dims_of(g, product)[1] < 60);
}

TEST_CASE("shrink gives sources and outputs of two graphs matching sizes") {
  builder a{standard()};
  const auto x = a.input("x", {64, 256});
  const auto u = a.weight("w", {256, 96});
  const auto y = a.matmul(x, u);
  const auto z = a.matmul(x, a.weight("v", {256, 160}));
  const auto first = std::move(a).finish({y, z});
  builder b{standard()};
  const auto w = b.weight("w", {256, 96});
  const auto v = b.weight("v", {256, 160});
  const auto both = b.split(b.matmul(b.input("x", {64, 256}), b.concat(1, std::array{w, v})), 1, {96, 160});
  const auto second = std::move(b).finish({both[0], both[1]});

  const auto s = shrink(standard(), first, second);
  CHECK(is_valid(s.first));
  CHECK(is_valid(s.second));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(s.first.type(s.first.outputs()[i]) == s.second.type(s.second.outputs()[i]));
  }
  CHECK(dims_of(s.first, u) == dims_of(s.second, w));
  CHECK(s.elements < 1000);
}

TEST_CASE("shrink gives equal constants one size if one of the graphs merges them") {
  const auto both = [](bool is_one) {
    builder b{standard()};
    const auto x = b.input("x", {4, 64});
    const auto bias = b.fill(0.02, {128});
    const auto y = b.add(b.matmul(x, b.fill(0.02, {64, 128})), bias);
    const auto other = is_one ? bias : b.fill(0.02, {128});
    return std::move(b).finish({b.add(b.matmul(y, b.fill(0.02, {128, 128})), other)});
  };
  const auto s = shrink(standard(), both(false), both(true));
  // The value of a product with a constant depends on the number of terms.
  const auto terms = [](const tensor_graph& g) {
    std::vector<std::int64_t> all;
    for (const auto n : node_ids(g)) {
      if (g.operands(n).size() == 2 && g.type(g.operands(n)[1]).rank() == 2) {
        all.push_back(g.type(g.operands(n)[1]).dims[0]);
      }
    }
    return all;
  };
  CHECK(terms(s.first).size() == 2);
  CHECK(terms(s.first) == terms(s.second));
}

TEST_CASE("shrink keeps sizes of named sources or of split values on request") {
  builder b{standard()};
  const auto x = b.input("x", {64, 256});
  const auto w = b.weight("w", {256, 1000});
  const auto parts = b.split(b.matmul(x, w), 1, {400, 600});
  const auto g = std::move(b).finish({parts[0], parts[1]});
  const auto named = shrunk(g, {.keeps = [](std::string_view name) { return name == "w"; }});
  CHECK(dims_of(named, w) == shape{256, 1000});
  CHECK(dims_of(named, x)[0] < 8);
  const auto careful = shrunk(g, {.care = shrink_care::structure});
  CHECK(dims_of(careful, parts[1])[1] == 600);
  CHECK(dims_of(careful, x)[1] < 8);
}

TEST_CASE("shrink keeps sizes from which constants may be computed on request") {
  builder b{standard()};
  const auto x = b.input("x", {500, 768});
  const auto mean = b.mul(b.apply("reduce_sum", {x}, {{"axes", {1}}})[0], b.fill(1.0F / 768));
  const auto g = std::move(b).finish({b.mul(mean, b.fill(1 / std::sqrt(500.0)))});
  CHECK(dims_of(shrunk(g), x)[1] < 10);
  CHECK(dims_of(shrunk(g, {.care = shrink_care::numbers}), x) == shape{500, 768});
}

TEST_CASE("shrink keeps sizes of operators whose size relations are unknown") {
  auto a = standard_algebra();
  const auto types = [](judgement& j, const attribute_reader& r) {
    if (j.require(j.dims(0)[0] == r.integer("rows"), "as many rows as it says")) {
      j.result({r.integer("rows")});
    }
  };
  a.add(define("rows_of", 1, 1, {integer_field("rows")}, opaque{types}));
  const auto repeat = [](space& s, const attribute_reader& r) {
    const auto i = s.parallel("i");
    s.read({i});
    s.write({s.parallel("copy", r.integer("copies")), i});
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) { return kernels::x(0); };
  a.add(define("repeat", 1, 1, {integer_field("copies")}, primitive{repeat, kernel}));
  const auto take = [](view_map& v, const attribute_reader& r) {
    if (v.require(r.integer("count") <= v.dims(0)[0], "enough elements")) {
      v.result({r.integer("count")});
      v.add(v.box(0, 0));
    }
  };
  a.add(define("take", 1, 1, {integer_field("count")}, view{take}));

  builder b{a};
  const auto x = b.input("x", {100, 40});
  const auto y = b.input("y", {50});
  const auto z = b.input("z", {60});
  const auto rows = b.apply("rows_of", {x}, {{"rows", 100}})[0];
  const auto copies = b.apply("repeat", {y}, {{"copies", 30}})[0];
  const auto taken = b.apply("take", {z}, {{"count", 20}})[0];
  const auto g = std::move(b).finish({rows, copies, taken});
  const auto s = shrink(a, g, g);
  CHECK(dims_of(s.first, rows) == shape{100});
  CHECK(dims_of(s.first, copies)[0] == 30);
  CHECK(dims_of(s.first, copies)[1] < 8);
  CHECK(dims_of(s.first, taken) == shape{20});
}

}  // namespace tests_of_shrink
