// Any bytes are an AutoDist strategy or an error. A strategy is written back as the same message; if it belongs to a
// small model on two nodes, the resulting plan synchronizes weights as the strategy says.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/autodist_plan.hpp>
#include <unity/io/autodist_strategy.hpp>
#include <unity/io/resource_spec.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "support/expect_one_line.hpp"

namespace {

using namespace unity;

tensor::tensor_graph make_graph(const tensor::algebra& algebra) {
  tensor::builder b{algebra};
  const auto table = b.weight("table", {6, 4});
  const auto rows = b.embedding(table, b.input("ids", {4}, tensor::dtype::int64));
  const auto w = b.weight("w", {4, 2});
  const auto product = b.matmul(rows, w);
  const auto bias = b.weight("b", {2});
  return std::move(b).finish({b.add(product, bias)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto algebra = tensor::training_algebra();
  static const auto graph = make_graph(algebra);
  static const auto nodes =
      io::parse_resources("nodes:\n- {address: a, gpus: [0, 1], chief: true}\n- {address: b, gpus: [0]}\n", "fuzz");
  io::autodist_strategy strategy;
  std::optional<io::synchronization_on> found;
  try {
    strategy = io::parse_autodist_strategy({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!(io::parse_autodist_strategy(io::to_bytes(strategy), "again") == strategy)) {
      __builtin_trap();
    }
    found = io::from_autodist(algebra, graph, nodes.machine.network, strategy, "fuzz");
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;  // refused: not a strategy of this model
  }
  parallel::plan p;
  p.graph = graph;
  p.machine = nodes.machine;
  try {
    p.configurations =
        parallel::replicated_data_parallel(parallel::graph_dimensions{algebra, p.graph}, found->replicas);
    p.synchronization = found->sync;
    parallel::check(algebra, p);
    if (io::replicas_of(p).size() < found->replicas.size()) {
      return 0;  // the samples do not suffice for all of them
    }
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;  // the replicas do not divide the batch
  }
  const auto again = io::from_autodist(
      algebra, graph, nodes.machine.network,
      io::parse_autodist_strategy(io::to_bytes(io::to_autodist(algebra, p, strategy.id)), "again"), "again");
  if (!(again.sync.weights == found->sync.weights && again.replicas == found->replicas)) {
    __builtin_trap();
  }
  return 0;
}
