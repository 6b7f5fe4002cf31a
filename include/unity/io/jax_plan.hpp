// A plan as a Python module for JAX: a mesh, and a PartitionSpec for each parameter and each module result.
#pragma once

#include <string>

#include <unity/io/module_plan.hpp>

namespace unity::io {

// `title`: a line of the module's docstring.
// Throws: unity::error if a name is not printable ASCII, if parameters are sharded or reduced in buckets, because XLA
// decides that, and if the plan has micro-batches, stages or recomputation.
[[nodiscard]] std::string to_jax_text(const module_plan& p, const std::string& title);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_JAX_PLAN)

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/python_text.hpp>

namespace unity::io {

namespace detail {

// Sums are left to XLA: a constraint cannot express them.
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
         "    return Mesh(numpy.array((devices or jax.devices())[:count]).reshape(SIZES), AXES)\n\n\n"
         "def shard(values, on, specs):\n"
         "    \"\"\"A dict of arrays, laid onto the mesh: of inputs by INPUTS, of parameters by PARAMETERS.\"\"\"\n"
         "    return {name: jax.device_put(x, NamedSharding(on, specs[name])) for name, x in values.items()}\n\n\n"
         "def constrain(name, value, on):\n"
         "    \"\"\"The result of a module, laid out as the plan has it.\"\"\"\n"
         "    return jax.lax.with_sharding_constraint(value, NamedSharding(on, RESULTS[name]))\n";
}

}  // namespace unity::io

#endif
