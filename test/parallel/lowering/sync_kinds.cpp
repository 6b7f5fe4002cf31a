#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/iterations.hpp>
#include <unity/tasks/repeated.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/operators.hpp"
#include "../random_sync.hpp"

namespace tests_of_sync_kinds {

namespace {

using namespace unity;
using unity::test::training::operators;

parallel::plan plan_of(const std::string& model, const std::string& machine, bool data = true) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), model);
  p.machine = hardware::preset(machine);
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = data ? parallel::data_parallel(all, p.machine.network)
                          : parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  p.updates = parallel::optimizer::adam;
  return p;
}

struct simulated {
  picoseconds iteration{};
  bytes moved{};
  std::vector<bytes> permanent{};  // by device
};
simulated run(const parallel::plan& p) {
  const auto program = parallel::lower(operators(), p);
  simulated s;
  s.iteration = simulate::full_simulation{}.run(program);
  s.moved = parallel::message_bytes(program);
  s.permanent.resize(p.machine.network.device_count());
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    for (const auto& b : program[tasks::fragment_id{f}].buffers) {
      s.permanent[b.device] += b.permanent ? b.size : bytes{};
    }
  }
  return s;
}

// The same synchronizer for all trained weights.
parallel::synchronization all_of(const parallel::plan& p, const parallel::synchronizer& s) {
  parallel::synchronization all;
  const parallel::training_graph training{operators(), p.graph};
  for (const auto& w : training.weights()) {
    all.weights.emplace_back().parts.front() = w.is_trained ? s : parallel::synchronizer{};
  }
  return all;
}

// Data parallelism of lookups in a table on the first device, which also computes; all other weights are all-reduced.
parallel::plan served_table(bool is_proxied) {
  auto p = plan_of("zoo:embedding_bag?vocab=20000&batch=64&seq=4&hidden=16", "p100:1x4");
  p.synchronization = all_of(p, {});
  const parallel::training_graph training{operators(), p.graph};
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    if (is_looked_up(operators(), p.graph, training.weights()[w])) {
      auto& s = p.synchronization.weights[w].parts.front();
      s.kind = parallel::sync_kind::parameter_server;
      s.destination = hardware::device_id{0U};
      s.is_proxied = is_proxied;
      s.is_sparse = true;
    }
  }
  return p;
}

// The gradient of the table is gathered as indices and rows.
parallel::plan gathered_table(std::size_t devices, std::int64_t microbatches) {
  auto p = plan_of("zoo:embedding_bag?vocab=20000&batch=64&seq=4&hidden=16", "p100:1x" + std::to_string(devices));
  p.synchronization = all_of(p, {});
  const parallel::training_graph training{operators(), p.graph};
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    if (is_looked_up(operators(), p.graph, training.weights()[w])) {
      p.synchronization.weights[w].parts.front().is_sparse = true;
    }
  }
  p.pipeline = {microbatches, std::vector<std::uint32_t>(devices)};
  return p;
}

// All weights on the last device, which also computes; the others fetch them.
parallel::plan fetched(const std::string& model, std::int64_t microbatches = 1) {
  auto p = plan_of(model, "p100:1x4");
  parallel::synchronizer s;
  s.kind = parallel::sync_kind::parameter_server;
  s.destination = hardware::device_id{3U};
  s.is_proxied = false;
  p.synchronization = all_of(p, s);
  p.pipeline = {microbatches, std::vector<std::uint32_t>(4)};
  return p;
}

}  // namespace

TEST_CASE("all-reducing each weight alone gives the program without synchronization settings") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=64&batch=32", "p100:1x4");
  const auto before = parallel::lower(operators(), p);
  p.synchronization = all_of(p, {});
  const auto after = parallel::lower(operators(), p);
  REQUIRE(before.fragment_count() == after.fragment_count());
  for (std::size_t f = 0; f < before.fragment_count(); ++f) {
    CHECK(before[tasks::fragment_id{f}] == after[tasks::fragment_id{f}]);
  }
}

TEST_CASE("moved and kept bytes match the definition of each synchronizer") {
  const auto devices = GENERATE(std::int64_t{2}, std::int64_t{4});
  CAPTURE(devices);
  auto p = plan_of("zoo:mlp?layers=3&hidden=64&batch=32", "p100:1x" + std::to_string(devices));
  std::int64_t weights = 0;  // elements
  const parallel::training_graph training{operators(), p.graph};
  for (const auto& w : training.weights()) {
    weights += tensor::element_count(p.graph.type(w.value).dims);
  }
  const auto alone = run(p);
  const auto ring = 2 * (devices - 1) * 4 * weights;  // summed over devices
  CHECK(alone.moved.count() >= ring);
  CHECK(alone.moved.count() <= ring + 100 * devices);  // messages of each weight are whole bytes
  for (const auto& b : alone.permanent) {
    CHECK(b.count() == 4 * weights * 4);  // weight, gradient and Adam's two states
  }

  parallel::lowering l{operators(), p.graph, p.machine};
  p.synchronization = parallel::sharded_sync(l);
  const auto sharded = run(p);
  CHECK(sharded.moved.count() >= ring);
  CHECK(sharded.moved.count() <= ring + 200 * devices);
  std::int64_t kept = 0;
  for (const auto& b : sharded.permanent) {
    kept += b.count() - 2 * 4 * weights;
  }
  CHECK(kept == 2 * 4 * weights);  // on one device only

  p.synchronization = parallel::served_sync(l, p.configurations);
  const auto served = run(p);
  CHECK(served.moved.count() == 2 * (devices - 1) * 4 * weights);  // to the server and back, for each of the others
  kept = 0;
  for (const auto& b : served.permanent) {
    kept += b.count() - 2 * 4 * weights;
  }
  CHECK(kept == 2 * 4 * weights);

  p.synchronization = all_of(p, {parallel::sync_kind::none, parallel::synchronizer::no_bucket, {}});
  const auto none = run(p);
  CHECK(none.moved == bytes{});
  CHECK(none.iteration < alone.iteration);
}

TEST_CASE("readers of a served table hold no dense gradient, and no rows if the server looks them up") {
  const bool is_proxied = GENERATE(false, true);
  CAPTURE(is_proxied);
  const auto p = served_table(is_proxied);
  std::int64_t table = 0;  // bytes
  std::int64_t rest = 0;
  const parallel::training_graph training{operators(), p.graph};
  for (const auto& w : training.weights()) {
    const auto size = 4 * tensor::element_count(p.graph.type(w.value).dims);
    (is_looked_up(operators(), p.graph, w) ? table : rest) += size;
  }
  REQUIRE(table > 0);
  const auto held = run(p).permanent;
  CHECK(held[0].count() == 4 * table + 4 * rest);  // weight, gradient and Adam's two states
  for (std::size_t d = 1; d < held.size(); ++d) {
    CHECK(held[d].count() == (is_proxied ? table : 0) + 4 * rest);
  }
}

TEST_CASE("the server of a table looks up rows and computes the gradient from rows; readers do not") {
  const bool is_proxied = GENERATE(false, true);
  const std::int64_t microbatches = is_proxied ? GENERATE(1, 3) : 1;
  CAPTURE(is_proxied, microbatches);
  auto p = served_table(is_proxied);
  const auto dense = [&] {
    auto other = p;
    other.synchronization = {};
    return parallel::lower(operators(), other);
  }();
  p.pipeline = {microbatches, std::vector<std::uint32_t>(4)};
  const auto program = parallel::lower(operators(), p);
  simulate::full_simulation full;
  full.run(program);
  std::int64_t gradient = 0;  // picoseconds
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind == tasks::owner_kind::node && program.owner_of(id).name.find("embedding_bag") == 0) {
      for (const auto& t : dense[id].tasks) {
        gradient = t.kind == tasks::task_kind::backward ? t.duration.count() : gradient;
      }
      for (const auto& t : program[id].tasks) {
        CHECK((t.kind != tasks::task_kind::backward || t.duration == picoseconds{}));
      }
    }
  }
  REQUIRE(gradient > 1'000'000);
  std::map<tasks::task_kind, std::vector<std::uint32_t>> of_server;
  tasks::fragment_id table;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& all = program[id].tasks;
    for (std::uint32_t i = 0; i < all.size() && program.owner_of(id).kind == tasks::owner_kind::weight; ++i) {
      if (all[i].kind == tasks::task_kind::forward || all[i].kind == tasks::task_kind::weight_gradient) {
        CHECK(all[i].resource.index() == 0);
        of_server[all[i].kind].push_back(i);
        table = id;
      }
    }
  }
  CHECK(of_server[tasks::task_kind::forward].size() == (is_proxied ? 0 : 3));  // one per reader on another device
  REQUIRE(of_server[tasks::task_kind::weight_gradient].size() == 1);
  const auto made = program.find(table, of_server[tasks::task_kind::weight_gradient][0]).index();
  CHECK(program[tasks::task_id{made}].duration.count() > gradient);  // from the rows of all devices
  CHECK(program.before(made).size() == 4);
  REQUIRE(program.after(made).size() == 1);
  CHECK(program[tasks::task_id{program.after(made)[0].task()}].kind == tasks::task_kind::update);
}

TEST_CASE("devices that gather rows of a table compute its gradient from all of them, after the gather") {
  const auto devices = GENERATE(std::size_t{1}, std::size_t{4});
  const std::int64_t microbatches = GENERATE(1, 3);
  CAPTURE(devices, microbatches);
  const auto p = gathered_table(devices, microbatches);
  const auto program = parallel::lower(operators(), p);
  std::size_t made = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& all = program[id].tasks;
    const bool is_lookup = program.owner_of(id).name.find("embedding_bag") == 0;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (is_lookup && all[i].kind == tasks::task_kind::backward) {
        CHECK(all[i].duration == picoseconds{});
      }
      if (all[i].kind != tasks::task_kind::weight_gradient) {
        continue;
      }
      ++made;
      CHECK(all[i].resource == parallel::network::stream(hardware::device_id{all[i].shard}));
      const auto t = program.find(id, i).index();
      REQUIRE(program.before(t).size() == 1);
      CHECK(program[tasks::task_id{program.before(t)[0].task()}].kind == tasks::task_kind::reduce);
      REQUIRE(program.after(t).size() == 1);
      CHECK(program[tasks::task_id{program.after(t)[0].task()}].kind == tasks::task_kind::update);
    }
  }
  CHECK(made == devices);
}

TEST_CASE("the rows of a table's gradient are those of all micro-batches") {
  const bool is_served = GENERATE(false, true);
  CAPTURE(is_served);
  struct sent {
    bytes moved{};
    picoseconds takes{};  // the gradient of all rows
  };
  const auto sent_in = [&](std::int64_t microbatches) {
    auto p = is_served ? served_table(true) : gathered_table(4, 1);
    const parallel::graph_dimensions whole{operators(), p.graph};
    p.graph = parallel::microbatch(operators(), p.graph, whole, microbatches).value();
    p.pipeline = {microbatches, std::vector<std::uint32_t>(4)};
    const auto program = parallel::lower(operators(), p);
    sent all;
    for (std::size_t f = 0; f < program.fragment_count(); ++f) {
      const auto& fragment = program[tasks::fragment_id{f}];
      all.moved += program.owner_of(tasks::fragment_id{f}).kind == tasks::owner_kind::weight
                       ? parallel::message_bytes(fragment)
                       : bytes{};
      for (const auto& t : fragment.tasks) {
        all.takes += t.kind == tasks::task_kind::weight_gradient ? t.duration : picoseconds{};
      }
    }
    return all;
  };
  const auto whole = sent_in(1);
  CHECK(whole.takes > picoseconds{});
  for (const std::int64_t microbatches : {2, 4}) {
    const auto parts = sent_in(microbatches);
    CHECK(parts.moved == whole.moved);
    CHECK(parts.takes == whole.takes);
  }
}

TEST_CASE("micro-batches fetch served weights once, before the first one; fetching rows of tables is refused") {
  const std::string model = "zoo:mlp?layers=3&hidden=64&batch=32";
  const auto p = fetched(model, 3);
  const auto program = parallel::lower(operators(), p);
  CHECK(simulate::full_simulation{}.run(program) > picoseconds{});
  std::size_t waits = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind != tasks::owner_kind::weight) {
      continue;
    }
    for (const auto& d : program[id].dependencies) {
      const auto count = [&](const tasks::task_ref& t) { return program[t.fragment].tasks.size(); };
      if (d.after.fragment.valid() && d.after.fragment != id) {
        CHECK(d.after.index < count(d.after) / 3);
        ++waits;
      }
      if (d.before.fragment.valid() && d.before.fragment != id) {
        CHECK((program.owner_of(d.before.fragment).kind == tasks::owner_kind::weight ||
               d.before.index >= count(d.before) / 3 * 2));
      }
    }
  }
  CHECK(waits > 0);
  CHECK(run(p).moved == run(fetched(model)).moved);
  auto rows = served_table(false);
  rows.pipeline = {2, std::vector<std::uint32_t>(4)};
  CHECK_THROWS_WITH(parallel::lower(operators(), rows),
                    "simulation: rows of a table that micro-batches fetch; expected "
                    "proxies, or one micro-batch");
}

TEST_CASE("a weight is fetched after all updates of its server in the previous iteration") {
  for (const std::int64_t microbatches : {1, 2}) {
    const auto p = fetched("zoo:lenet?batch=16", microbatches);
    const auto program = parallel::lower(operators(), p);
    const auto carried = parallel::carried_dependencies(operators(), p, program);
    const auto two = tasks::repeated(program, carried, 2);
    simulate::full_simulation full;
    full.run(two);
    const auto count = program.fragment_count();
    std::int64_t updated = 0;
    std::size_t fetches = 0;
    for (std::size_t f = 0; f < 2 * count; ++f) {
      const tasks::fragment_id id{f};
      const auto& all = two[id].tasks;
      for (std::uint32_t i = 0; i < all.size() && two.owner_of(id).kind == tasks::owner_kind::weight; ++i) {
        const auto& times = full.times()[two.find(id, i).index()];
        const auto once = program.find(tasks::fragment_id{f % count}, i).index();
        if (f < count && all[i].kind == tasks::task_kind::update) {
          updated = std::max(updated, times.end);
        } else if (f >= count && all[i].kind == tasks::task_kind::transfer && program.before(once).empty()) {
          CHECK(times.start >= updated);
          ++fetches;
        }
      }
    }
    CHECK(fetches > 20);
    const auto steady = simulate::run_until_steady(program, carried, 8);
    CHECK(steady.time <= steady.first);
  }
}

TEST_CASE("PowerSGD messages have the shape of the piece that devices sum") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {32, 64});
  auto p = plan_of("zoo:lenet", "p100:1x4");
  p.graph = std::move(b).finish({b.matmul(x, b.weight("w", {64, 1024}))});
  p.configurations.assign(p.graph.node_count(), {});
  auto& product = p.configurations.back();
  for (std::size_t d = 0; d < 4; ++d) {
    product.devices.push_back(hardware::device_id{d});
  }
  parallel::synchronizer s;
  s.compressor = {parallel::compression::power_sgd, true, 1};
  p.synchronization.weights = {{1, std::vector(4, s)}};
  const auto moved = [&](std::initializer_list<std::size_t> devices, std::int64_t elements) {
    parallel::network n{p.machine};
    tasks::fragment f;
    std::vector<hardware::device_id> all;
    for (const auto d : devices) {
      all.push_back(hardware::device_id{d});
    }
    static_cast<void>(add_collective(n, f, hardware::exchange::all_reduce, all, bytes{4 * elements}, {}));
    return parallel::message_bytes(f).count();
  };
  // Four parts of 64 x 256 elements.
  product.degrees = {4, 1};
  CHECK(run(p).moved.count() == 4 * (moved({0, 1, 2, 3}, 64) + moved({0, 1, 2, 3}, 256)));
  // Two pieces of 64 x 512 elements, each on two devices.
  product.degrees = {2, 2};
  p.synchronization.weights = {{0, {s}}};
  CHECK(run(p).moved.count() == moved({0, 2}, 64) + moved({0, 2}, 512) + moved({1, 3}, 64) + moved({1, 3}, 512));
  // Pieces with no more rows than the narrow matrices have columns are sent unchanged.
  s.compressor.amount = 64;
  p.synchronization.weights = {{0, {s}}};
  CHECK(run(p).moved.count() == moved({0, 2}, 64 * 512) + moved({1, 3}, 64 * 512));
}

TEST_CASE("gradient buckets all-reduce the same bytes in order after all their gradients") {
  auto p = plan_of("zoo:alexnet?batch=64", "p100:1x4");
  const auto alone = run(p);
  parallel::lowering l{operators(), p.graph, p.machine};
  p.synchronization = parallel::bucketed_sync(l, p.configurations, bytes{25'000'000});
  REQUIRE(p.synchronization.buckets.size() > 2);
  const auto together = run(p);
  CHECK(std::abs(together.moved.count() - alone.moved.count()) < 1000);
  CHECK(together.permanent == alone.permanent);

  const auto program = parallel::lower(operators(), p);
  simulate::full_simulation full;
  full.run(program);
  std::int64_t before = -1;
  std::size_t buckets = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind != tasks::owner_kind::bucket) {
      continue;
    }
    CHECK(program.owner_of(id).name == p.synchronization.buckets[buckets]);
    CHECK(program.owner_of(id).index == buckets++);
    REQUIRE(program[id].tasks.size() > 1);
    const auto& begins = full.times()[program.find(id, 0).index()];
    CHECK(begins.start >= before);
    before = begins.start;
    for (const auto link : program.before(program.find(id, 0).index())) {
      CHECK(full.times()[link.task()].end <= begins.ready);
    }
  }
  CHECK(buckets == p.synchronization.buckets.size());
  std::map<std::uint32_t, std::int64_t> filled;
  std::map<std::uint32_t, std::size_t> weights;
  for (std::size_t w = 0; w < p.synchronization.weights.size(); ++w) {
    const auto value = l.training().weights()[w].value;
    if (l.training().weights()[w].is_trained) {
      const auto b = p.synchronization.weights[w].parts.front().bucket;
      filled[b] += 4 * tensor::element_count(p.graph.type(value).dims);
      ++weights[b];
    }
  }
  for (const auto& [b, size] : filled) {
    CHECK((size <= 25'000'000 || weights[b] == 1));
  }
}

TEST_CASE("random synchronizations update each holder of a weight and survive the round trip", "[law]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto p = plan_of(seed % 3 == 0 ? "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4"
                                   : "zoo:mlp?layers=3&hidden=12&batch=8",
                     seed % 2 == 0 ? "p100:1x4" : "p100:2x2", seed % 5 != 0);
    const auto plain = parallel::lower(operators(), p);
    p.synchronization = parallel::test::random_sync(random, operators(), p);
    const auto program = parallel::lower(operators(), p);
    const auto alone = simulate::full_simulation{}.run(program);
    const auto kept_by = [](const tasks::program& x, tasks::fragment_id f) {
      std::set<std::uint32_t> devices;
      for (const auto& t : x[f].tasks) {
        if (t.kind == tasks::task_kind::update) {
          devices.insert(t.shard);
        }
      }
      return devices;
    };
    for (std::size_t f = 0; f < plain.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      if (plain.owner_of(id).kind == tasks::owner_kind::weight) {
        const auto before = kept_by(plain, id);
        const auto after = kept_by(program, id);
        const auto& parts = p.synchronization.weights[plain.owner_of(id).index].parts;
        // Exceptions: weights that servers send at the start of the iteration, and divided weights, of which a device
        // may have no share.
        const bool is_fetched =
            std::any_of(parts.begin(), parts.end(), [](const auto& x) { return !x.is_proxied || divides_weight(x); });
        CHECK((is_fetched || std::includes(after.begin(), after.end(), before.begin(), before.end())));
      }
    }
    const auto steady = simulate::run_until_steady(program, parallel::carried_dependencies(operators(), p, program), 8);
    CHECK(steady.first == alone);
    CHECK(steady.time.count() <= alone.count());
    CHECK(steady.time.count() > 0);
    // Survives printing and parsing.
    const auto text = io::to_plan_text(operators(), p);
    const auto again = io::parse_plan(operators(), text, "plan.json");
    CHECK(io::to_plan_text(operators(), again) == text);
    CHECK((again.synchronization == p.synchronization || p.synchronization.is_trivial()));
    const auto report = parallel::report_on(*std::make_unique<parallel::lowering>(operators(), p.graph, p.machine),
                                            p.graph, p.machine, p.configurations, {}, p.synchronization);
    CHECK(report.communicated == parallel::message_bytes(program));
  }
}

TEST_CASE("synchronization in a plan file: empty entries are the default; stages are validated") {
  const auto p = plan_of("zoo:mlp?layers=3&hidden=64&batch=32", "p100:1x2");
  const auto text = io::to_plan_text(operators(), p);
  const auto with = [&](const std::string& member) {
    auto longer = text;
    longer.insert(longer.rfind('}'), ", \"synchronization\": " + member);
    return io::parse_plan(operators(), longer, "plan.json");
  };
  CHECK(with(R"({"buckets": [], "weights": []})") == p);
  const auto node = [&] {
    const parallel::training_graph training{operators(), p.graph};
    return std::to_string(p.graph.producer(training.weights().front().value).index());
  }();
  CHECK(with(R"({"buckets": [], "weights": [{"how": "all_reduce", "node": )" + node + "}]}") == p);
  const auto one =
      with(R"({"buckets": [], "weights": [{"axis": 1, "parts": [{"how": "sharded"}], "node": )" + node + "}]}");
  CHECK(one.synchronization.weights.front() ==
        parallel::weight_sync{0, {{parallel::sync_kind::sharded, parallel::synchronizer::no_bucket, {}}}});
  CHECK(io::parse_plan(operators(), io::to_plan_text(operators(), one), "plan.json") == one);
  const auto of_stage = [&](const std::string& rest) {
    return with(R"({"buckets": [], "weights": [{"how": )" + rest + R"(, "node": )" + node + "}]}")
        .synchronization.weights.front()
        .parts.front();
  };
  CHECK(of_stage(R"("sharded", "stage": 1)") == parallel::sharded_by_stage(1));
  CHECK(of_stage(R"("sharded", "stage": 3, "prefetch": 1, "reshard_after_forward": true)") ==
        parallel::sharded_by_stage(3));
  CHECK_THROWS_WITH(of_stage(R"("all_reduce", "stage": 1)"),
                    Catch::Contains("of all_reduce; expected a stage of sharded alone"));
  CHECK_THROWS_WITH(of_stage(R"("sharded", "stage": 2, "prefetch": 1)"),
                    Catch::Contains("of sharded; expected that of sharded, stage 3, alone"));
  CHECK_THROWS_WITH(of_stage(R"("sharded", "stage": 3, "prefetch": -1)"), Catch::Contains("is -1"));
}

TEST_CASE("a synchronization that does not fit the graph is rejected with the reason") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=64&batch=32", "p100:1x2");
  const auto complaint = [&](const parallel::synchronization& s) {
    try {
      check(operators(), p.graph, s, 2);
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  auto s = all_of(p, {});
  CHECK(complaint(s).empty());
  s.weights.pop_back();
  CHECK(complaint(s).find("synchronization: of ") == 0);
  s = all_of(p, {});
  s.weights[0].parts.front().bucket = 0;
  CHECK(complaint(s).find("bucket 0; expected one of the 0 buckets") != std::string::npos);
  s.buckets = {"a", "b"};
  CHECK(complaint(s).find("no weight in bucket b") != std::string::npos);
  s.buckets = {"a"};
  s.weights[0].parts.front().kind = parallel::sync_kind::sharded;
  CHECK(complaint(s).find("a bucket of sharded; expected buckets of all_reduce alone") != std::string::npos);
  s = all_of(p, {parallel::sync_kind::parameter_server, parallel::synchronizer::no_bucket,
                 hardware::device_id{std::size_t{2}}});
  CHECK(complaint(s).find("a parameter server that is not a device; expected one of the 2 devices") !=
        std::string::npos);
  auto sharded = parallel::sharded_by_stage(4);
  CHECK(complaint(all_of(p, sharded)).find("stage 4 of sharded; expected 1, 2 or 3") != std::string::npos);
  sharded.stage = 2;
  CHECK(complaint(all_of(p, sharded)).empty());
  sharded.prefetch = 2;
  CHECK(complaint(all_of(p, sharded)).find("prefetch 2 of sharded; expected that of sharded, stage 3, alone") !=
        std::string::npos);
  sharded.prefetch = 1;
  sharded.is_resharded = false;
  CHECK(complaint(all_of(p, sharded)).find("kept after the forward pass of sharded; expected that of sharded") !=
        std::string::npos);
  sharded.stage = 3;
  CHECK(complaint(all_of(p, sharded)).empty());
  for (const auto kind : {parallel::sync_kind::parameter_server, parallel::sync_kind::none}) {
    auto other = parallel::sharded_by_stage(3);
    other.kind = kind;
    other.destination = hardware::device_id{std::size_t{0}};
    CHECK(complaint(all_of(p, other)).find("stage 3 of ") != std::string::npos);
    CHECK(complaint(all_of(p, other)).find("expected stages of sharded alone") != std::string::npos);
  }
  s = all_of(p, {});
  s.weights[0].axis = 7;
  s.weights[0].parts.resize(2);
  CHECK(complaint(s).find("2 parts along axis 7") != std::string::npos);
  s.weights[0].axis = 0;
  s.weights[0].parts.resize(1000);
  CHECK(complaint(s).find("1000 parts along axis 0") != std::string::npos);
  p.synchronization = s;
  CHECK_THROWS_AS(parallel::lower(operators(), p), error);
  CHECK_THROWS_AS(io::to_plan_text(operators(), p), error);
}

}  // namespace tests_of_sync_kinds
