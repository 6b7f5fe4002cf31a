#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/train/initial_weights.hpp>
#include <unity/train/outside_arena.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_stale_servers {

namespace {

using namespace unity;
using numbers = tensor::dense<double>;
using parallel::sync_kind;
using train::test::operators;

constexpr std::uint64_t seed = 3;

// Four devices are two nodes of two.
parallel::plan plan_of(const std::string& model, std::size_t devices) {
  auto p = train::test::plan_for(model, devices, "data");
  if (devices == 4) {
    p.machine = hardware::preset("p100:2x2");
  }
  return p;
}

parallel::plan with_loss(const parallel::plan& p) {
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

// By weight, in graph order: its servers' staleness.
std::vector<std::uint32_t> lags_of(const parallel::plan& p) {
  std::vector<std::uint32_t> all;
  for (const auto& w : p.synchronization.weights) {
    all.push_back(w.parts.front().staleness);
  }
  return all;
}

numbers decoded(const tensor::tensor_type& t, const std::vector<std::byte>& bytes) {
  return backend::decode<double>(bytes.data(), t);
}

// Reference: losses and final weights of one process that keeps all versions. Iteration t reads version max(0, t - lag)
// of each weight, and its gradient changes the newest. Optimizers are written out.
struct run_result {
  std::vector<double> losses{};
  std::map<std::string, numbers> weights{};
};
run_result simulated(const parallel::plan& p, const train::update_rule& rule, std::uint64_t steps,
                     const std::vector<std::uint32_t>& lags) {
  const auto& g = p.graph;
  const parallel::training_graph training{operators(), g};
  std::vector<value_id> trained;
  for (const auto& w : training.weights()) {
    trained.push_back(w.value);
  }
  const auto one = tensor::differentiate(operators(), g, {g.outputs()[0], trained});
  const train::batches data{operators(), g, seed};
  const train::initial_weights first{operators(), g, seed};
  const auto name_of = [&](value_id v) {
    return std::string{operators().read(g.operation(g.producer(v))).word("name")};
  };
  std::vector<std::vector<numbers>> versions(trained.size());
  std::vector<std::vector<numbers>> states(trained.size(), std::vector<numbers>(2));
  for (std::size_t w = 0; w < trained.size(); ++w) {
    const auto& t = g.type(trained[w]);
    std::vector<std::byte> bytes(backend::byte_count(t));
    first.fill(name_of(trained[w]), t, parallel::whole(t.dims), bytes);
    versions[w].push_back(decoded(t, bytes));
    for (auto& s : states[w]) {
      s = numbers{t.dims};
    }
  }
  run_result all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto provide = [&](const tensor::operation& op, const tensor::tensor_type& t) -> std::optional<numbers> {
      const auto kind = operators().signature(op.kind).name;
      if (kind != "input" && kind != "weight" && kind != "constant") {
        return std::nullopt;
      }
      const std::string name{operators().read(op).word("name")};
      for (std::size_t w = 0; w < trained.size(); ++w) {
        if (name_of(trained[w]) == name) {
          return versions[w][step > lags[w] ? step - lags[w] : 0];
        }
      }
      std::vector<std::byte> bytes(backend::byte_count(t));
      data.fill(name, t, parallel::whole(t.dims), step, bytes);
      return decoded(t, bytes);
    };
    const auto made = tensor::evaluate<double>(operators(), one.graph, provide);
    all.losses.push_back(made[0].data[0]);
    const auto number = static_cast<double>(step + 1);
    for (std::size_t w = 0; w < trained.size(); ++w) {
      auto next = versions[w].back();
      for (std::size_t k = 0; k < next.data.size(); ++k) {
        const auto gradient = made[1 + w].data[k];
        auto& m = states[w][0].data[k];
        auto& v = states[w][1].data[k];
        switch (rule.updates) {
          case parallel::optimizer::sgd: next.data[k] -= rule.learning_rate * gradient; break;
          case parallel::optimizer::momentum:
            m = rule.momentum * m + gradient;
            next.data[k] -= rule.learning_rate * m;
            break;
          case parallel::optimizer::adam:
            m = rule.beta1 * m + (1 - rule.beta1) * gradient;
            v = rule.beta2 * v + (1 - rule.beta2) * gradient * gradient;
            next.data[k] -= rule.learning_rate * (m / (1 - std::pow(rule.beta1, number))) /
                            (std::sqrt(v / (1 - std::pow(rule.beta2, number))) + rule.epsilon);
            break;
        }
      }
      versions[w].push_back(std::move(next));
    }
  }
  for (std::size_t w = 0; w < trained.size(); ++w) {
    all.weights[name_of(trained[w])] = versions[w].back();
  }
  return all;
}

// The same on ranks. The loss is the mean over the batch, so ranks' gradients are summed as they are.
run_result trained(const parallel::plan& p, const train::update_rule& rule, std::uint64_t steps) {
  run_result all;
  std::mutex one_at_a_time;
  train::test::on_threads(p, rule, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto&) {
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      losses.push_back(rank.step(s));
    }
    rank.finish();
    losses = rank.losses(0, std::move(losses));
    const std::lock_guard lock{one_at_a_time};
    all.losses = losses;
    const auto& program = rank.executor().program();
    for (const auto& w : program.weights) {
      const auto& t = p.graph.type(w.weight.of);
      const std::string name{operators().read(p.graph.operation(p.graph.producer(w.weight.of))).word("name")};
      std::vector<std::byte> bytes(rank.executor().size_of(w.weight.value));
      rank.executor().read(w.weight.value, bytes);
      const auto part = decoded(program.graph.type(w.weight.value), bytes);
      auto& whole = all.weights.try_emplace(name, numbers{t.dims}).first->second;
      const auto sizes = w.weight.part.sizes();
      for (std::size_t i = 0; i < part.data.size(); ++i) {
        std::int64_t place = 0;
        std::int64_t stride = 1;
        auto rest = static_cast<std::int64_t>(i);
        for (auto d = sizes.size(); d-- > 0; rest /= sizes[d], stride *= t.dims[d]) {
          place += (w.weight.part.begin[d] + rest % sizes[d]) * stride;
        }
        whole.data[static_cast<std::size_t>(place)] = part.data[i];
      }
    }
  });
  return all;
}

// The largest difference of a loss or of an element of a weight; infinite if one is not a number. Both have the same
// losses and weights.
double apart(const run_result& x, const run_result& y) {
  REQUIRE_FALSE(x.losses.empty());
  REQUIRE(x.losses.size() == y.losses.size());
  REQUIRE(x.weights.size() == y.weights.size());
  double most = 0;
  const auto raise = [&most](double difference) {
    most = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(most, difference);
  };
  for (std::size_t s = 0; s < x.losses.size(); ++s) {
    raise(std::abs(x.losses[s] - y.losses[s]) / std::max(1.0, std::abs(y.losses[s])));
  }
  for (const auto& [name, w] : x.weights) {
    const auto& other = y.weights.at(name);
    REQUIRE(w.dims == other.dims);
    for (std::size_t k = 0; k < w.data.size(); ++k) {
      raise(std::abs(w.data[k] - other.data[k]));
    }
  }
  return most;
}

// Calls f(weight number, synchronizer) for each weight, and adds a loss to the plan.
template <class F>
void synchronize(parallel::plan& p, const F& f) {
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.assign(training.weights().size(), {});
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    f(w, training.weights()[w], p.synchronization.weights[w]);
  }
  p = with_loss(p);
}

parallel::synchronizer server(std::size_t device, std::uint32_t lag) {
  parallel::synchronizer s{sync_kind::parameter_server};
  s.destination = hardware::device_id{device};
  s.staleness = lag;
  return s;
}

const char* const dense_model = "zoo:mlp?layers=3&hidden=7&batch=8";
const char* const sparse_model = "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40";

}  // namespace

TEST_CASE("stale parameter servers train as one process with old weight versions", "[law]") {
  unity::test::one_of_some is_tried;
  for (const auto updates : {parallel::optimizer::sgd, parallel::optimizer::momentum, parallel::optimizer::adam}) {
    for (const auto devices : {1UL, 2UL, 4UL}) {
      for (const std::uint32_t lag : {1U, 2U, 5U}) {
        if (!is_tried()) {
          continue;
        }
        CAPTURE(updates, devices, lag);
        auto p = plan_of(dense_model, devices);
        p.updates = updates;
        const train::update_rule rule{.updates = updates,
                                      .learning_rate = updates == parallel::optimizer::adam ? 0.01 : 0.1};
        synchronize(p, [&](std::size_t w, const auto&, parallel::weight_sync& own) {
          own.parts.front() = server(w % devices, lag);
        });
        const auto expected = simulated(p, rule, 9, lags_of(p));
        CHECK(apart(trained(p, rule, 9), expected) < 1e-9);
        if (lag > 1) {
          CHECK(apart(trained(p, rule, 9), simulated(p, rule, 9, std::vector<std::uint32_t>(lags_of(p).size(), 0))) >
                1e-6);
        }
      }
    }
  }
}

TEST_CASE("weights of different staleness train as one process with old weight versions", "[law]") {
  for (const auto devices : {2UL, 4UL}) {
    CAPTURE(devices);
    auto p = plan_of(dense_model, devices);
    const train::update_rule rule{.updates = parallel::optimizer::momentum, .learning_rate = 0.05};
    p.updates = rule.updates;
    synchronize(p, [&](std::size_t w, const auto&, parallel::weight_sync& own) {
      if (w % 3 != 2) {
        own.parts.front() = server(w % devices, static_cast<std::uint32_t>(w % 4));
      }
    });
    CHECK(apart(trained(p, rule, 8), simulated(p, rule, 8, lags_of(p))) < 1e-9);
    // Fewer steps than the staleness.
    CHECK(apart(trained(p, rule, 2), simulated(p, rule, 2, lags_of(p))) < 1e-9);
  }
}

TEST_CASE("parts and sparse rows of stale weights train as one process with old versions", "[law]") {
  for (const auto devices : {2UL, 4UL}) {
    for (const bool is_sparse : {false, true}) {
      CAPTURE(devices, is_sparse);
      auto p = plan_of(sparse_model, devices);
      const train::update_rule rule{.learning_rate = 0.1};
      synchronize(p, [&](std::size_t, const parallel::weight_uses& w, parallel::weight_sync& own) {
        const bool is_table = parallel::is_looked_up(operators(), p.graph, w);
        own.parts.assign(is_table ? 3 : 1, server(0, 2));
        for (std::size_t k = 0; k < own.parts.size(); ++k) {
          own.parts[k].destination = hardware::device_id{k % devices};
          own.parts[k].is_sparse = is_sparse && is_table;
        }
      });
      CHECK(apart(trained(p, rule, 7), simulated(p, rule, 7, lags_of(p))) < 1e-9);
    }
  }
}

TEST_CASE("synchronization builders with staleness train as one process with old versions", "[law]") {
  const auto without = plan_of(dense_model, 4);
  std::vector<hardware::device_id> servers;
  for (std::size_t d = 0; d < 4; ++d) {
    servers.emplace_back(d);
  }
  const auto problem = systems::sync_problem_of(operators(), without.graph, servers);
  systems::builder_options o;
  o.staleness = 3;
  const train::update_rule rule{.learning_rate = 0.1};
  for (const auto& b : systems::sync_builders) {
    CAPTURE(b.name);
    auto p = without;
    p.synchronization = b.build(problem, o);
    p = with_loss(p);
    CHECK(apart(trained(p, rule, 8), simulated(p, rule, 8, lags_of(p))) < 1e-9);
  }
}

// Each rank sleeps for its time before every iteration; returns when each iteration began.
static std::vector<std::vector<double>> begins(const parallel::plan& p, std::uint64_t steps,
                                               const std::vector<int>& milliseconds) {
  std::vector<std::vector<double>> all(milliseconds.size());
  const auto start = std::chrono::steady_clock::now();
  train::test::on_threads(p, {}, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
    const auto own = static_cast<std::size_t>(world.rank());
    std::vector<double> losses;
    for (std::uint64_t s = 0; s < steps; ++s) {
      all[own].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds[own]});
      losses.push_back(rank.step(s));
    }
    rank.finish();
    static_cast<void>(rank.losses(0, std::move(losses)));
  });
  return all;
}

TEST_CASE("ranks run ahead of a slow one by at most the staleness bound") {
  for (const std::uint32_t lag : {0U, 1U, 3U}) {
    auto p = plan_of(dense_model, 4);
    synchronize(p, [&](std::size_t, const auto&, parallel::weight_sync& own) { own.parts.front() = server(0, lag); });
    constexpr std::uint64_t steps = 12;
    const auto at = begins(p, steps, {0, 0, 0, 25});
    // How many iterations the slow rank is behind when another begins one.
    std::size_t most = 0;
    for (const std::size_t fast : {0U, 1U, 2U}) {
      for (std::size_t s = 0; s < steps; ++s) {
        const auto slow = static_cast<std::size_t>(std::upper_bound(at[3].begin(), at[3].end(), at[fast][s]) -
                                                   at[3].begin());  // iterations begun by the slow rank
        most = std::max(most, s + 1 - std::min(slow, s + 1));
      }
    }
    CAPTURE(lag, most);
    CHECK(most <= lag + 1);  // its gradients of s - lag - 1 come before another rank begins s
    CHECK(most >= lag);
  }
}

TEST_CASE("a run of stale servers resumed from a checkpoint continues as after a finish") {
  auto p = plan_of(dense_model, 2);
  synchronize(p, [&](std::size_t w, const auto&, parallel::weight_sync& own) { own.parts.front() = server(w % 2, 2); });
  const train::update_rule rule{.learning_rate = 0.1};
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "stale.weights";
  std::filesystem::create_directories(file.parent_path());
  const auto whole = [&] {
    std::vector<double> losses;
    train::test::on_threads(p, rule, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
      std::vector<double> own;
      for (std::uint64_t s = 0; s < 6; ++s) {
        own.push_back(rank.step(s));
        if (s == 2) {
          rank.finish();
        }
      }
      own = rank.losses(0, std::move(own));
      if (world.rank() == 0) {
        losses = own;
      }
    });
    return losses;
  };
  const auto expected = whole();
  CHECK(whole() == expected);
  std::vector<double> again;
  for (const bool is_second : {false, true}) {
    train::test::on_threads(p, rule, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
      const auto run = train::test::settings_for(p, rule, seed);
      if (is_second) {
        const io::weights_reader reader{file};
        REQUIRE(train::read_checkpoint(reader, file, operators(), rank, world, run) == 3);
      }
      std::vector<double> own;
      for (std::uint64_t s = is_second ? 3 : 0; s < (is_second ? 6U : 3U); ++s) {
        own.push_back(rank.step(s));
      }
      if (!is_second) {
        train::write_checkpoint(file, operators(), rank, world, run, 3);
      }
      own = rank.losses(is_second ? 3 : 0, std::move(own));
      if (world.rank() == 0) {
        again.insert(again.end(), own.begin(), own.end());
      }
    });
  }
  CHECK(again == expected);
}

TEST_CASE("evaluating a batch's loss leaves stale servers unchanged") {
  auto p = plan_of(dense_model, 2);
  synchronize(p, [&](std::size_t, const auto&, parallel::weight_sync& own) { own.parts.front() = server(1, 2); });
  const train::update_rule rule{.learning_rate = 0.1};
  const auto run = [&](bool looks) {
    std::vector<double> losses;
    train::test::on_threads(p, rule, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
      std::vector<double> own;
      for (std::uint64_t s = 0; s < 7; ++s) {
        if (s == 4) {
          rank.finish();
          if (looks) {
            static_cast<void>(rank.loss_of(99, io::dataset_part::train));
          }
        }
        own.push_back(rank.step(s));
      }
      rank.finish();
      own = rank.losses(0, std::move(own));
      if (world.rank() == 0) {
        losses = own;
      }
    });
    return losses;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a non-finite loss under stale servers is reported") {
  auto p = plan_of(dense_model, 2);
  synchronize(p, [&](std::size_t, const auto&, parallel::weight_sync& own) { own.parts.front() = server(0, 1); });
  const auto message = test::message_of([&] { static_cast<void>(trained(p, {.learning_rate = 1e200}, 6)); });
  CAPTURE(message);
  CHECK(message.find("a loss of ") != std::string::npos);
}

// A message that arrives while its request is destroyed.
struct last_message {
  explicit last_message(std::span<std::byte> memory) : to{memory} {}
  last_message(last_message&& o) noexcept : to{std::exchange(o.to, {})} {}
  last_message& operator=(last_message&&) = delete;
  ~last_message() { std::fill(to.begin(), to.end(), std::byte{1}); }
  void wait() {}

  std::span<std::byte> to;
};
struct late_world {
  using request = last_message;
};

// Fails under the address sanitizer if the memory is freed first.
TEST_CASE("messages aside end before their memory is freed") {
  backend::reference_backend b{operators()};
  train::messages_aside<backend::reference_backend, late_world> aside;
  aside.add(0, 256, 1);
  aside.allocate(b);
  aside.begin(0, 0, [](std::span<std::byte> memory) { return last_message{memory}; });
  CHECK(aside.end(0, 0)[255] == std::byte{1});
  aside.begin(0, 1, [](std::span<std::byte> memory) { return last_message{memory}; });
}

TEST_CASE("programs of servers without staleness have no lag") {
  auto p = plan_of(dense_model, 2);
  synchronize(p, [&](std::size_t, const auto&, parallel::weight_sync& own) { own.parts.front() = server(0, 0); });
  for (const auto& r : parallel::programs_of_ranks(operators(), p).ranks) {
    for (const auto& s : r.steps) {
      CHECK(s.lag == 0);
      CHECK(s.since == 0);
    }
  }
}

}  // namespace tests_of_stale_servers
