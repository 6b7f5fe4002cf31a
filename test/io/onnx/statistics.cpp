#include <unity/io/onnx/layers.hpp>
#include <unity/io/onnx/statistics.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_statistics {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::value_id;
using unity::io::test::built;
using unity::io::test::only_operation;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

io::onnx_model read(const std::string& graph, int opset) {
  return io::parse_onnx(standard(), unity::test::onnx_bytes_of(graph, opset), "model", {});
}

struct form {
  int opset;
  std::string inputs;   // and initializers
  std::string node;     // as ONNX writes it
  std::string meaning;  // the kind of the one operator of the graph
  std::vector<tensor::named_attribute> attributes;
};

std::vector<form> forms() {
  const std::string x = "(float[2,3,4] x) => (float[n,m] y)";
  const std::string axes = x + " <int64[2] a = {0, -1}>";
  std::vector<form> all;
  const std::pair<std::string, std::string> reductions[] = {{"ReduceMin", "reduce_min"},
                                                            {"ReduceProd", "reduce_prod"},
                                                            {"ReduceL1", "reduce_l1"},
                                                            {"ReduceL2", "reduce_l2"},
                                                            {"ReduceSumSquare", "reduce_sum_square"},
                                                            {"ReduceLogSum", "reduce_log_sum"},
                                                            {"ReduceLogSumExp", "reduce_log_sum_exp"}};
  for (const auto& [onnx, kind] : reductions) {
    all.push_back({11, x, onnx + " <axes = [1], keepdims = 0> (x)", kind, {{"axes", {1}}, {"keep_dims", 0}}});
    all.push_back({13, x, onnx + " <keepdims = 1> (x)", kind, {{"axes", {0, 1, 2}}, {"keep_dims", 1}}});
    all.push_back({18, axes, onnx + " <keepdims = 0> (x, a)", kind, {{"axes", {0, 2}}, {"keep_dims", 0}}});
    all.push_back({22, axes, onnx + "(x, a)", kind, {{"axes", {0, 2}}, {"keep_dims", 1}}});
  }
  for (const auto* type : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const std::string name = type;
    const std::string function = name == "Softmax" ? "softmax" : name == "LogSoftmax" ? "log_softmax" : "hardmax";
    all.push_back({11, x, name + "(x)", "flat_softmax", {{"axis", 1}, {"function", function}}});
    all.push_back({11, x, name + " <axis = 2> (x)", function, {{"axis", 2}}});
    all.push_back({13, x, name + " <axis = 1> (x)", function, {{"axis", 1}}});
  }
  const std::string n = "(float[2,4,3,3] x, float[4] s, float[2] g) => (float[2,4,3,3] y)";
  const std::string q = "(float[2,4,3,6] q, float[2,2,5,6] k, float[2,2,5,6] v, bool[3,5] m) => (float[2,4,3,6] y)";
  const std::string r = "(float[2,4,3,6] x, float[2,3,2] c, float[7,3] t, int64[2,3] p) => (float[2,4,3,6] y)";
  const std::string l = "(float[2,4,3] x, int64[2,3] t, float[4] w) => (float y)";
  for (auto f : std::vector<form>{
           {7, x, "ArgMax <axis = -1, keepdims = 0> (x)", "arg_max", {{"axis", 2}, {"keep_dims", 0}, {"last", 0}}},
           {13, x, "ArgMin <select_last_index = 1> (x)", "arg_min", {{"axis", 0}, {"keep_dims", 1}, {"last", 1}}},
           {14,
            x + " <int64 a = {-2}>",
            "CumSum <exclusive = 1> (x, a)",
            "cumulative_sum",
            {{"axis", 1}, {"exclusive", 1}, {"reverse", 0}}},
           {14,
            x + " <int32[1] a = {0}>",
            "CumSum <reverse = 1> (x, a)",
            "cumulative_sum",
            {{"axis", 0}, {"exclusive", 0}, {"reverse", 1}}},
           {6, n, "InstanceNormalization <epsilon = 0.01> (x, s, s)", "instance_norm", {{"epsilon", double{0.01F}}}},
           {18,
            n,
            "GroupNormalization <num_groups = 2> (x, g, g)",
            "group_norm",
            {{"groups", 2}, {"epsilon", double{1e-5F}}}},
           {21,
            n,
            "GroupNormalization <num_groups = 2> (x, s, s)",
            "group_norm",
            {{"groups", 2}, {"epsilon", double{1e-5F}}}},
           {23,
            "(float[2,3,4] x, float[4] s) => (float[2,3,4] y)",
            "RMSNormalization(x, s)",
            "rms_norm",
            {{"axis", 2}, {"epsilon", double{1e-5F}}}},
           {9,
            n,
            "LRN <size = 3, alpha = 0.5, beta = 0.5, bias = 2.0> (x)",
            "local_response_norm",
            {{"size", 3}, {"alpha", 0.5}, {"beta", 0.5}, {"bias", 2.0}}},
           {9, n, "LpNormalization <axis = 1, p = 1> (x)", "lp_norm", {{"axis", 1}, {"p", 1}}},
           {13, n, "MeanVarianceNormalization(x)", "mean_variance_norm", {{"axes", {0, 2, 3}}}},
           {23,
            q,
            "Attention <is_causal = 1, scale = 0.5> (q, k, v)",
            "dot_product_attention",
            {{"heads", 0}, {"key_heads", 0}, {"scale", 0.5}, {"causal", 1}}},
           {23,
            q,
            "Attention(q, k, v, m)",
            "dot_product_attention",
            {{"heads", 0}, {"key_heads", 0}, {"scale", 0.0}, {"causal", 0}}},
           {23,
            "(float[2,3,8] q, float[2,5,4] k) => (float[2,3,8] y)",
            "Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, k)",
            "dot_product_attention",
            {{"heads", 4}, {"key_heads", 2}, {"scale", 0.0}, {"causal", 0}}},
           {23,
            r,
            "RotaryEmbedding <rotary_embedding_dim = 4> (x, c, c)",
            "rotary_embedding",
            {{"heads", 0}, {"interleaved", 0}}},
           {23,
            r,
            "RotaryEmbedding <interleaved = 1> (x, t, t, p)",
            "rotary_embedding",
            {{"heads", 0}, {"interleaved", 1}}},
           {13,
            l,
            "SoftmaxCrossEntropyLoss <ignore_index = -100> (x, t, w)",
            "softmax_cross_entropy",
            {{"reduction", "mean"}, {"ignores", 1}, {"ignored", -100}}},
           {13,
            l,
            "NegativeLogLikelihoodLoss <reduction = \"sum\"> (x, t)",
            "negative_log_likelihood",
            {{"reduction", "sum"}, {"ignores", 0}, {"ignored", 0}}}}) {
    all.push_back(std::move(f));
  }
  return all;
}

}  // namespace

TEST_CASE("ONNX reduction/normalization/attention/loss nodes round-trip as one operator") {
  for (const auto& f : forms()) {
    CAPTURE(f.opset, f.inputs, f.node);
    const auto m = read("g " + f.inputs + " { y = " + f.node + " }", f.opset);
    REQUIRE(outline(m) == f.meaning);
    CHECK(only_operation(m) == standard().make_operation(f.meaning, f.attributes));
    CHECK(m.opaque_operators.empty());
    const auto bytes = io::serialize_onnx(standard(), m);
    onnx::ModelProto written;
    REQUIRE(written.ParseFromString(bytes));
    REQUIRE(written.graph().node_size() == 1);
    CHECK(f.node.starts_with(written.graph().node(0).op_type()));
    CHECK(io::parse_onnx(standard(), bytes, "model", {}).graph == m.graph);
  }
}

TEST_CASE("unstated ONNX attributes of reductions/softmaxes/normalizations take ONNX's defaults") {
  struct stated {
    int opset;
    std::string graph;
    std::function<value_id(tensor::builder&)> meaning;
  };
  const auto node = [](const std::string& initializers, const std::string& text) {
    return "g (float[2,3,4] x) => (float[n,m] y) " + initializers + "{ y = " + text + " }";
  };
  const std::string one = "<int64 a = {1}> ";
  const auto images = [](const std::string& inputs, const std::string& text) {
    return "g (float[2,4,3,3] x" + inputs + ") => (float[2,4,3,3] y) { y = " + text + " }";
  };
  const auto small = [](auto& b) { return b.input("x", {2, 3, 4}); };
  const auto image = [](auto& b) { return b.input("x", {2, 4, 3, 3}); };
  const std::vector<stated> all{
      {11, node("", "ReduceL1(x)"),
       [&](auto& b) {
         return b.apply("reduce_l1", {small(b)}, {{"axes", {0, 1, 2}}, {"keep_dims", 1}})[0];
       }},
      {18, node("", "ReduceLogSumExp <keepdims = 0> (x)"),
       [&](auto& b) {
         return b.apply("reduce_log_sum_exp", {small(b)}, {{"axes", {0, 1, 2}}, {"keep_dims", 0}})[0];
       }},
      {11, node("", "ReduceMin <axes = [-1]> (x)"),
       [&](auto& b) {
         return b.apply("reduce_min", {small(b)}, {{"axes", {2}}, {"keep_dims", 1}})[0];
       }},
      {13, node("", "ArgMax(x)"),
       [&](auto& b) {
         return b.apply("arg_max", {small(b)}, {{"axis", 0}, {"keep_dims", 1}, {"last", 0}})[0];
       }},
      {13, node("", "ArgMin <axis = -1, keepdims = 0, select_last_index = 1> (x)"),
       [&](auto& b) {
         return b.apply("arg_min", {small(b)}, {{"axis", 2}, {"keep_dims", 0}, {"last", 1}})[0];
       }},
      {14, node(one, "CumSum(x, a)"),
       [&](auto& b) {
         return b.apply("cumulative_sum", {small(b)}, {{"axis", 1}, {"exclusive", 0}, {"reverse", 0}})[0];
       }},
      {14, node(one, "CumSum <exclusive = 1> (x, a)"),
       [&](auto& b) {
         return b.apply("cumulative_sum", {small(b)}, {{"axis", 1}, {"exclusive", 1}, {"reverse", 0}})[0];
       }},
      {14, node(one, "CumSum <reverse = 1> (x, a)"),
       [&](auto& b) {
         return b.apply("cumulative_sum", {small(b)}, {{"axis", 1}, {"exclusive", 0}, {"reverse", 1}})[0];
       }},
      {13, node("", "LogSoftmax(x)"),
       [&](auto& b) {
         return b.apply("log_softmax", {small(b)}, {{"axis", 2}})[0];
       }},
      {11, node("", "LogSoftmax(x)"),
       [&](auto& b) {
         return b.apply("flat_softmax", {small(b)}, {{"axis", 1}, {"function", "log_softmax"}})[0];
       }},
      {9, node("", "LpNormalization(x)"),
       [&](auto& b) {
         return b.apply("lp_norm", {small(b)}, {{"axis", 2}, {"p", 2}})[0];
       }},
      {6, images(", float[4] s, float[4] t", "InstanceNormalization(x, s, t)"),
       [&](auto& b) {
         const auto x = image(b);
         const auto s = b.input("s", {4});
         return b.apply("instance_norm", {x, s, b.input("t", {4})}, {{"epsilon", double{1e-5F}}})[0];
       }},
      {9, images("", "LRN <size = 3> (x)"),
       [&](auto& b) {
         return b.apply("local_response_norm", {image(b)},
                        {{"size", 3}, {"alpha", double{1e-4F}}, {"beta", 0.75}, {"bias", 1.0}})[0];
       }},
      {13, images("", "MeanVarianceNormalization(x)"), [&](auto& b) {
         return b.apply("mean_variance_norm", {image(b)}, {{"axes", {0, 2, 3}}})[0];
       }}};
  for (const auto& s : all) {
    CAPTURE(s.opset, s.graph);
    CHECK(read(s.graph, s.opset).graph == built(s.meaning));
  }
}

TEST_CASE("unsupported forms of ONNX reductions/attention/losses become opaque") {
  const auto opaque = [](const std::string& graph, int opset) {
    CAPTURE(graph);
    CHECK(outline(read(graph, opset)) == "opaque");
  };
  const std::string x = "g (float[2,3,4] x, int64 a) => (float[2,3,4] y) ";
  opaque(x + "{ y = CumSum(x, a) }", 14);
  opaque(x + "{ y = ReduceL1 <noop_with_empty_axes = 1> (x) }", 18);
  opaque("g (int64[4] x) => (int64[1] y) { y = ReduceL2(x) }", 13);
  opaque("g (float[1,4,3,6] q) => (float[1,4,3,6] y) { y = Attention <softcap = 2.0> (q, q, q) }", 23);
  opaque("g (float[2,4,3] x, int64[2,3] t) => (float y, float[2,4,3] p) { y, p = SoftmaxCrossEntropyLoss(x, t) }", 13);
}

}  // namespace tests_of_statistics
