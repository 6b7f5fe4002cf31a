// Tutorial 3: a new cost model, and a combination of two.
//
// run:
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace tensor = unity::tensor;

// Energy in picojoules: 2 for a floating-point operation in float32, 160 for a byte from memory.
// Source: Horowitz, Computing's energy problem, ISSCC 2014.
class energy_cost {
 public:
  using cost_type = std::int64_t;

  explicit energy_cost(const tensor::algebra& operators) : operators_{&operators} {}

  [[nodiscard]] std::int64_t node_cost(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                       std::span<const tensor::tensor_type> outputs) const {
    const auto work = operators_->work(op, inputs, outputs);
    return inputs.empty() ? 0 : 2 * work.operations.count() + 160 * work.moved.count();
  }
  [[nodiscard]] unity::cost_value objective(std::int64_t total) const { return total; }

 private:
  const tensor::algebra* operators_;
};
static_assert(unity::additive_cost_model<energy_cost, tensor::algebra>);

constexpr auto laws = R"(
  rule association  matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)
  rule fusion       relu(matmul(?x, ?y)) == matmul{activation=relu}(?x, ?y)
)";

// The sum over all nodes, without the search's bookkeeping.
template <class Model>
unity::cost_value cost_of(const Model& model, const tensor::tensor_graph& g) {
  typename Model::cost_type total{};
  for (const auto i : unity::node_ids(g)) {
    std::vector<tensor::tensor_type> inputs, outputs;
    for (const auto v : g.operands(i)) {
      inputs.push_back(g.type(v));
    }
    for (const auto v : g.results(i)) {
      outputs.push_back(g.type(v));
    }
    total += model.node_cost(g.operation(i), std::span<const tensor::tensor_type>{inputs},
                             std::span<const tensor::tensor_type>{outputs});
  }
  return model.objective(total);
}

int main() {
  const auto operators = tensor::standard_algebra();
  tensor::builder b{operators};
  const auto p = b.input("p", {512, 512});
  const auto q = b.input("q", {512, 512});
  const auto r = b.input("r", {512, 16});
  const auto before = std::move(b).finish({b.relu(b.matmul(b.matmul(p, q), r))});

  const energy_cost energy{operators};
  unity::rewrite_space space{operators, energy, unity::compile_rules(operators, unity::parse_rules(laws)), before};
  const auto found = unity::backtracking(space);
  const auto after = space.graph(found.best);
  fmt::print("energy: {} -> {} nJ\n", cost_of(energy, before) / 1000, found.cost / 1000);

  // The least time within an energy budget.
  const tensor::analytic_cost time{operators, unity::hardware::find_device("v100").value()};
  const unity::constrained_cost thrifty{time, energy, cost_of(energy, before) / 2};
  unity::rewrite_space both{operators, thrifty, space.rules(), before};
  const auto fast = unity::backtracking(both);
  fmt::print("time with at most half the energy: {} ns\n", fast.cost / 1000);

  const bool exact = found.cost == cost_of(energy, after);
  const bool within = cost_of(energy, both.graph(fast.best)) <= cost_of(energy, before) / 2;
  fmt::print("{}", exact ? "deltas add up to the cost of the graph\n" : "deltas do not add up\n");
  return exact && within && 2 * found.cost < cost_of(energy, before) ? 0 : 1;
}
