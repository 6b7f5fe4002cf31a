// The table of operators in docs/models.md agrees with the algebra and with ONNX files.
#include <unity/io/onnx/operators.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_operator_table {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

const tensor::algebra& training() {
  static const auto a = tensor::training_algebra();
  return a;
}

struct subject {
  std::string operator_name;  // ONNX's name, with a remark
  std::string graph;          // the text after its name
  int opset = 18;
};

std::vector<subject> subjects() {
  const std::string x = "(float[4,6] x) => (float[n,m] y) ";
  const std::string xi = "(float[4,6] x, int64[2,6] i, float[2,6] u) => (float[n,m] y) ";
  const std::string c = "(float[2,4,6,6] x, float[4] s) => (float[a,b,c,d] y) ";
  const std::string q = "(float[2,4,3,6] q, float[2,2,5,6] k, float[2,2,5,6] v, bool[3,5] m) => (float[a,b,c,d] y) ";
  const std::string l = "(float[2,4,3] x, int64[2,3] t, float[4] w) => (float y) ";
  std::vector<subject> all{
      {"Where", "(bool[4,1] c, float[4,6] x, float[6] z) => (float[n,m] y) { y = Where(c, x, z) }"}};
  for (const auto* name : {"And", "Or", "Xor"}) {
    all.push_back({name, fmt::format("(bool[4,6] x, bool[4,6] z) => (bool[n,m] y) {{ y = {}(x, z) }}", name)});
  }
  all.push_back({"Not", "(bool[4,6] x) => (bool[n,m] y) { y = Not(x) }"});
  for (const auto* name : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    all.push_back({name, fmt::format("(float[4,6] x, float[4,6] z) => (bool[n,m] y) {{ y = {}(x, z) }}", name)});
  }
  all.push_back({"IsNaN", "(float[4,6] x) => (bool[n,m] y) { y = IsNaN(x) }"});
  all.push_back({"LSTM",
                 "(float[5,2,3] x, float[1,8,3] w, float[1,8,2] r) => (float[a,b,c,d] y) "
                 "{ y, h = LSTM <hidden_size = 2> (x, w, r) }"});
  all.push_back({"GRU",
                 "(float[5,2,3] x, float[1,6,3] w, float[1,6,2] r) => (float[a,b,c,d] y) "
                 "{ y, h = GRU <hidden_size = 2> (x, w, r) }"});
  all.push_back({"RNN",
                 "(float[5,2,3] x, float[1,2,3] w, float[1,2,2] r) => (float[a,b,c,d] y) "
                 "{ y, h = RNN <hidden_size = 2> (x, w, r) }"});
  for (const auto* name : {"HardSwish", "HardSigmoid", "LogSoftmax", "Softmax", "Hardmax", "Elu", "Selu", "Celu",
                           "Softplus", "Softsign", "Mish", "LeakyRelu", "ThresholdedRelu", "Shrink"}) {
    all.push_back({name, x + fmt::format("{{ y = {}(x) }}", name)});
  }
  all.push_back({"PRelu", "(float[4,6] x, float[6] s) => (float[n,m] y) { y = PRelu(x, s) }"});
  all.push_back({"Gelu", x + "{ y = Gelu(x) }", 20});
  all.push_back({"Gelu, by tanh", x + "{ y = Gelu <approximate = \"tanh\"> (x) }", 20});
  for (const auto* name : {"Round", "Floor", "Ceil", "Sign", "Sin", "Cos", "Tan"}) {
    all.push_back({name, x + fmt::format("{{ y = {}(x) }}", name)});
  }
  all.push_back({"Mod", "(float[4,6] x, float[6] z) => (float[n,m] y) { y = Mod <fmod = 1> (x, z) }"});
  for (const auto* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    all.push_back({name, x + fmt::format("<int64[1] a = {{1}}> {{ y = {} <keepdims = 0> (x, a) }}", name)});
  }
  for (const auto* name : {"ArgMax", "ArgMin"}) {
    all.push_back({name, fmt::format("(float[4,6] x) => (int64[n,m] y) {{ y = {} <axis = 1> (x) }}", name)});
  }
  for (auto& s : std::vector<subject>{
           {"CumSum", x + "<int64 a = {1}> { y = CumSum(x, a) }"},
           {"TopK", x + "<int64[1] k = {2}> { y, i = TopK(x, k) }"},
           {"Trilu", x + "{ y = Trilu(x) }"},
           {"Einsum",
            "(float[4,6] x, float[6,2] w) => (float[n,m] y) { y = Einsum <equation = \"ij,jk->ki\"> (x, w) }"},
           {"Expand", "(float[4,1] x) => (float[n,m] y) <int64[2] d = {4, 6}> { y = Expand(x, d) }"},
           {"Tile", x + "<int64[2] r = {2, 3}> { y = Tile(x, r) }"},
           {"ScatterElements", xi + "{ y = ScatterElements(x, i, u) }"},
           {"ScatterElements, add", xi + "{ y = ScatterElements <reduction = \"add\"> (x, i, u) }"},
           {"ScatterND", "(float[4,6] x, int64[2,1] i, float[2,6] u) => (float[n,m] y) { y = ScatterND(x, i, u) }"},
           {"GatherElements",
            "(float[4,6] x, int64[4,2] i) => (float[n,m] y) { y = GatherElements <axis = 1> (x, i) }"},
           {"GatherND", "(float[4,6,2] x, int64[4,1] i) => (float[n,m] y) { y = GatherND <batch_dims = 1> (x, i) }"},
           {"Gather, along the first axis", "(float[4,6] x, int64[3] i) => (float[n,m] y) { y = Gather(x, i) }"},
           {"Gather, along another", "(float[4,6] x, int64[3] i) => (float[n,m] y) { y = Gather <axis = 1> (x, i) }"},
           {"Gather, of one constant number", x + "<int64 i = {-1}> { y = Gather <axis = 1> (x, i) }"},
           {"Slice", x + "<int64[1] s = {1}, int64[1] e = {5}, int64[1] a = {1}> { y = Slice(x, s, e, a) }"},
           {"Slice, with negative steps",
            x + "<int64[1] s = {5}, int64[1] e = {0}, int64[1] a = {1}, int64[1] t = {-2}> "
                "{ y = Slice(x, s, e, a, t) }"},
           {"OneHot", "(int64[4] i, float[2] v) => (float[n,m] y) <int64[1] d = {3}> { y = OneHot(i, d, v) }"},
           {"Pad", x + "<int64[4] p = {0, 1, 0, 2}> { y = Pad(x, p) }"},
           {"Pad, by the edge", x + "<int64[4] p = {0, 1, 0, 2}> { y = Pad <mode = \"edge\"> (x, p) }"},
           {"Pad, by reflection", x + "<int64[4] p = {0, 1, 0, 2}> { y = Pad <mode = \"reflect\"> (x, p) }"},
           {"Pad, around", x + "<int64[4] p = {0, 1, 0, 2}> { y = Pad <mode = \"wrap\"> (x, p) }", 19},
           {"InstanceNormalization", c + "{ y = InstanceNormalization(x, s, s) }"},
           {"GroupNormalization", c + "{ y = GroupNormalization <num_groups = 2> (x, s, s) }", 21},
           {"LayerNormalization", "(float[2,4] x, float[4] s) => (float[n,m] y) { y = LayerNormalization(x, s, s) }"},
           {"RMSNormalization", "(float[2,4] x, float[4] s) => (float[n,m] y) { y = RMSNormalization(x, s) }", 23},
           {"LRN", c + "{ y = LRN <size = 3> (x) }"},
           {"LpNormalization", x + "{ y = LpNormalization <axis = 1> (x) }"},
           {"MeanVarianceNormalization", c + "{ y = MeanVarianceNormalization(x) }"},
           {"Resize, nearest", c + "<int64[4] d = {2, 4, 12, 9}> { y = Resize(x, , , d) }"},
           {"Resize, linear", c + "<int64[4] d = {2, 4, 12, 9}> { y = Resize <mode = \"linear\"> (x, , , d) }"},
           {"Resize, cubic", c + "<int64[4] d = {2, 4, 12, 9}> { y = Resize <mode = \"cubic\"> (x, , , d) }"},
           {"Conv, along one dimension",
            "(float[2,4,9] x, float[6,4,3] w) => (float[a,b,c] y) { y = Conv <pads = [1, 1]> (x, w) }"},
           {"MaxPool, along one dimension",
            "(float[2,4,9] x) => (float[a,b,c] y) { y = MaxPool <kernel_shape = [2]> (x) }"},
           {"ConvTranspose",
            "(float[1,2,3,3] x, float[2,3,2,2] w) => (float[a,b,c,d] y) { y = ConvTranspose <strides = [2, 2]> (x, w) "
            "}"},
           {"DepthToSpace", c + "{ y = DepthToSpace <blocksize = 2> (x) }"},
           {"SpaceToDepth", c + "{ y = SpaceToDepth <blocksize = 2> (x) }"},
           {"QuantizeLinear", "(float[4,6] x, float s) => (uint8[n,m] y) { y = QuantizeLinear(x, s) }"},
           {"DequantizeLinear", "(uint8[4,6] x, float s) => (float[n,m] y) { y = DequantizeLinear(x, s) }"},
           {"SoftmaxCrossEntropyLoss", l + "{ y = SoftmaxCrossEntropyLoss(x, t, w) }"},
           {"NegativeLogLikelihoodLoss", l + "{ y = NegativeLogLikelihoodLoss(x, t, w) }"},
           {"Attention", q + "{ y = Attention(q, k, v, m) }", 23},
           {"Attention, with softcap",
            "(float[2,4,3,6] q, float[2,2,5,6] k, float[2,2,5,6] v) => (float[2,4,3,6] y) "
            "{ y = Attention <softcap = 2.0> (q, k, v) }",
            23},
           {"RotaryEmbedding",
            "(float[2,4,3,6] x, float[2,3,3] c) => (float[a,b,c,d] y) { y = RotaryEmbedding(x, c, c) }", 23}}) {
    all.push_back(std::move(s));
  }
  return all;
}

std::string yes(bool is) { return is ? "yes" : "no"; }

// The operators of a file other than constants, in order.
std::string written_as(const std::string& bytes) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  std::string all;
  for (const auto& n : model.graph().node()) {
    all += n.op_type() == "Constant" ? "" : (all.empty() ? "" : ", ") + n.op_type();
  }
  return all;
}

bool is_evaluated(const tensor::tensor_graph& g) {
  try {
    return !tensor::evaluate<double>(standard(), g)[0].data.empty();
  } catch (const unity::error&) {
    return false;
  }
}

std::vector<tensor::tensor_type> inputs_of(const tensor::tensor_graph& g, unity::node_id n) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : g.operands(n)) {
    types.push_back(g.type(v));
  }
  return types;
}

// Whether an output is computed from a node in [from, to).
bool depends_on_nodes_from(const tensor::tensor_graph& g, std::size_t from, std::size_t to) {
  std::vector<bool> depends(g.value_count(), false);
  for (const auto n : node_ids(g)) {
    bool is = from <= n.index() && n.index() < to;
    for (const auto v : g.operands(n)) {
      is = is || depends[v.index()];
    }
    for (const auto v : g.results(n)) {
      depends[v.index()] = is;
    }
  }
  return std::any_of(g.outputs().begin(), g.outputs().end(), [&](const auto v) { return depends[v.index()]; });
}

// "yes", "no", "zero" (a piecewise constant function), or "none" (no floating-point input, or another result).
std::string derivative_of(const tensor::tensor_graph& g, unity::node_id n) {
  const auto inputs = inputs_of(g, n);
  const bool has_real = std::any_of(inputs.begin(), inputs.end(), [](const auto& t) { return is_floating(t.element); });
  if (!has_real || !is_floating(g.type(g.results(n)[0]).element)) {
    return "none";
  }
  try {
    const auto adjoint = tensor::adjoint_of(training(), g.operation(n), inputs);
    const auto first_cotangent = inputs.size() + g.results(n).size();
    return depends_on_nodes_from(adjoint.graph, first_cotangent, first_cotangent + g.results(n).size()) ? "yes"
                                                                                                        : "zero";
  } catch (const unity::error&) {
    return "no";
  }
}

// How many dimensions of the result can be divided, of how many; and whether a sum can be divided.
std::string divided_of(const tensor::tensor_graph& g, unity::node_id n) {
  const auto d = unity::parallel::dimensions_of(standard(), g.operation(n), inputs_of(g, n));
  REQUIRE(d.has_value());
  return fmt::format("{} of {}{}", d->divisible.size(), g.type(g.results(n)[0]).dims.size(),
                     d->reductions.empty() ? "" : ", sum");
}

std::string row_of(const subject& s) {
  const auto m = io::parse_onnx(standard(), unity::test::onnx_bytes_of("g " + s.graph, s.opset), "model", {});
  const auto& g = m.graph;
  std::vector<unity::node_id> operators;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      operators.push_back(n);
    }
  }
  const auto bytes = io::serialize_onnx(standard(), m);
  CHECK(io::parse_onnx(standard(), bytes, "again", {}).graph == g);
  if (!m.opaque_operators.empty()) {
    return fmt::format("| {} | opaque | {} | no | no | no |", s.operator_name, written_as(bytes));
  }
  REQUIRE_FALSE(operators.empty());
  // Of several operators, the last determines how the result is divided; all must have a derivative.
  std::set<std::string> derivatives;
  for (const auto n : operators) {
    derivatives.insert(derivative_of(g, n));
  }
  std::string derivative;
  for (const auto* is : {"no", "zero", "none", "yes"}) {
    derivative = derivative.empty() && derivatives.contains(is) ? is : derivative;
  }
  return fmt::format("| {} | `{}` | {} | {} | {} | {} |", s.operator_name, outline(m), written_as(bytes),
                     yes(is_evaluated(g)), derivative, divided_of(g, operators.back()));
}

std::set<std::string> lines_of_documentation() {
  std::ifstream file{std::string{UNITY_TEST_SOURCE_DIR} + "/docs/models.md"};
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.insert(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("the operator table in docs/models.md agrees with the algebra and with ONNX files") {
  const auto documented = lines_of_documentation();
  std::string all;
  std::string missing;
  for (const auto& s : subjects()) {
    CAPTURE(s.operator_name);
    const auto row = row_of(s);
    all += row + "\n";
    if (!documented.contains(row)) {
      missing += "\n" + row;
    }
  }
  INFO("docs/models.md lacks" << missing);
  CHECK(missing.empty());
  if (const auto* file = std::getenv("UNITY_OPERATOR_TABLE")) {  // writes the expected table
    std::ofstream{file} << all;
  }
}

}  // namespace tests_of_operator_table
