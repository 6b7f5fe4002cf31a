// Plans in the terms of other frameworks: modules for PyTorch and JAX, options of Megatron-LM and DeepSpeed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <unity/io/module_cuts.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/parallel/strategies/stated_plan.hpp>

namespace unity::io::detail {

// A quoted string.
// Throws: unity::error if it is not printable ASCII.
[[nodiscard]] std::string python_word(std::string_view word);

// The text for a Python string in triple quotes: replaces characters that could end it or are not printable ASCII by
// "?".
[[nodiscard]] std::string python_comment(std::string_view text);

// Names for a triple-quoted text, six per line.
[[nodiscard]] std::string python_lines(const std::vector<std::string>& names);

}  // namespace unity::io::detail

namespace unity::io {

// A plan as a Python module that distributes a PyTorch model according to it (python/unity_plan).

// `title`: a line of the module's docstring.
// Throws: unity::error if a name is not printable ASCII, or the weight of a convolution is divided.
[[nodiscard]] std::string to_pytorch_text(const module_plan& p, const std::string& title);

// A plan as a Python module for JAX: a mesh, and a PartitionSpec for each parameter and each module result.

// `title`: a line of the module's docstring.
// Throws: unity::error if a name is not printable ASCII, if parameters are sharded or reduced in buckets, because XLA
// decides that, and if the plan has micro-batches, stages or recomputation.
[[nodiscard]] std::string to_jax_text(const module_plan& p, const std::string& title);

// Stated plans in the terms of Megatron-LM and DeepSpeed.

// Command-line options of Megatron-LM's training scripts, one per line.
// Throws: unity::error if the statement contradicts itself, or has a stage of ZeRO that its optimizer does not support.
// Source: Megatron-LM, megatron/training/arguments.py (core 0.12).
[[nodiscard]] std::string to_megatron_text(const parallel::stated_plan& p);

// DeepSpeed's configuration as JSON. The user has to add the optimizer's hyperparameters.
// Throws: unity::error if the statement contradicts itself; if it has other divisions than data parallelism, or
// recomputation, because DeepSpeed takes these from the model's code; and if gradients are to be reduced during the
// backward pass without ZeRO.
// Source: DeepSpeed, docs/_pages/config-json.md.
[[nodiscard]] std::string to_deepspeed_text(const parallel::stated_plan& p);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FRAMEWORK_PLAN)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string python_word(std::string_view word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c < ' ' || c > '~') {
      throw error{printable(word), "a name that is not printable ASCII", "one that is"};
    }
    text += c == '"' || c == '\\' ? "\\" : "";
    text += c;
  }
  return text + "\"";
}

UNITY_INLINE std::string python_comment(std::string_view text) {
  std::string safe{text};
  for (char& c : safe) {
    c = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  }
  return safe;
}

UNITY_INLINE std::string python_lines(const std::vector<std::string>& names) {
  constexpr std::size_t a_line = 6;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i % a_line == 0 ? "\n" : " ";
    text += python_comment(names[i]);
  }
  return text;
}

}  // namespace unity::io::detail

namespace unity::io {

namespace detail {

UNITY_INLINE std::string placements(const parallel::tensor_placement& l) {
  std::string text;
  for (const auto& use : l) {
    text += text.empty() ? "" : ", ";
    text += use.kind == parallel::axis_kind::split ? fmt::format("Shard({})", use.dimension)
            : use.kind == parallel::axis_kind::sum ? "Partial()"
                                                   : "Replicate()";
  }
  return fmt::format("[{}]", text);
}

UNITY_INLINE std::string parameter_text(const parameter_plan& w) {
  auto text = fmt::format("Parameter({}", placements(w.layout));
  if (w.is_trained && !w.replicas.empty()) {
    text += fmt::format(", reduce=[{}]", fmt::join(w.replicas, ", "));
    text += w.is_sharded ? fmt::format(", share_of={}", w.share_of) : fmt::format(", bucket={}", w.bucket);
    text += w.is_gathered_again ? ", is_gathered_again=True" : "";
  }
  return text + fmt::format(", shape=[{}])", fmt::join(w.dims, ", "));
}

UNITY_INLINE std::string counts_text(const collective_counts& c) {
  return fmt::format("{{\"all_reduce\": {}, \"all_gather\": {}, \"reduce_scatter\": {}, \"all_to_all\": {}}}",
                     c.all_reduce, c.all_gather, c.reduce_scatter, c.all_to_all);
}

UNITY_INLINE std::string pipeline_text(const module_pipeline& p) {
  const bool is_interleaved = p.schedule == parallel::pipeline_schedule::interleaved;
  const bool is_gpipe = p.schedule == parallel::pipeline_schedule::gpipe;
  auto text = fmt::format("    pipeline=Pipeline(\n        \"{}\",\n        groups={},\n        cuts=[\n",
                          is_interleaved ? "ScheduleInterleaved1F1B"
                          : is_gpipe     ? "ScheduleGPipe"
                                         : "Schedule1F1B",
                          p.groups);
  for (const auto& at : p.boundaries) {
    text += fmt::format("            Cut({}{}, placements={}, values={}, gradients={}),\n",
                        at.is_after ? "after=" : "before=", python_word(at.module), placements(at.layout),
                        at.values.size(), at.gradients);
  }
  return text + "        ],\n    ),\n";
}

// The parts of a plan beyond layouts, as Python text.
UNITY_INLINE std::string schedule_text(const module_plan& p) {
  std::string text;
  if (p.microbatches > 1) {
    text += fmt::format("    microbatches={},\n", p.microbatches);
  }
  if (p.pipeline.groups > 1) {
    text += pipeline_text(p.pipeline);
  }
  if (!p.recomputed.empty()) {
    text += "    recomputed=[\n";
    for (const auto& name : p.recomputed) {
      text += fmt::format("        {},\n", python_word(name));
    }
    text += "    ],\n";
  }
  return text;
}

UNITY_INLINE void expect_whole_convolution(const parameter_plan& w) {
  const bool is_divided = std::any_of(w.layout.begin(), w.layout.end(),
                                      [](const parallel::axis_use& u) { return u.kind == parallel::axis_kind::split; });
  if (w.is_of_convolution && is_divided) {
    throw error{fmt::format("parameter {}", w.name), "divided channels of a convolution, which DTensor cannot compute",
                "convolutions divided by samples (`parallelize --dims data`)"};
  }
}

}  // namespace detail

UNITY_INLINE std::string to_pytorch_text(const module_plan& p, const std::string& title) {
  const bool has_stages = p.pipeline.groups > 1;
  auto text = fmt::format(
      "\"\"\"{}\n\nWritten by export_plan. Rank i runs what the plan has on the i-th of\n{}\n\"\"\"\n\n"
      "from torch.distributed.tensor import Partial, Replicate, Shard\n\n"
      "import unity_plan\nfrom unity_plan import {}\n\nPLAN = unity_plan.Plan(\n    mesh=({},),\n",
      detail::python_comment(title), detail::python_lines(p.devices),
      has_stages ? "Cut, Layout, Parameter, Pipeline" : "Layout, Parameter", fmt::join(p.mesh.sizes, ", "));
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("        {}: {},\n", detail::python_word(name), value);
  };
  text += "    inputs={\n";
  for (const auto& in : p.inputs) {
    add(in.name, detail::placements(in.layout));
  }
  text += "    },\n    parameters={\n";
  for (const auto& w : p.parameters) {
    detail::expect_whole_convolution(w);
    add(w.name, detail::parameter_text(w));
  }
  text += "    },\n    modules={\n";
  for (const auto& m : p.modules) {
    add(m.name, fmt::format("Layout({}, {}, ranks=({}, {}))", m.input ? detail::placements(*m.input) : "None",
                            detail::placements(m.output), m.input_rank, m.output_rank));
  }
  return text + fmt::format("    }},\n    forward={},\n    backward={},\n{})\n\n\n{}", detail::counts_text(p.forward),
                            detail::counts_text(p.backward), detail::schedule_text(p),
                            has_stages
                                ? "def parallelize(module, example, loss, device_type=\"cuda\"):\n"
                                  "    \"\"\"The stages of this rank of torch.distributed, with their schedule.\"\"\"\n"
                                  "    return unity_plan.pipeline(PLAN, module, example, loss, device_type)\n"
                                : "def parallelize(module, device_type=\"cuda\"):\n"
                                  "    \"\"\"Lays the module out on the ranks of torch.distributed, in place.\"\"\"\n"
                                  "    return unity_plan.apply(PLAN, module, device_type)\n");
}

namespace detail {

// Partial sums have no form in a constraint: XLA adds them up where it chooses.
UNITY_INLINE std::string partition_spec(const parallel::tensor_placement& l) {
  std::vector<std::string> axes;  // by dimension
  for (std::size_t axis = 0; axis < l.size(); ++axis) {
    if (l[axis].kind == parallel::axis_kind::split) {
      axes.resize(std::max(axes.size(), l[axis].dimension + 1));
      auto& of_dimension = axes[l[axis].dimension];
      of_dimension += fmt::format("{}\"axis{}\"", of_dimension.empty() ? "" : ", ", axis);
    }
  }
  for (auto& of_dimension : axes) {
    of_dimension = of_dimension.empty()                          ? "None"
                   : of_dimension.find(',') == std::string::npos ? of_dimension
                                                                 : fmt::format("({})", of_dimension);
  }
  return fmt::format("P({})", fmt::join(axes, ", "));
}

UNITY_INLINE void expect_one_pass(const module_plan& p) {
  if (p.microbatches > 1 || p.pipeline.groups > 1) {
    throw error{"plan.pipeline", fmt::format("{} stages, {} micro-batches", p.pipeline.groups, p.microbatches),
                "one of each: specs lay one program onto one mesh"};
  }
  if (!p.recomputed.empty()) {
    throw error{fmt::format("module {}", p.recomputed[0]), "its results are computed again in the backward pass",
                "no recomputation: jax.checkpoint is of functions, not of modules"};
  }
}

UNITY_INLINE void expect_plain_reductions(const module_plan& p) {
  std::set<std::size_t> buckets;
  for (const auto& w : p.parameters) {
    const bool is_joined = w.is_trained && !w.replicas.empty() && !w.is_sharded && !buckets.insert(w.bucket).second;
    if (w.is_sharded || is_joined) {
      throw error{fmt::format("synchronization of {}", w.name), w.is_sharded ? "sharded" : "in a bucket",
                  "all_reduce alone: XLA joins all-reduces, and what the optimizer keeps is the program's own"};
    }
  }
}

}  // namespace detail

UNITY_INLINE std::string to_jax_text(const module_plan& p, const std::string& title) {
  detail::expect_one_pass(p);
  detail::expect_plain_reductions(p);
  std::vector<std::string> axes;
  for (std::size_t axis = 0; axis < p.mesh.axis_count(); ++axis) {
    axes.push_back(fmt::format("\"axis{}\",", axis));
  }
  auto text = fmt::format(
      "\"\"\"{}\n\nWritten by export_plan. The devices of the mesh are\n{}\n\"\"\"\n\n"
      "import jax\nimport numpy\nfrom jax.sharding import Mesh, NamedSharding\n"
      "from jax.sharding import PartitionSpec as P\n\n"
      "SIZES = ({},)\nAXES = ({})\n",
      detail::python_comment(title), detail::python_lines(p.devices), fmt::join(p.mesh.sizes, ", "),
      fmt::join(axes, " "));
  const auto add = [&text](const std::string& name, const parallel::tensor_placement& l) {
    text += fmt::format("    {}: {},\n", detail::python_word(name), detail::partition_spec(l));
  };
  text += "INPUTS = {\n";
  for (const auto& in : p.inputs) {
    add(in.name, in.layout);
  }
  text += "}\nPARAMETERS = {\n";
  for (const auto& w : p.parameters) {
    add(w.name, w.layout);
  }
  text += "}\nRESULTS = {  # of modules\n";
  for (const auto& m : p.modules) {
    add(m.name, m.output);
  }
  return text +
         "}\n\n\n"
         "def mesh(devices=None):\n"
         "    \"\"\"Of as many devices as the plan has, the first ones unless told.\"\"\"\n"
         "    count = int(numpy.prod(SIZES))\n"
         "    chosen = list(jax.devices() if devices is None else devices)[:count]\n"
         "    if len(chosen) < count:\n"
         "        raise ValueError(f\"{len(chosen)} devices; expected {count}, those of the plan\")\n"
         "    return Mesh(numpy.array(chosen).reshape(SIZES), AXES)\n\n\n"
         "def shard(values, on, specs):\n"
         "    \"\"\"A dict of arrays, laid onto the mesh: of inputs by INPUTS, of parameters by PARAMETERS.\"\"\"\n"
         "    return {name: jax.device_put(x, NamedSharding(on, specs[name])) for name, x in values.items()}\n\n\n"
         "def constrain(name, value, on):\n"
         "    \"\"\"The result of a module, laid out as the plan has it.\"\"\"\n"
         "    return jax.lax.with_sharding_constraint(value, NamedSharding(on, RESULTS[name]))\n";
}

namespace detail {

UNITY_INLINE void expect_consistent(const parallel::plan_statement& s) {
  check(s, static_cast<std::size_t>(s.tensor * s.pipeline * s.data));
}

UNITY_INLINE std::string recompute_flags(parallel::recomputed_part part) {
  switch (part) {
    case parallel::recomputed_part::none: return "";
    case parallel::recomputed_part::selective: return "--recompute-granularity selective\n";
    case parallel::recomputed_part::full:
      return "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n";
  }
  return "";
}

// The script's own default is Adam, and momentum 0.9 for SGD.
UNITY_INLINE std::string optimizer_flags(parallel::optimizer o) {
  switch (o) {
    case parallel::optimizer::sgd: return "--optimizer sgd\n--sgd-momentum 0\n";
    case parallel::optimizer::momentum: return "--optimizer sgd\n";
    case parallel::optimizer::adam: return "--optimizer adam\n";
  }
  return "";
}

}  // namespace detail

UNITY_INLINE std::string to_megatron_text(const parallel::stated_plan& p) {
  const auto& s = p.statement;
  detail::expect_consistent(s);
  if (s.zero > 1) {
    throw error{"plan", fmt::format("stage {} of ZeRO", s.zero),
                "0 or 1, which is Megatron-LM's distributed optimizer"};
  }
  std::string text;
  const auto add = [&text](std::string_view flag, std::int64_t value) {
    text += fmt::format("--{} {}\n", flag, value);
  };
  add("tensor-model-parallel-size", s.tensor);
  add("pipeline-model-parallel-size", s.pipeline);
  if (p.layers > 0) {
    add("num-layers", p.layers);
  }
  const bool is_equal = s.first_layers + s.last_layers == 0;
  if (!is_equal && p.layers > 0) {
    static_cast<void>(layers_of_stages(s, p.layers));  // throws if stages do not divide the layers
  }
  if (s.first_layers > 0) {
    add("decoder-first-pipeline-num-layers", s.first_layers);
  }
  if (s.last_layers > 0) {
    add("decoder-last-pipeline-num-layers", s.last_layers);
  }
  if (s.interleave > 1 && p.layers > 0 && is_equal) {
    add("num-layers-per-virtual-pipeline-stage", p.layers / s.chunks());
  } else if (s.interleave > 1) {
    add("num-virtual-stages-per-pipeline-rank", s.interleave);
  }
  text += p.are_stages_inside_data ? "--use-tp-pp-dp-mapping\n" : "";
  add("micro-batch-size", s.micro);
  add("global-batch-size", s.batch);
  text += s.is_sequence_parallel && s.tensor > 1 ? "--sequence-parallel\n" : "";
  text += s.zero == 1 && s.data > 1 ? "--use-distributed-optimizer\n" : "";
  text += s.overlaps_sums() ? "--overlap-grad-reduce\n" : "";
  text += s.overlaps_gathers() ? "--overlap-param-gather\n" : "";
  text += detail::recompute_flags(s.recomputed);
  text += p.updates ? detail::optimizer_flags(*p.updates) : "";
  text += p.element == tensor::dtype::bfloat16 ? "--bf16\n" : p.element == tensor::dtype::float16 ? "--fp16\n" : "";
  return text;
}

UNITY_INLINE std::string to_deepspeed_text(const parallel::stated_plan& p) {
  const auto& s = p.statement;
  detail::expect_consistent(s);
  if (s.tensor > 1 || s.pipeline > 1) {
    throw error{"plan", fmt::format("t={}, p={}", s.tensor, s.pipeline),
                "t=1 and p=1: DeepSpeed takes other divisions from the model's code"};
  }
  if (s.recomputed != parallel::recomputed_part::none) {
    throw error{"plan",
                fmt::format("recompute={}", parallel::recomputed_part_names[static_cast<std::size_t>(s.recomputed)]),
                "none: DeepSpeed takes what is computed again from the model's code"};
  }
  if (s.overlaps_sums() && s.zero == 0) {
    throw error{"plan", "overlap with zero=0", "zero=1: DeepSpeed without ZeRO reduces after the backward pass"};
  }
  nlohmann::ordered_json r{{"train_batch_size", s.batch},
                           {"train_micro_batch_size_per_gpu", s.micro},
                           {"gradient_accumulation_steps", s.microbatches()}};
  nlohmann::ordered_json zero{{"stage", s.zero}};
  if (s.zero > 0) {
    zero["overlap_comm"] = s.zero > 1 || s.overlaps_sums();  // reduces gradients while the backward pass runs
  }
  r["zero_optimization"] = zero;
  if (p.element == tensor::dtype::bfloat16 || p.element == tensor::dtype::float16) {
    r[p.element == tensor::dtype::bfloat16 ? "bf16" : "fp16"] = {{"enabled", true}};
  }
  return r.dump(2) + "\n";
}

}  // namespace unity::io

#endif
