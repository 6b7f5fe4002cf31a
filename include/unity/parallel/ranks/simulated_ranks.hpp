// Simulates the programs of ranks on a machine: turns them into a program of tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

namespace unity::parallel {

// Takes the programs of ranks one after another, rank r on device r, so that they need not be kept. A rank runs its
// steps in order, concurrently with messages and collectives, which waits synchronize with. Late, lagging
// (rank_step::lag) and fused steps are not supported.
class simulated_ranks {
 public:
  // host_rate: bytes per second between a device and its host, for loads, stores and fetches; 0: loads take no time,
  // and there are no stores and fetches. The algebra and the machine must outlive it.
  // Throws: unity::error as network.
  simulated_ranks(const tensor::algebra& a, const hardware::machine& m, const tensor::durations& times,
                  optimizer updates, double host_rate = 0);

  // Returns the time of each step on the rank's device: operators, updates, and moves.
  // Throws: unity::error if there are more ranks than devices, or a step is not supported.
  std::vector<picoseconds> add(const rank_program& p);

  // groups: as in rank_programs.
  // Throws: unity::error if a rank waits for a message that no rank sends.
  [[nodiscard]] tasks::program finish(const std::vector<std::vector<std::uint32_t>>& groups) &&;

 private:
  // Sender, receiver, tag.
  using message_key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  struct sent_message {
    tasks::task_ref behind{};  // the sender's preceding task
    bytes size{};
  };
  struct collective {
    hardware::exchange kind{};
    bytes size{};
    std::vector<tasks::task_ref> behind{};  // by participating rank
    std::vector<tasks::task_ref> waits{};
  };

  [[nodiscard]] tasks::task_ref add_after(tasks::task_ref before, const tasks::task& t);
  [[nodiscard]] picoseconds time_of(const rank_program& p, const rank_step& s);
  [[nodiscard]] static bool is_move(const rank_step& s) {
    return s.kind == step_kind::load || s.kind == step_kind::store || s.kind == step_kind::fetch;
  }
  [[noreturn]] void refuse(std::size_t step) const;

  const tensor::algebra& algebra_;
  tensor::durations durations_;
  task_times times_;
  double host_rate_;
  network network_;
  tasks::fragment fragment_{};
  std::uint32_t rank_ = 0;
  std::map<message_key, sent_message> sent_{};
  std::map<message_key, std::vector<tasks::task_ref>> received_{};               // waits
  std::map<std::pair<std::uint32_t, std::uint32_t>, collective> collectives_{};  // by group and index in it
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_SIMULATED_RANKS)

#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::parallel {

UNITY_INLINE simulated_ranks::simulated_ranks(const tensor::algebra& a, const hardware::machine& m,
                                              const tensor::durations& times, optimizer updates, double host_rate)
    : algebra_{a}, durations_{times}, times_{a, times, updates}, host_rate_{host_rate}, network_{m} {}

UNITY_INLINE tasks::task_ref simulated_ranks::add_after(tasks::task_ref before, const tasks::task& t) {
  const tasks::task_ref added{{}, fragment_.add(t)};
  fragment_.dependencies.push_back({before, added, false});
  return added;
}

UNITY_INLINE picoseconds simulated_ranks::time_of(const rank_program& p, const rank_step& s) {
  const auto model = network_.model(hardware::device_id{rank_});
  if (is_move(s)) {
    const auto v = s.kind == step_kind::load ? p.graph.results(s.node)[0] : s.value;
    const auto size = tensor::total_bytes({&p.graph.type(v), 1});
    return host_rate_ > 0 ? from_seconds(static_cast<double>(size.count()) / host_rate_) : picoseconds{};
  }
  if (s.kind == step_kind::update) {
    const auto& w = p.weights[s.peer];
    return times_.update(w.updated.volume(), p.graph.type(w.weight.value).element, model);
  }
  std::vector<tensor::tensor_type> inputs;
  std::vector<tensor::tensor_type> outputs;
  for (const auto v : p.graph.operands(s.node)) {
    inputs.push_back(p.graph.type(v));
  }
  for (const auto v : p.graph.results(s.node)) {
    outputs.push_back(p.graph.type(v));
  }
  const auto map = algebra_.index_map(p.graph.operation(s.node), inputs);
  if (map && tensor::shared_parts(*map, inputs, outputs)) {
    return {};  // its results are already in place
  }
  return durations_.duration_of(model, p.graph.operation(s.node), inputs, outputs).expected;
}

UNITY_INLINE void simulated_ranks::refuse(std::size_t step) const {
  throw error{fmt::format("rank {}, step {}", rank_, step), "a step that is not simulated",
              "operators, messages, collectives and updates of one iteration, and moves where there is a host"};
}

UNITY_INLINE std::vector<picoseconds> simulated_ranks::add(const rank_program& p) {
  if (rank_ == network_.device_count()) {
    throw error{"machine", fmt::format("{} devices", rank_), "one for each rank"};
  }
  const auto device = hardware::device_id{rank_};
  const auto met = [&](tasks::task_ref before) {
    return add_after(before, {{}, {}, {}, {}, tasks::task_kind::other, rank_});
  };
  tasks::task_ref now{{}, fragment_.add({{}, {}, {}, {}, tasks::task_kind::other, rank_})};
  std::vector<picoseconds> takes(p.steps.size());
  std::vector<std::uint32_t> numbers(p.steps.size());  // of collectives, within their groups
  std::map<std::uint32_t, std::uint32_t> counts;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const auto& s = p.steps[i];
    if (s.is_late || s.lag > 0) {
      refuse(i);
    }
    switch (s.kind) {
      case step_kind::store:
      case step_kind::fetch:
        if (host_rate_ <= 0) {
          refuse(i);
        }
        [[fallthrough]];
      case step_kind::load:
      case step_kind::run:
      case step_kind::update: {
        takes[i] = time_of(p, s);
        const auto kind = is_move(s)                    ? tasks::task_kind::other
                          : s.kind == step_kind::update ? tasks::task_kind::update
                          : s.is_backward               ? tasks::task_kind::backward
                                                        : tasks::task_kind::forward;
        if (takes[i] > picoseconds{}) {
          now = add_after(now, {network::stream(device), takes[i], {}, {}, kind, rank_});
        }
        break;
      }
      case step_kind::send:
        sent_[{rank_, s.peer, s.tag}] = {now, tensor::total_bytes({&p.graph.type(s.value), 1})};
        break;
      case step_kind::receive: break;
      case step_kind::reduce:
      case step_kind::scatter:
      case step_kind::gather: {
        numbers[i] = counts[s.peer]++;
        auto& c = collectives_[{s.peer, numbers[i]}];
        c.kind = s.kind == step_kind::reduce    ? hardware::exchange::all_reduce
                 : s.kind == step_kind::scatter ? hardware::exchange::reduce_scatter
                                                : hardware::exchange::all_gather;
        const auto whole = s.kind == step_kind::gather && s.node.valid() ? p.graph.results(s.node)[0] : s.value;
        c.size = tensor::total_bytes({&p.graph.type(whole), 1});
        c.behind.push_back(now);
        break;
      }
      case step_kind::wait: {
        const auto& begun = p.steps[s.peer];
        if (begun.kind == step_kind::receive) {
          now = met(now);
          received_[{begun.peer, rank_, begun.tag}].push_back(now);
        } else if (is_collective(begun.kind)) {
          now = met(now);
          collectives_[{begun.peer, numbers[s.peer]}].waits.push_back(now);
        }
        break;
      }
      case step_kind::fused: refuse(i);
    }
  }
  ++rank_;
  return takes;
}

UNITY_INLINE tasks::program simulated_ranks::finish(const std::vector<std::vector<std::uint32_t>>& groups) && {
  for (const auto& [key, m] : sent_) {
    const auto [from, to, tag] = key;
    const auto route = network_.hops(hardware::device_id{from}, hardware::device_id{to}, m.size);
    const auto arrived = tasks::add_transfer(fragment_, route, m.size, from, {&m.behind, 1});
    for (const auto& w : received_[key]) {
      fragment_.dependencies.push_back({arrived, w, false});
    }
    received_.erase(key);
  }
  if (!received_.empty()) {
    const auto [from, to, tag] = received_.begin()->first;
    throw error{fmt::format("rank {}", to), fmt::format("waits for message {} of rank {}", tag, from),
                "a message that is sent"};
  }
  for (const auto& [key, c] : collectives_) {
    std::vector<hardware::device_id> devices;
    for (const auto rank : groups[key.first]) {
      devices.push_back(hardware::device_id{rank});
    }
    const auto done = add_collective(network_, fragment_, c.kind, devices, c.size, c.behind);
    for (const auto& w : c.waits) {
      fragment_.dependencies.push_back({done, w, false});
    }
  }
  tasks::program all;
  network_.declare(all);
  const auto f = all.add_fragment();
  const tasks::replacement whole{f, &fragment_};
  all.replace({&whole, 1});
  all.commit();
  return all;
}

}  // namespace unity::parallel

#endif
