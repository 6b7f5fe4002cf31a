#include <unity/train/initial_weights.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "covers.hpp"

namespace tests_of_initial_weights {

using namespace unity;
using train::initial_value;
using train::initial_weights;
using form = initial_value::form;
using tensor::shape;
using tensor::tensor_type;
using unity::test::training::operators;

namespace {

std::vector<double> values_of(const initial_weights& w, const std::string& name, const tensor_type& t) {
  std::vector<std::byte> stored(backend::byte_count(t));
  w.fill(name, t, parallel::whole(t.dims), stored);
  return backend::decode<double>(stored.data(), t).data;
}

struct moments {
  double mean = 0;
  double variance = 0;
};
moments moments_of(const std::vector<double>& x) {
  moments m;
  for (const auto v : x) {
    m.mean += v / static_cast<double>(x.size());
  }
  for (const auto v : x) {
    m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  }
  return m;
}

tensor_type type(shape dims, tensor::dtype element = tensor::dtype::float32) {
  return {element, tensor::layout::row_major, true, std::move(dims)};
}

}  // namespace

TEST_CASE("the use of a weight determines its initial value") {
  tensor::builder b{operators()};
  const auto image = b.input("image", {2, 8, 6, 6});
  auto y = b.conv2d(image, b.weight("kernel", {4, 2, 3, 3}), b.weight("kernel bias", {4}), {.groups = 4});
  const auto channels = shape{4};
  const auto scale = b.weight("bn scale", channels);
  const auto shift = b.weight("bn shift", channels);
  const auto mean = b.weight("bn mean", channels);
  y = b.batch_norm(y, scale, shift, mean, b.weight("bn variance", channels));
  y = b.reshape(y, {2, 64});
  y = b.linear(y, b.weight("matrix", {64, 12}), b.weight("bias", {12}));
  y = b.matmul(y, b.transpose(b.weight("turned", {20, 12}), {1, 0}));
  y = b.add(y, b.weight("added", {20}));
  y = b.mul(y, b.weight("gain", {20}));
  const auto gamma = b.weight("ln scale", {20});
  y = b.layer_norm(y, gamma, b.weight("ln shift", {20}), 1);
  const auto ids = b.input("ids", {2, 3}, tensor::dtype::int64);
  const auto table = b.weight("table", {30, 5, 4});
  const auto bags = b.embedding_bag(b.weight("bags", {30, 20}), ids);
  const auto rows = b.embedding(table, ids);
  const auto parts = std::vector{b.weight("left", {20, 3}), b.weight("right", {20, 5})};
  const auto joined = b.matmul(y, b.concat(1, parts));
  const auto odd = b.weight("odd", {3, 7});
  const initial_weights w{operators(), std::move(b).finish({joined, bags, rows, b.tanh(odd)}), 1};

  const auto spread = [](std::int64_t terms) { return initial_value{form::spread, 1 / static_cast<double>(terms)}; };
  CHECK(w.value("kernel") == spread(18));
  CHECK(w.value("matrix") == spread(64));
  CHECK(w.value("turned") == spread(12));
  CHECK(w.value("left") == spread(20));
  CHECK(w.value("right") == spread(20));
  CHECK(w.value("table") == spread(20));
  CHECK(w.value("bags") == spread(20));
  for (const char* name : {"kernel bias", "bias", "added", "bn shift", "bn mean", "ln shift"}) {
    CAPTURE(name);
    CHECK(w.value(name).kind == form::zeros);
  }
  for (const char* name : {"gain", "bn scale", "bn variance", "ln scale"}) {
    CAPTURE(name);
    CHECK(w.value(name).kind == form::ones);
  }
  CHECK(w.value("odd").kind == form::unknown);
  CHECK(moments_of(values_of(w, "odd", type({3000, 7}))).variance == Approx(1.0 / 7).epsilon(0.03));
}

TEST_CASE("every zoo model weight has a known initial value") {
  for (const auto& m : tensor::zoo::models) {
    for (const auto& f : m.forms) {
      CAPTURE(m.name, f.name);
      const auto g = f.build(operators(), f.defaults);
      const initial_weights w{operators(), g, 1};
      for (const auto n : node_ids(g)) {
        const auto& op = g.operation(n);
        if (op.kind == operators().kind("weight")) {
          const auto name = operators().read(op).word("name");
          CAPTURE(name);
          CHECK(w.value(name).kind != form::unknown);
          CHECK((w.value(name).kind != form::spread || g.type(g.results(n)[0]).rank() >= 2));
        }
      }
    }
  }
}

TEST_CASE("initial weights have the expected moments and depend on name and seed") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 50});
  const auto y = b.add(b.matmul(x, b.weight("a", {50, 400})), b.matmul(x, b.weight("b", {50, 400})));
  const auto g = std::move(b).finish({y});
  const initial_weights w{operators(), g, 1};
  const auto a = values_of(w, "a", type({50, 400}));
  const auto m = moments_of(a);
  CHECK(std::abs(m.mean) < 0.003);
  CHECK(m.variance == Approx(1.0 / 50).epsilon(0.03));
  CHECK(*std::max_element(a.begin(), a.end()) <= std::sqrt(3.0 / 50) * (1 + 1e-7));
  CHECK(a != values_of(w, "b", type({50, 400})));
  CHECK(a != values_of(initial_weights{operators(), g, 2}, "a", type({50, 400})));
  CHECK(a == values_of(initial_weights{operators(), g, 1}, "a", type({50, 400})));
  CHECK(a == values_of(w, "a", type({50, 400}, tensor::dtype::float64)));
}

TEST_CASE("initial weights do not depend on their division", "[law]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 9});
  const auto kernel = b.weight("kernel", {5, 2, 3, 4});
  const auto image = b.conv2d(b.input("image", {1, 2, 8, 8}), kernel);
  const initial_weights w{operators(), std::move(b).finish({b.matmul(x, b.weight("matrix", {9, 7})), image}), 5};
  train::test::check_covers(type({9, 7}), 1, [&](const tensor_type& t, const parallel::box& part, auto out) {
    w.fill("matrix", t, part, out);
  });
  train::test::check_covers(type({5, 2, 3, 4}), 2, [&](const tensor_type& t, const parallel::box& part, auto out) {
    w.fill("kernel", t, part, out);
  });
}

TEST_CASE("an unknown weight is named when its initial value is requested") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {2, 9});
  const initial_weights w{operators(), std::move(b).finish({x}), 5};
  CHECK_THROWS_WITH(w.value("w"), "weights: no weight \"w\" in the graph; expected the name of a weight");
}

}  // namespace tests_of_initial_weights
