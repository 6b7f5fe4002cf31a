// A plan as a Python module that distributes a PyTorch model according to it (python/unity_plan).
#pragma once

#include <string>

#include <unity/io/module_cuts.hpp>
#include <unity/io/module_plan.hpp>

namespace unity::io {

// `title`: a line of the module's docstring.
// Throws: unity::error if a name is not printable ASCII.
[[nodiscard]] std::string to_pytorch_text(const module_plan& p, const std::string& title);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PYTORCH_PLAN)

#include <cstddef>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/python_text.hpp>

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
  }
  return text + ")";
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
    text += fmt::format("            Cut({}{}, placements={}, values={}, gradients={}),\n", at.is_after ? "after=" : "before=",
                        python_word(at.module), placements(at.layout), at.values.size(), at.gradients);
  }
  return text + "        ],\n    ),\n";
}

// What a plan has beyond layouts.
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
    add(w.name, detail::parameter_text(w));
  }
  text += "    },\n    modules={\n";
  for (const auto& m : p.modules) {
    add(m.name,
        fmt::format("Layout({}, {})", m.input ? detail::placements(*m.input) : "None", detail::placements(m.output)));
  }
  return text + fmt::format(
                    "    }},\n    forward={},\n    backward={},\n{})\n\n\n{}", detail::counts_text(p.forward),
                    detail::counts_text(p.backward), detail::schedule_text(p),
                    has_stages ? "def parallelize(module, example, loss, device_type=\"cuda\"):\n"
                                 "    \"\"\"The stages of this rank of torch.distributed, with their schedule.\"\"\"\n"
                                 "    return unity_plan.pipeline(PLAN, module, example, loss, device_type)\n"
                               : "def parallelize(module, device_type=\"cuda\"):\n"
                                 "    \"\"\"Lays the module out on the ranks of torch.distributed, in place.\"\"\"\n"
                                 "    return unity_plan.apply(PLAN, module, device_type)\n");
}

}  // namespace unity::io

#endif
