#include <unity/io/machine_json.hpp>

#include <catch2/catch.hpp>

#include <filesystem>
#include <limits>
#include <string>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>

#include "machine_complaint.hpp"

namespace tests_of_machine_json {

namespace {

using namespace unity;
using tensor::dtype;

hardware::machine example() {
  hardware::machine m;
  m.name = "host";
  hardware::device d;
  d.name = "an \"abacus\", 2 threads";
  d.kind = hardware::device_kind::cpu;
  d.peaks = {{dtype::float32, "matmul", 1.25e11}, {dtype::bfloat16, "conv2d", 3e11}};
  d.bytes_per_second = 2.1e10;
  d.memory = bytes{8'000'000'000};
  d.launch_seconds = 2.1e-7;
  d.host_bytes_per_second = 1.26e10;
  d.versions = {{"driver", "1"}, {"oneDNN", "2.6.3"}};
  m.devices = {d, {}};
  m.devices[1].kind = hardware::device_kind::gpu;
  m.devices[1].bytes_per_second = 1e6;
  m.links.push_back({"local",
                     2,
                     {{hardware::exchange::all_reduce,
                       {{bytes{16384}, 3.1e-6, 2e-10}, {hardware::cost_range::no_end, 9e-6, 1.1e-10}}},
                      {hardware::exchange::message, {{hardware::cost_range::no_end, 1e-7, 0}}}},
                     {{hardware::exchange::message, {0.9, 1.25}}}});
  return m;
}
std::string complaint(const std::string& text) { return test::machine_complaint(text); }
std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  return test::machine_complaint(example(), pointer, value);
}
const nlohmann::json removed(nlohmann::json::value_t::discarded);

TEST_CASE("a machine survives a round trip through JSON text and a file") {
  const auto m = example();
  CHECK(io::parse_machine(io::to_json(m).dump(), "m.json") == m);
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "machine.json";
  io::write_machine(m, file);
  CHECK(io::read_machine(file) == m);
  CHECK(io::parse_machine(io::to_json(hardware::machine{}).dump(), "m.json") == hardware::machine{});
}

TEST_CASE("optional members of a machine's devices survive a JSON round trip") {
  auto m = example();
  auto& d = m.devices[0];
  d.collective_start_seconds = 3.97e-5;
  d.collective_round_seconds = 2e-6;
  d.units = 132;
  d.clock_hz = 1.98e9;
  d.caches = {{"L2", bytes{52'428'800}}, {"L1", bytes{262'144}}};  // in this order
  d.sources = {{"launch_s", "measured: many"}, {"units", "the data sheet"}};
  CHECK(io::parse_machine(io::to_json(m).dump(), "m.json") == m);
  m.links.push_back(m.links[0]);
  m.links[1].name = "mpi";
  m.links[1].intervals.clear();
  CHECK(io::parse_machine(io::to_json(m).dump(), "m.json") == m);
}

TEST_CASE("write_machine refuses names and values that could not be read back") {
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "machine_not_written.json";
  std::filesystem::remove(file);
  const auto refusal = [&](const hardware::machine& m) -> std::string {
    try {
      io::write_machine(m, file);
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  auto m = example();
  m.name = "caf\xe9\n";
  CHECK(refusal(m) == "name of a machine: \"caf\\ufffd\\n\" is not UTF-8; expected text in UTF-8");
  m = example();
  m.devices[0].name = "\xff";
  CHECK_THAT(refusal(m), Catch::StartsWith("name of a device"));
  m = example();
  m.devices[0].versions[1].second = "\xc3";
  CHECK_THAT(refusal(m), Catch::StartsWith("version of a library"));
  m = example();
  m.devices[0].versions[1].first = "\x80";
  CHECK_THAT(refusal(m), Catch::StartsWith("name of a library"));
  m = example();
  m.devices[0].peaks[0].operation = "\xf0";
  CHECK_THAT(refusal(m), Catch::StartsWith("operator of a peak"));
  m = example();
  m.links[0].name = "\xe9";
  CHECK_THAT(refusal(m), Catch::StartsWith("name of a link"));
  m = example();
  m.devices[0].bytes_per_second = std::numeric_limits<double>::infinity();
  CHECK(refusal(m) == file.string() + ": machine.devices[0].bytes_per_second: is null; expected a number");
  m = example();
  m.links[0].costs[hardware::exchange::message].clear();
  CHECK_THAT(refusal(m), Catch::Contains("machine.links[0].costs.message: is empty"));
  CHECK_FALSE(std::filesystem::exists(file));
  m = example();
  m.name = "caf\u00e9";
  CHECK(refusal(m).empty());
  CHECK(io::read_machine(file) == m);
}

TEST_CASE("random machine numbers survive a JSON round trip exactly") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  auto m = example();
  for (int i = 0; i < 100; ++i) {
    m.devices[0].bytes_per_second = 1e9 + 1e12 * random.unit();
    m.devices[0].launch_seconds = 1e-5 * random.unit();
    m.links[0].costs[hardware::exchange::all_reduce][0] = {bytes{random.between(0, 1'000'000'000)},
                                                           1e-5 * random.unit(), 1e-9 * random.unit()};
    REQUIRE(io::parse_machine(io::to_json(m).dump(), "m.json") == m);
  }
}

TEST_CASE("unknown members of machine JSON are ignored") {
  auto document = io::to_json(example());
  document["comment"] = "made on a Monday";
  document["devices"][0]["color"] = 7;
  CHECK(io::parse_machine(document.dump(), "m.json") == example());
}

TEST_CASE("machine JSON errors name the file and the path and what was expected") {
  CHECK(complaint("{") == "m.json, byte 2: is not JSON; expected a value, ',' or a closing bracket");
  CHECK_THAT(complaint("[]"), Catch::Contains("m.json: machine: has no \"format\""));
  CHECK_THAT(complaint("/version", 3), Catch::Contains("\"version\": 1 or 2"));
  CHECK_THAT(complaint("/version", 0), Catch::Contains("\"version\": 1 or 2"));
  CHECK_THAT(complaint("/format", "unity graph"), Catch::Contains("unity machine"));
  CHECK(complaint("/devices/0/kind", "abacus") ==
        "m.json: machine.devices[0].kind: is \"abacus\"; expected cpu or gpu");
  CHECK_THAT(complaint("/devices/0/peaks/1/element", "float8"),
             Catch::Contains("devices[0].peaks[1].element") && Catch::Contains("bfloat16"));
  CHECK(complaint("/devices/0/peaks/0/flops_per_second", 0) ==
        "m.json: machine.devices[0].peaks[0].flops_per_second: is 0; expected a number above 0");
  CHECK_THAT(complaint("/devices/0/bytes_per_second", -1.5), Catch::Contains("is -1.5; expected a number above 0"));
  CHECK_THAT(complaint("/devices/0/bytes_per_second", "fast"), Catch::Contains("is string; expected a number"));
  CHECK_THAT(complaint("/devices/0/memory_bytes", 1.5),
             Catch::Contains("memory_bytes: is number; expected an integer"));
  CHECK_THAT(complaint("/devices/0/launch_s", -1), Catch::Contains("launch_s: is -1; expected a number of at least 0"));
  CHECK(complaint("/devices/0/collective_start_s", 9e6) ==
        "m.json: machine.devices[0].collective_start_s: is 9000000.0; expected seconds, 1 at most");
  CHECK_THAT(complaint("/devices/0/collective_round_s", 1e300),
             Catch::Contains("collective_round_s: is 1e+300; expected seconds, 1 at most"));
  CHECK_THAT(complaint("/devices/0/versions", 7), Catch::Contains("versions: is number; expected an object"));
  CHECK_THAT(complaint("/devices/0/versions/oneDNN", 7),
             Catch::Contains("versions.oneDNN: is number; expected a string"));
  CHECK_THAT(complaint("/links/0/ranks", 0), Catch::Contains("ranks: is 0; expected a number from 1"));
  CHECK_THAT(complaint("/links/0/costs/gossip", nlohmann::json::array()),
             Catch::Contains("is \"gossip\"") && Catch::Contains("all_reduce"));
  CHECK_THAT(complaint("/links/0/costs/message", nlohmann::json::array()), Catch::Contains("costs.message: is empty"));
  CHECK_THAT(complaint("/links/0/costs/message/0/up_to", 5), Catch::Contains("the last range has an end"));
  CHECK_THAT(complaint("/links/0/costs/all_reduce/0/up_to", removed),
             Catch::Contains("costs.all_reduce[0]: has no \"up_to\""));
  CHECK_THAT(complaint("/links/0/costs/all_reduce/0/alpha_s", nullptr),
             Catch::Contains("alpha_s: is null; expected a number"));
  const auto around = [](const nlohmann::json& interval) { return complaint("/links/0/intervals/message", interval); };
  for (const nlohmann::json& wrong :
       {nlohmann::json::array(), nlohmann::json{0.9}, nlohmann::json{0.9, 1.1, 1.2}, nlohmann::json{1.1, 1.2},
        nlohmann::json{0.8, 0.9}, nlohmann::json{0, 1}, nlohmann::json{0.5, 1e300}}) {
    CAPTURE(wrong.dump());
    CHECK_THAT(around(wrong), Catch::Contains("intervals.message: no two factors around 1"));
  }
  CHECK_THAT(around("fast"), Catch::Contains("intervals.message"));
  CHECK_THAT(complaint("/links/0/intervals/gossip", nlohmann::json{0.9, 1.1}), Catch::Contains("is \"gossip\""));
  CHECK_THAT(complaint("/links/0/intervals/broadcast", nlohmann::json{0.9, 1.1}),
             Catch::Contains("intervals.broadcast: an interval without costs"));
}

TEST_CASE("each missing required member of machine JSON is reported by name") {
  const auto whole = io::to_json(example()).flatten();
  std::size_t tried = 0;
  for (const auto& member : whole.items()) {
    const nlohmann::json::json_pointer place{member.key()};
    const auto name = place.back();
    if (name == "up_to" || name == "host_bytes_per_second" || member.key().find("/intervals/") != std::string::npos ||
        name.find_first_not_of("0123456789") == std::string::npos ||
        member.key().find("/versions/") != std::string::npos) {
      continue;
    }
    ++tried;
    CHECK_THAT(complaint(member.key(), removed), Catch::Contains("has no \"" + name + "\""));
  }
  CHECK(tried > 20);
}

TEST_CASE("machine JSON errors stay in one short line for multi-line words of the file") {
  const std::string word = "a\nb\"" + std::string(100, 'c');
  const auto m = hardware::preset("k80:1x2");
  auto all = example();
  all.network = m.network;
  all.devices = m.devices;
  const auto whole = io::to_json(all);
  const auto leaves = whole.flatten();
  std::size_t tried = 0;
  for (const auto& member : leaves.items()) {
    CAPTURE(member.key());
    auto document = whole;
    document[nlohmann::json::json_pointer{member.key()}] = word;
    const auto line = complaint(document.dump());
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 300);
    CHECK((member.key().find("/versions/") != std::string::npos || !line.empty()));
    ++tried;
  }
  CHECK(tried > 40);
  CHECK(complaint("/devices/0/kind", "a\nb") == "m.json: machine.devices[0].kind: is \"a\\nb\"; expected cpu or gpu");
  CHECK(complaint("/devices/0/name", "a\nb") ==
        "m.json: machine.devices[0].name: is \"a\\nb\"; expected a name without control characters");
  CHECK_THAT(complaint("/devices/0/versions/a\nb", 7), Catch::Contains(R"(devices[0].versions."a\nb": is number)"));
  CHECK_THAT(complaint("/links/0/costs/go\nssip", nlohmann::json::array()), Catch::Contains(R"(is "go\nssip")"));
}

TEST_CASE("machine_from_json reads a machine within a document and reports full paths") {
  const nlohmann::json document{{"here", io::to_json(example())}};
  const io::json_place in{document, "top"};
  CHECK(io::detail::machine_from_json(in.at("here")) == example());
  CHECK_THROWS_WITH(io::detail::machine_from_json(in), "top: has no \"format\"; expected an object with that member");
  auto broken = document;
  broken["here"]["devices"][1]["kind"] = "abacus";
  const io::json_place there{broken, "top"};
  CHECK_THROWS_WITH(io::detail::machine_from_json(there.at("here")),
                    "top.here.devices[1].kind: is \"abacus\"; expected cpu or gpu");
}

TEST_CASE("cost ranges of machine JSON must ascend") {
  auto m = example();
  m.links[0].costs[hardware::exchange::all_reduce] = {
      {bytes{10}, 1, 1}, {bytes{10}, 1, 1}, {hardware::cost_range::no_end, 1, 1}};
  CHECK_THAT(complaint(io::to_json(m).dump()),
             Catch::Contains("all_reduce[1].up_to: is 10; expected a number from 11"));
}

}  // namespace

}  // namespace tests_of_machine_json
