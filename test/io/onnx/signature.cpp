#include <unity/io/onnx_export.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <onnx/checker.h>
#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "../../support/cases.hpp"
#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_onnx_signature {

namespace io = unity::io;
namespace systems = unity::systems;
namespace tensor = unity::tensor;
using unity::io::test::standard;
using unity::test::onnx_bytes_of;

namespace {

onnx::ModelProto parsed(const std::string& bytes) {
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  return proto;
}

onnx::ModelProto written(const io::onnx_model& m, bool folds = true) {
  io::export_options options;
  options.fold_constants = folds;
  auto proto = parsed(io::serialize_onnx(standard(), m, options));
  REQUIRE_NOTHROW(onnx::checker::check_model(proto));
  return proto;
}

io::onnx_model read(const std::string& bytes, const io::import_options& options = {}) {
  return io::parse_onnx(standard(), bytes, "m", {}, options);
}

// The result of optimizing a model as `optimize` does.
io::onnx_model optimized(io::onnx_model m) {
  const auto rules = unity::compile_rules(standard(), unity::parse_rules(tensor::standard_rules, "rules"));
  systems::taso_options options;
  options.limits.expansions = 20;
  const auto found =
      systems::taso(standard(), systems::select_rules(rules, unity::syntax::standing::proved, tensor::mode::inference),
                    m.graph, options);
  m.labels = io::stayed_labels(m.labels, found.origins);
  m.graph = found.graph;
  return m;
}

template <class Infos>
std::vector<std::string> texts(const Infos& infos) {
  std::vector<std::string> all;
  for (const auto& info : infos) {
    all.push_back(info.ShortDebugString());
  }
  return all;
}

std::vector<std::string> initializers(const onnx::GraphProto& g) {
  std::vector<std::string> all;
  for (const auto& t : g.initializer()) {
    all.push_back(t.name());
  }
  return all;
}

bool has_initializer(const onnx::GraphProto& g, const std::string& name) {
  const auto all = initializers(g);
  return std::find(all.begin(), all.end(), name) != all.end();
}

const onnx::NodeProto* node_named(const onnx::GraphProto& g, const std::string& name) {
  const auto found = std::find_if(g.node().begin(), g.node().end(), [&](const auto& n) { return n.name() == name; });
  return found == g.node().end() ? nullptr : &*found;
}

// The case of the issue: one of inputs, outputs, initializers and nodes is added for each bit.
struct part {
  std::string inputs{};
  std::string outputs{};
  std::string initializers{};
  std::string nodes{};
};

const std::vector<part> parts{
    {"float[2,3] unused", "", "", ""},
    {"int64[2] unused_integers", "", "", ""},
    {"float[2,3] passed", "float[2,3] passed", "", ""},
    {"", "float[2] constant", "float[2] constant = {1.5, 2.5}", ""},
    {"", "int64[2] numbers", "int64[2] numbers = {3, 4}", ""},
    {"", "float[2] made", "", "made = Constant <value_floats = [1.0, 1.0]> ()"},
    {"float[3] given", "float[2,3] sum", "float[3] given = {1, 2, 3}", "sum = Add(x, given)"},
    {"float[3] ignored", "", "float[3] ignored = {1, 2, 3}", ""},
    {"float[3] folded", "float[3] twice", "float[3] folded = {1, 2, 3}", "twice = Add(folded, folded)"},
    {"", "float[2,3] left, float[2,3] right", "", "left = Abs(x) right = Identity(left)"},
    {"", "float[2,3] same, float[2,3] again", "", "same = Neg(x) again = Neg(x)"},
    {"", "float[2,any] open", "", "open = Exp(x)"},
};

std::string joined(std::vector<std::string> all, unity::random_engine& random, const char* between) {
  std::erase(all, "");
  for (std::size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1], all[random.below(i)]);
  }
  std::string text;
  for (const auto& one : all) {
    text += (text.empty() ? "" : between) + one;
  }
  return text;
}

std::string model_of(std::uint64_t bits, unity::random_engine& random) {
  std::vector<std::string> inputs{"float[2,3] x"};
  std::vector<std::string> outputs{"float[2,3] y"};
  std::vector<std::string> data;
  std::string nodes = "r = Relu(x) y = Relu(r) ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (((bits >> i) & 1U) != 0) {
      inputs.push_back(parts[i].inputs);
      outputs.push_back(parts[i].outputs);
      data.push_back(parts[i].initializers);
      nodes += parts[i].nodes + " ";
    }
  }
  return "g (" + joined(inputs, random, ", ") + ") => (" + joined(outputs, random, ", ") + ") <" +
         joined(data, random, ", ") + "> {" + nodes + "}";
}

}  // namespace

TEST_CASE("inputs and outputs of an ONNX file survive optimization and folding") {
  unity::random_engine random{27};
  constexpr auto apart = unity::test::all_or<std::uint64_t>(60, 400);
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << parts.size()); bits += 1 + random.below(apart)) {
    const auto text = model_of(bits, random);
    CAPTURE(text);
    const auto before = parsed(onnx_bytes_of(text));
    const auto m = read(onnx_bytes_of(text));
    for (const auto& changed : {m, optimized(m)}) {
      for (const bool folds : {false, true}) {
        const auto after = written(changed, folds);
        CHECK(texts(after.graph().input()) == texts(before.graph().input()));
        CHECK(texts(after.graph().output()) == texts(before.graph().output()));
        for (const auto& in : before.graph().input()) {
          CHECK(has_initializer(after.graph(), in.name()) == has_initializer(before.graph(), in.name()));
        }
        // Reading it again gives the same signature and defaults.
        const auto again = read(after.SerializeAsString());
        CHECK(again.signature == m.signature);
        CHECK(again.defaults == m.defaults);
      }
      CHECK(io::keeps_signature(standard(), changed));
    }
  }
}

TEST_CASE("keeps_signature detects changed inputs/outputs/defaults") {
  const auto m =
      read(onnx_bytes_of("g (float[2,3] x, float[3] b) => (float[2,3] y) <float[3] b = {1, 2, 3}>"
                         "{ s = Add(x, b) y = Relu(s) }"));
  CHECK(io::keeps_signature(standard(), m));
  SECTION("other output names") {
    auto other = m;
    other.outputs = {"z"};
    CHECK_FALSE(io::keeps_signature(standard(), other));
  }
  SECTION("other inputs") {
    auto other = m;
    other.signature = read(onnx_bytes_of("g (float[2,3] w) => (float[2,3] y) { y = Relu(w) }")).signature;
    CHECK_FALSE(io::keeps_signature(standard(), other));
  }
  SECTION("other output sizes") {
    auto other = m;
    other.signature = read(onnx_bytes_of("g (float[2,3] x) => (float[3,2] y) { y = Transpose(x) }")).signature;
    CHECK_FALSE(io::keeps_signature(standard(), other));
  }
  SECTION("lost default data of an input") {
    auto other = m;
    other.data.clear();
    CHECK_FALSE(io::keeps_signature(standard(), other));
  }
}

TEST_CASE("computations on the default data of an ONNX input are not folded") {
  const auto after = written(read(onnx_bytes_of(R"(g (float[2] x, float[2] b) => (float[2] y)
    <float[2] b = {1, 2}, float[2] c = {3, 4}> { s = Exp(b) t = Exp(c) u = Add(x, s) y = Add(u, t) })")));
  CHECK(std::count_if(after.graph().node().begin(), after.graph().node().end(),
                      [](const auto& n) { return n.op_type() == "Exp"; }) == 1);
}

TEST_CASE("initializers listed as inputs are constants before ONNX IR version 4") {
  auto proto = parsed(onnx_bytes_of(
      "g (float[2] x, float[2] b) => (float[2] y) <float[2] b = {1, 2}> { s = Exp(b) y = Add(x, s) }", 8));
  proto.set_ir_version(3);
  const auto m = read(proto.SerializeAsString());
  const auto after = written(m);
  REQUIRE(after.graph().input_size() == 1);
  CHECK(after.graph().node_size() == 1);
  CHECK(io::keeps_signature(standard(), m));
}

TEST_CASE("bound ONNX dimensions become fixed and unbound output dimensions stay open") {
  const std::string text = "g (float[batch,3] x) => (float[batch,wide] y) { y = Relu(x) }";
  io::import_options options;
  options.dimensions["batch"] = 2;
  const auto m = read(onnx_bytes_of(text), options);
  const auto after = written(m);
  CHECK(texts(after.graph().input()) ==
        texts(parsed(onnx_bytes_of("g (float[2,3] x) => (float[2,3] y) {}")).graph().input()));
  const auto& dims = after.graph().output(0).type().tensor_type().shape();
  CHECK(dims.dim(0).dim_value() == 2);
  CHECK(dims.dim(1).dim_param() == "wide");
  CHECK(io::keeps_signature(standard(), m));
}

TEST_CASE("ONNX nodes that remain keep their names and doc strings") {
  auto proto = parsed(onnx_bytes_of(R"(g (float[2,3] x, float[2,3] z) => (float[2,3] y, float[2,2] p)
    <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
      a = Relu(x) r = Relu(a) y = Tanh(r) p = Gemm(z, w, b) })"));
  const char* names[] = {"first", "second", "last", "product"};
  for (int i = 0; i < 4; ++i) {
    proto.mutable_graph()->mutable_node(i)->set_name(names[i]);
    proto.mutable_graph()->mutable_node(i)->set_doc_string(std::string{"about "} + names[i]);
  }
  const auto m = read(proto.SerializeAsString());
  const auto plain = written(m);
  for (const auto* name : names) {
    CAPTURE(name);
    REQUIRE(node_named(plain.graph(), name) != nullptr);
    CHECK(node_named(plain.graph(), name)->doc_string() == std::string{"about "} + name);
  }
  // Relu(Relu(x)) becomes Relu(x): one of the two nodes is removed, and their reader stays.
  const auto best = written(optimized(m));
  CHECK((node_named(best.graph(), "first") == nullptr || node_named(best.graph(), "second") == nullptr));
  REQUIRE(node_named(best.graph(), "last") != nullptr);
  CHECK(node_named(best.graph(), "last")->op_type() == "Tanh");
  CHECK(node_named(best.graph(), "last")->output(0) == "y");
}

}  // namespace tests_of_onnx_signature
