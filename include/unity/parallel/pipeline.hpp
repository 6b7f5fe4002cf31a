// Pipelines: iterations in micro-batches over stages of devices, and a graph on a part of its batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The batch size of a graph: the first dimension of its first output, if an input has the same first dimension;
// otherwise 0.
[[nodiscard]] std::int64_t sample_count(const tensor::algebra& a, const tensor::tensor_graph& g);

// By value: whether it is an input of samples. Its first size is sample_count, and operators carry its first dimension
// to that of an output of this size (sample_values).
// Complexity: as sample_values.
[[nodiscard]] std::vector<bool> sample_inputs(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              const graph_dimensions& all);

namespace detail {

class microbatch_maker {
 public:
  microbatch_maker(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                   std::int64_t count)
      : algebra_{a},
        graph_{g},
        all_{all},
        count_{count},
        samples_{sample_count(a, g)},
        has_samples_{sample_inputs(a, g, all)},
        types_(g.value_count()),
        now_(g.value_count()) {}

  [[nodiscard]] std::optional<tensor::tensor_graph> run() &&;

 private:
  [[nodiscard]] bool divide_source(node_id n);
  // An operator that reads samples must produce samples: a sum over them would cover only some.
  [[nodiscard]] bool divide(node_id n);
  [[nodiscard]] bool add(node_id n);
  [[nodiscard]] tensor::tensor_type part_of(value_id v) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const graph_dimensions& all_;
  std::int64_t count_;
  std::int64_t samples_;
  std::vector<bool> has_samples_;     // by value
  std::vector<parallel_type> types_;  // by value
  std::vector<value_id> now_;
  tensor::tensor_graph out_{};
};

}  // namespace detail

// The graph on one of `count` equal parts of its batch, the first dimension of its inputs of samples. Running it on
// each part yields the parts of the results of the whole graph. Nothing if that does not hold: if the count does not
// divide the samples, or there are statistics or sums over them. Complexity: as sample_inputs.
[[nodiscard]] inline std::optional<tensor::tensor_graph> microbatch(const tensor::algebra& a,
                                                                    const tensor::tensor_graph& g,
                                                                    const graph_dimensions& all, std::int64_t count) {
  return count == 1 ? std::optional{g} : detail::microbatch_maker{a, g, all, count}.run();
}

// The strategy of a graph, for its micro-batch: each degree stays with its dimension. Dimensions of which a micro-batch
// has one element are no longer divisible.
// Preconditions: microbatch made the graph of `part` from that of `whole`, and s is a strategy of the latter.
// Complexity: linear in the graph.
// Throws: unity::error that names the node if such a dimension is divided.
[[nodiscard]] strategy strategy_of_microbatch(const graph_dimensions& whole, const graph_dimensions& part, strategy s);

// The order in which the devices of a stage work on the passes of micro-batches.

// A pass over one micro-batch. weight_gradient: the part of the backward pass that only weights need, if the schedule
// separates it; no stage waits for it.
enum class pipeline_pass : std::uint8_t { forward, backward, weight_gradient };

// A pass of a micro-batch through a chunk of the graph. A stage works on one phase at a time.
struct pipeline_phase {
  std::int64_t microbatch = 0;
  pipeline_pass pass = pipeline_pass::forward;
  std::uint32_t chunk = 0;

  friend bool operator==(const pipeline_phase&, const pipeline_phase&) = default;
};

// All phases of a stage in the order of its schedule. For stage i of p, with m micro-batches and v chunks:
// - gpipe: all forward passes, then all backward passes; keeps the activations of m micro-batches. Source: Huang et
//   al., GPipe, NeurIPS 2019.
// - one_forward_one_backward: p - i forward passes, then a backward pass before each further forward pass. A stage
//   keeps the activations of at most min(m, p - i) micro-batches. Source: Narayanan et al., PipeDream, SOSP 2019. All
//   passes end before the iteration does, as in Fan et al., DAPPLE, PPoPP 2021, so there is one version of the
//   weights.
// - interleaved: micro-batches go in groups of p through one chunk after the other, so filling and draining take a
//   v-th of the time; 2 (p - i - 1) + (v - 1) p + 1 forward passes of chunks come before the first backward pass.
//   Source: Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021,
//   section 2.2.
// - zero_bubble: as one_forward_one_backward, but gradients of weights are computed i backward passes later, or when
//   nothing else is left: ZB-H1, which keeps the activations of at most p micro-batches. Source: Qi et al., Zero
//   bubble pipeline parallelism, ICLR 2024, section 2.
// Each pass through a chunk has every micro-batch once, in ascending order.
// Precondition: check (below) accepts p.
// Complexity: m v.
[[nodiscard]] std::vector<pipeline_phase> phases_of(const pipeline& p, std::uint32_t stage);

// By node: its chunk of its stage, which is how often values go from a stage to an earlier one on their way to the
// node. Sources: 0; all nodes: 0 if the schedule is not interleaved. With p stages, an operator of chunk c on stage i
// is on virtual stage c p + i, and reads only from that and earlier ones.
// Complexity: linear in the graph.
[[nodiscard]] std::vector<std::uint32_t> chunks_of(const tensor::tensor_graph& g, const strategy& s, const pipeline& p);

// Checks that the devices of each operator are of one stage, and that its operands come from that stage or an earlier
// one. If the schedule is interleaved, values must go through all stages once for each chunk, and the number of
// micro-batches must be a multiple of the number of stages. Micro-batches times operators may be tasks::most_tasks.
// Throws: unity::error that names the node.
void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PIPELINE)

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/convert.hpp>

namespace unity::parallel {

UNITY_INLINE std::int64_t sample_count(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto first = [&](value_id v) { return g.type(v).dims.empty() ? 0 : g.type(v).dims[0]; };
  const auto samples = g.outputs().empty() ? 0 : first(g.outputs()[0]);
  const auto input = a.kind("input");
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == input && first(g.results(n)[0]) == samples) {
      return samples;
    }
  }
  return 0;
}

UNITY_INLINE std::vector<bool> sample_inputs(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             const graph_dimensions& all) {
  const auto samples = sample_count(a, g);
  const auto has_them = [&](value_id v) { return !g.type(v).dims.empty() && g.type(v).dims[0] == samples; };
  std::vector<value_id> outputs;
  std::copy_if(g.outputs().begin(), g.outputs().end(), std::back_inserter(outputs), has_them);
  auto found = sample_values(g, all, outputs);
  for (const auto v : value_ids(g)) {
    const bool is_input = g.operation(g.producer(v)).kind == a.kind("input");
    found[v.index()] = found[v.index()] && is_input && has_them(v);
  }
  return found;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::optional<tensor::tensor_graph> microbatch_maker::run() && {
  for (const auto n : node_ids(graph_)) {
    if (!(graph_.operands(n).empty() ? divide_source(n) : divide(n)) || !add(n)) {
      return std::nullopt;
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    if (product(types_[v.index()].steps) != count_) {
      return std::nullopt;
    }
    outputs.push_back(now_[v.index()]);
  }
  out_.set_outputs(outputs);
  return std::move(out_);
}

UNITY_INLINE bool microbatch_maker::divide_source(node_id n) {
  for (const auto v : graph_.results(n)) {
    auto t = undivided(graph_.type(v));
    if (has_samples_[v.index()]) {
      t.steps[0] = count_;
    }
    types_[v.index()] = std::move(t);
  }
  return samples_ > 0 && samples_ % count_ == 0;
}

UNITY_INLINE bool microbatch_maker::divide(node_id n) {
  const auto& o = all_[n];
  std::vector<parallel_type> operands;
  bool is_divided = false;
  for (const auto v : graph_.operands(n)) {
    operands.push_back(types_[v.index()]);
    is_divided = is_divided || product(operands.back().steps) > 1;
  }
  const auto g = infer_grid(o, operands);
  const auto types = g ? types_on(o, *g) : std::nullopt;
  if (!types) {
    return false;
  }
  for (std::size_t r = 0; r < types->results.size(); ++r) {
    const auto& t = types->results[r];
    if (t.partial > 1 || (product(t.steps) == count_) != is_divided) {
      return false;
    }
    types_[graph_.results(n)[r].index()] = t;
  }
  return true;
}

UNITY_INLINE bool microbatch_maker::add(node_id n) {
  const auto& op = graph_.operation(n);
  std::vector<tensor::tensor_type> inputs;
  std::vector<tensor::tensor_type> outputs;
  std::vector<tensor::tensor_type> new_inputs;
  std::vector<tensor::tensor_type> new_outputs;
  std::vector<tensor::shape> input_dims;
  std::vector<tensor::shape> output_dims;
  std::vector<value_id> operands;
  for (const auto v : graph_.operands(n)) {
    inputs.push_back(graph_.type(v));
    new_inputs.push_back(part_of(v));
    input_dims.push_back(new_inputs.back().dims);
    operands.push_back(now_[v.index()]);
  }
  for (const auto v : graph_.results(n)) {
    outputs.push_back(graph_.type(v));
    new_outputs.push_back(part_of(v));
    output_dims.push_back(new_outputs.back().dims);
  }
  const auto resized = new_inputs == inputs && new_outputs == outputs
                           ? op
                           : tensor::resized(algebra_, {op, inputs, outputs, input_dims, output_dims});
  const auto made = algebra_.infer(resized, new_inputs);
  if (!made || made->size() != new_outputs.size()) {
    return false;
  }
  const auto have_same_dims = [](const tensor::tensor_type& x, const tensor::tensor_type& y) {
    return x.dims == y.dims;
  };
  if (!std::equal(made->begin(), made->end(), new_outputs.begin(), new_outputs.end(), have_same_dims)) {
    return false;
  }
  const auto own = out_.add_node(resized, operands, *made);
  for (std::size_t r = 0; r < graph_.results(n).size(); ++r) {
    now_[graph_.results(n)[r].index()] = out_.results(own)[r];
  }
  return true;
}

UNITY_INLINE tensor::tensor_type microbatch_maker::part_of(value_id v) const {
  auto t = graph_.type(v);
  t.dims = shard_type(types_[v.index()]).dims;
  return t;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE strategy strategy_of_microbatch(const graph_dimensions& whole, const graph_dimensions& part, strategy s) {
  for (const auto n : node_ids(whole)) {
    const auto& from = whole[n].divisible;
    const auto& to = part[n].divisible;
    degree_list degrees(to.size(), 1);
    for (std::size_t k = 0; k < from.size(); ++k) {
      const auto at = std::ranges::find(to, from[k].dimension, &parallel_dimension::dimension);
      const auto degree = s[n.index()].degrees[k];
      if (at != to.end()) {
        degrees[static_cast<std::size_t>(at - to.begin())] = degree;
      } else if (degree > 1) {
        throw error{
            fmt::format("node {}", n.index()),
            fmt::format("degree {} of dimension {}, of which a micro-batch has one element", degree, from[k].dimension),
            "fewer micro-batches, or a strategy that divides other dimensions"};
      }
    }
    s[n.index()].degrees = std::move(degrees);
  }
  return s;
}

namespace detail {

// `ahead` forward passes, then a backward pass after each further one, then the remaining backward passes.
// forward_of(i), backward_of(i): the i-th forward and backward pass.
template <class Forward, class Backward>
std::vector<pipeline_phase> phases_ahead(std::int64_t count, std::int64_t ahead, const Forward& forward_of,
                                         const Backward& backward_of) {
  std::vector<pipeline_phase> all;
  ahead = std::min(count, ahead);
  for (std::int64_t i = 0; i < count + ahead; ++i) {
    if (i < count) {
      all.push_back(forward_of(i));
    }
    if (i >= ahead) {
      all.push_back(backward_of(i - ahead));
    }
  }
  return all;
}

// Adds the gradients of weights, each `later` backward passes after its own.
UNITY_INLINE std::vector<pipeline_phase> with_weight_gradients(const std::vector<pipeline_phase>& passes,
                                                               std::int64_t microbatches, std::int64_t later) {
  std::vector<pipeline_phase> all;
  std::int64_t next = 0;
  for (const auto& p : passes) {
    all.push_back(p);
    if (p.pass == pipeline_pass::backward && p.microbatch >= later) {
      all.push_back({next++, pipeline_pass::weight_gradient});
    }
  }
  while (next < microbatches) {
    all.push_back({next++, pipeline_pass::weight_gradient});
  }
  return all;
}

}  // namespace detail

UNITY_INLINE std::vector<pipeline_phase> phases_of(const pipeline& p, std::uint32_t stage) {
  const auto stages = std::int64_t{p.stage_count()};
  const auto chunks = std::int64_t{p.chunks};
  const auto group = stages * chunks;
  const auto of = [&](std::int64_t i, pipeline_pass pass) -> pipeline_phase {
    const auto chunk = i % group / stages;
    return {i / group * stages + i % stages, pass,
            static_cast<std::uint32_t>(pass == pipeline_pass::forward ? chunk : chunks - 1 - chunk)};
  };
  const auto behind = stages - stage - 1;  // stages
  const auto ahead = p.schedule == pipeline_schedule::gpipe         ? p.microbatches - 1
                     : p.schedule == pipeline_schedule::interleaved ? 2 * behind + (chunks - 1) * stages
                                                                    : behind;
  const auto all = detail::phases_ahead(
      p.microbatches * chunks, ahead, [&](std::int64_t i) { return of(i, pipeline_pass::forward); },
      [&](std::int64_t i) { return of(i, pipeline_pass::backward); });
  return p.schedule == pipeline_schedule::zero_bubble ? detail::with_weight_gradients(all, p.microbatches, stage) : all;
}

UNITY_INLINE std::vector<std::uint32_t> chunks_of(const tensor::tensor_graph& g, const strategy& s, const pipeline& p) {
  std::vector<std::uint32_t> chunks(g.node_count());
  if (p.stages.empty()) {
    return chunks;
  }
  const auto stage_of = [&](node_id n) { return p.stages[s[n.index()].devices[0].index()]; };
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      if (const auto from = g.producer(v); !g.operands(from).empty()) {
        const auto goes_around = stage_of(from) > stage_of(n) ? 1U : 0U;
        chunks[n.index()] = std::max(chunks[n.index()], chunks[from.index()] + goes_around);
      }
    }
  }
  return chunks;
}

namespace detail {

// The checks that need no graph.
UNITY_INLINE void check_schedule(const pipeline& p) {
  const auto stages = p.stage_count();
  const std::string name{pipeline_schedule_names[static_cast<std::size_t>(p.schedule)]};
  const bool is_interleaved = p.schedule == pipeline_schedule::interleaved;
  if (is_interleaved != (p.chunks > 1)) {
    throw error{"pipeline", fmt::format("{} chunks for schedule {}", p.chunks, name),
                is_interleaved ? "2 or more" : "1, or schedule interleaved"};
  }
  if (p.schedule == pipeline_schedule::one_forward_one_backward) {
    return;
  }
  if (stages < 2) {
    throw error{"pipeline", fmt::format("schedule {} of one stage", name), "2 stages or more"};
  }
  if (p.is_delayed) {
    throw error{"pipeline", fmt::format("schedule {} with delayed updates", name), "one_forward_one_backward"};
  }
  if (is_interleaved && p.microbatches % stages != 0) {
    throw error{"pipeline", fmt::format("{} micro-batches, interleaved on {} stages", p.microbatches, stages),
                "a multiple of the stages"};
  }
}

// Throws: unity::error if values go through the stages more often than there are chunks, if an operand comes from a
// later stage, or if a stage has no operator of a chunk.
UNITY_INLINE void check_chunks(const tensor::tensor_graph& g, const strategy& s, const pipeline& p) {
  const auto stage_of = [&](node_id n) { return p.stages[s[n.index()].devices[0].index()]; };
  const auto chunks = chunks_of(g, s, p);
  std::vector<bool> is_used(std::size_t{p.stage_count()} * p.chunks);
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty()) {
      continue;
    }
    const auto where = [&] { return fmt::format("pipeline, node {}", n.index()); };
    if (chunks[n.index()] >= p.chunks && p.chunks > 1) {
      throw error{where(), fmt::format("operands that have gone back to an earlier stage {} times", chunks[n.index()]),
                  fmt::format("fewer times than there are chunks, {}", p.chunks)};
    }
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v);
      if (p.chunks == 1 && !g.operands(from).empty() && stage_of(from) > stage_of(n)) {
        throw error{where(), fmt::format("an operand of stage {}, behind its own, {}", stage_of(from), stage_of(n)),
                    "operands of its stage or those before"};
      }
    }
    is_used[chunks[n.index()] * std::size_t{p.stage_count()} + stage_of(n)] = true;
  }
  const auto unused = static_cast<std::size_t>(std::find(is_used.begin(), is_used.end(), false) - is_used.begin());
  if (p.chunks > 1 && unused < is_used.size()) {
    throw error{"pipeline",
                fmt::format("no operator of chunk {} on stage {}", unused / p.stage_count(), unused % p.stage_count()),
                fmt::format("values that go through all {} stages {} times", p.stage_count(), p.chunks)};
  }
}

}  // namespace detail

UNITY_INLINE void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices) {
  std::int64_t operators = 0;  // each has a task in each micro-batch at least
  for (const auto n : node_ids(g)) {
    operators += g.operands(n).empty() ? 0 : 1;
  }
  // Up to the upper limit, samples times micro-batches, and collectives times these, do not overflow.
  const auto most =
      std::clamp(tasks::most_tasks / std::max(operators, std::int64_t{1}), std::int64_t{1}, std::int64_t{1} << 24);
  if (p.microbatches < 1 || p.microbatches > most) {
    throw error{"pipeline", fmt::format("{} micro-batches of {} operators", p.microbatches, operators),
                fmt::format("1 to {}", most)};
  }
  detail::check_schedule(p);
  if (p.stages.empty()) {
    if (p.microbatches > 1) {
      throw error{"pipeline", "no stages", "a stage for each device"};
    }
    return;
  }
  if (p.stages.size() != devices) {
    throw error{"pipeline", fmt::format("{} devices with a stage", p.stages.size()), fmt::format("all {}", devices)};
  }
  for (std::uint32_t k = 0; k < p.stage_count(); ++k) {
    if (std::find(p.stages.begin(), p.stages.end(), k) == p.stages.end()) {
      throw error{"pipeline", fmt::format("no device of stage {}", k), "a device at least for each stage"};
    }
  }
  for (const auto n : node_ids(g)) {
    for (const auto d : s[n.index()].devices) {
      if (const auto first = s[n.index()].devices[0]; p.stages[d.index()] != p.stages[first.index()]) {
        throw error{fmt::format("pipeline, node {}", n.index()),
                    fmt::format("tasks on devices of stages {} and {}", p.stages[first.index()], p.stages[d.index()]),
                    "devices of one stage"};
      }
    }
  }
  detail::check_chunks(g, s, p);
}

}  // namespace unity::parallel

#endif
