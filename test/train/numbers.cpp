// Non-finite losses: training stops and names the operator that produced the first non-finite value.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/train/non_numbers.hpp>

#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_numbers {

namespace {

using namespace unity;
using train::test::operators;

// The error message of a run of `steps` steps, or ""; calls prepare(rank) first.
std::string message_of(
    const parallel::plan& p, const train::update_rule& rule, std::uint64_t steps,
    const std::function<void(train::test::reference_trainer&)>& prepare = [](auto&) {}) {
  return unity::test::message_of([&] {
    train::test::on_threads(p, rule, 1, {operators(), p.graph, 1}, [&](auto& rank, auto&) {
      prepare(rank);
      for (std::uint64_t s = 0; s < steps; ++s) {
        static_cast<void>(rank.step(s));
      }
    });
  });
}

// The number of the node of kind `what`, or of the source named `what`.
std::string number_of(const tensor::tensor_graph& g, std::string_view what) {
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    const bool is_source = operators().definition_of(op.kind).source != tensor::source_kind::none;
    if (operators().signature(op.kind).name == what || (is_source && operators().read(op).word("name") == what)) {
      return std::to_string(n.index());
    }
  }
  return "none";
}

void set_weight(train::test::reference_trainer& rank, std::string_view name, double value) {
  const auto& g = rank.plan().graph;
  for (const auto& w : rank.executor().program().weights) {
    if (operators().read(g.operation(g.producer(w.weight.of))).word("name") == name) {
      const auto& t = rank.executor().program().graph.type(w.weight.value);
      tensor::dense<double> all{t.dims};
      all.data.assign(all.data.size(), value);
      rank.executor().write(w.weight.value, backend::encode(all, t));
    }
  }
}

std::vector<std::vector<std::byte>> weights_of(train::test::reference_trainer& rank) {
  std::vector<std::vector<std::byte>> all;
  for (const auto& w : rank.executor().program().weights) {
    rank.executor().read(w.weight.value, all.emplace_back(rank.executor().size_of(w.weight.value)));
  }
  return all;
}

// Overflows in x * x of a large weight, or has a non-finite gradient in sqrt(0).
parallel::plan squares(std::size_t devices, const char* function) {
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 4}, tensor::dtype::float32);
  const auto wide = b.matmul(x, b.weight("w", {4, 4}));
  const auto y = std::string_view{function} == "sqrt" ? b.apply("sqrt", {b.relu(wide)})[0] : b.mul(wide, wide);
  return train::with_loss(operators(),
                          train::test::plan_for(std::move(b).finish(std::vector{b.relu(y)}), devices, "data"),
                          tensor::loss::mean_square);
}

}  // namespace

TEST_CASE("non-finite values are detected in each floating-point type") {
  const auto inf = std::numeric_limits<double>::infinity();
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto element :
       {tensor::dtype::float64, tensor::dtype::float32, tensor::dtype::float16, tensor::dtype::bfloat16}) {
    const tensor::tensor_type t{element, tensor::layout::row_major, false, {3}};
    for (const auto bad : {inf, -inf, nan}) {
      CHECK_FALSE(train::is_finite(element, backend::encode(tensor::dense<double>{{3}, {0, 1, bad}}, t)));
    }
    CHECK(train::is_finite(element, backend::encode(tensor::dense<double>{{3}, {0, -1, 60000}}, t)));
  }
  CHECK(train::is_finite(tensor::dtype::int32, std::vector<std::byte>(8, std::byte{0xff})));
}

TEST_CASE("iteration places order forward before reversed backward steps and sums after terms") {
  using parallel::rank_step;
  using parallel::step_kind;
  const auto at = [](std::size_t n, bool is_backward, step_kind kind = step_kind::run) {
    rank_step s{};
    s.kind = kind;
    s.origin = node_id{n};
    s.is_backward = is_backward;
    return train::iteration_place::of(s, 10);
  };
  CHECK(at(3, false) < at(4, false));
  CHECK(at(9, false) < at(9, true));
  CHECK(at(9, true) < at(3, true));
  CHECK(at(3, false) < at(3, false, step_kind::reduce));
  CHECK(at(3, false, step_kind::reduce) < at(4, false));
  CHECK(at(0, true, step_kind::reduce) < train::iteration_place{});
  for (const bool is_backward : {false, true}) {
    CHECK(at(7, is_backward).node(10) == node_id{7U});
    CHECK(at(7, is_backward).is_backward(10) == is_backward);
  }
}

TEST_CASE("a non-finite loss stops data-parallel training and names the first operator") {
  const auto devices = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4});
  CAPTURE(devices);
  const auto p = squares(devices, "mul");
  const auto message = message_of(p, {}, 1, [](auto& rank) { set_weight(rank, "w", 1e200); });
  CHECK(message == "step 0: a loss of inf, first from mul " + number_of(p.graph, "mul") +
                       ", forward, on rank 0; expected numbers; is the learning rate too large?");
  CHECK(message_of(p, {}, 3).empty());
}

TEST_CASE("a non-finite weight is named in the error") {
  const auto* parallelism = GENERATE("data", "model", "mixed");
  CAPTURE(parallelism);
  const auto p =
      train::with_loss(operators(), train::test::plan_for("zoo:mlp?layers=3&hidden=8&batch=8", 4, parallelism),
                       tensor::loss::mean_square);
  const auto message = message_of(
      p, {}, 1, [](auto& rank) { set_weight(rank, "dense1.weight", std::numeric_limits<double>::infinity()); });
  CHECK(message.starts_with("step 0: a loss of "));
  CHECK(message.find(", first from weight " + number_of(p.graph, "dense1.weight") + " \"dense1.weight\", on rank ") !=
        std::string::npos);
}

TEST_CASE("a too large learning rate stops the run with the operator's name") {
  const auto devices = GENERATE(std::size_t{1}, std::size_t{4});
  const auto p =
      train::with_loss(operators(), train::test::plan_for("zoo:mlp?layers=3&hidden=8&batch=8", devices, "data"),
                       tensor::loss::mean_square);
  const auto message = message_of(p, {parallel::optimizer::sgd, 1e100}, 20);
  CHECK(message.find("a loss of ") != std::string::npos);
  CHECK(message.find(", forward, on rank 0; expected numbers") != std::string::npos);
}

TEST_CASE("pipelines with delayed updates refuse a non-finite loss and keep their weights") {
  const auto stages = GENERATE(std::size_t{2}, std::size_t{3});
  CAPTURE(stages);
  const auto whole = train::test::plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  const auto p =
      train::with_loss(operators(), train::test::in_stages(whole, stages, 4, true), tensor::loss::mean_square);
  std::vector<std::string> messages(stages);
  std::vector<char> is_kept(stages, 0);
  train::test::on_threads(p, {parallel::optimizer::sgd, 1e100}, 1, {operators(), p.graph, 1},
                          [&](auto& rank, auto& world) {
                            std::vector<std::vector<std::byte>> before;
                            messages[static_cast<std::size_t>(world.rank())] = unity::test::message_of([&] {
                              for (std::uint64_t s = 0; s < 20; ++s) {
                                before = weights_of(rank);
                                static_cast<void>(rank.step(s));
                              }
                            });
                            rank.finish();
                            is_kept[static_cast<std::size_t>(world.rank())] = weights_of(rank) == before;
                          });
  for (std::size_t r = 0; r < stages; ++r) {
    CHECK(messages[r].find("a loss of ") != std::string::npos);
    CHECK(messages[r].find("; expected numbers; is the learning rate too large?") != std::string::npos);
    CHECK(messages[r] == messages[0]);
    CHECK(is_kept[r] != 0);
  }
}

TEST_CASE("a non-finite gradient of a finite loss is found before the weights are kept") {
  const auto devices = GENERATE(std::size_t{1}, std::size_t{2});
  const auto p = squares(devices, "sqrt");
  std::string message;
  std::vector<double> kept;
  try {
    train::test::on_threads(p, {}, 1, {operators(), p.graph, 1}, [&](auto& rank, auto& world) {
      static_cast<void>(rank.step(0));
      try {
        rank.expect_finite(1);
      } catch (const error&) {
        if (world.rank() == 0) {
          const auto v = rank.executor().program().weights[0].weight.value;
          std::vector<std::byte> bytes(rank.executor().size_of(v));
          rank.executor().read(v, bytes);
          kept = backend::decode<double>(bytes.data(), rank.executor().program().graph.type(v)).data;
        }
        throw;
      }
    });
  } catch (const error& e) {
    message = e.what();
  }
  CHECK(message.starts_with("step 0: weights that are not finite, first from sqrt " + number_of(p.graph, "sqrt") +
                            ", backward, on rank "));
  for (const auto x : kept) {
    CHECK(std::isfinite(x));
  }
  CHECK_FALSE(kept.empty());
}

}  // namespace tests_of_numbers
