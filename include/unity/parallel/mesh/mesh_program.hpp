// A program with one device per stage, for mappings onto meshes whose devices all do the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/mesh/mapping_core.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::parallel {

// An option for each operator of a graph, on the mesh of its stage; the meshes of all stages are alike.
struct staged_mapping {
  std::vector<std::uint32_t> options{};  // per operator
  std::vector<std::uint32_t> stages{};   // per operator: virtual stage; operands come from the same or earlier ones
  std::uint32_t stage_count = 1;         // of devices
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  std::uint32_t chunks = 1;            // of each stage; chunk k of stage s is virtual stage k * stage_count + s
  std::vector<memory_trade> trades{};  // per operator; empty: none

  [[nodiscard]] std::uint32_t stage_of(std::size_t op) const { return stages[op] % stage_count; }
  [[nodiscard]] memory_trade trade_of(std::size_t op) const { return trades.empty() ? memory_trade{} : trades[op]; }

  friend bool operator==(const staged_mapping&, const staged_mapping&) = default;
};

// Devices by stage; those of a stage are consecutive. Neighbours communicate over the same links everywhere.
struct stage_mesh {
  hardware::device_mesh mesh{};  // stages, then the devices of one
  mesh_costs costs;              // along its first axis
  bool between_nodes = false;

  stage_mesh(const hardware::machine& on, const hardware::route_table& routes, std::vector<hardware::device_id> devices,
             std::uint32_t stages)
      : mesh{{}, sizes_of(devices.size(), stages), std::move(devices)}, costs{on, routes, mesh, 1} {
    const auto& t = on.network;
    between_nodes = stages > 1 && t[mesh.devices[0]].node != t[mesh.devices[mesh.devices.size() / stages]].node;
  }

 private:
  [[nodiscard]] static hardware::mesh_sizes sizes_of(std::size_t devices, std::uint32_t stages);
};

// Whether tasks on a resource of a program of mesh_program only say when an all-reduce starts.
[[nodiscard]] inline bool is_of_starts(tasks::resource_id r) noexcept { return r.index() % 4 == 3; }

namespace detail {

class mesh_program_writer {
 public:
  mesh_program_writer(const tensor::algebra& a, const hardware::topology& t, mesh_tables& tables,
                      const stage_mesh& stages, const operator_graph& g, const staged_mapping& s)
      : algebra_{a},
        topology_{t},
        tables_{tables},
        costs_{stages.costs},
        graph_{g},
        mapping_{s},
        between_nodes_{stages.between_nodes} {
    UNITY_EXPECTS(s.options.size() == g.size() && s.stages.size() == g.size(),
                  "an option and a stage for each operator");
  }

  [[nodiscard]] tasks::program run();

 private:
  void add_fragment(tasks::owner_kind kind, std::uint32_t number, tasks::fragment fragment);
  [[nodiscard]] const mesh_option& option(std::uint32_t i) {
    return tables_.of(graph_.placed(i)).options[mapping_.options[i]];
  }
  [[nodiscard]] tasks::resource_id stream(std::uint32_t i) const {
    return tasks::resource_id{4 * std::size_t{mapping_.stage_of(i)}};
  }
  [[nodiscard]] tasks::resource_id link(std::uint32_t stage, bool is_between) const {
    return tasks::resource_id{4 * std::size_t{stage} + (is_between ? 2 : 1)};
  }
  // The resource on which all-reduces start one after another, as in lowering's programs.
  [[nodiscard]] static tasks::resource_id starts(std::uint32_t stage) {
    return tasks::resource_id{4 * std::size_t{stage} + 3};
  }
  [[nodiscard]] static picoseconds at_least_one(picoseconds t) { return std::max(t, picoseconds{1}); }
  [[nodiscard]] bool has_backward(std::uint32_t i) const {
    const auto& w = graph_.placed(i).wanted;
    return std::find(w.begin(), w.end(), true) != w.end();
  }
  [[nodiscard]] const backward_reads& kept(std::uint32_t i);
  [[nodiscard]] static tasks::task_ref task(std::uint32_t i, bool is_backward) {
    return {tasks::fragment_id{i}, is_backward ? 1U : 0U};
  }
  [[nodiscard]] std::uint32_t result_count(std::uint32_t i) const {
    return static_cast<std::uint32_t>(graph_.placed(i).dimensions->outputs.size());
  }

  // Recomputation. As in recomputation_writer.hpp, results are recomputed when the stage has finished the backward task
  // before the first one that needs them.
  static constexpr std::uint32_t never = operand_source::none;
  // Effects: finds, by operator, the operator whose backward task first needs its recomputed results, or never.
  void find_recomputed();
  [[nodiscard]] bool is_recomputed(std::uint32_t i) const { return first_reader_[i] != never; }
  // The recomputing task: the last one of an operator.
  [[nodiscard]] tasks::task_ref again(std::uint32_t i) const {
    return {tasks::fragment_id{i}, has_backward(i) ? 2U : 1U};
  }
  [[nodiscard]] tasks::buffer_ref buffer_again(std::uint32_t i, std::uint32_t result) const {
    const auto cotangents = has_backward(i) ? graph_.placed(i).uses.size() : 0;
    return {tasks::fragment_id{i}, result_count(i) + static_cast<std::uint32_t>(cotangents) + result};
  }
  // The task that the stage runs before the backward task of the operator.
  [[nodiscard]] tasks::task_ref before_backward(std::uint32_t i) const;

  // Task 0: forward. Task 1: backward. Then recomputation. Buffers: the results, one each, then the cotangents of
  // operands, then the recomputed results.
  [[nodiscard]] tasks::fragment operator_fragment(std::uint32_t i);

  // The operands from other operators.
  [[nodiscard]] tasks::fragment edge_fragment(std::uint32_t i);
  // Whether an earlier operand is the same value in the same layout.
  [[nodiscard]] bool is_known(std::uint32_t i, std::uint32_t x);
  // A step of bringing an operand to where it is read, and its cotangent back.
  struct exchange {
    tasks::resource_id link{};
    tasks::resource_id back{};
    picoseconds takes{};
    picoseconds delay{};  // until it arrives
  };
  [[nodiscard]] std::vector<exchange> exchanges_of(std::uint32_t i, std::uint32_t x);
  void add_operand(tasks::fragment& f, std::uint32_t i, std::uint32_t x);

  // Reduces gradients and updates weights, once for all micro-batches.
  [[nodiscard]] tasks::fragment weight_fragment(std::uint32_t i);

  const tensor::algebra& algebra_;
  const hardware::topology& topology_;
  mesh_tables& tables_;
  const mesh_costs& costs_;  // between stages
  const operator_graph& graph_;
  const staged_mapping& mapping_;
  bool between_nodes_;
  layout_distances distances_{};
  std::map<fingerprint, backward_reads> kept_{};
  std::vector<std::uint32_t> first_reader_{};  // by operator
  std::vector<bool> crosses_{};                // per axis: neighbours are on different nodes
  std::vector<tasks::fragment> fragments_{};
  tasks::program all_{};
};

}  // namespace detail

// The program of one micro-batch with one device per stage: device k stands for all devices of stage k, which do the
// same. Exchanges have the times of mesh_costs; those between nodes run one after another, as do those within nodes.
// Otherwise like lowering's programs, and tens of times smaller: a thousand devices are simulated in a second. Placed
// operators count as if all devices did their share of them. Trades: recomputation, and of ZeRO the first stage.
// Precondition: values go from a stage to itself or the next, or around to the first.
// Complexity: linear in the graph.
[[nodiscard]] inline tasks::program mesh_program(const tensor::algebra& a, const hardware::topology& t,
                                                 mesh_tables& tables, const stage_mesh& stages, const operator_graph& g,
                                                 const staged_mapping& s) {
  return detail::mesh_program_writer{a, t, tables, stages, g, s}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_PROGRAM)

#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE hardware::mesh_sizes stage_mesh::sizes_of(std::size_t devices, std::uint32_t stages) {
  hardware::mesh_sizes s;
  s.push_back(stages);
  if (devices > stages) {
    s.push_back(static_cast<std::int64_t>(devices / stages));
  }
  return s;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE tasks::program mesh_program_writer::run() {
  const auto& mesh = tables_.mesh();
  for (std::uint32_t k = 0; k < mapping_.stage_count; ++k) {
    const auto name = fmt::format("stage {}", k);
    all_.add_resource({name, tasks::resource_kind::stream, k});
    all_.add_resource({fmt::format("{}, links within nodes", name), tasks::resource_kind::link, k});
    all_.add_resource({fmt::format("{}, links between nodes", name), tasks::resource_kind::link, k});
    all_.add_resource({fmt::format("{}, collectives", name), tasks::resource_kind::link, k});
  }
  for (std::size_t a = 0; a < mesh.axis_count(); ++a) {
    const auto last = (static_cast<std::size_t>(mesh.sizes[a]) - 1) * mesh.stride(a);
    crosses_.push_back(topology_[mesh.devices[0]].node != topology_[mesh.devices[last]].node);
  }
  find_recomputed();
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    add_fragment(tasks::owner_kind::node, i, operator_fragment(i));
  }
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    if (auto fragment = edge_fragment(i); !fragment.dependencies.empty()) {
      add_fragment(tasks::owner_kind::edge, i, std::move(fragment));
    }
  }
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    if (auto fragment = weight_fragment(i); !fragment.buffers.empty()) {
      add_fragment(tasks::owner_kind::weight, i, std::move(fragment));
    }
  }
  all_.replace(tasks::replacements_of(fragments_));
  all_.commit();
  return std::move(all_);
}

UNITY_INLINE void mesh_program_writer::add_fragment(tasks::owner_kind kind, std::uint32_t number,
                                                    tasks::fragment fragment) {
  all_.add_fragment(
      {kind, number, fmt::format("{} {}", algebra_.signature(graph_.placed(number).dimensions->op.kind).name, number)});
  fragments_.push_back(std::move(fragment));
}

UNITY_INLINE const backward_reads& mesh_program_writer::kept(std::uint32_t i) {
  const auto& p = graph_.placed(i);
  const auto [at, is_new] = kept_.try_emplace(p.key);
  if (is_new && has_backward(i)) {
    at->second =
        reads_of_adjoint(algebra_, p.dimensions->op, p.dimensions->inputs, p.dimensions->outputs.size(), p.wanted);
  }
  return at->second;
}

UNITY_INLINE void mesh_program_writer::find_recomputed() {
  first_reader_.assign(graph_.size(), never);
  const auto needs = [&](std::uint32_t i, std::uint32_t reader) {
    first_reader_[i] = first_reader_[i] == never ? reader : std::max(first_reader_[i], reader);
  };
  for (auto i = static_cast<std::uint32_t>(graph_.size()); i-- > 0;) {
    // All readers of this operator were visited before it.
    const auto& own = kept(i).results;
    if (mapping_.trade_of(i).is_recomputed && has_backward(i) && std::find(own.begin(), own.end(), true) != own.end()) {
      needs(i, i);
    }
    const auto sources = graph_.sources(i);
    for (std::uint32_t x = 0; x < sources.size(); ++x) {
      const auto from = sources[x].from;
      if (from == operand_source::none || !mapping_.trade_of(from).is_recomputed || !exchanges_of(i, x).empty()) {
        continue;  // what arrives in another layout is held
      }
      if (has_backward(i) && kept(i).operands[x]) {
        needs(from, i);
      }
      if (is_recomputed(i)) {
        needs(from, first_reader_[i]);
      }
    }
  }
}

UNITY_INLINE tasks::task_ref mesh_program_writer::before_backward(std::uint32_t i) const {
  auto last = i;
  for (auto k = i + 1; k < graph_.size(); ++k) {
    if (mapping_.stages[k] == mapping_.stages[i]) {
      if (has_backward(k)) {
        return task(k, true);
      }
      last = k;
    }
  }
  return task(last, false);
}

UNITY_INLINE tasks::fragment mesh_program_writer::operator_fragment(std::uint32_t i) {
  const auto& o = option(i);
  const auto& d = *graph_.placed(i).dimensions;
  const auto stage = mapping_.stage_of(i);
  tasks::fragment f;
  f.add({stream(i), at_least_one(o.forward), {}, {}, tasks::task_kind::forward, stage});
  for (const auto& [type, layout] : ranges::views::zip(d.outputs, std::as_const(o.results))) {
    f.buffers.push_back({shard_bytes(type, tables_.mesh(), layout), stage, {{}, 0}, false});
  }
  if (has_backward(i)) {
    f.add({stream(i), at_least_one(o.computing - o.forward - o.updating), {}, {}, tasks::task_kind::backward, stage});
    f.dependencies.push_back({{{}, 0}, {{}, 1}, false});
    for (std::uint32_t r = 0; r < d.outputs.size(); ++r) {
      if (kept(i).results[r]) {
        f.reads.push_back({is_recomputed(i) ? buffer_again(i, r) : tasks::buffer_ref{{}, r}, {{}, 1}});
      }
    }
    for (std::size_t x = 0; x < d.inputs.size(); ++x) {
      const bool is_sent = graph_.placed(i).wanted[x] && graph_.placed(i).uses[x] == operand_use::made;
      f.buffers.push_back(
          {is_sent ? shard_bytes(d.inputs[x], tables_.mesh(), o.operands[x]) : bytes{}, stage, {{}, 1}, false});
    }
  }
  if (!is_recomputed(i)) {
    return f;
  }
  const auto t = f.add({stream(i), at_least_one(o.forward), {}, {}, tasks::task_kind::recompute, stage});
  f.dependencies.push_back({before_backward(first_reader_[i]), {{}, t}, false});
  if (has_backward(i)) {
    f.dependencies.push_back({{{}, t}, {{}, 1}, false});
  }
  for (const auto& [type, layout] : ranges::views::zip(d.outputs, std::as_const(o.results))) {
    f.buffers.push_back({shard_bytes(type, tables_.mesh(), layout), stage, {{}, t}, false});
  }
  return f;
}

UNITY_INLINE tasks::fragment mesh_program_writer::edge_fragment(std::uint32_t i) {
  tasks::fragment f;
  const auto sources = graph_.sources(i);
  for (std::uint32_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from != operand_source::none && !is_known(i, x)) {
      add_operand(f, i, x);
    }
  }
  return f;
}

UNITY_INLINE bool mesh_program_writer::is_known(std::uint32_t i, std::uint32_t x) {
  const auto sources = graph_.sources(i);
  for (std::uint32_t y = 0; y < x; ++y) {
    if (sources[y] == sources[x] && option(i).operands[y] == option(i).operands[x]) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE auto mesh_program_writer::exchanges_of(std::uint32_t i, std::uint32_t x) -> std::vector<exchange> {
  const auto source = graph_.sources(i)[x];
  const auto& t = tables_.of(graph_.placed(i));
  const auto& maker = tables_.of(graph_.placed(source.from));
  const auto& space = *t.operands[x];
  const auto from = maker.states[maker.numbered[mapping_.options[source.from]].state][source.result];
  const auto to = t.numbered[mapping_.options[i]].operands[x];
  std::vector<exchange> all;
  const auto stage = mapping_.stage_of(i);
  const auto before = mapping_.stage_of(source.from);
  if (stage != before) {
    const auto held = shard_bytes(graph_.placed(i).dimensions->inputs[x], tables_.mesh(), space[from]);
    all.push_back({link(before, between_nodes_), link(stage, between_nodes_), costs_.shift(1, held), costs_.delay(1)});
  }
  if (const auto takes = distances_.from(space, from)[to]; takes > 0) {
    bool is_between = false;
    for (std::size_t a = 0; a < crosses_.size(); ++a) {
      is_between = is_between || (crosses_[a] && space[from][a] != space[to][a]);
    }
    // A step and its adjoint have about the same time.
    const auto one_way = graph_.placed(i).wanted[x] ? takes / 2 : takes;
    all.push_back({link(stage, is_between), link(stage, is_between), picoseconds{one_way}, {}});
  }
  return all;
}

UNITY_INLINE void mesh_program_writer::add_operand(tasks::fragment& f, std::uint32_t i, std::uint32_t x) {
  const auto source = graph_.sources(i)[x];
  const auto stage = mapping_.stage_of(i);
  const bool is_wanted = graph_.placed(i).wanted[x];
  const bool is_kept = has_backward(i) && kept(i).operands[x];
  const tasks::buffer_ref made{tasks::fragment_id{source.from}, source.result};
  const auto steps = exchanges_of(i, x);
  auto here = task(source.from, false);
  auto value = made;
  for (const auto& s : steps) {
    const auto t = f.add({s.link, at_least_one(s.takes), s.delay, {}, tasks::task_kind::transfer, stage});
    f.dependencies.push_back({here, {{}, t}, false});
    f.reads.push_back({value, {{}, t}});
    here = {{}, t};
  }
  if (!steps.empty()) {
    const auto held = shard_bytes(graph_.placed(i).dimensions->inputs[x], tables_.mesh(), option(i).operands[x]);
    value = {{}, static_cast<std::uint32_t>(f.buffers.size())};
    f.buffers.push_back({held, stage, here, false});
  }
  f.dependencies.push_back({here, task(i, false), false});
  f.reads.push_back({value, task(i, false)});
  if (steps.empty() && is_recomputed(source.from)) {
    value = buffer_again(source.from, source.result);
    if (is_kept) {
      f.dependencies.push_back({again(source.from), task(i, true), false});
    }
    if (is_recomputed(i)) {
      f.dependencies.push_back({again(source.from), again(i), false});
    }
  }
  if (is_kept) {
    f.reads.push_back({value, task(i, true)});
  }
  if (is_recomputed(i)) {
    f.reads.push_back({value, again(i)});
  }
  if (!is_wanted) {
    return;
  }
  const auto results = static_cast<std::uint32_t>(graph_.placed(i).dimensions->outputs.size());
  auto back = task(i, true);
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    const auto t = f.add({s->back, at_least_one(s->takes), s->delay, {}, tasks::task_kind::transfer, stage});
    f.dependencies.push_back({back, {{}, t}, false});
    back = {{}, t};
  }
  f.dependencies.push_back({back, task(source.from, true), false});
  f.reads.push_back({{tasks::fragment_id{i}, results + x}, steps.empty() ? task(source.from, true) : back});
}

UNITY_INLINE tasks::fragment mesh_program_writer::weight_fragment(std::uint32_t i) {
  const auto& o = option(i);
  const auto& p = graph_.placed(i);
  tasks::fragment f;
  if (o.weights == bytes{}) {
    return f;
  }
  const auto stage = mapping_.stage_of(i);
  const auto trade = mapping_.trade_of(i);
  const bool is_shared = trade.sharding > 0 && o.synchronizing > picoseconds{};
  f.buffers.push_back({costs_of(o, trade, {}).weights, stage, {}, true});
  if (!has_backward(i)) {
    return f;
  }
  auto done = task(i, true);
  bool is_between = false;
  const auto exchange_part = [&](int parts) {
    const auto start = f.add({starts(stage), o.starting, {}, {}, tasks::task_kind::reduce, stage});
    f.dependencies.push_back({done, {{}, start}, false});
    const picoseconds takes{(o.synchronizing - o.starting).count() / parts};
    const auto t = f.add({link(stage, is_between), takes, {}, {}, tasks::task_kind::transfer, stage});
    f.dependencies.push_back({{{}, start}, {{}, t}, false});
    done = {{}, t};
  };
  if (o.synchronizing > picoseconds{}) {
    for (std::size_t x = 0; x < p.uses.size(); ++x) {
      for (std::size_t a = 0; a < crosses_.size() && p.uses[x] == operand_use::weight; ++a) {
        is_between = is_between || (crosses_[a] && o.operands[x][a] == mesh_layout::copies);
      }
    }
    exchange_part(is_shared ? 2 : 1);
  }
  if (o.updating > picoseconds{}) {
    const auto takes = is_shared ? o.share_updating : o.updating;
    const auto t = f.add({stream(i), takes, {}, {}, tasks::task_kind::update, stage});
    f.dependencies.push_back({done, {{}, t}, false});
    done = {{}, t};
  }
  if (is_shared) {
    exchange_part(2);
  }
  return f;
}

}  // namespace unity::parallel::detail

#endif
