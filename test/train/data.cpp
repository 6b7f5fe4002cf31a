#include <unity/tensor/source_values.hpp>
#include <unity/train/data.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/loss.hpp>

#include "../support/operators.hpp"
#include "covers.hpp"

namespace tests_of_data {

using namespace unity;
using tensor::dtype;
using tensor::shape;
using tensor::tensor_type;
using train::synthetic_data;
using unity::test::training::operators;

namespace {

tensor_type type(shape dims, dtype element = dtype::float32) {
  return {element, tensor::layout::row_major, false, std::move(dims)};
}

std::vector<double> values_of(const synthetic_data& d, const std::string& name, const tensor_type& t,
                              std::uint64_t step = 0) {
  std::vector<std::byte> stored(backend::byte_count(t));
  d.fill(name, t, parallel::whole(t.dims), step, stored);
  return backend::decode<double>(stored.data(), t).data;
}

// A classifier of bags of words, with all kinds of inputs.
tensor::trained_form classifier() {
  tensor::builder b{operators()};
  const auto ids = b.input("ids", {6, 4}, dtype::int64);
  const auto rows = b.embedding_bag(b.weight("table", {11, 5}), ids);
  const auto x = b.add(rows, b.input("x", {6, 5}));
  const auto kept = b.apply("dropout", {x}, {{"rate", 0.25}, {"seed", 3}})[0];
  const auto also = b.apply("dropout", {kept}, {{"rate", 0.25}, {"seed", 3}})[0];
  const auto scaled = b.mul(also, b.constant("c", {5}));
  const auto y = b.matmul(b.add(scaled, b.apply("log", {b.input("positive", {6, 5})})[0]), b.weight("w", {5, 3}));
  const auto g = std::move(b).finish({y});
  return tensor::training_form(operators(), tensor::with_loss(operators(), g, tensor::loss::cross_entropy));
}

}  // namespace

TEST_CASE("synthetic real inputs are uniform and differ between steps and names and seeds") {
  const auto form = classifier();
  const synthetic_data d{operators(), form.graph, 1};
  const auto t = type({200, 100});
  const auto x = values_of(d, "x", t);
  double mean = 0;
  double square = 0;
  for (const auto v : x) {
    mean += v / static_cast<double>(x.size());
    square += v * v / static_cast<double>(x.size());
  }
  CHECK(std::abs(mean) < 0.01);
  CHECK(square == Approx(1.0 / 3).epsilon(0.02));
  CHECK(*std::min_element(x.begin(), x.end()) >= -1);
  CHECK(*std::max_element(x.begin(), x.end()) < 1);
  CHECK(x == values_of(d, "x", t));
  CHECK(x != values_of(d, "x", t, 1));
  CHECK(x != values_of(synthetic_data{operators(), form.graph, 2}, "x", t));
  CHECK(x == values_of(d, "x", type({200, 100}, dtype::float64)));
  const auto positive = values_of(d, "positive", t);
  CHECK(*std::min_element(positive.begin(), positive.end()) >= 0.125);
  CHECK(x != positive);
}

TEST_CASE("synthetic integers are table rows and labels are classes") {
  const auto form = classifier();
  const synthetic_data d{operators(), form.graph, 1};
  CHECK(d.limit("ids") == 11);
  CHECK(d.limit("labels of 0") == 3);
  const auto ids = values_of(d, "ids", type({50, 40}, dtype::int64));
  CHECK(std::set<double>(ids.begin(), ids.end()).size() == 11);
  CHECK(*std::min_element(ids.begin(), ids.end()) == 0);
  CHECK(*std::max_element(ids.begin(), ids.end()) == 10);
  const auto labels = values_of(d, "labels of 0", type({300}, dtype::int32));
  CHECK(std::set<double>(labels.begin(), labels.end()) == std::set<double>{0, 1, 2});
}

TEST_CASE("dropout masks drop their share and differ between dropouts of the same seed") {
  const auto form = classifier();
  REQUIRE(form.masks.size() == 2);
  const synthetic_data d{operators(), form.graph, 1};
  const auto t = type({200, 100});
  const auto first = values_of(d, form.masks[0].name, t);
  const auto dropped = static_cast<double>(std::count(first.begin(), first.end(), 0.0));
  CHECK(dropped / static_cast<double>(first.size()) == Approx(0.25).epsilon(0.03));
  const float kept = 1 / 0.75F;
  CHECK(std::all_of(first.begin(), first.end(), [&](double v) { return v == 0 || v == static_cast<double>(kept); }));
  CHECK(first != values_of(d, form.masks[1].name, t));
  CHECK(first != values_of(d, form.masks[0].name, t, 1));
}

TEST_CASE("synthetic constants are the same at every step") {
  const auto form = classifier();
  const synthetic_data d{operators(), form.graph, 1};
  CHECK(values_of(d, "c", type({5})) == values_of(d, "c", type({5}), 3));
}

TEST_CASE("synthetic inputs do not depend on their division", "[law]") {
  const auto form = classifier();
  const synthetic_data d{operators(), form.graph, 7};
  const auto check = [&](const std::string& name, const tensor_type& t, std::uint64_t seed) {
    CAPTURE(name);
    train::test::check_covers(t, seed, [&](const tensor_type& whole, const parallel::box& part, auto out) {
      d.fill(name, whole, part, 5, out);
    });
  };
  check("x", type({6, 5}), 1);
  check("x", type({3, 4, 2, 5}, dtype::bfloat16), 2);
  check("x", type({}), 3);
  check("x", type({3, 1300}), 4);
  check("ids", type({6, 4}, dtype::int64), 5);
  check("labels of 0", type({6}, dtype::int32), 6);
  check(form.masks[1].name, type({6, 5}, dtype::float64), 7);
  std::vector<std::byte> nothing;
  d.fill("x", type({6, 5}), {{2, 3}, {2, 5}}, 0, nothing);
}

TEST_CASE("an unknown input of the synthetic data is named in the error") {
  const auto form = classifier();
  const synthetic_data d{operators(), form.graph, 7};
  CHECK_THROWS_WITH(d.limit("y"), "data: no input \"y\" in the graph; expected the name of an input or constant");
  CHECK_THROWS_WITH(d.limit("w"), "data: no input \"w\" in the graph; expected the name of an input or constant");
}

}  // namespace tests_of_data
