// Uses the library, and one name of each optional part, so that headers and libraries are really there.
#include <array>
#include <cstdio>

#ifdef HAS_json
#include <nlohmann/json.hpp>
#endif
#ifdef HAS_onnx
#include <onnx/onnx_pb.h>
#endif
#ifdef HAS_z3
#include <z3++.h>
#endif

#include <unity/core/config.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>

int main() {
  using graph = unity::compact_graph<int, int>;
  static_assert(unity::mutable_dataflow_graph<graph>);
  graph g;
  const std::array type{1};
  const auto source = g.add_node(7, {}, type);
  g.set_outputs(g.results(source));
  bool good = g.node_count() == 1 && g.outputs().size() == 1;
#ifdef HAS_json
  good = good && nlohmann::json::parse("[1]").size() == 1;
#endif
#ifdef HAS_onnx
  onnx::ModelProto model;
  model.set_ir_version(8);
  good = good && model.ByteSizeLong() > 0;
#endif
#ifdef HAS_z3
  z3::context context;
  good = good && z3::solver{context}.check() == z3::sat;
#endif
  std::printf("unity %d.%d.%d\n", UNITY_VERSION_MAJOR, UNITY_VERSION_MINOR, UNITY_VERSION_PATCH);
  return good ? 0 : 1;
}
