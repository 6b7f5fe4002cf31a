#include "fusion_job.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/training_plan.hpp>

#include "models.hpp"

namespace support {

namespace {

using namespace unity;

// For this number of devices of the machine.
tensor::tensor_graph graph_for(const tensor::algebra& operators, const std::string& model,
                               const std::vector<std::string>& dimensions, std::size_t devices, std::size_t all) {
  expect_file_for(model, dimensions);
  if (tensor::zoo::is_name(model)) {
    auto r = tensor::zoo::parse(model);
    if (r.values.batch != tensor::zoo::sizes::absent) {
      r.values.batch *= static_cast<std::int64_t>(devices);
    }
    return r.chosen->build(operators, r.values);
  }
  auto graph = load_training_graph(operators, model, dimensions);
  if (devices == all) {
    return graph;
  }
  const auto parts = static_cast<std::int64_t>(all / devices);
  const parallel::graph_dimensions dimensions_of{operators, graph};
  auto part = all % devices == 0 ? parallel::microbatch(operators, graph, dimensions_of, parts) : std::nullopt;
  if (!part) {
    throw error{model, fmt::format("a batch that {} devices cannot share", all),
                "samples for each device, all as many"};
  }
  return *std::move(part);
}

parallel::plan data_parallel_plan(const tensor::algebra& operators, tensor::tensor_graph graph,
                                  const hardware::machine& machine, parallel::optimizer updates) {
  parallel::plan p;
  p.machine = machine;
  p.updates = updates;
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators, graph}, machine.network);
  p.graph = std::move(graph);
  return p;
}

// The job on two devices suffices for a rank's program, if ranks do the same: then it is the same on more devices.
// Ranks that share a weight with a row per sample do not: the number of parts of its gradient depends on that of
// devices.
parallel::plan trained_job(const tensor::algebra& operators, const std::string& model,
                           const std::vector<std::string>& dimensions, const parallel::plan& whole) {
  const auto devices = whole.machine.network.device_count();
  if (devices > 2) {
    const auto two = data_parallel_plan(operators, graph_for(operators, model, dimensions, 2, devices),
                                        hardware::preset("host:1x2"), whole.updates);
    auto trained = train::with_loss(operators, two, tensor::loss::cross_entropy);
    if (!parallel::identical_ranks(trained.graph, parallel::graph_dimensions{operators, trained.graph},
                                   parallel::training_graph{operators, trained.graph}, trained.configurations)
             .empty()) {
      return trained;
    }
  }
  return train::with_loss(operators, whole, tensor::loss::cross_entropy);
}

}  // namespace

fusion_job load_fusion_job(const tensor::algebra& operators, const std::string& model,
                           const std::vector<std::string>& dimensions, const hardware::machine& machine,
                           parallel::optimizer updates, bool is_spelled_out) {
  const auto devices = machine.network.device_count();
  if (devices < 2) {
    throw error{fmt::format("machine {}", machine.name), "one device", "two at least, which all-reduce gradients"};
  }
  fusion_job job;
  job.plan = data_parallel_plan(operators, graph_for(operators, model, dimensions, devices, devices), machine, updates);
  const auto trained = trained_job(operators, model, dimensions, job.plan);
  const auto programs = parallel::programs_of_ranks(operators, trained);
  job.is_spelled_out = is_spelled_out;
  job.program = is_spelled_out ? parallel::spelled_out(operators, programs.ranks.front()) : programs.ranks.front();
  const parallel::training_graph training{operators, trained.graph};
  for (const auto& w : job.program.weights) {
    const auto all = training.weights();
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.value == w.weight.of; });
    job.weights.push_back(static_cast<std::uint32_t>(at - all.begin()));
  }
  return job;
}

void add_instructions(const tensor::algebra& operators, const tensor::durations& times, fusion_job& job) {
  const auto rates = hardware::roofline_of(job.plan.machine.devices.front());
  if (!rates) {
    throw error{fmt::format("machine {}", job.plan.machine.name), "no float32 rate", "one, to predict times"};
  }
  job.instructions = fusion::instructions_of(
      operators, job.program,
      {times, rates->flops_per_second, fusion::roofline_kernels(job.plan.machine), job.plan.updates});
}

parallel::plan with_buckets(const tensor::algebra& operators, const fusion_job& job, const fusion::fusion_plan& plan) {
  auto p = job.plan;
  const parallel::training_graph training{operators, p.graph};
  p.synchronization = {};
  p.synchronization.weights.resize(training.weights().size());
  for (const auto& b : plan.buckets) {
    if (b.size() < 2) {
      continue;
    }
    const auto number = static_cast<std::uint32_t>(p.synchronization.buckets.size());
    p.synchronization.buckets.push_back(fmt::format("bucket{}", number));
    for (const auto w : b) {
      p.synchronization.weights[w].parts[0].bucket = number;
    }
  }
  return p;
}

std::string to_ddp_text(const tensor::algebra& operators, const fusion_job& job, const fusion::fusion_plan& plan) {
  const parallel::training_graph training{operators, job.plan.graph};
  const auto& g = job.plan.graph;
  auto buckets = nlohmann::json::array();
  for (const auto& b : plan.buckets) {
    auto names = nlohmann::json::array();
    std::int64_t size = 0;
    for (const auto w : b) {
      const auto v = training.weights()[w].value;
      names.push_back(operators.read(g.operation(g.producer(v))).word("name"));
      size += tensor::size_in_bytes(g.type(v)).count();
    }
    buckets.push_back({{"bytes", size}, {"parameters", names}});
  }
  return nlohmann::json{{"format", "unity ddp buckets"}, {"version", 1}, {"buckets", buckets}}.dump(1) + "\n";
}

}  // namespace support
