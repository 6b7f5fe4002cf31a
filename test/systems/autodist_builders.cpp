#include <unity/systems/autodist/builders.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_autodist_builders {

namespace {

using namespace unity;
using hardware::device_id;
using parallel::sync_kind;
using unity::test::training::operators;

std::vector<device_id> servers(std::size_t count) {
  std::vector<device_id> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(10 + i);
  }
  return all;
}

systems::sync_problem weights(std::vector<tensor::shape> dims, std::size_t count) {
  systems::sync_problem p{{}, servers(count)};
  for (auto& d : dims) {
    p.weights.push_back({"w" + std::to_string(p.weights.size()), std::move(d), tensor::dtype::float32, true, false});
  }
  return p;
}

// docs/tutorial.md quotes it.
parallel::synchronization large_on_servers(const systems::sync_problem& p, const systems::builder_options&) {
  parallel::synchronization s;
  std::size_t next = 0;
  for (const auto& w : p.weights) {
    auto& part = s.weights.emplace_back().parts.front();
    if (w.is_trained && w.size() > bytes{1'000'000}) {
      part.kind = parallel::sync_kind::parameter_server;
      part.destination = p.servers[next++ % p.servers.size()];
    }
  }
  return s;
}

double load(const systems::sync_problem& p, const parallel::synchronization& s) {
  double most = 0;
  double all = 0;
  for (const auto b : systems::served_bytes(p, s)) {
    most = std::max(most, static_cast<double>(b.count()));
    all += static_cast<double>(b.count());
  }
  return most * static_cast<double>(p.servers.size()) / all;
}

}  // namespace

TEST_CASE("a weight's first axis is cut by its smallest divisor or its smallest non-divisor") {
  const std::vector<std::vector<std::int64_t>> expected{
      // size, even parts, uneven parts
      {1, 1, 1}, {2, 2, 2}, {3, 3, 2}, {4, 2, 3}, {6, 2, 4}, {7, 7, 2}, {9, 3, 2}, {12, 2, 5}, {13, 13, 2}, {25, 5, 2}};
  for (const auto& e : expected) {
    CAPTURE(e[0]);
    CHECK(systems::divided_parts(e[0]) == e[1]);
    CHECK(systems::uneven_parts(e[0]) == e[2]);
  }
  const auto p = weights({{7, 4}, {12}, {1, 9}, {}}, 3);
  const auto even = systems::partitioned_ps(p);
  CHECK(even.weights[0].parts.size() == 7);
  CHECK(even.weights[1].parts.size() == 2);
  CHECK(even.weights[2].parts.size() == 1);
  CHECK(even.weights[3].parts.size() == 1);
  CHECK(systems::uneven_partitioned_ps(p).weights[1].parts.size() == 5);
  const auto one = systems::partitioned_ps(weights({{7, 4}, {12}}, 1));
  CHECK(one.weights[0].parts.size() == 1);
  const auto reduced = systems::partitioned_all_reduce(p);
  CHECK(reduced.weights[0].parts.size() == 7);
  CHECK(reduced.weights[0].parts.front().kind == sync_kind::all_reduce);
}

TEST_CASE("uneven parts of an axis differ by one element with the larger parts first") {
  const auto p = weights({{12, 4}}, 3);
  const auto s = systems::uneven_partitioned_ps(p);
  std::vector<std::int64_t> sizes;
  for (const auto& b : parallel::boxes_of(s.weights[0], p.weights[0].dims)) {
    sizes.push_back(b.sizes()[0]);
  }
  CHECK(sizes == std::vector<std::int64_t>{3, 3, 2, 2, 2});
}

TEST_CASE("all_reduce buckets neighbouring weights and orders the buckets from last to first") {
  const auto p = weights({{4}, {4}, {4}, {4}, {4}}, 2);
  systems::builder_options o;
  o.chunk = 2;
  const auto s = systems::all_reduce(p, o);
  CHECK(s.buckets == std::vector<std::string>{"group 2", "group 1", "group 0"});
  std::vector<std::uint32_t> buckets;
  for (const auto& w : s.weights) {
    buckets.push_back(w.parts.front().bucket);
  }
  CHECK(buckets == std::vector<std::uint32_t>{2, 2, 1, 1, 0});
}

TEST_CASE("top-k and PowerSGD compressors keep all weights out of buckets") {
  const auto p = weights({{4, 4}, {4, 4}, {6, 2}}, 2);
  systems::builder_options o;
  for (const auto kind : {parallel::compression::top_k, parallel::compression::power_sgd}) {
    o.compressor = {kind, true, 2};
    for (const auto build : {systems::all_reduce, systems::partitioned_all_reduce, systems::horovod}) {
      const auto s = build(p, o);
      CHECK(s.buckets.empty());
      parallel::for_each_part(s, [&](const parallel::synchronizer& part) {
        CHECK(part.bucket == parallel::synchronizer::no_bucket);
        CHECK(part.compressor == o.compressor);
      });
    }
  }
}

TEST_CASE("left_out_of names the builder option that no part of a strategy has") {
  const auto left_out = [](systems::sync_problem p, const auto& build, const systems::builder_options& o) {
    return systems::left_out_of(build(p, o), o);
  };
  const auto dense = weights({{4}, {4, 4}}, 2);
  auto mixed = dense;
  mixed.weights[1].is_sparse = true;
  systems::builder_options rounded;
  rounded.compressor.kind = parallel::compression::float16;
  systems::builder_options stale;
  stale.staleness = 2;
  CHECK(left_out(dense, systems::ps, {}).empty());
  CHECK(left_out(dense, systems::ps, rounded) == "compressor");
  CHECK(left_out(dense, systems::ps, stale).empty());
  CHECK(left_out(dense, systems::all_reduce, rounded).empty());
  CHECK(left_out(dense, systems::all_reduce, stale) == "staleness");
  CHECK(left_out(dense, systems::parallax, stale) == "staleness");
  stale.compressor = rounded.compressor;
  CHECK(left_out(mixed, systems::parallax, stale).empty());
}

TEST_CASE("TensorFlow parameter servers have no proxies and no staleness") {
  systems::builder_options o;
  o.is_proxied = true;
  o.staleness = 2;
  const auto s = systems::tf_ps_load_balancing(weights({{4}, {4, 4}}, 2), o);
  parallel::for_each_part(s, [](const parallel::synchronizer& part) {
    CHECK_FALSE(part.is_proxied);
    CHECK(part.staleness == 0);
  });
  CHECK(systems::left_out_of(s, o) == "staleness");
}

TEST_CASE("Horovod buckets hold 64 MB or one larger weight") {
  const auto p = weights({{1 << 24}, {1 << 22}, {1 << 23}, {1 << 23}, {1 << 26}}, 1);  // 64, 16, 32, 32, 256 MB
  const auto s = systems::horovod(p);
  CHECK(s.buckets.size() == 4);
  CHECK(s.weights[4].parts.front().bucket == 0);
  CHECK(s.weights[3].parts.front().bucket == 1);
  CHECK(s.weights[2].parts.front().bucket == 1);
  CHECK(s.weights[1].parts.front().bucket == 2);
  CHECK(s.weights[0].parts.front().bucket == 3);
}

TEST_CASE("Parallax all-reduces dense gradients and serves sparse ones") {
  const auto g = tensor::zoo::build(operators(), "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40");
  const auto p = systems::sync_problem_of(operators(), g, servers(2));
  const auto s = systems::parallax(p);
  std::size_t tables = 0;
  for (std::size_t w = 0; w < p.weights.size(); ++w) {
    const auto& part = s.weights[w].parts.front();
    tables += p.weights[w].is_sparse ? 1 : 0;
    CHECK(p.weights[w].is_sparse == (part.kind == sync_kind::parameter_server));
    CHECK(part.is_sparse == p.weights[w].is_sparse);
  }
  CHECK(tables == 4);
}

TEST_CASE("the random partition axis has more than one element and depends on the seed") {
  const auto p = weights({{1, 6, 1, 4}, {1, 1}, {5, 3}}, 2);
  std::set<std::uint32_t> axes;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    systems::builder_options o;
    o.seed = seed;
    const auto s = systems::random_axis_all_reduce(p, o);
    CHECK(s == systems::random_axis_all_reduce(p, o));
    axes.insert(s.weights[0].axis);
    CHECK(s.weights[1].parts.size() == 1);
  }
  CHECK(axes == std::set<std::uint32_t>{1, 3});
}

TEST_CASE("a user-defined synchronization builder is a function") {
  const auto g = tensor::zoo::build(operators(), "zoo:alexnet");
  const auto p = systems::sync_problem_of(operators(), g, servers(2));
  const systems::named_builder own{"large_on_servers", large_on_servers};
  const auto s = own.build(p, {});
  CHECK_NOTHROW(parallel::check(operators(), g, s, 12));
  CHECK(load(p, s) < 2);
  CHECK(std::any_of(s.weights.begin(), s.weights.end(), [](const auto& w) { return w.is_default(); }));
}

TEST_CASE("each synchronization builder gives a valid strategy for its graph", "[law]") {
  for (const auto* model : {"zoo:lenet", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=41", "zoo:bert?layers=1"}) {
    const auto g = tensor::zoo::build(operators(), model);
    for (const auto& b : systems::sync_builders) {
      for (const auto count : {1UL, 2UL, 3UL, 8UL}) {
        CAPTURE(model, b.name, count);
        const auto p = systems::sync_problem_of(operators(), g, servers(count));
        for (const bool is_proxied : {false, true}) {
          systems::builder_options o;
          o.is_proxied = is_proxied;
          o.staleness = is_proxied ? 2 : 0;
          const auto s = b.build(p, o);
          CHECK_NOTHROW(parallel::check(operators(), g, s, 10 + count));
        }
      }
    }
  }
}

TEST_CASE("partitioned parameter servers balance their loads as docs/performance.md states") {
  struct loads {
    const char* model;
    double whole, even, uneven, sharded;
  };
  // docs/performance.md quotes these numbers. A weight that exceeds a server's share of all weights (NCF's tables,
  // VGG-16's first dense layer) needs as many parts as there are servers.
  for (const auto& expected :
       {loads{"zoo:bert?layers=24&hidden=1024&heads=16", 1.021, 1.001, 1.006, 1.0},
        loads{"zoo:vgg16", 3.057, 1.582, 1.285, 1.002}, loads{"zoo:ncf?form=large", 2.205, 1.040, 1.316, 1.003}}) {
    const auto g = tensor::zoo::build(operators(), expected.model);
    const auto p = systems::sync_problem_of(operators(), g, servers(4));
    CAPTURE(expected.model);
    CHECK(load(p, systems::ps(p)) == Approx(4));
    CHECK(load(p, systems::ps_load_balancing(p)) == Approx(expected.whole).margin(6e-4));
    CHECK(load(p, systems::partitioned_ps(p)) == Approx(expected.even).margin(6e-4));
    CHECK(load(p, systems::uneven_partitioned_ps(p)) == Approx(expected.uneven).margin(6e-4));
    CHECK(load(p, systems::sharded_ps(p)) == Approx(expected.sharded).margin(6e-4));
    CHECK(load(p, systems::sharded_ps(p)) <= 1.1);
  }
}

}  // namespace tests_of_autodist_builders
