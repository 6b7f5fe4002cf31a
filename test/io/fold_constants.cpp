#include <unity/io/fold_constants.hpp>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/core/random.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/onnx_text.hpp"
#include "data_provider.hpp"
#include "onnx_subjects.hpp"

namespace tests_of_fold_constants {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

// Data for all weights: small integers, different for each weight.
io::onnx_model with_data(tensor::tensor_graph graph) {
  auto m = io::make_model(std::move(graph), "m");
  for (const auto n : unity::node_ids(m.graph)) {
    if (standard().signature(m.graph.operation(n).kind).name == "weight") {
      const auto& type = m.graph.type(m.graph.results(n)[0]);
      std::vector<double> values;
      for (std::int64_t i = 0; i < tensor::element_count(type.dims); ++i) {
        values.push_back(static_cast<double>((i * 7 + static_cast<std::int64_t>(m.data.size()) * 3) % 11 - 5));
      }
      m.data.emplace(standard().read(m.graph.operation(n)).word("name"),
                     io::make_data(type.element, type.dims, values));
    }
  }
  return m;
}

std::uint64_t bytes_of(const io::onnx_model& m) {
  std::uint64_t sum = 0;
  for (const auto& [name, data] : m.data) {
    sum += data.bytes.size();
  }
  return sum;
}

void check_values(const io::onnx_model& a, const io::onnx_model& b) {
  const auto values = [](const io::onnx_model& m) {
    return tensor::evaluate<double>(standard(), m.graph, unity::test::data_provider<double>{standard(), m.data}, 1);
  };
  const auto first = values(a);
  const auto second = values(b);
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].data == second[i].data);
  }
}

}  // namespace

TEST_CASE("constant folding keeps dequantize of int8 weights") {
  tensor::builder b{standard()};
  const auto w = b.apply("dequantize", {b.weight("w", {3, 4}, dtype::int8), b.weight("s", {})}, {{"axis", 0}})[0];
  const auto y = b.matmul(b.input("x", {2, 3}), w);
  CHECK(outline(io::fold_constants(standard(), with_data(std::move(b).finish({y})))) == "dequantize matmul");
}

TEST_CASE("constant folding does not duplicate a transposed table that is also read as it is") {
  for (const bool is_tied : {false, true}) {
    CAPTURE(is_tied);
    tensor::builder b{standard()};
    const auto table = b.weight("table", {500, 8});
    const auto logits = b.matmul(b.input("x", {3, 8}), b.transpose(table, {1, 0}));
    const auto scaled = b.add(logits, b.mul(b.weight("scale", {500}), b.weight("gain", {500})));
    std::vector outputs{scaled};
    if (is_tied) {
      outputs.push_back(b.add(b.input("y", {500, 8}), table));
    }
    const auto m = with_data(std::move(b).finish(outputs));
    const auto folded = io::fold_constants(standard(), m);
    CHECK(outline(folded) == (is_tied ? "transpose matmul add add" : "matmul add"));
    CHECK(bytes_of(folded) < bytes_of(m));
    check_values(m, folded);
  }
}

TEST_CASE("constant folding of random graphs grows their data by at most 4096 bytes") {
  std::set<std::string> outlines;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    unity::random_engine random{seed};
    tensor::builder b{standard()};
    std::vector<unity::value_id> constants;
    for (int i = 0; i < 3; ++i) {
      constants.push_back(
          b.weight("w" + std::to_string(i), random.below(2) == 0 ? tensor::shape{40, 1} : tensor::shape{1, 40}));
    }
    for (int i = 0; i < 4; ++i) {
      const auto x = constants[random.below(constants.size())];
      const auto y = constants[random.below(constants.size())];
      constants.push_back(random.below(2) == 0 ? b.add(x, y) : b.transpose(x, {1, 0}));
    }
    auto y = b.input("x", {40, 40});
    for (int i = 0; i < 2; ++i) {
      y = b.add(y, constants[random.below(constants.size())]);
    }
    const auto m = with_data(std::move(b).finish({y}));
    const auto folded = io::fold_constants(standard(), m);
    REQUIRE(bytes_of(folded) <= bytes_of(m) + 4096);
    check_values(m, folded);
    outlines.insert(outline(folded));
  }
  CHECK(outlines.contains("add add"));  // everything folded
  CHECK(outlines.size() > 5);           // in many graphs, some folding would grow the file
}

TEST_CASE("constant folding leaves integers that double cannot hold to engines") {
  const auto folded = [](const std::string& numbers) {
    const auto bytes = unity::test::onnx_bytes_of("g (int64[1,2] x) => (int64[1,2] y) <int64[2] c = {" + numbers +
                                                  "}> { f = Flatten <axis = 0> (c) s = Add(f, f) y = Add(x, s) }");
    return outline(io::fold_constants(standard(), io::parse_onnx(standard(), bytes, "m", {})));
  };
  const auto whole = folded("9007199254740993, 9007199254740995");
  CHECK(folded("1, 2") == "add");
  CHECK(whole.find("reshape") != std::string::npos);
  CHECK(folded("9007199254740000, 1") == "add add");  // the sum is too large, its operands are not
}

TEST_CASE("constant folding merges equal tensors of one shape unless they are outputs") {
  tensor::builder b{standard()};
  const auto u = b.weight("u", {3});
  const auto v = b.weight("v", {3});
  const auto w = b.weight("w", {1, 3});
  const auto sum = b.add(b.add(b.mul(b.input("x", {2, 3}), u), v), w);
  auto m = with_data(std::move(b).finish({sum, v}));
  m.outputs = {"y", "v"};
  for (const auto* name : {"u", "v", "w"}) {
    m.data[name].bytes = io::make_data(dtype::float32, {3}, std::vector<double>{1, 2, 3}).bytes;
  }
  const auto folded = io::fold_constants(standard(), m);
  CHECK(folded.data.size() == 3);  // v is an output, w has another shape
  check_values(m, folded);
  tensor::builder again{standard()};
  const auto product = again.mul(again.mul(again.input("x", {2, 3}), again.weight("u", {3})), again.weight("v", {3}));
  m.graph = std::move(again).finish({product});
  CHECK(io::fold_constants(standard(), m).data.size() == 1);
}

TEST_CASE("written_size and import_onnx give the bytes and nodes of an ONNX file") {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "file_size";
  std::filesystem::create_directories(folder);
  tensor::builder b{standard()};
  const auto y = b.relu(b.linear(b.input("x", {3, 40}), b.weight("w", {40, 50}), b.weight("b", {50})));
  const auto m = with_data(std::move(b).finish({y}));
  for (const std::int64_t above : {1 << 20, 100}) {
    CAPTURE(above);
    const io::export_options options{.external_data_above = above};
    const auto file = folder / ("m" + std::to_string(above) + ".onnx");
    io::export_onnx(standard(), m, file, options);
    const auto beside = folder / (file.filename().string() + ".data");
    const auto bytes = std::filesystem::file_size(file) + (above == 100 ? std::filesystem::file_size(beside) : 0);
    CHECK(std::filesystem::exists(beside) == (above == 100));
    const io::onnx_file_size expected{bytes, 2};
    CHECK(io::written_size(standard(), m, options).nodes == 2);
    CHECK(io::import_onnx(standard(), file).file == expected);
    // Each tensor repeats the name of the external data file.
    CHECK(io::written_size(standard(), m, options).bytes ==
          bytes + (above == 100 ? 2 * (std::string{"model.onnx.data"}.size() - beside.filename().string().size()) : 0));
    check_values(m, io::import_onnx(standard(), file));
  }
  const auto bytes = io::serialize_onnx(standard(), m);
  CHECK(unity::read_file(folder / ("m" + std::to_string(1 << 20) + ".onnx")) == bytes);
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  CHECK(proto.graph().initializer_size() == 2);
  CHECK(proto.SerializeAsString().size() == bytes.size());
}

}  // namespace tests_of_fold_constants
