#include <unity/io/autodist_plan.hpp>
#include <unity/io/autodist_strategy.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/replicated_plan.hpp"
#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_autodist_strategy {

namespace {

using namespace unity;
using unity::test::training::operators;

const std::filesystem::path data = std::filesystem::path{UNITY_TEST_SOURCE_DIR} / "test/io/autodist_data";

// The content of strategy.txt, from which protoc made strategy.pb.
io::autodist_strategy example() {
  io::autodist_strategy s{"20201124", "/tmp/strategies/20201124", {}, {"10.0.0.1:GPU:0", "10.0.0.2:GPU:0"}};
  s.nodes.push_back({"dense/kernel:0", io::autodist_server{"10.0.0.1:CPU:0", true, true, 3}, {}, "", {}});
  s.nodes.push_back({"dense/bias:0", {}, io::autodist_reduction{1, 2, 200}, "", {}});
  s.nodes.push_back({"scale:0", {}, io::autodist_reduction{}, "", {}});
  s.nodes.push_back({"embedding:0",
                     {},
                     {},
                     "3,1",
                     {{"embedding/part_0:0", io::autodist_server{"10.0.0.2:CPU:0", false, true, 0}, {}, "", {}},
                      {"embedding/part_1:0", {}, io::autodist_reduction{2, 0, -1}, "", {}},
                      {"embedding/part_2:0", {}, {}, "", {}}}});
  return s;
}

parallel::plan plan_of(const std::string& model, const std::string& machine) {
  return parallel::test::replicated_plan(operators(), model, machine);
}

const char* const lookups = "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40";

}  // namespace

TEST_CASE("AutoDist strategies serialize to protoc's bytes and are read back") {
  const auto bytes = read_file(data / "strategy.pb");
  CHECK(io::to_bytes(example()) == bytes);
  CHECK(io::read_autodist_strategy(data / "strategy.pb") == example());
  CHECK(io::to_bytes({}).empty());
  CHECK(io::parse_autodist_strategy("", "s.pb") == io::autodist_strategy{});
}

TEST_CASE("a truncated or altered AutoDist strategy is refused in one line or round-trips", "[law]") {
  const auto bytes = read_file(data / "strategy.pb");
  const auto parse = [](const std::string& some) {
    const auto text = unity::test::message_of([&] {
      const auto s = io::parse_autodist_strategy(some, "s.pb");
      CHECK(io::parse_autodist_strategy(io::to_bytes(s), "s.pb") == s);
    });
    CHECK(text.find('\n') == std::string::npos);
    CHECK((text.empty() || text.starts_with("s.pb, byte ")));
    return text.empty();
  };
  std::size_t read = 0;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    read += parse(bytes.substr(0, n)) ? 1 : 0;
  }
  CHECK(read < 12);  // only prefixes that end where a field ends
  random_engine random{4};
  for (int i = 0; i < 20'000; ++i) {
    auto some = bytes;
    for (std::size_t k = 0; k < 1 + random.below(3); ++k) {
      some[random.below(some.size())] = static_cast<char>(random.below(256));
    }
    static_cast<void>(parse(some));
  }
}

TEST_CASE("unknown or malformed fields of an AutoDist strategy are refused with their byte") {
  const auto complaint = [](const std::string& bytes) {
    return unity::test::message_of([&] { static_cast<void>(io::parse_autodist_strategy(bytes, "s.pb")); });
  };
  CHECK(complaint("\x2a\x01x") ==
        "s.pb, byte 0: text 5 of Strategy; expected a member that AutoDist's strategies have");
  CHECK(complaint("\x08\x01") ==
        "s.pb, byte 0: number 1 of Strategy; expected a member that AutoDist's strategies have");
  CHECK(complaint("\x0a\x02x\x01") == "s.pb, byte 3: no visible character of UTF-8; expected a name on one line");
  CHECK_THAT(complaint("\x0a\x05x"), Catch::Contains("a field of 5 bytes where 1 remain"));
}

TEST_CASE("each builder's synchronization survives round trips in AutoDist's format and ours") {
  for (const auto* model : {"zoo:mlp?layers=3&hidden=12&batch=8", lookups}) {
    for (const auto& builder : systems::sync_builders) {
      for (const std::uint32_t chunk : {1U, 3U, 128U}) {
        CAPTURE(model, builder.name, chunk);
        auto p = plan_of(model, "p100:1x4");
        const auto problem =
            systems::sync_problem_of(operators(), p.graph, {hardware::device_id{1U}, hardware::device_id{3U}});
        systems::builder_options options;
        options.chunk = chunk;
        p.synchronization = builder.build(problem, options);
        const auto s = io::to_autodist(operators(), p, "id");
        const auto found = io::from_autodist(operators(), p.graph, p.machine.network,
                                             io::parse_autodist_strategy(io::to_bytes(s), "s.pb"), "s.pb");
        CHECK(found.replicas == io::replicas_of(p));
        CHECK(found.replicas.size() == 4);
        auto again = p;
        again.synchronization = found.sync;
        CHECK(io::to_autodist(operators(), again, "id") == s);
        CHECK(found.sync == p.synchronization);
        const auto text = io::to_synchronization_text(operators(), p);
        const auto ours = io::parse_synchronization(operators(), p.graph, p.machine.network, text, "s.json");
        auto same = p;
        same.synchronization = ours.sync;
        CHECK(io::to_synchronization_text(operators(), same) == text);
        CHECK(ours.replicas == found.replicas);
      }
    }
  }
}

TEST_CASE("from_autodist orders buckets by their last weight and part, whatever the order of nodes and numbers") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=12&batch=8", "p100:1x2");
  auto s = io::to_autodist(operators(), p, "id");
  REQUIRE(s.nodes.size() >= 3);
  for (std::size_t n = 0; n < s.nodes.size(); ++n) {
    s.nodes[n].reduction = io::autodist_reduction{0, 0, n == 0 || n == 2 ? 7 : 9};
  }
  auto& cut = s.nodes[1];
  const auto name = cut.name;
  cut.partitioner = "2,1";
  cut.reduction.reset();
  cut.parts = {{name + "/part_0", {}, io::autodist_reduction{0, 1, 9}, "", {}},
               {name + "/part_1", {}, io::autodist_reduction{0, 0, 3}, "", {}}};
  s.nodes.resize(3);
  tensor::builder b{operators()};
  const auto x = b.weight(s.nodes[0].name, {4, 12});
  const auto y = b.weight(name, {12, 4});
  p.graph = std::move(b).finish({b.matmul(x, b.matmul(y, b.weight(s.nodes[2].name, {4, 4})))});
  const auto found = io::from_autodist(operators(), p.graph, p.machine.network, s, "s.pb");
  REQUIRE(found.sync.buckets == std::vector<std::string>{"group 7", "group 3", "group 9"});
  std::reverse(s.nodes.begin(), s.nodes.end());
  CHECK(io::from_autodist(operators(), p.graph, p.machine.network, s, "s.pb").sync == found.sync);
}

TEST_CASE("builder strategies for small and prime axes and a table match protoc's golden files") {
  // The weights of autodist_data/golden.py, which states the result of each rule for them.
  tensor::builder b{operators()};
  std::vector<value_id> uses{b.relu(b.weight("seven", {7, 4})), b.relu(b.weight("thirteen", {13})),
                             b.relu(b.weight("one", {1, 9})), b.relu(b.weight("two", {2, 3}))};
  const auto table = b.weight("table", {8, 4});
  uses.push_back(b.embedding(table, b.input("places", {6}, tensor::dtype::int32)));
  parallel::plan p;
  p.graph = std::move(b).finish(uses);
  p.machine = hardware::preset("p100:1x2");
  p.configurations =
      parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, p.machine.network);
  const auto problem =
      systems::sync_problem_of(operators(), p.graph, {hardware::device_id{0U}, hardware::device_id{1U}});
  std::size_t compared = 0;
  for (const auto& builder : systems::sync_builders) {
    const auto file = data / ("golden_" + std::string{builder.name} + ".pb");
    if (std::filesystem::exists(file)) {
      CAPTURE(builder.name);
      systems::builder_options options;
      options.chunk = 5;
      p.synchronization = builder.build(problem, options);
      const auto own = io::to_autodist(operators(), p, std::string{builder.name});
      CHECK(own == io::read_autodist_strategy(file));
      CHECK(io::to_bytes(own) == read_file(file));
      ++compared;
    }
  }
  CHECK(compared == 4);
}

TEST_CASE("an AutoDist strategy for another model or cluster is refused with the reason") {
  const auto p = plan_of("zoo:mlp?layers=2&hidden=12&batch=8", "p100:1x2");
  const auto good = io::to_autodist(operators(), p, "id");
  const auto complaint = [&](auto change) {
    auto s = good;
    change(s);
    return unity::test::message_of(
        [&] { static_cast<void>(io::from_autodist(operators(), p.graph, p.machine.network, s, "s.pb")); });
  };
  REQUIRE(complaint([](auto&) {}).empty());
  REQUIRE(good.nodes.size() > 1);
  const auto name = good.nodes[0].name;
  CHECK(
      complaint([](auto& s) { s.nodes[0].name = "other"; }) ==
      "s.pb, weight 'other': none of the model, or a second time; expected a weight that training changes, each once");
  CHECK(complaint([](auto& s) { s.nodes.erase(s.nodes.begin()); }) ==
        "s.pb: nothing of the weight '" + name + "'; expected a node for each weight that training changes");
  CHECK_THAT(complaint([](auto& s) { s.replicas[1] = "far"; }), Catch::Contains("no device 'far'"));
  CHECK_THAT(complaint([](auto& s) { s.replicas[1] = s.replicas[0]; }), Catch::Contains("a device twice"));
  CHECK_THAT(complaint([](auto& s) { s.replicas.clear(); }), Catch::Contains("replicas: none"));
  CHECK_THAT(complaint([](auto& s) {
               s.nodes[0].reduction.reset();
               s.nodes[0].server = io::autodist_server{s.replicas[0], false, false, 0};
             }),
             Catch::Contains("sync is false"));
  CHECK_THAT(complaint([](auto& s) { s.nodes[0].reduction.reset(); }), Catch::Contains("no synchronizer"));
  CHECK_THAT(complaint([](auto& s) { s.nodes[0].reduction->compressor = 7; }), Catch::Contains("compressor 7"));
  for (const auto* partitioner : {"", "2", "2,2", "3,1", "1,1", "1,x", "2,", "0,1", "1,99999999999999999999"}) {
    CAPTURE(partitioner);
    CHECK_THAT(complaint([&](auto& s) {
                 s.nodes[0].partitioner = partitioner;
                 s.nodes[0].parts = {s.nodes[1], s.nodes[1]};
               }),
               Catch::Contains("the partitioner '" + std::string{partitioner}.substr(0, 12)));
  }
  CHECK(complaint([](auto& s) {
          s.nodes[0].partitioner = "2,1";
          s.nodes[0].parts = {s.nodes[0], s.nodes[0]};
          s.nodes[0].name += ":0";
        }).empty());
}

}  // namespace tests_of_autodist_strategy
