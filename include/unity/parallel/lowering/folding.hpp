// Folds a program to a few devices that represent all, for strategies that respect a symmetry of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/edge_writer.hpp>
#include <unity/parallel/lowering/folded_messages.hpp>
#include <unity/parallel/lowering/folded_program.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/parallel/lowering/synchronization.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::parallel {

namespace detail {

// Lowers one strategy under one symmetry.
class folder {
 public:
  folder(lowering& low, const strategy& s, const synchronization& sync, const device_symmetry& by)
      : lowering_{low},
        strategy_{s},
        sync_{sync},
        symmetry_{by},
        links_{by, low.links()},
        network_{by, low.links(), links_} {}

  // Returns the reason if folding is not possible, otherwise an empty string.
  [[nodiscard]] std::string run(folded_program& result);

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  [[nodiscard]] const task_orbits* orbits(node_id n);

  bool add_node(node_id n);
  void keep_tasks(node_id n, const tasks::fragment& all, const task_orbits& tasks, std::uint32_t results,
                  bool backward);

  struct edge_key {
    std::uint32_t from = 0;  // divisions
    std::uint32_t to = 0;
    std::uint32_t result = 0;
    std::vector<std::uint32_t> operands{};
    const task_orbits* producers = nullptr;
    const task_orbits* consumers = nullptr;

    friend bool operator==(const edge_key&, const edge_key&) = default;
  };
  // Folds edges between equal operators with equal configurations once.
  [[nodiscard]] const folded_messages* messages(const graph_edge& e, const edge_ends& ends);
  bool add_edge(std::uint32_t number);

  bool add_weight(std::uint32_t number);
  // Adds the buckets and the weights in them.
  bool add_buckets();
  // Effects: admits the links of collectives and finds the order of their messages on them (rank_collectives). Call
  // before asking the network for them.
  bool rank(std::span<const lowered_collective> all, std::vector<std::uint32_t>& ranks);
  // Effects: assigns that order to the messages of a fragment that has only messages of collectives.
  static void set_ranks(tasks::fragment& f, std::span<const std::uint32_t> ranks);
  // The collectives that synchronized() adds, in the same order.
  [[nodiscard]] static std::vector<lowered_collective> collectives_of(const replicas& held, sync_kind kind,
                                                                      const tensor::tensor_type& type);
  bool is_foldable(const weight_sync& sync, const replicas& held);
  // Whether groups that reduce are mapped to themselves, and groups of one device to those of its image, with equal
  // numbers of elements and with the images of the contributing tasks.
  bool maps_groups(const replicas& held, std::span<const std::uint32_t> images, const std::vector<bool>& gives);

  lowering& lowering_;
  const strategy& strategy_;
  const synchronization& sync_;
  const device_symmetry& symmetry_;
  link_orbits links_;
  folded_network network_;
  std::vector<lowered_fragment> fragments_{};
  std::map<std::vector<hardware::device_id>, std::optional<task_orbits>> orbits_{};
  std::vector<const task_orbits*> node_orbits_{};  // by node
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<edge_key, folded_messages>>> edges_{};
  std::map<std::uint32_t, synchronized_part> bucketed_{};  // by weight
  std::string reason_{};
};

}  // namespace detail

// The program of the strategy, folded by the first symmetry that preserves it; the whole program if there is none. A
// symmetry preserves a strategy if it maps tasks and messages to equal ones on the images of their devices and links,
// no two messages that it maps to each other share a link, and the order of messages on a link is that of their images.
// All this is checked. Then a task and its image have the same times in the whole program, and so in the folded one,
// which contains one of each: the iteration time is exactly the same, and devices have the busy times and memory of
// their representatives. Programs with recomputation are not folded.
// Complexity: messages are found and checked for all devices, but only once for all edges between equal operators with
// equal configurations; otherwise linear in the folded program and in tasks. Precondition: transfers::messages;
// exchanges would join messages that the symmetry maps to each other.
// Throws: as lowering::run.
[[nodiscard]] folded_program fold(const tensor::algebra& a, lowering& low, const strategy& s,
                                  std::span<const device_symmetry> symmetries, const synchronization& sync = {},
                                  const recomputation& again = {});

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDING)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::string folder::run(folded_program& result) {
  const auto& g = lowering_.graph();
  lowering_.declare(result.program, sync_);
  for (const auto n : node_ids(g)) {
    if (lowering_.fragment_of(n).valid() && !add_node(n)) {
      return fmt::format("node {}: {}", n.index(), reason_);
    }
  }
  for (std::uint32_t e = 0; e < lowering_.training().edges().size(); ++e) {
    if (!add_edge(e)) {
      const auto& edge = lowering_.training().edges()[e];
      return fmt::format("from node {} to node {}: {}", edge.from.index(), edge.to.index(), reason_);
    }
  }
  for (std::uint32_t w = 0; w < lowering_.training().weights().size(); ++w) {
    if (!add_weight(w)) {
      return fmt::format("weight of node {}: {}", g.producer(lowering_.training().weights()[w].value).index(), reason_);
    }
  }
  if (!add_buckets()) {
    return fmt::format("buckets: {}", reason_);
  }
  result.program.replace(replacements_of(fragments_));
  result.program.commit();
  result.order = symmetry_.order();
  for (std::size_t r = 0; r < result.program.resources().size(); ++r) {
    const tasks::resource_id id{r};
    const bool is_stream = r < symmetry_.device_count();
    result.resource.push_back(is_stream ? network::stream(symmetry_.representative(hardware::device_id{r}))
                                        : links_.representative(id));
  }
  for (std::size_t d = 0; d < symmetry_.device_count(); ++d) {
    result.device.push_back(symmetry_.representative(hardware::device_id{d}));
  }
  return {};
}

UNITY_INLINE const task_orbits* folder::orbits(node_id n) {
  const auto& devices = strategy_[n.index()].devices;
  const auto [known, is_new] = orbits_.try_emplace({devices.begin(), devices.end()});
  if (is_new) {
    known->second = orbits_of(symmetry_, {devices.data(), devices.size()});
  }
  return known->second ? &*known->second : nullptr;
}

UNITY_INLINE bool folder::add_node(node_id n) {
  const auto* tasks = orbits(n);
  if (tasks == nullptr) {
    return refuse("devices that are not mapped to its devices");
  }
  node_orbits_.resize(lowering_.graph().node_count());
  node_orbits_[n.index()] = tasks;
  const auto all = lowering_.lowered_operator(strategy_, n);
  const auto count = static_cast<std::uint32_t>(tasks->image.size());
  const auto results = static_cast<std::uint32_t>(lowering_.graph().results(n).size());
  const bool backward = lowering_.training().has_backward(n);
  for (std::uint32_t t = 0; t < count; ++t) {
    const auto u = tasks->image[t];
    bool alike = all.tasks[t].duration == all.tasks[u].duration;
    for (std::uint32_t r = 0; r < results; ++r) {
      alike = alike && all.buffers[t * results + r].size == all.buffers[u * results + r].size;
    }
    if (backward) {
      alike = alike && all.tasks[count + t].duration == all.tasks[count + u].duration &&
              all.buffers[count * results + t].size == all.buffers[count * results + u].size;
    }
    if (!alike) {
      return refuse("tasks that differ");
    }
  }
  keep_tasks(n, all, *tasks, results, backward);
  return true;
}

UNITY_INLINE void folder::keep_tasks(node_id n, const tasks::fragment& all, const task_orbits& tasks,
                                     std::uint32_t results, bool backward) {
  auto& f = fragments_.emplace_back(lowered_fragment{lowering_.fragment_of(n), {}}).body;
  const auto count = static_cast<std::uint32_t>(tasks.image.size());
  const auto kept = static_cast<std::uint32_t>(tasks.kept.size());
  for (std::uint32_t k = 0; k < kept; ++k) {
    f.add(all.tasks[tasks.kept[k]]);
    for (std::uint32_t r = 0; r < results; ++r) {
      f.buffers.push_back(all.buffers[tasks.kept[k] * results + r]);
      f.buffers.back().producer.index = k;
    }
  }
  for (std::uint32_t k = 0; backward && k < kept; ++k) {
    f.add(all.tasks[count + tasks.kept[k]]);
    f.dependencies.push_back({{{}, k}, {{}, kept + k}, false});
    for (std::uint32_t r = 0; r < results; ++r) {
      if (lowering_.kept(n).results[r]) {
        f.reads.push_back({{{}, k * results + r}, {{}, kept + k}});
      }
    }
    f.buffers.push_back(all.buffers[count * results + tasks.kept[k]]);
    f.buffers.back().producer.index = kept + k;
  }
}

UNITY_INLINE const folded_messages* folder::messages(const graph_edge& e, const edge_ends& ends) {
  const edge_key key{lowering_.parts_of(strategy_, e.from).number,
                     lowering_.parts_of(strategy_, e.to).number,
                     ends.result,
                     e.operands,
                     node_orbits_[e.from.index()],
                     node_orbits_[e.to.index()]};
  auto& row = edges_[{key.from, key.to}];
  for (const auto& [known, folded] : row) {
    if (known == key) {
      return &folded;
    }
  }
  const auto& devices = strategy_[e.from.index()].devices;
  const folded_ends orbits{key.producers, key.consumers, {devices.data(), devices.size()}};
  folded_messages folded;
  const auto needs = lowering_.needs(strategy_, e, ends);
  if (!needs.sums.empty()) {
    reason_ = "sums of partials, which are not folded";
    return nullptr;
  }
  reason_ = fold_messages(symmetry_, lowering_.links(), links_, orbits, needs.messages, folded);
  if (!reason_.empty()) {
    return nullptr;
  }
  row.emplace_back(key, std::move(folded));
  return &row.back().second;
}

UNITY_INLINE bool folder::add_edge(std::uint32_t number) {
  const auto& e = lowering_.training().edges()[number];
  auto ends = lowering_.ends_of(strategy_, e);
  const auto* all = messages(e, ends);
  if (all == nullptr) {
    return false;
  }
  ends.producers = static_cast<std::uint32_t>(node_orbits_[e.from.index()]->kept.size());
  ends.consumers = static_cast<std::uint32_t>(node_orbits_[e.to.index()]->kept.size());
  ends.consumer_buffers = ends.consumers * static_cast<std::uint32_t>(lowering_.graph().results(e.to).size());
  auto& f = fragments_.emplace_back(lowered_fragment{lowering_.edge_fragment(number), {}}).body;
  edge_writer writer{f, ends};
  for (const auto& u : all->local) {
    writer.use(u.producer, u.consumer);
  }
  const auto rank = [&](std::span<const std::uint32_t> ranks) {
    for (std::size_t h = 0; h < ranks.size(); ++h) {
      f.tasks[f.tasks.size() - ranks.size() + h].shard = ranks[h];
    }
  };
  for (const auto& m : all->messages) {
    const auto volume = lowering::size_of(m.elements, lowering_.graph().type(e.value));
    const sent_value sent{m.producer, m.consumers, volume, m.from.index(), symmetry_.representative(m.to).index()};
    writer.send(sent, network_.hops(m.from, m.to, volume));
    rank(m.there);
    if (ends.is_wanted) {
      writer.send_back(sent, network_.hops(m.to, m.from, volume));
      rank(m.back);
    }
  }
  return true;
}

UNITY_INLINE bool folder::add_weight(std::uint32_t number) {
  const auto& w = lowering_.training().weights()[number];
  std::vector<reading> readings;
  weight_part_readers all;            // including those that represent others
  std::vector<std::uint32_t> images;  // for all readers
  std::vector<bool> gives;            // by reader: whether it contributes a gradient
  for (const auto& use : w.uses) {
    const auto& c = strategy_[use.node.index()];
    const auto& tasks = *node_orbits_[use.node.index()];
    if (lowering_.parts_of(strategy_, use.node).readers[use.operand].size() < c.task_count()) {
      return refuse("an operand of several partials, of which only the first reads the weight");
    }
    readings.push_back(
        {&lowering_.parts_of(strategy_, use.node).operands[use.operand], {c.devices.data(), c.devices.size()}});
    const bool trained = w.is_trained && lowering_.training().wanted(use.node)[use.operand];
    const auto kept = static_cast<std::uint32_t>(tasks.kept.size());
    const auto first = static_cast<std::uint32_t>(all.readers.size());
    for (std::uint32_t t = 0; t < tasks.image.size(); ++t) {
      const bool keeps = trained && symmetry_.represents(c.devices[t]);
      all.readers.push_back(
          {keeps ? tasks::task_ref{lowering_.fragment_of(use.node), kept + tasks.folded[t]} : tasks::task_ref{},
           c.devices[t]});
      images.push_back(first + tasks.image[t]);
      gives.push_back(trained);
    }
  }
  all.held = replicas_of(readings);
  if (!maps_groups(all.held, images, gives)) {
    return false;
  }
  const bool reduces = std::find(gives.begin(), gives.end(), true) != gives.end();
  const auto sync = sync_.weights.empty() ? weight_sync{} : sync_.weights[number];
  if (reduces && !is_foldable(sync, all.held)) {
    return false;
  }
  if (sync.parts.front().bucket != synchronizer::no_bucket) {
    bucketed_.emplace(number, synchronized_part{std::move(all), sync.parts.front()});
    return true;
  }
  const auto& type = lowering_.graph().type(w.value);
  std::vector<std::uint32_t> ranks;
  if (reduces && !rank(collectives_of(all.held, sync.parts.front().kind, type), ranks)) {
    return false;
  }
  auto& f = fragments_.emplace_back(lowered_fragment{lowering_.weight_fragment(number), {}}).body;
  f = synchronized(network_, lowering_.times(), type, all, sync.parts.front());
  set_ranks(f, ranks);
  return true;
}

UNITY_INLINE bool folder::add_buckets() {
  const auto& weights = lowering_.training().weights();
  const auto type_of = [&](std::uint32_t w) { return lowering_.graph().type(weights[w].value); };
  std::vector<bucketed_weight> all;
  for (const auto& [number, part] : bucketed_) {
    all.push_back({{&part, 1}, lowering::size_of(1, type_of(number))});
  }
  bucket_ends begins;
  bucket_ends ends;
  for (std::uint32_t b = 0; b < sync_.buckets.size(); ++b) {
    const auto self = lowering_.weight_fragment(weights.size() + b);
    const auto groups = groups_of_bucket(b, all);
    std::vector<lowered_collective> collectives;
    for (const auto& [devices, group] : groups) {
      collectives.push_back({hardware::exchange::all_reduce, devices, group.size});
    }
    std::vector<std::uint32_t> ranks;
    if (!rank(collectives, ranks)) {
      return false;
    }
    auto& f = fragments_.emplace_back(lowered_fragment{self, {}}).body;
    f = reduced_bucket(network_, b, self, groups, begins, ends);
    set_ranks(f, ranks);
  }
  for (const auto& [number, part] : bucketed_) {
    fragments_.push_back(
        {lowering_.weight_fragment(number), synchronized(network_, lowering_.times(), type_of(number),
                                                         std::span<const synchronized_part>{&part, 1}, ends)});
  }
  return true;
}

UNITY_INLINE bool folder::rank(std::span<const lowered_collective> all, std::vector<std::uint32_t>& ranks) {
  reason_ = rank_collectives(symmetry_, lowering_.links(), links_, all, ranks);
  return reason_.empty();
}

UNITY_INLINE void folder::set_ranks(tasks::fragment& f, std::span<const std::uint32_t> ranks) {
  auto next = ranks.begin();
  for (auto& t : f.tasks) {
    if (t.kind == tasks::task_kind::transfer) {
      t.shard = *next++;
    }
  }
}

UNITY_INLINE std::vector<lowered_collective> folder::collectives_of(const replicas& held, sync_kind kind,
                                                                    const tensor::tensor_type& type) {
  std::vector<lowered_collective> all;
  const auto add = [&](hardware::exchange exchange) {
    for (const auto& g : held.groups) {
      if (g.devices.size() > 1) {
        all.push_back(
            {exchange, g.devices, bytes{g.elements * static_cast<std::int64_t>(tensor::size_of(type.element))}});
      }
    }
  };
  const bool is_sharded = kind == sync_kind::sharded;
  add(is_sharded ? hardware::exchange::reduce_scatter : hardware::exchange::all_reduce);
  if (is_sharded) {
    add(hardware::exchange::all_gather);
  }
  return all;
}

UNITY_INLINE bool folder::is_foldable(const weight_sync& sync, const replicas& held) {
  const auto& one = sync.parts.front();
  if (sync.parts.size() > 1 || (one.kind != sync_kind::all_reduce && one.kind != sync_kind::sharded)) {
    return refuse("parts or a server, which devices do not share alike");
  }
  if (one.stage > 1) {
    return refuse("shares of gradients, or of weights, that are scattered and gathered in each micro-batch");
  }
  if (one.is_sparse || one.compressor.kind != compression::none) {
    return refuse("gradients that are compressed, or indices and rows");
  }
  const bool is_even = std::all_of(held.groups.begin(), held.groups.end(), [](const replica_group& g) {
    return g.elements % static_cast<std::int64_t>(g.devices.size()) == 0;
  });
  return one.kind == sync_kind::all_reduce || is_even || refuse("shares of it that are not equal");
}

UNITY_INLINE bool folder::maps_groups(const replicas& held, std::span<const std::uint32_t> images,
                                      const std::vector<bool>& gives) {
  for (const auto& g : held.groups) {
    std::vector<hardware::device_id> devices;
    for (const auto d : g.devices) {
      devices.push_back(symmetry_.image(d));
    }
    std::sort(devices.begin(), devices.end());
    const auto to = std::find_if(held.groups.begin(), held.groups.end(),
                                 [&](const replica_group& x) { return x.devices == devices; });
    if (to == held.groups.end() || to->elements != g.elements) {
      return refuse("devices that hold a part of it, and whose images do not");
    }
    if (g.devices.size() > 1 && devices != g.devices) {
      return refuse("several devices that hold a part of it, but not all that they are mapped to");
    }
    const auto has = [&](const replica_group& x, std::size_t reader) {
      return gives[reader] && std::binary_search(x.boxes.begin(), x.boxes.end(), held.box_of[reader]);
    };
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (has(g, i) != has(*to, images[i])) {
        return refuse("gradients of a part of it that are not computed on all devices alike");
      }
    }
  }
  return true;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE folded_program fold(const tensor::algebra& a, lowering& low, const strategy& s,
                                 std::span<const device_symmetry> symmetries, const synchronization& sync,
                                 const recomputation& again) {
  UNITY_EXPECTS(low.transfer_kind() == transfers::messages, "a lowering to messages");
  check(a, low.graph(), low.dimensions(), s, low.links().device_count());
  check(a, low.graph(), sync, low.links().device_count());
  check(a, low.graph(), again);
  std::string reason = again.empty() ? "" : "operators are recomputed";
  for (const auto& by : again.empty() ? symmetries : std::span<const device_symmetry>{}) {
    folded_program result;
    reason = detail::folder{low, s, sync, by}.run(result);
    if (reason.empty()) {
      return result;
    }
  }
  folded_program whole{low.run(s, sync, again), 1, {}, {}, std::move(reason)};
  for (std::size_t d = 0; d < low.links().device_count(); ++d) {
    whole.device.push_back(hardware::device_id{d});
  }
  for (std::size_t r = 0; r < whole.program.resources().size(); ++r) {
    whole.resource.push_back(tasks::resource_id{r});
  }
  return whole;
}

}  // namespace unity::parallel

#endif
