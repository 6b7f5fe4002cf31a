// Plans of small models, and runs of them on threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/id.hpp>
#include <unity/machine/presets.hpp>
#include <unity/machine/routes.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/delivered_outputs.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/microbatch.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/sample_values.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/detail/source_roles.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/trainer.hpp>

namespace unity::train::test {

inline const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

// In double precision. how: "data", "model", or "mixed", which is the one for every second operator and the other for
// the rest.
inline parallel::plan plan_for(const tensor::tensor_graph& g, std::size_t devices, std::string_view how) {
  parallel::plan p;
  p.graph = parallel::with_delivered_outputs(
      operators(), tensor::converted(operators(), g, tensor::dtype::float32, tensor::dtype::float64));
  const auto per_node = std::min<std::size_t>(devices, 4);
  p.machine = machine::preset("p100:" + std::to_string(devices / per_node) + "x" + std::to_string(per_node));
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto data = parallel::data_parallel(all, p.machine.network);
  const auto model = parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  for (std::size_t n = 0; n < data.size(); ++n) {
    const bool is_last = n + 1 == data.size();
    p.configurations.push_back(how == "data" || (how == "mixed" && (n % 2 == 0 || is_last)) ? data[n] : model[n]);
  }
  return p;
}
inline parallel::plan plan_for(const std::string& model, std::size_t devices, std::string_view how) {
  return plan_for(tensor::zoo::build(operators(), model), devices, how);
}

// Micro-batches in as many stages as there are devices, of the graph of a plan for one.
inline parallel::plan in_stages(const parallel::plan& whole, std::size_t stages, std::int64_t microbatches,
                                bool is_delayed) {
  parallel::plan p;
  const parallel::graph_dimensions before{operators(), whole.graph};
  p.graph = parallel::microbatch(operators(), whole.graph, before, microbatches).value();
  p.machine = machine::preset("p100:1x" + std::to_string(stages));
  p.pipeline.microbatches = microbatches;
  p.pipeline.is_delayed = is_delayed;
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    auto& c = p.configurations.emplace_back();
    if (!o.inputs.empty()) {
      c.degrees = parallel::degree_list(o.divisible.size(), 1);
      c.devices = {machine::device_id{n.index() * stages / p.graph.node_count()}};
    }
  }
  for (std::size_t d = 0; d < stages; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d));
  }
  return p;
}

using reference_trainer = trainer<backend::reference_backend, backend::local_communicator>;

// f(rank, communicator) on a thread per rank; p: with a loss.
template <class F>
void on_threads(const parallel::plan& p, const update_rule& rule, std::uint64_t seed, const batches& data, const F& f) {
  backend::run_local(static_cast<int>(p.machine.network.device_count()), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    reference_trainer rank{b, operators(), p, world, rule, seed, data};
    f(rank, world);
  });
}

}  // namespace unity::train::test
