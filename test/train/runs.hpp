// Plans of small models, and runs of them on threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/checkpoint.hpp>
#include <unity/train/trainer.hpp>

#include "../support/operators.hpp"

namespace unity::train::test {

using unity::test::training::operators;

// In double precision. how: "data", "model", or "mixed", which alternates between the two from operator to operator.
inline parallel::plan plan_for(const tensor::tensor_graph& g, std::size_t devices, std::string_view parallelism) {
  parallel::plan p;
  p.graph = tensor::with_delivered_outputs(
      operators(), tensor::converted(operators(), g, tensor::dtype::float32, tensor::dtype::float64));
  const auto per_node = std::min<std::size_t>(devices, 4);
  p.machine = hardware::preset("p100:" + std::to_string(devices / per_node) + "x" + std::to_string(per_node));
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto data = parallel::data_parallel(all, p.machine.network);
  const auto model = parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  for (std::size_t n = 0; n < data.size(); ++n) {
    const bool is_last = n + 1 == data.size();
    p.configurations.push_back(parallelism == "data" || (parallelism == "mixed" && (n % 2 == 0 || is_last)) ? data[n]
                                                                                                            : model[n]);
  }
  return p;
}
inline parallel::plan plan_for(const std::string& model, std::size_t devices, std::string_view parallelism) {
  return plan_for(tensor::zoo::build(operators(), model), devices, parallelism);
}

// Pipelines a one-device plan: a stage per device, micro-batches of its graph.
inline parallel::plan in_stages(const parallel::plan& whole, std::size_t stages, std::int64_t microbatches,
                                bool is_delayed) {
  parallel::plan p;
  const parallel::graph_dimensions before{operators(), whole.graph};
  p.graph = parallel::microbatch(operators(), whole.graph, before, microbatches).value();
  p.machine = hardware::preset("p100:1x" + std::to_string(stages));
  p.pipeline.microbatches = microbatches;
  p.pipeline.is_delayed = is_delayed;
  const parallel::graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    auto& c = p.configurations.emplace_back();
    if (!o.inputs.empty()) {
      c.degrees = parallel::degree_list(o.divisible.size(), 1);
      c.devices = {hardware::device_id{n.index() * stages / p.graph.node_count()}};
    }
  }
  for (std::size_t d = 0; d < stages; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d));
  }
  return p;
}

using reference_trainer = trainer<backend::reference_backend, backend::local_communicator>;

// Calls f(rank, communicator) on a thread per rank. Precondition: p has a loss.
template <class F>
void on_threads(const parallel::plan& p, const update_rule& rule, std::uint64_t seed, const batches& data, const F& f) {
  backend::run_local(static_cast<int>(p.machine.network.device_count()), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    reference_trainer rank{b, operators(), p, world, rule, seed, data};
    f(rank, world);
  });
}

inline run_settings settings_for(const parallel::plan& p, const update_rule& rule, std::uint64_t seed) {
  return {model_fingerprint(operators(), p.graph, p.pipeline.microbatches),
          samples_of(operators(), p.graph) * p.pipeline.microbatches,
          "mean_square",
          "synthetic",
          rule,
          seed};
}

// The losses of steps [from, until). Resumes from the file `before` and writes the file `after`, if given.
inline std::vector<double> train_some(const parallel::plan& p, const update_rule& rule, std::uint64_t seed,
                                      std::uint64_t from, std::uint64_t until, const std::filesystem::path& before,
                                      const std::filesystem::path& after) {
  std::vector<double> losses;
  on_threads(p, rule, seed, batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
    const auto run = settings_for(p, rule, seed);
    if (!before.empty()) {
      const io::weights_reader file{before};
      if (read_checkpoint(file, before, operators(), rank, world, run) != static_cast<std::int64_t>(from)) {
        throw error{"test", "another step", std::to_string(from)};
      }
    }
    for (auto s = from; s < until; ++s) {
      const auto loss = rank.step(s);
      if (world.rank() == 0) {
        losses.push_back(loss);
      }
    }
    if (!after.empty()) {
      write_checkpoint(after, operators(), rank, world, run, static_cast<std::int64_t>(until));
    }
  });
  return losses;
}

}  // namespace unity::train::test
