#include <unity/io/json.hpp>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"

namespace tests_of_json {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::value_id;

namespace {

const tensor::algebra& standard() {
  static const tensor::algebra algebra = tensor::standard_algebra();
  return algebra;
}
tensor::tensor_graph small_graph() {
  tensor::builder b{standard()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.weight("w \"quoted\"", {3, 4});
  auto op = standard().make_operation("matmul", {{"activation", "relu"}});
  op.order = tensor::layout::column_major;
  const value_id operands[] = {x, w};
  const auto y = b.apply(op, operands)[0];
  const auto z = b.add(y, b.fill(-std::numeric_limits<double>::infinity()));
  return std::move(b).finish({z, y});
}
std::string message_of(std::string_view text) {
  return unity::test::message_of([&] { (void)io::parse_graph(standard(), text, "graph.json"); });
}
std::string changed(const char* pointer, const nlohmann::json& value) {
  auto document = io::to_json(standard(), small_graph());
  document[nlohmann::json::json_pointer{pointer}] = value;
  return document.dump();
}

}  // namespace

TEST_CASE("a graph with layouts and infinite attributes survives a JSON round trip") {
  const auto g = small_graph();
  CHECK(io::parse_graph(standard(), io::to_json(standard(), g).dump(), "g") == g);
}

TEST_CASE("names with arbitrary bytes survive a graph's JSON round trip") {
  tensor::builder b{standard()};
  const auto x = b.input(std::string("\xff\x00\n", 3), {1});
  const auto g = std::move(b).finish({x});
  CHECK(io::parse_graph(standard(), io::to_json(standard(), g).dump(), "g") == g);
}

TEST_CASE("zoo graphs survive a round trip through a JSON file") {
  for (const auto* name : {"zoo:mlp?batch=2&layers=2&hidden=16", "zoo:nasrnn", "zoo:bert?layers=1"}) {
    CAPTURE(name);
    const auto g = tensor::zoo::build(standard(), name);
    const auto path = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "io_json_zoo.json";
    io::write_graph(standard(), g, path);
    CHECK(io::read_graph(standard(), path) == g);
  }
}

TEST_CASE("errors in a graph's JSON are reported with their path") {
  CHECK_THAT(message_of("{\"format\": "), Catch::Contains("graph.json, byte") && Catch::Contains("is not JSON"));
  CHECK_THAT(message_of("[]"), Catch::Contains("graph.json: graph: has no \"format\""));
  CHECK_THAT(message_of(changed("/version", 2)), Catch::Contains("another format"));
  CHECK_THAT(message_of(changed("/nodes/2/op", "matmull")),
             Catch::Contains("nodes[2].op: unknown operator \"matmull\""));
  CHECK_THAT(message_of(changed("/nodes/2/attributes/activation", "swish")),
             Catch::Contains("nodes[2].attributes.activation"));
  CHECK_THAT(message_of(changed("/nodes/2/operands/1", 2)),
             Catch::Contains("nodes[2].operands[1]: value 2 is not defined before"));
  CHECK_THAT(message_of(changed("/nodes/2/operands/1", -1)), Catch::Contains("value -1"));
  CHECK_THAT(message_of(changed("/nodes/2/results/0/dims/1", 5)),
             Catch::Contains("results of other types; expected float32[2,4]"));
  CHECK_THAT(message_of(changed("/nodes/1/attributes/dims/0", 4)), Catch::Contains("nodes[1]"));
  CHECK_THAT(message_of(changed("/nodes/0/attributes/dims/0", 1e3)),
             Catch::Contains("dims[0]: is number; expected an integer"));
  CHECK_THAT(message_of(changed("/nodes/0/attributes/dims/0", -2)),
             Catch::Contains("nodes[0]: operands that input does not take"));
  CHECK_THAT(message_of(changed("/outputs/0", 99)), Catch::Contains("outputs[0]: value 99"));
  CHECK_THAT(message_of(changed("/nodes/2/layout", "diagonal")), Catch::Contains("row_major or column_major"));
}

TEST_CASE("errors in a graph's JSON quote its words escaped and shortened in one line") {
  const std::string word = "a\nb\"\x7f" + std::string(100, 'c');
  CHECK_THAT(message_of(changed("/nodes/2/op", word)),
             Catch::Contains(R"(nodes[2].op: unknown operator "a\nb\"\u007fccc)"));
  CHECK_THAT(message_of(changed("/nodes/2/attributes/activation", word)), Catch::Contains(R"(unknown choice "a\nb)"));
  CHECK_THAT(message_of(changed("/nodes/3/attributes/value", word)), Catch::Contains(R"(: "a\nb)"));
  const auto whole = io::to_json(standard(), small_graph()).flatten();
  std::size_t refused = 0;
  for (const auto& member : whole.items()) {
    const auto line = message_of(changed(member.key().c_str(), word));
    CAPTURE(member.key());
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 300);
    refused += line.empty() ? 0 : 1;
  }
  CHECK(refused > 10);
}

TEST_CASE("truncated graph JSON is an error at any length") {
  const auto text = io::to_json(standard(), small_graph()).dump();
  for (std::size_t length = 0; length < text.size(); ++length) {
    CHECK_THAT(message_of(std::string_view{text}.substr(0, length)), Catch::Contains("is not JSON"));
  }
}

}  // namespace tests_of_json
