#include <unity/parallel/synchronization.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/parallel/box.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_weight_synchronization {

using namespace unity;
using parallel::synchronizer;
using unity::test::training::operators;

TEST_CASE("compression of an integer weight is rejected because it is not trained") {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {8, 4});
  const auto places = b.weight("places", {3}, tensor::dtype::int32);
  const auto rows = b.embedding(table, places);
  const auto g = std::move(b).finish({rows});
  parallel::synchronization s;
  s.weights.resize(2);
  s.weights[0].parts.front().compressor.kind = parallel::compression::float16;
  CHECK_NOTHROW(parallel::check(operators(), g, s, 2));
  s.weights[1].parts.front().compressor.kind = parallel::compression::float16;
  CHECK(unity::test::message_of([&] { parallel::check(operators(), g, s, 2); }) ==
        "synchronization, weight of node 1: a synchronizer of its own; expected none: training does not change the "
        "weight");
}

TEST_CASE("settings that do not apply to the kind of synchronizer are rejected; bounds are inclusive") {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {8, 4});
  const auto g = std::move(b).finish({b.embedding(table, b.input("ids", {3}, tensor::dtype::int32))});
  // What follows the place in the complaint; empty if there is none.
  const auto told = [&](const auto& change) {
    parallel::synchronization s;
    s.buckets = {"a"};
    s.weights.resize(1);
    auto& part = s.weights[0].parts.front();
    change(part);
    if (part.bucket == synchronizer::no_bucket) {
      s.buckets.clear();
    }
    const auto text = unity::test::message_of([&] { parallel::check(operators(), g, s, 2); });
    const std::string where = "synchronization, weight of node 0: ";
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  const auto serve = [](synchronizer& p) {
    p.kind = parallel::sync_kind::parameter_server;
    p.destination = hardware::device_id{std::size_t{1}};
  };
  const auto compress = [](synchronizer& p, parallel::compression kind, std::uint32_t amount) {
    p.compressor.kind = kind;
    p.compressor.amount = amount;
  };
  using parallel::compression;
  using parallel::sync_kind;

  CHECK(told([&](synchronizer& p) { serve(p); }).empty());
  CHECK(told([](synchronizer& p) { p.staleness = 1; }) ==
        "staleness of all_reduce; expected staleness of parameter_server alone");
  const auto stale = [&](std::uint32_t iterations) {
    return told([&](synchronizer& p) {
      serve(p);
      p.staleness = iterations;
    });
  };
  CHECK(stale(64).empty());
  CHECK(stale(65) == "staleness 65 of parameter_server; expected 64 at most");
  CHECK(told([&](synchronizer& p) {
          serve(p);
          p.staleness = 1;
          p.is_proxied = false;
        }) ==
        "staleness without a proxy of parameter_server; expected a proxy: a copy of the weight that may be older");
  CHECK(told([](synchronizer& p) { p.is_proxied = false; }) ==
        "no proxy of all_reduce; expected proxies of parameter_server alone");
  CHECK(told([](synchronizer& p) { p.is_per_node = true; }) ==
        "messages per node of all_reduce; expected those of parameter_server alone");
  CHECK(told([](synchronizer& p) {
          p.kind = sync_kind::sharded;
          p.algorithm = parallel::reduction_algorithm::ring;
        }) == "an algorithm of sharded; expected algorithms of all_reduce alone");

  CHECK(told([](synchronizer& p) { p.is_sparse = true; }).empty());
  CHECK(told([](synchronizer& p) {
          p.kind = sync_kind::sharded;
          p.is_sparse = true;
        }) == "indices and rows of sharded; expected those of all_reduce or parameter_server");
  CHECK(told([&](synchronizer& p) {
          p.is_sparse = true;
          compress(p, compression::float16, 0);
        }) == "indices and rows in a bucket or compressed of all_reduce; expected one or the other");
  CHECK(told([](synchronizer& p) {
          p.is_sparse = true;
          p.bucket = 0;
        }) == "indices and rows in a bucket or compressed of all_reduce; expected one or the other");

  CHECK(told([&](synchronizer& p) {
          p.kind = sync_kind::sharded;
          compress(p, compression::float16, 0);
        }) == "a compressor of sharded; expected compressors of all_reduce alone");
  const auto amount = [&](compression kind, std::uint32_t of) {
    return told([&](synchronizer& p) { compress(p, kind, of); });
  };
  const std::string amounts = "; expected 1 or more for top_k and power_sgd, 0 for others";
  CHECK(amount(compression::top_k, 0) == "an amount of 0 of all_reduce" + amounts);
  CHECK(amount(compression::power_sgd, 0) == "an amount of 0 of all_reduce" + amounts);
  CHECK(amount(compression::bfloat16, 1) == "an amount of 1 of all_reduce" + amounts);
  CHECK(amount(compression::top_k, 1).empty());
  CHECK(amount(compression::top_k, 1000).empty());
  CHECK(amount(compression::top_k, 1001) == "1001 of 1,000 elements of all_reduce; expected 1,000 at most");
  CHECK(amount(compression::power_sgd, 1001).empty());
  CHECK(told([&](synchronizer& p) {
          compress(p, compression::top_k, 1);
          p.bucket = 0;
        }) == "top_k in a bucket of all_reduce; expected each weight alone");
  CHECK(told([&](synchronizer& p) {
          compress(p, compression::float16, 0);
          p.bucket = 0;
        }).empty());
  CHECK(told([](synchronizer& p) { p.compressor.has_feedback = true; }) ==
        "feedback without a compressor of all_reduce; expected a compressor");
}

TEST_CASE("buckets of weights of two element types or of one name are rejected, and rows of a multiplied weight") {
  using tensor::dtype;
  tensor::builder b{operators()};
  const auto w = b.weight("w", {4, 4});
  const auto v = b.weight("v", {4, 4}, dtype::float64);
  const auto first = b.matmul(b.input("x", {2, 4}), w);
  const auto second = b.matmul(b.input("y", {2, 4}, dtype::float64), v);
  const auto g = std::move(b).finish({first, second});
  const auto told = [&](const parallel::synchronization& s) {
    return unity::test::message_of([&] { parallel::check(operators(), g, s, 2); });
  };
  parallel::synchronization s;
  s.buckets = {"a", "b"};
  s.weights.resize(2);
  s.weights[0].parts.front().bucket = 0;
  s.weights[1].parts.front().bucket = 1;
  CHECK(told(s).empty());
  s.buckets[1] = "a";
  CHECK(told(s) == "synchronization: two buckets of one name; expected names that tell buckets apart");
  s.buckets = {"a"};
  s.weights[1].parts.front().bucket = 0;
  CHECK(told(s) ==
        "synchronization, weight of node 1: a bucket, a, of weights of other elements; expected one element type and "
        "one compressor in a bucket");
  s = {};
  s.weights.resize(2);
  s.weights[0].parts.front().is_sparse = true;
  CHECK(told(s) ==
        "synchronization, weight of node 0: a gradient of indices and rows; expected a weight that lookups alone read, "
        "as their table");
}

TEST_CASE("the first parts of a weight have one more element if its parts are not equal") {
  using parallel::box;
  const auto parts = [](std::uint32_t axis, std::size_t count, const tensor::shape& dims) {
    return parallel::boxes_of({axis, std::vector<synchronizer>(count)}, dims);
  };
  CHECK(parts(0, 3, {8, 4}) == std::vector<box>{{{0, 0}, {3, 4}}, {{3, 0}, {6, 4}}, {{6, 0}, {8, 4}}});
  CHECK(parts(0, 3, {7, 4}) == std::vector<box>{{{0, 0}, {3, 4}}, {{3, 0}, {5, 4}}, {{5, 0}, {7, 4}}});
  CHECK(parts(1, 2, {2, 5}) == std::vector<box>{{{0, 0}, {2, 3}}, {{0, 3}, {2, 5}}});
  CHECK(parts(0, 1, {}) == std::vector<box>(1));
}

}  // namespace tests_of_weight_synchronization
