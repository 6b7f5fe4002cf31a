// Gradients that are rounded, factored, or sent as indices and rows; and weights that are fetched.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/work.hpp>
#include <unity/train/data.hpp>
#include <unity/train/initial_weights.hpp>

#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_gradient_messages {

namespace {

using namespace unity;
using train::test::operators;

constexpr std::uint64_t seed = 5;

// Four devices are two nodes of two.
parallel::plan plan_of(const std::string& model, std::size_t devices) {
  auto p = train::with_loss(operators(), train::test::plan_for(model, devices, "data"), tensor::loss::mean_square);
  if (devices == 4) {
    p.machine = hardware::preset("p100:2x2");
  }
  return p;
}

// Elements of weights and gradients that ranks send between nodes.
std::int64_t elements_between_nodes(const parallel::plan& p, const parallel::rank_programs& programs) {
  const auto& t = p.machine.network;
  std::int64_t all = 0;
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    for (const auto& s : programs.ranks[r].steps) {
      const bool leaves = s.kind == parallel::step_kind::send && p.graph.operands(s.origin).empty() &&
                          t[hardware::device_id{r}].node != t[hardware::device_id{s.peer}].node;
      all += leaves ? tensor::element_count(programs.ranks[r].graph.type(s.value).dims) : 0;
    }
  }
  return all;
}

// The same in simulated bytes.
std::int64_t bytes_between_nodes(const parallel::plan& p, const tasks::program& program) {
  const auto& t = p.machine.network;
  std::set<std::size_t> between;
  parallel::network n{p.machine};
  for (std::size_t from = 0; from < t.device_count(); ++from) {
    for (std::size_t to = 0; to < t.device_count(); ++to) {
      const hardware::device_id x{from};
      const hardware::device_id y{to};
      if (t[x].node != t[y].node) {
        const auto links = n.route(x, y);
        between.insert(links.front().resource.index());
      }
    }
  }
  std::int64_t all = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    if (program.owner_of(tasks::fragment_id{f}).kind != tasks::owner_kind::weight) {
      continue;
    }
    for (const auto& task : program[tasks::fragment_id{f}].tasks) {
      const bool leaves = task.kind == tasks::task_kind::transfer && between.contains(task.resource.index());
      all += leaves ? task.volume.count() : 0;
    }
  }
  return all;
}

// change(weight, synchronizer) is called for each trained weight.
template <class F>
parallel::synchronization every(const parallel::plan& p, const F& change) {
  parallel::synchronization all;
  const parallel::training_graph training{operators(), p.graph};
  for (const auto& w : training.weights()) {
    auto& own = all.weights.emplace_back();
    if (w.is_trained) {
      change(w, own);
    }
  }
  return all;
}

parallel::synchronization compressed(const parallel::plan& p, const parallel::compressor& c) {
  return every(p, [&](const auto&, parallel::weight_sync& own) { own.parts.front().compressor = c; });
}

std::vector<double> losses_of(const parallel::plan& p, std::uint64_t steps,
                              const train::update_rule& rule = {parallel::optimizer::sgd, 0.05}) {
  return train::test::train_some(p, rule, seed, 0, steps, {}, {});
}

// Relative; not a number, which no bound holds, if a loss is none.
double largest_difference(const std::vector<double>& own, const std::vector<double>& expected) {
  REQUIRE(!own.empty());
  REQUIRE(own.size() <= expected.size());
  double most = 0;
  for (std::size_t s = 0; s < own.size(); ++s) {
    const auto difference = std::abs(own[s] / expected[s] - 1);
    if (std::isnan(difference)) {
      return difference;
    }
    most = std::max(most, difference);
  }
  return most;
}

using numbers = tensor::dense<double>;

// Reference: data-parallel training in which each rank sends its largest elements; gradients are computed per rank, and
// plain loops do the rest.
class slow_selection {
 public:
  // model: without its batch, which is divided equally among ranks.
  slow_selection(const std::string& model, std::int64_t batch, std::size_t ranks, std::int64_t amount)
      : own_batch_{batch / static_cast<std::int64_t>(ranks)},
        ranks_{ranks},
        amount_{amount},
        graph_{plan_of(model + "&batch=" + std::to_string(own_batch_), 1).graph},
        gradients_{tensor::differentiate(operators(), graph_, {graph_.outputs()[0], {}})},
        whole_{plan_of(model + "&batch=" + std::to_string(batch), 1).graph},
        data_{operators(), whole_, seed} {
    const train::initial_weights first{operators(), whole_, seed};
    for (const auto n : node_ids(graph_)) {
      if (graph_.operation(n).kind == operators().kind("weight")) {
        const auto& t = graph_.type(graph_.results(n)[0]);
        std::vector<std::byte> bytes(backend::byte_count(t));
        first.fill(name_of(n), t, parallel::whole(t.dims), bytes);
        weights_[name_of(n)] = backend::decode<double>(bytes.data(), t);
      }
    }
  }

  // Returns the loss before the step.
  double step(std::uint64_t number, double rate) {
    double loss = 0;
    std::map<std::string, std::vector<double>> sums;
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto made = evaluate(r, number);
      loss += made[0].data[0] / static_cast<double>(ranks_);
      for (std::size_t i = 0; i < gradients_.sources.size(); ++i) {
        const auto name = name_of(graph_.producer(gradients_.sources[i]));
        add_largest(made[1 + i].data, rests_[{r, name}], sums[name]);
      }
    }
    for (auto& [name, sum] : sums) {
      for (std::size_t k = 0; k < sum.size(); ++k) {
        weights_[name].data[k] -= rate * sum[k];
      }
    }
    return loss;
  }

 private:
  [[nodiscard]] std::string name_of(node_id n) const {
    return std::string{operators().read(graph_.operation(n)).word("name")};
  }
  [[nodiscard]] std::vector<numbers> evaluate(std::size_t rank, std::uint64_t number) const {
    const auto provide = [&](const tensor::operation& op, tensor::tensor_type t) -> std::optional<numbers> {
      if (operators().definition_of(op.kind).source == tensor::source_kind::none) {
        return std::nullopt;
      }
      const std::string name{operators().read(op).word("name")};
      if (op.kind == operators().kind("weight")) {
        return weights_.at(name);
      }
      std::vector<std::byte> bytes(backend::byte_count(t));
      const auto own = t;
      auto part = parallel::whole(t.dims);
      if (op.kind == operators().kind("input")) {
        t.dims[0] *= static_cast<std::int64_t>(ranks_);
        part.begin[0] = static_cast<std::int64_t>(rank) * own_batch_;
        part.end[0] = part.begin[0] + own_batch_;
      }
      data_.fill(name, t, part, number, bytes);
      return backend::decode<double>(bytes.data(), own);
    };
    return tensor::evaluate<double>(operators(), gradients_.graph, provide);
  }
  void add_largest(const std::vector<double>& gradient, std::vector<double>& rest, std::vector<double>& sum) const {
    rest.resize(gradient.size());
    sum.resize(gradient.size());
    std::vector<std::size_t> order(gradient.size());
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      rest[k] += gradient[k] / static_cast<double>(ranks_);
      order[k] = k;
    }
    std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return std::abs(rest[x]) > std::abs(rest[y]) || (std::abs(rest[x]) == std::abs(rest[y]) && x < y);
    });
    order.resize(std::max<std::size_t>(1, order.size() * static_cast<std::size_t>(amount_) / 1000));
    for (const auto k : order) {
      sum[k] += rest[k];
      rest[k] = 0;
    }
  }

  std::int64_t own_batch_;
  std::size_t ranks_;
  std::int64_t amount_;
  tensor::tensor_graph graph_;
  tensor::differentiated_graph gradients_;
  tensor::tensor_graph whole_;
  train::synthetic_data data_;
  std::map<std::string, numbers> weights_{};
  std::map<std::pair<std::size_t, std::string>, std::vector<double>> rests_{};  // by rank and weight: kept errors
};

}  // namespace

TEST_CASE("the difference of losses that are not numbers is none") {
  const auto none = std::numeric_limits<double>::quiet_NaN();
  CHECK(largest_difference({1, 3, 2}, {1, 2, 2}) == 0.5);
  CHECK(std::isnan(largest_difference({1, none, 3}, {1, 2, 2})));
  CHECK(std::isnan(largest_difference({none, 1}, {1, 1})));
  CHECK(std::isnan(largest_difference({1}, {none})));
}

TEST_CASE("weights fetched from servers train as replicated weights") {
  for (const auto* model : {"zoo:mlp?layers=3&hidden=7&batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40"}) {
    for (const auto devices : {1UL, 2UL, 4UL}) {
      CAPTURE(model, devices);
      auto p = plan_of(model, devices);
      const auto expected = losses_of(p, 4);
      std::size_t next = 0;
      p.synchronization = every(p, [&](const auto&, parallel::weight_sync& own) {
        own.parts.front() = {parallel::sync_kind::parameter_server};
        own.parts.front().destination = hardware::device_id{next++ % devices};
        own.parts.front().is_proxied = false;
      });
      CHECK(largest_difference(losses_of(p, 4), expected) < 1e-11);
      const auto programs = parallel::programs_of_ranks(operators(), p);
      std::size_t kept = 0;
      for (const auto& r : programs.ranks) {
        kept += r.weights.size();
      }
      CHECK(kept == next);  // each on its own server only
    }
  }
}

TEST_CASE("per-node servers train as replicas and exchange once per node") {
  unity::test::one_of_some is_tried;
  for (const auto* model : {"zoo:mlp?layers=3&hidden=7&batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40"}) {
    for (const bool is_proxied : {true, false}) {
      for (const auto server : {0UL, 1UL, 3UL}) {
        for (const auto parts : {1UL, 2UL}) {
          if (!is_tried()) {
            continue;
          }
          CAPTURE(model, is_proxied, server, parts);
          auto p = plan_of(model, 4);
          const auto expected = losses_of(p, 4);
          std::int64_t elements = 0;
          p.synchronization = every(p, [&](const parallel::weight_uses& w, parallel::weight_sync& own) {
            const auto& dims = p.graph.type(w.value).dims;
            elements += tensor::element_count(dims);
            own.parts.assign(dims[0] > 1 ? parts : 1, {parallel::sync_kind::parameter_server});
            for (auto& part : own.parts) {
              part.destination = hardware::device_id{server};
              part.is_proxied = is_proxied;
              part.is_per_node = true;
            }
          });
          CHECK(largest_difference(losses_of(p, 4), expected) < 1e-11);
          const auto moved = elements_between_nodes(p, parallel::programs_of_ranks(operators(), p));
          CHECK(moved == 2 * elements);  // a gradient and a weight, for the node without the server
          const auto program = parallel::lower(operators(), p);
          CHECK(8 * moved == bytes_between_nodes(p, program));  // equals the simulation
        }
      }
    }
  }
}

TEST_CASE("sparse gradients of lookups train as dense gradients") {
  unity::test::one_of_some is_tried;
  for (const auto* model :
       {"zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4"}) {
    for (const auto devices : {1UL, 2UL, 4UL}) {
      for (const auto parts : {1UL, 2UL}) {
        for (const std::uint32_t axis : {0U, 1U}) {
          for (const auto kind : {parallel::sync_kind::all_reduce, parallel::sync_kind::parameter_server}) {
            if (!is_tried()) {
              continue;
            }
            CAPTURE(model, devices, parts, axis, kind);
            auto p = plan_of(model, devices);
            const auto expected = losses_of(p, 3);
            std::size_t tables = 0;
            p.synchronization = every(p, [&](const parallel::weight_uses& w, parallel::weight_sync& own) {
              if (!parallel::is_looked_up(operators(), p.graph, w)) {
                return;
              }
              ++tables;
              own.axis = parts > 1 ? axis : 0;
              own.parts.resize(parts);
              for (std::size_t k = 0; k < parts; ++k) {
                own.parts[k].kind = kind;
                own.parts[k].is_sparse = true;
                if (kind == parallel::sync_kind::parameter_server) {
                  own.parts[k].destination = hardware::device_id{k % devices};
                  own.parts[k].is_proxied = k != 1;
                }
              }
            });
            REQUIRE(tables > 0);
            CHECK(largest_difference(losses_of(p, 3), expected) < 1e-11);
          }
        }
      }
    }
  }
}

TEST_CASE("servers look up rows for ranks without a table with less traffic than the table") {
  const auto elements_sent = [](const parallel::rank_programs& programs) {
    std::int64_t all = 0;
    for (const auto& r : programs.ranks) {
      for (const auto& s : r.steps) {
        all += s.kind == parallel::step_kind::send ? tensor::element_count(r.graph.type(s.value).dims) : 0;
      }
    }
    return all;
  };
  unity::test::one_of_some is_tried;
  for (const auto* model :
       {"zoo:dlrm?form=ae&batch=8&hidden=8&vocab=4000", "zoo:rnntc?layers=1&hidden=6&seq=3&vocab=900&batch=8"}) {
    for (const auto devices : {2UL, 4UL}) {
      for (const auto parts : {1UL, 3UL}) {
        for (const bool is_recomputed : {false, true}) {
          if (!is_tried()) {
            continue;
          }
          CAPTURE(model, devices, parts, is_recomputed);
          auto p = plan_of(model, devices);
          const auto expected = losses_of(p, 3);
          if (is_recomputed) {
            p.recomputed = parallel::full_recomputation(p.graph);
          }
          std::int64_t table = 0;
          p.synchronization = every(p, [&](const parallel::weight_uses& w, parallel::weight_sync& own) {
            if (parallel::is_looked_up(operators(), p.graph, w)) {
              table = tensor::element_count(p.graph.type(w.value).dims);
              own.parts.assign(parts, {parallel::sync_kind::parameter_server});
              for (std::size_t k = 0; k < parts; ++k) {
                own.parts[k].destination = hardware::device_id{k % devices};
                own.parts[k].is_sparse = true;
                own.parts[k].is_proxied = false;
              }
            }
          });
          CHECK(largest_difference(losses_of(p, 3), expected) < 1e-11);
          CHECK(elements_sent(parallel::programs_of_ranks(operators(), p)) < table);
        }
      }
    }
  }
}

TEST_CASE("16-bit gradients stay near exact training and closer with feedback") {
  const auto* model = "zoo:mlp?layers=3&hidden=12&batch=8";
  constexpr std::size_t sizes[] = {2, 1, 4};
  for (const auto devices : std::span{sizes}.first(unity::test::cases(3))) {
    auto p = plan_of(model, devices);
    const auto expected = losses_of(p, 60);
    for (const auto kind : {parallel::compression::float16, parallel::compression::bfloat16}) {
      CAPTURE(devices, kind);
      const double rounding = kind == parallel::compression::float16 ? 0x1p-11 : 0x1p-8;
      p.synchronization = compressed(p, {kind, false, 0});
      const auto plain = losses_of(p, 60);
      CHECK(largest_difference({plain.begin(), plain.begin() + 2}, expected) < 8 * rounding);
      p.synchronization = compressed(p, {kind, true, 0});
      const auto with = losses_of(p, 60);
      CHECK(largest_difference(with, expected) < 8 * rounding);
      CHECK(std::abs(with.back() / expected.back() - 1) < 4 * rounding);
      if (devices == 1) {
        CHECK(with == expected);  // nothing is sent
      } else {
        CHECK(plain != expected);
      }
    }
  }
}

TEST_CASE("PowerSGD gradients converge and are exact at full rank") {
  const auto* model = "zoo:mlp?layers=3&hidden=12&batch=8";
  auto p = plan_of(model, 4);
  const auto expected = losses_of(p, 100);
  // A run that learns nothing ends farther away than what is allowed below.
  const auto still = losses_of(p, 100, {parallel::optimizer::sgd, 1e-9});
  CHECK(std::abs(still.back() / expected.back() - 1) > 2e-3);
  p.synchronization = compressed(p, {parallel::compression::power_sgd, true, 64});
  CHECK(largest_difference(losses_of(p, 10), expected) < 1e-11);
  constexpr std::uint32_t ranks[] = {1, 4};
  for (const auto rank : std::span{ranks}.first(unity::test::cases(2))) {
    p.synchronization = compressed(p, {parallel::compression::power_sgd, true, rank});
    const auto own = losses_of(p, 100);
    CAPTURE(rank, own.back(), expected.back());
    CHECK(largest_difference(own, expected) < 0.2);   // every step has a new batch
    CHECK(largest_difference(own, expected) > 1e-7);  // something is lost
    CHECK(std::abs(own.back() / expected.back() - 1) < 2e-3);
  }
}

TEST_CASE("top-k gradients train as a plain loop reference", "[law]") {
  const std::string model = "zoo:mlp?layers=3&hidden=12";
  constexpr std::int64_t batch = 8;
  constexpr std::uint64_t steps = 12;
  unity::test::one_of_some is_tried;
  for (const auto devices : {2UL, 1UL, 4UL}) {
    for (const std::uint32_t amount : {30U, 1U, 250U, 1000U}) {
      if (!is_tried()) {
        continue;
      }
      CAPTURE(devices, amount);
      auto p = plan_of(model + "&batch=" + std::to_string(batch), devices);
      const auto exact = losses_of(p, steps);
      p.synchronization = compressed(p, {parallel::compression::top_k, true, amount});
      const auto own = losses_of(p, steps);
      slow_selection slow{model, batch, devices, devices == 1 ? 1000 : amount};  // a single device sends nothing
      std::vector<double> expected;
      for (std::uint64_t s = 0; s < steps; ++s) {
        expected.push_back(slow.step(s, 0.05));
      }
      CHECK(largest_difference(own, expected) < 1e-9);
      if (amount == 1000 || devices == 1) {
        CHECK(largest_difference(own, exact) < 1e-9);
      } else {
        CHECK(largest_difference(own, exact) > 1e-6);
      }
    }
  }
}

TEST_CASE("ranks send as many top-k bytes as are simulated") {
  for (const auto devices : {2UL, 4UL}) {
    for (const std::uint32_t amount : {1U, 100U}) {
      auto p = plan_of("zoo:mlp?layers=3&hidden=12&batch=8", devices);
      const auto moved = [&] { return parallel::message_bytes(parallel::lower(operators(), p)).count(); };
      p.synchronization =
          every(p, [](const auto&, parallel::weight_sync& own) { own.parts.front().kind = parallel::sync_kind::none; });
      const auto without_gradients = moved();
      const parallel::compressor method{parallel::compression::top_k, true, amount};
      p.synchronization = compressed(p, method);
      std::int64_t expected = 0;  // 4-byte indices and 8-byte elements
      const parallel::training_graph training{operators(), p.graph};
      for (const auto& w : training.weights()) {
        const auto count = tensor::element_count(p.graph.type(w.value).dims);
        expected += w.is_trained ? parallel::sent_elements(method, count) * (4 + 8) : 0;
      }
      const auto others = static_cast<std::int64_t>(devices) - 1;
      CHECK(moved() - without_gradients == static_cast<std::int64_t>(devices) * others * expected);
      const auto programs = parallel::programs_of_ranks(operators(), p);
      for (const auto& r : programs.ranks) {
        std::int64_t sent = 0;
        for (const auto& s : r.steps) {
          CHECK(s.kind != parallel::step_kind::reduce);
          sent += s.kind == parallel::step_kind::gather ? tensor::size_in_bytes(r.graph.type(s.value)).count() : 0;
        }
        CHECK(sent == expected);
      }
    }
  }
}

TEST_CASE("compressors of partitioned weights give the exact losses if nothing is lost") {
  for (const auto* parallelism : {"model", "mixed"}) {
    for (const auto devices : {2UL, 4UL}) {
      CAPTURE(parallelism, devices);
      auto p = train::with_loss(operators(),
                                train::test::plan_for("zoo:mlp?layers=3&hidden=8&batch=8", devices, parallelism),
                                tensor::loss::mean_square);
      const auto expected = losses_of(p, 3);
      for (const auto& c : {parallel::compressor{parallel::compression::top_k, true, 1000},
                            parallel::compressor{parallel::compression::power_sgd, true, 64}}) {
        p.synchronization = compressed(p, c);
        CHECK(largest_difference(losses_of(p, 3), expected) < 1e-9);
      }
    }
  }
}

TEST_CASE("a non-finite loss under compressed gradients stops the run with its origin") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=12&batch=8", 2);
  for (const auto& c : {parallel::compressor{parallel::compression::float16, true, 0},
                        parallel::compressor{parallel::compression::top_k, true, 100},
                        parallel::compressor{parallel::compression::power_sgd, true, 2}}) {
    CAPTURE(c.kind);
    p.synchronization = compressed(p, c);
    CHECK_THROWS_WITH(losses_of(p, 6, {parallel::optimizer::sgd, 1e200}),
                      Catch::Contains("first from") && Catch::Contains("is the learning rate too large?"));
  }
}

TEST_CASE("a compressed bucket is reduced once and runs are bitwise reproducible") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=12&batch=8", 2);
  const auto expected = losses_of(p, 20);
  p.synchronization = compressed(p, {parallel::compression::float16, true, 0});
  p.synchronization.buckets = {"all"};
  for (auto& w : p.synchronization.weights) {
    for (auto& part : w.parts) {
      part.bucket = part.compressor.kind == parallel::compression::none ? part.bucket : 0;
    }
  }
  const auto own = losses_of(p, 20);
  CHECK(largest_difference(own, expected) < 0x1p-8);
  CHECK(losses_of(p, 20) == own);
  const auto programs = parallel::programs_of_ranks(operators(), p);
  for (const auto& r : programs.ranks) {
    CHECK(std::count_if(r.steps.begin(), r.steps.end(),
                        [](const auto& s) { return s.kind == parallel::step_kind::reduce; }) == 1);
    CHECK(r.kept.size() == 1);
  }
}

TEST_CASE("invalid synchronizers are refused by the plan check") {
  auto p = plan_of("zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4", 2);
  const auto complaint = [&](auto change) {
    auto q = p;
    q.synchronization = every(p, [&](const auto& w, parallel::weight_sync& own) { change(w, own.parts.front()); });
    try {
      parallel::check(operators(), q);
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  using parallel::synchronizer;
  const auto server = [](synchronizer& s) {
    s.kind = parallel::sync_kind::parameter_server;
    s.destination = hardware::device_id{0U};
  };
  CHECK_THAT(complaint([](const auto&, synchronizer& s) { s.staleness = 1; }),
             Catch::Contains("staleness of all_reduce; expected staleness of parameter_server alone"));
  CHECK_THAT(complaint([&](const auto&, synchronizer& s) {
               server(s);
               s.compressor = {parallel::compression::float16, false, 0};
             }),
             Catch::Contains("a compressor of parameter_server"));
  CHECK_THAT(complaint([&](const auto&, synchronizer& s) {
               server(s);
               s.staleness = 65;
             }),
             Catch::Contains("64 at most"));
  CHECK_THAT(complaint([](const auto&, synchronizer& s) { s.is_sparse = true; }),
             Catch::Contains("a weight that lookups alone read"));
  CHECK_THAT(complaint([](const auto&, synchronizer& s) { s.compressor = {parallel::compression::top_k, true, 0}; }),
             Catch::Contains("an amount of 0"));
  CHECK_THAT(complaint([](const auto&, synchronizer& s) { s.is_proxied = false; }), Catch::Contains("no proxy"));
  CHECK(complaint([](const auto&, synchronizer&) {}).empty());
}

}  // namespace tests_of_gradient_messages
