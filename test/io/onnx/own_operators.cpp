#include <unity/io/onnx/operators.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/onnx_open.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/definition.hpp>

#include "../../support/message_of.hpp"
#include "../../support/onnx_text.hpp"

namespace tests_of_own_operators {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::test::message_of;

namespace {

// An operator with an attribute of every form and two results, known only by their types.
tensor::definition various() {
  const auto types = [](tensor::judgement& j, const tensor::attribute_reader&) {
    j.result(j.inputs()[0].dims);
    j.result(j.inputs()[0].dims);
  };
  return tensor::define("various", 1, 2,
                        {tensor::integer_field("count"), tensor::integers_field("sizes", 2),
                         tensor::real_field("rate", 0.25), tensor::word_field("title"),
                         tensor::choice_field("mode", {"fast", "exact"}), tensor::flag_field("is_open", false)},
                        tensor::opaque{types});
}

const tensor::algebra& operators() {
  static const auto all = [] {
    auto a = tensor::standard_algebra();
    a.add(various());
    return a;
  }();
  return all;
}

const std::vector<io::onnx_operator> lines{{"various", "Various", "com.example"}};

io::onnx_model read(const std::string& node) {
  const auto text =
      "<ir_version: 8, opset_import: [ \"\" : 17, \"com.example\" : 1 ]>\n"
      "g (float[2] x) => (float[2] y) { " +
      node + " }";
  io::import_options options;
  options.operators = lines;
  return io::parse_onnx(operators(), unity::test::onnx_model_of(text).SerializeAsString(), "m.onnx", {}, options);
}

std::string refusal_of(const std::string& node) {
  return message_of([&] { (void)read(node); });
}

}  // namespace

TEST_CASE("attributes and results of a custom operator survive an ONNX round trip") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {3});
  const auto both = b.apply(
      "various", {x}, {{"count", 3}, {"sizes", {4, 5}}, {"rate", 0.75}, {"title", "a b"}, {"mode", 1}, {"is_open", 1}});
  const auto y = b.relu(both[1]);
  auto m = io::make_model(std::move(b).finish({y, both[0]}), "m");
  m.operators = lines;
  io::import_options options;
  options.operators = lines;
  const auto copy = io::parse_onnx(operators(), io::serialize_onnx(operators(), m), "m.onnx", {}, options);
  CHECK(copy.graph == m.graph);
}

TEST_CASE("missing attributes of a custom ONNX operator take their defaults") {
  const auto m = read(R"(y, z = com.example.Various <count = 1, sizes = [1, 2], title = "t"> (x))");
  const auto a = operators().read(m.graph.operation(unity::node_id{1U}));
  CHECK(a.real("rate") == 0.25);
  CHECK(a.integer("mode") == 0);
  CHECK_FALSE(a.flag("is_open"));
}

TEST_CASE("a custom ONNX node with wrong attributes or inputs is refused with the reason") {
  CHECK(refusal_of(R"(y = com.example.Various <count = 1, sizes = [1, 2]> (x))") ==
        "m.onnx: node 0 (com.example.Various): has no attribute title; expected those of various");
  CHECK(refusal_of(R"(y = com.example.Various <count = 1, sizes = [1, 2], title = "t", size = 3> (x))") ==
        "m.onnx: node 0 (com.example.Various): has an attribute 'size'; expected those of various");
  for (const std::string wrong : {"sizes = [1]", "mode = \"slow\"", "is_open = 2"}) {
    const auto sizes = wrong.starts_with("sizes") ? "" : "sizes = [1, 2], ";
    CHECK_THAT(
        refusal_of("y = com.example.Various <count = 1, " + std::string{sizes} + "title = \"t\", " + wrong + "> (x)"),
        Catch::Contains("that does not fit") && Catch::Contains(wrong.substr(0, wrong.find(' '))));
  }
  CHECK_THAT(refusal_of(R"(y = com.example.Various <count = 1.5, sizes = [1, 2], title = "t"> (x))"),
             Catch::Contains("attribute count is of another type"));
  CHECK_THAT(refusal_of(R"(y = com.example.Various <count = 1, sizes = [1, 2], title = "t"> (x, x))"),
             Catch::Contains("node 0 (com.example.Various)"));
}

TEST_CASE("onnx_operator entries must name defined operators and not repeat one") {
  const auto message = [](std::vector<io::onnx_operator> of) {
    return message_of([&] { (void)io::detail::own_operators{operators(), of}; });
  };
  CHECK(message({{"varied", "Various", "com.example"}}) ==
        "operator varied: no definition; expected the name of an operator");
  CHECK(message({{"various", "A", "d"}, {"various", "B", "d"}}) ==
        "ONNX operators, line 1: various and d.B; expected an operator and a node that line 0 does not name");
  CHECK(message({{"relu", "A", ""}, {"tanh", "A", "ai.onnx"}}) ==
        "ONNX operators, line 1: tanh and ai.onnx.A; expected an operator and a node that line 0 does not name");
  CHECK(message({{"relu", "A", "d"}, {"tanh", "A", "e"}}).empty());
}

TEST_CASE("an onnx_operator entry overrides the built-in form on import and export") {
  auto a = tensor::standard_algebra();
  a.add(tensor::define("kinked", 1, 1, {}, tensor::composite{[](tensor::body_builder& b, const auto&, auto x) {
                         return std::vector{b.add("abs", {x[0]})};
                       }}));
  io::import_options options;
  options.operators = {{"kinked", "Relu", ""}};
  const auto bytes = unity::test::onnx_bytes_of("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  const auto m = io::parse_onnx(a, bytes, "m.onnx", {}, options);
  CHECK(a.signature(m.graph.operation(unity::node_id{1U}).kind).name == "kinked");
  const auto copy = io::parse_onnx(a, io::serialize_onnx(a, m), "m.onnx", {});
  CHECK(a.signature(copy.graph.operation(unity::node_id{1U}).kind).name == "relu");
}

TEST_CASE("a custom operator keeps open sizes in an ONNX round trip") {
  auto a = tensor::standard_algebra();
  a.add(tensor::define("kinked", 1, 1, {}, tensor::composite{[](tensor::body_builder& b, const auto&, auto x) {
                         return std::vector{b.add("abs", {x[0]})};
                       }}));
  io::import_options options;
  options.operators = {{"kinked", "Kinked", "com.example"}};
  const auto bytes = unity::test::onnx_model_of(
                         "<ir_version: 8, opset_import: [ \"\" : 17, \"com.example\" : 1 ]>\n"
                         "g (float[N,3] x) => (float[N,3] y) { a = com.example.Kinked(x) y = Tanh(a) }")
                         .SerializeAsString();
  const auto m = io::parse_open_onnx(a, bytes, "m.onnx", {}, options);
  CHECK(io::check_open(a, bytes, "m.onnx", {}, m, options).passed);
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(io::serialize_onnx(a, m)));
  CHECK(written.graph().node(0).op_type() == "Kinked");
  REQUIRE(written.graph().value_info_size() == 1);
  CHECK_FALSE(written.graph().value_info(0).type().tensor_type().shape().dim(0).has_dim_value());
}

}  // namespace tests_of_own_operators
