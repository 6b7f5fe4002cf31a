// Trains a plan on ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/loss_strategy.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rank_lowering.hpp>
#include <unity/parallel/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/train/data.hpp>
#include <unity/train/initial_weights.hpp>
#include <unity/train/rank_executor.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// The plan with a loss behind its outputs, divided as they are; of micro-batches, each one's share of the loss.
// Throws: as tensor::with_loss.
[[nodiscard]] inline parallel::plan with_loss(const tensor::algebra& a, parallel::plan p, tensor::loss what) {
  p.graph = tensor::with_loss(a, p.graph, what, p.pipeline.microbatches);
  parallel::follow(p.graph, parallel::graph_dimensions{a, p.graph}, p.machine.network.device_count(), p.configurations);
  return p;
}

// One rank of a run. What it computes does not depend on the plan but for rounding: data and first weights are functions of places in whole
// tensors. All ranks construct theirs, and take their steps, together. The plan must outlive it.
template <backend::fusing_backend Backend, backend::host_communicator Communicator>
class trainer {
 public:
  // p: with a loss, its only output. Throws: unity::error where the plan is for another number of ranks; as programs_of_ranks and rank_executor.
  trainer(Backend& b, const tensor::algebra& a, const parallel::plan& p, Communicator& world, const update_rule& rule, std::uint64_t seed)
      : algebra_{a}, plan_{p}, world_{world}, programs_{programs_for(a, p, world)}, ranks_{b, a, programs_, world, rule}, data_{a, p.graph, seed},
        samples_{samples_of(a, p.graph)} {
    const initial_weights first{a, p.graph, seed};
    for (const auto& w : ranks_.program().weights) {
      buffer_.resize(ranks_.size_of(w.weight.value));
      first.fill(name_of(w.weight.of), p.graph.type(w.weight.of), w.weight.part, buffer_);
      ranks_.write(w.weight.value, buffer_);
    }
    for (const auto& c : ranks_.program().cotangents) {
      const auto& t = ranks_.program().graph.type(c.value);
      ranks_.write(c.value, backend::encode(tensor::dense<double>{t.dims, std::vector<double>(static_cast<std::size_t>(tensor::element_count(t.dims)), 1)}, t));
    }
  }

  // One iteration on the batch of that number. Returns its loss, before weights change; the same on all ranks.
  double step(std::uint64_t number, timeline* record = nullptr) {
    for (const auto& x : ranks_.program().inputs) {
      read_batch(x, number);
    }
    ranks_.run(record);
    double own = 0;
    for (const auto& o : ranks_.program().outputs) {
      buffer_.resize(ranks_.size_of(o.value));
      ranks_.read(o.value, buffer_);
      own += backend::decode<double>(buffer_.data(), ranks_.program().graph.type(o.value)).data[0];
    }
    double all = 0;
    world_.all_reduce(reinterpret_cast<const std::byte*>(&own), reinterpret_cast<std::byte*>(&all), 1, tensor::dtype::float64, backend::reduction::sum).wait();
    ranks_.update(number);
    return all;
  }

  [[nodiscard]] rank_executor<Backend, Communicator>& executor() noexcept { return ranks_; }
  [[nodiscard]] const parallel::rank_programs& programs() const noexcept { return programs_; }

 private:
  [[nodiscard]] static parallel::rank_programs programs_for(const tensor::algebra& a, const parallel::plan& p, const Communicator& world) {
    const auto devices = p.machine.network.device_count();
    if (static_cast<std::size_t>(world.size()) != devices) {
      throw error{"plan", "one for " + std::to_string(devices) + " devices", "as many as the " + std::to_string(world.size()) + " ranks"};
    }
    return parallel::programs_of_ranks(a, p);
  }
  // Of what the loss is compared with: as many as the samples of a micro-batch.
  [[nodiscard]] static std::int64_t samples_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
    for (std::size_t n = 0; n < g.node_count(); ++n) {
      if (g.operation(node_id{n}).kind == a.kind("input")) {
        const auto name = a.read(g.operation(node_id{n})).word("name");
        if (name == tensor::labels_name(0) || name == tensor::target_name(0)) {
          return g.type(g.results(node_id{n})[0]).dims[0];
        }
      }
    }
    return 0;
  }
  [[nodiscard]] std::string name_of(value_id v) const { return std::string{algebra_.read(plan_.graph.operation(plan_.graph.producer(v))).word("name")}; }
  // Micro-batches are the blocks of a batch along the samples.
  void read_batch(const parallel::given_part& x, std::uint64_t number) {
    auto type = plan_.graph.type(x.of);
    auto part = x.part;
    const auto count = plan_.pipeline.microbatches;
    if (count > 1 && !type.dims.empty() && type.dims[0] == samples_) {
      part.begin[0] += x.microbatch * samples_;
      part.end[0] += x.microbatch * samples_;
      type.dims[0] *= count;
    }
    buffer_.resize(ranks_.size_of(x.value));
    data_.fill(name_of(x.of), type, part, number, buffer_);
    ranks_.write(x.value, buffer_);
  }

  const tensor::algebra& algebra_;
  const parallel::plan& plan_;
  Communicator& world_;
  parallel::rank_programs programs_;
  rank_executor<Backend, Communicator> ranks_;
  synthetic_data data_;
  std::int64_t samples_;
  std::vector<std::byte> buffer_{};
};

}  // namespace unity::train
