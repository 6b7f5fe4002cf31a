// Over 500 lines because readers of plans with data parallelism alone and of transformers share their rules.
// The statement that a plan amounts to, found from how it divides operators: for frameworks that have degrees and
// switches instead of plans.
#pragma once

#include <cstdint>
#include <optional>

#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// A statement, and what else a plan says. Regular.
struct stated_plan {
  plan_statement statement{};  // with ZeRO's stages 0 to 3
  std::uint32_t layers = 0;    // of the transformer; 0: unknown
  std::optional<optimizer> updates{};
  std::optional<tensor::dtype> element{};  // of weights
  // Whether consecutive devices are numbered by tensor-parallel group, then stage, then data-parallel group. Otherwise
  // stages come last.
  bool are_stages_inside_data = false;

  friend bool operator==(const stated_plan&, const stated_plan&) = default;
};

// The statement of a plan of a transformer. Layers must be divided in tensor-parallel groups as `megatron` divides
// them, and the pipeline's stages must have equally many layers, except for the first and the last. Ranks are devices,
// node by node. The statement does not say whether exchanges overlap, because a plan does not.
// Complexity: as `megatron`, twice.
// Throws: unity::error that names what deviates from every such statement (operator, weight, stage), and what was
// expected there.
[[nodiscard]] stated_plan statement_of(const tensor::algebra& a, const plan& p);

// The statement (t=1, p=1) of a plan of any model in which each device has its part of the samples, and all weights.
// Throws: as statement_of.
[[nodiscard]] stated_plan data_statement_of(const tensor::algebra& a, const plan& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATED_PLAN)

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/transformer_layers.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::parallel::detail {

// What both kinds of statements need to know about a plan.
class plan_reader {
 public:
  plan_reader(const tensor::algebra& a, const plan& p);

 protected:
  [[nodiscard]] bool does_work(node_id n) const { return !p_.graph.operands(n).empty() && !is_of_weights(p_.graph, n); }
  [[nodiscard]] std::string shown(node_id n) const {
    return fmt::format("operator {} ({})", n.index(), tensor::operator_name(a_, p_.graph.operation(n)));
  }
  [[nodiscard]] std::string weight_name(value_id v) const {
    return std::string{a_.read(p_.graph.operation(p_.graph.producer(v))).word("name")};
  }
  // The samples of the graph's inputs.
  [[nodiscard]] std::int64_t samples() const;
  // The stage of ZeRO that all weights have; 0: all-reduces.
  [[nodiscard]] std::int64_t zero_stage() const;
  [[nodiscard]] stated_plan started(std::int64_t data) const;

  const tensor::algebra& a_;
  const plan& p_;
  graph_dimensions all_;
  training_graph training_;
  std::vector<hardware::device_id> ranks_{};
};

UNITY_INLINE plan_reader::plan_reader(const tensor::algebra& a, const plan& p)
    : a_{a}, p_{p}, all_{a, p.graph}, training_{a, p.graph} {
  for (const auto& row : hardware::devices_by_node(p.machine.network)) {
    ranks_.insert(ranks_.end(), row.begin(), row.end());
  }
}

// Degrees of 1 may be written or left out.
UNITY_INLINE bool is_same(configuration x, configuration y) {
  for (auto* c : {&x, &y}) {
    for (auto* degrees : {&c->reductions, &c->partials}) {
      if (std::all_of(degrees->begin(), degrees->end(), [](std::int64_t d) { return d == 1; })) {
        degrees->clear();
      }
    }
  }
  return x == y;
}

UNITY_INLINE std::int64_t plan_reader::samples() const {
  std::optional<std::int64_t> found;
  bool has_one = false;  // a dimension of size 1 has no index
  for (const auto n : node_ids(p_.graph)) {
    const auto& o = all_[n];
    if (p_.graph.operation(n).kind == a_.kind("input")) {
      const auto& dims = o.outputs[0].dims;
      has_one = has_one || (!dims.empty() && dims[0] == 1);
    }
    const auto sample = does_work(n) ? find_dimension(o, parallelism::sample) : std::nullopt;
    for (std::size_t i = 0; sample && i < p_.graph.operands(n).size(); ++i) {
      const auto v = p_.graph.operands(n)[i];
      const auto& dims = o.structure.operands[i];
      const bool is_input = p_.graph.operation(p_.graph.producer(v)).kind == a_.kind("input");
      const auto& along = o.divisible[*sample].indices;
      if (!is_input || dims.empty() ||
          std::find(dims[0].indices.begin(), dims[0].indices.end(), along.front()) == dims[0].indices.end()) {
        continue;
      }
      const auto size = p_.graph.type(v).dims[0];
      if (found && *found != size) {
        throw error{shown(n), fmt::format("reads an input of {} samples, and another has {}", size, *found),
                    "inputs of equally many samples"};
      }
      found = size;
    }
  }
  if (!found && !has_one) {
    throw error{"plan.graph", "no input of which an operator divides the first dimension", "inputs of several samples"};
  }
  return found.value_or(1);
}

UNITY_INLINE std::int64_t plan_reader::zero_stage() const {
  std::optional<std::int64_t> stage;
  for (std::size_t w = 0; w < p_.synchronization.weights.size(); ++w) {
    const auto& weight = training_.weights()[w];
    if (!weight.is_trained) {
      continue;
    }
    const auto& sync = p_.synchronization.weights[w];
    const auto& s = sync.parts.front();
    const auto where = [&] { return fmt::format("synchronization of {}", weight_name(weight.value)); };
    const bool is_plain = sync.parts.size() == 1 && s.compressor == compressor{} && !s.is_sparse;
    if (!is_plain || (s.kind != sync_kind::all_reduce && s.kind != sync_kind::sharded)) {
      throw error{where(),
                  is_plain ? std::string{sync_kind_names[static_cast<std::size_t>(s.kind)]}
                           : "parts, a compressor or sparse gradients",
                  "all_reduce or sharded, the whole weight"};
    }
    if (divides_weight(s) && !s.is_resharded) {
      throw error{where(), "weights that wait for the backward pass", "weights that are gathered again for it"};
    }
    const auto own = s.kind == sync_kind::sharded ? std::int64_t{s.stage} : std::int64_t{0};
    if (stage && *stage != own) {
      throw error{where(), fmt::format("stage {} of ZeRO, where those before have {}", own, *stage),
                  "one stage for all weights"};
    }
    stage = own;
  }
  return stage.value_or(0);
}

UNITY_INLINE stated_plan plan_reader::started(std::int64_t data) const {
  if (std::find(p_.offloaded.begin(), p_.offloaded.end(), true) != p_.offloaded.end()) {
    throw error{"plan.offloaded", "results that wait on the host", "none: statements have no word for it"};
  }
  stated_plan r;
  const auto all = samples();
  if (all % data != 0) {
    throw error{"plan.graph", fmt::format("{} samples", all),
                fmt::format("a multiple of {} data-parallel parts", data)};
  }
  r.statement.data = data;
  r.statement.micro = all / data;
  r.statement.batch = all * p_.pipeline.microbatches;
  r.statement.zero = data > 1 ? zero_stage() : 0;
  r.updates = p_.updates;
  for (const auto& w : training_.weights()) {
    if (w.is_trained && !r.element) {
      r.element = p_.graph.type(w.value).element;
    }
  }
  return r;
}

class data_plan_reader : plan_reader {
 public:
  using plan_reader::plan_reader;

  [[nodiscard]] stated_plan read() const;

 private:
  void expect_samples_divided(node_id n, const configuration& expected) const;
};

UNITY_INLINE void data_plan_reader::expect_samples_divided(node_id n, const configuration& expected) const {
  const auto& c = p_.configurations[n.index()];
  const bool is_whole = product(c.degrees) * product(c.reductions) * product(c.partials) == 1;
  if (!is_same(c, expected) && !(is_whole && all_.role(n) == sample_role::apart)) {
    throw error{shown(n), fmt::format("divided as {}", c),
                fmt::format("{}, a part of the samples on each device", expected)};
  }
}

UNITY_INLINE stated_plan data_plan_reader::read() const {
  if (p_.pipeline.stage_count() > 1 || p_.pipeline.is_delayed) {
    throw error{"plan.pipeline", fmt::format("{} stages, or delayed updates", p_.pipeline.stage_count()),
                "one stage: data parallelism alone"};
  }
  const auto count = static_cast<std::int64_t>(ranks_.size());
  const auto expected = replicated_data_parallel(all_, ranks_);
  for (const auto n : node_ids(p_.graph)) {
    if (does_work(n)) {
      expect_samples_divided(n, expected[n.index()]);
    }
    if (is_recomputed(p_.recomputed, n)) {
      throw error{shown(n), "its result is computed again for the backward pass",
                  "no recomputation: the model's code decides what is recomputed"};
    }
  }
  auto r = started(count);
  r.statement.is_overlapped = r.statement.zero == 1;  // in plans, a gradient is reduced as soon as it is complete
  return r;
}

class transformer_plan_reader : plan_reader {
 public:
  using plan_reader::plan_reader;

  [[nodiscard]] stated_plan read();

 private:
  // Degrees that a plan may have, and how many operators agree with them.
  struct guess {
    std::int64_t tensor = 1;
    bool is_sequence_parallel = false;
    bool are_stages_inside_data = false;
    std::size_t agreeing = 0;
    std::optional<node_id> first_other{};
    configuration expected{};  // of that
  };

  [[nodiscard]] std::int64_t stages() const { return std::int64_t{p_.pipeline.stage_count()}; }
  [[nodiscard]] std::int64_t data(const guess& g) const {
    return static_cast<std::int64_t>(ranks_.size()) / stages() / g.tensor;
  }
  [[nodiscard]] std::vector<hardware::device_id> devices_of(const guess& g, std::int64_t stage) const;
  [[nodiscard]] bool fits_stages(const guess& g) const;
  // Effects: counts the operators that agree with the guess, and sets the first that does not. Returns false if the
  // model cannot be divided this way.
  [[nodiscard]] bool compare(guess& g) const;
  [[nodiscard]] guess best_guess() const;
  void expect_schedule() const;
  // Effects: sets stages_; the layers of the first and of the last stage only if they differ from the others.
  // Throws: unity::error if operators are on other stages than the statement would put them on.
  void find_stages();
  void find_core();
  [[nodiscard]] bool can_deviate(node_id n) const;
  [[nodiscard]] bool is_in_layer(node_id n) const {
    return layers_.pieces[n.index()] > 0 && layers_.pieces[n.index()] <= layers_.count;
  }
  [[nodiscard]] recomputed_part recomputed() const;

  transformer_layers layers_{};
  plan_statement stages_{};      // p, interleave, and layers of the first and last stage
  std::vector<bool> core_{};     // per node: from the first to the last product of activations of its layer
  std::vector<bool> is_last_{};  // per node: of its layer, or of its layer's core
};

UNITY_INLINE std::vector<hardware::device_id> transformer_plan_reader::devices_of(const guess& g,
                                                                                  std::int64_t stage) const {
  std::vector<hardware::device_id> devices;
  for (std::int64_t i = 0; i < data(g); ++i) {
    for (std::int64_t j = 0; j < g.tensor; ++j) {
      const auto group = g.are_stages_inside_data ? i * stages() + stage : stage * data(g) + i;
      devices.push_back(ranks_[static_cast<std::size_t>(group * g.tensor + j)]);
    }
  }
  return devices;
}

UNITY_INLINE bool transformer_plan_reader::fits_stages(const guess& g) const {
  for (std::int64_t stage = 0; stages() > 1 && stage < stages(); ++stage) {
    for (const auto d : devices_of(g, stage)) {
      if (p_.pipeline.stages[d.index()] != stage) {
        return false;
      }
    }
  }
  return true;
}

UNITY_INLINE bool transformer_plan_reader::compare(guess& g) const {
  std::vector<strategy> by_stage;
  for (std::int64_t stage = 0; stage < stages(); ++stage) {
    hardware::device_mesh mesh{"", {}, {}};
    for (const auto d : devices_of(g, stage)) {
      mesh.devices.push_back(d);
    }
    std::optional<std::size_t> sample_axis;
    std::optional<std::size_t> layer_axis;
    if (data(g) > 1 || g.tensor == 1) {
      sample_axis = 0;
      mesh.sizes.push_back(data(g));
    }
    if (g.tensor > 1) {
      layer_axis = mesh.sizes.size();
      mesh.sizes.push_back(g.tensor);
    }
    megatron_writer writer{a_, p_.graph, all_, std::move(mesh), sample_axis, layer_axis, g.is_sequence_parallel};
    by_stage.push_back(writer.run());
    if (g.tensor > 1 && !writer.divides_heads()) {
      return false;
    }
  }
  for (const auto n : node_ids(p_.graph)) {
    if (!does_work(n)) {
      continue;
    }
    const auto& c = p_.configurations[n.index()];
    const auto stage = stages() > 1 ? p_.pipeline.stages[c.devices[0].index()] : 0U;
    const auto& expected = by_stage[stage][n.index()];
    if (is_same(c, expected)) {
      ++g.agreeing;
    } else if (!g.first_other) {
      g.first_other = n;
      g.expected = expected;
    }
  }
  return true;
}

// The degrees with which most operators agree; of equally good ones, the smallest.
UNITY_INLINE transformer_plan_reader::guess transformer_plan_reader::best_guess() const {
  const auto of_stage = static_cast<std::int64_t>(ranks_.size()) / stages();
  std::optional<guess> best;
  for (std::int64_t tensor = 1; tensor <= of_stage; ++tensor) {
    for (const bool inside : {false, true}) {
      for (const bool sequence : {false, true}) {
        guess g{tensor, sequence, inside, 0, {}, {}};
        const bool is_new = (stages() > 1 || !inside) && (tensor > 1 || !sequence);
        if (of_stage % tensor == 0 && is_new && fits_stages(g) && compare(g) &&
            (!best || best->agreeing < g.agreeing)) {
          best = g;
        }
      }
    }
  }
  if (!best) {
    throw error{"plan.pipeline", "stages of devices in an order of their own",
                "stages of equally many devices in the machine's order, or tensor-parallel groups of each in turn"};
  }
  return *best;
}

UNITY_INLINE void transformer_plan_reader::expect_schedule() const {
  const auto& pipeline = p_.pipeline;
  if (static_cast<std::int64_t>(ranks_.size()) % stages() != 0) {
    throw error{"plan.pipeline", fmt::format("{} stages of {} devices", stages(), ranks_.size()),
                "stages of equally many devices"};
  }
  const bool is_known = pipeline.schedule == pipeline_schedule::one_forward_one_backward ||
                        pipeline.schedule == pipeline_schedule::interleaved;
  if (pipeline.is_delayed || !is_known) {
    throw error{"plan.pipeline",
                pipeline.is_delayed
                    ? std::string{"delayed updates"}
                    : fmt::format("schedule {}", pipeline_schedule_names[static_cast<std::size_t>(pipeline.schedule)]),
                "one_forward_one_backward or interleaved"};
  }
}

UNITY_INLINE void transformer_plan_reader::find_stages() {
  stages_.pipeline = stages();
  stages_.interleave = p_.pipeline.chunks;
  if (stages_.chunks() == 1) {
    return;
  }
  const auto chunks = chunks_of(p_.graph, p_.configurations, p_.pipeline);
  const auto place_of = [&](node_id n) {
    const auto stage = p_.pipeline.stages[p_.configurations[n.index()].devices[0].index()];
    return std::int64_t{chunks[n.index()]} * stages() + stage;
  };
  std::vector<std::int64_t> begun(static_cast<std::size_t>(stages()));  // layers, by stage
  std::vector<bool> is_met(layers_.count + 2);
  for (const auto n : node_ids(p_.graph)) {
    const auto piece = layers_.pieces[n.index()];
    if (does_work(n) && is_in_layer(n) && !is_met[piece]) {
      is_met[piece] = true;
      ++begun[static_cast<std::size_t>(place_of(n) % stages())];
    }
  }
  if (std::any_of(begun.begin(), begun.end(), [&](auto count) { return count != begun[0]; })) {
    const auto middle = begun[stages() > 2 ? 1 : 0];
    stages_.first_layers = stages() == 2 || begun.front() != middle ? begun.front() : 0;
    stages_.last_layers = stages() == 2 || begun.back() != middle ? begun.back() : 0;
  }
  const auto counts = find_layers_of_stages(stages_, layers_.count);
  if (counts.empty() ||
      std::any_of(counts.begin(), counts.end(), [&](auto c) { return c % stages_.interleave != 0; })) {
    throw error{"plan.pipeline", fmt::format("{} layers on {} stages", layers_.count, stages_.chunks()),
                "equally many layers on each, or on all but the first and the last"};
  }
  const auto expected = chunks_of_pieces(stages_, layers_.count);
  const bool is_equal = stages_.first_layers + stages_.last_layers == 0;
  for (const auto n : node_ids(p_.graph)) {
    const auto wanted = expected[layers_.pieces[n.index()]];
    if (does_work(n) && place_of(n) != wanted) {
      throw error{shown(n), fmt::format("on stage {}", place_of(n)),
                  fmt::format("stage {} of {}, of {}, the embedding on the first and the head on the last", wanted,
                              stages_.chunks(),
                              is_equal ? fmt::format("{} layers each", layers_.count / stages_.chunks())
                                       : fmt::format("{} layers on devices in turn", fmt::join(counts, ", ")))};
    }
  }
}

UNITY_INLINE void transformer_plan_reader::find_core() {
  const auto count = p_.graph.node_count();
  core_.resize(count);
  is_last_.resize(count);
  constexpr auto none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> first(layers_.count + 2, none);
  std::vector<std::size_t> last(layers_.count + 2, none);
  std::vector<std::size_t> end(layers_.count + 2, none);
  for (const auto n : node_ids(p_.graph)) {
    const auto piece = layers_.pieces[n.index()];
    if (!does_work(n)) {
      continue;
    }
    end[piece] = n.index();
    if (mixes_positions(a_, all_[n])) {
      first[piece] = std::min<std::size_t>(first[piece], n.index());
      last[piece] = n.index();
    }
  }
  for (std::uint32_t piece = 1; piece <= layers_.count; ++piece) {
    is_last_[end[piece]] = true;
    is_last_[last[piece]] = true;
    for (auto i = first[piece]; i <= last[piece]; ++i) {
      core_[i] = does_work(node_id{i});
    }
  }
}

// Whether recomputing the result makes no difference: it is the last of a layer or a core, which is kept anyway, or
// another view of a value.
UNITY_INLINE bool transformer_plan_reader::can_deviate(node_id n) const {
  const auto kind = p_.graph.operation(n).kind;
  return !does_work(n) || is_last_[n.index()] || kind == a_.kind("transpose") || kind == a_.kind("reshape");
}

UNITY_INLINE recomputed_part transformer_plan_reader::recomputed() const {
  std::size_t of_core = 0;
  std::size_t of_others = 0;
  for (const auto n : node_ids(p_.graph)) {
    if (!can_deviate(n) && is_recomputed(p_.recomputed, n)) {
      ++(core_[n.index()] ? of_core : of_others);
    }
  }
  if (of_core + of_others == 0) {
    return recomputed_part::none;
  }
  const auto part = of_core > of_others ? recomputed_part::selective : recomputed_part::full;
  for (const auto n : node_ids(p_.graph)) {
    const bool is_expected = part == recomputed_part::full ? is_in_layer(n) : core_[n.index()];
    if (!can_deviate(n) && is_recomputed(p_.recomputed, n) != is_expected) {
      throw error{shown(n), is_expected ? "its result is kept" : "its result is computed again for the backward pass",
                  part == recomputed_part::full ? "recomputation of whole layers from their inputs"
                                                : "recomputation of each layer's attention core alone"};
    }
  }
  return part;
}

UNITY_INLINE stated_plan transformer_plan_reader::read() {
  expect_schedule();
  layers_ = layers_of(a_, p_.graph, all_);
  find_stages();
  find_core();
  const auto best = best_guess();
  if (best.first_other) {
    throw error{shown(*best.first_other), fmt::format("divided as {}", p_.configurations[best.first_other->index()]),
                fmt::format("{}, as Megatron-LM divides it for t={}, d={}{}", best.expected, best.tensor, data(best),
                            best.is_sequence_parallel ? ", sp" : "")};
  }
  auto r = started(data(best));
  r.statement.tensor = best.tensor;
  r.statement.pipeline = stages();
  r.statement.interleave = p_.pipeline.chunks;
  r.statement.first_layers = stages_.first_layers;
  r.statement.last_layers = stages_.last_layers;
  r.statement.is_sequence_parallel = best.is_sequence_parallel;
  r.statement.recomputed = recomputed();
  r.layers = layers_.count;
  r.are_stages_inside_data = best.are_stages_inside_data && data(best) > 1;
  return r;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE stated_plan statement_of(const tensor::algebra& a, const plan& p) {
  return detail::transformer_plan_reader{a, p}.read();
}

UNITY_INLINE stated_plan data_statement_of(const tensor::algebra& a, const plan& p) {
  return detail::data_plan_reader{a, p}.read();
}

}  // namespace unity::parallel

#endif
