// Plans as JSON, and back. A file contains the whole plan: graph, machine, and how each operator is divided.
//
// {"format": "unity plan", "version": 1,
//  "graph": {"format": "unity graph", ...},      as json.hpp has it
//  "machine": {"format": "unity machine", ...},  as machine_json.hpp has it, with a topology
//  "strategy": [...]}                            as strategy_json.hpp has it
// and optionally "optimizer": "adam" (else "sgd"), "pipeline": {"microbatches": 8, "stages": [0, 0, 1, 1]}, where the
// graph is for one micro-batch and the stages are listed by device in the machine's order, with "delayed": true if the
// pipeline is not flushed, "schedule": "gpipe", "interleaved" with "chunks": 2, or "zero_bubble", else
// "one_forward_one_backward" (parallel/pipeline.hpp), "synchronization" (synchronization_json.hpp),
// "recomputed": [4, 5], nodes whose results are computed again for the backward pass, ascending, "offloaded": [7, 9],
// nodes whose results are stored on the host until the backward pass, and the members described below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/json_place.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::io {

// Optional members of a plan's file: how the search found the plan and what it predicts.
//
// "substitutions": [{"rule": "merge_matmuls", "segments": 24}, ...],  in the order of their application
// "parallel_substitutions": [{"rule": "matmul_over_k", "values": {"k": 2}, "node": 7}, ...],  likewise, each of them
// "predicted": {"iteration_s": 0.0123, "memory_bytes": [123456, ...]},  by device, in the machine's order
// "mesh": {"sizes": [2, 6], "devices": ["n0/gpu0", ...]}

struct noted_substitution {
  std::string rule{};
  std::int64_t segments = 1;  // identical segments in which it was applied

  friend bool operator==(const noted_substitution&, const noted_substitution&) = default;
};

// A substitution that divides an operator, or changes a chain of parallelization operators between operators.
struct noted_division {
  std::string rule{};
  std::map<std::string, std::int64_t> values{};  // the rule's degrees and dimensions, by name
  bool reversed = false;                         // applied from right to left
  bool is_rule = true;                           // false: there is no known rule, and `rule` describes the division
  std::optional<std::int64_t> node{};            // of the plan's graph: where it was applied; absent: at an output

  friend bool operator==(const noted_division&, const noted_division&) = default;
};

struct noted_prediction {
  double iteration_s = 0;
  std::vector<bytes> memory{};  // the peak, by device

  friend bool operator==(const noted_prediction&, const noted_prediction&) = default;
};

// All members may be absent. Regular.
struct plan_notes {
  std::vector<noted_substitution> substitutions{};
  std::vector<noted_division> parallel_substitutions{};  // on the plan's graph, after `substitutions`
  std::optional<noted_prediction> predicted{};
  std::optional<hardware::device_mesh> mesh{};

  friend bool operator==(const plan_notes&, const plan_notes&) = default;
};

namespace detail {

[[nodiscard]] nlohmann::json to_json(const noted_division& s);
[[nodiscard]] noted_division division_from_json(const json_place& in);

// Further members of an object, each on a separate line after a comma.
[[nodiscard]] std::string notes_text(const plan_notes& n, const hardware::topology& t);

// Complexity: devices of the mesh times devices of the machine.
[[nodiscard]] hardware::device_mesh mesh_from_json(const json_place& in, const hardware::topology& t);

// Throws: unity::error that names the invalid member.
[[nodiscard]] plan_notes notes_from_json(const json_place& in, const hardware::topology& t);

}  // namespace detail

namespace detail {

// How a plan is run, if it is not the default.
[[nodiscard]] std::string schedule_text(const tensor::algebra& a, const parallel::plan& p);
void read_schedule(const tensor::algebra& a, const json_place& in, parallel::plan& p);
// By node of a graph with this many nodes: whether the list contains it; the list must ascend. Empty if the list is.
[[nodiscard]] std::vector<bool> read_nodes(const json_place& in, std::size_t nodes);

}  // namespace detail

// One line per node, per operator's configuration, and for the machine.
// Throws: unity::error if the plan is invalid, the machine has no topology or would be rejected when the text is read,
// or a name is not UTF-8.
[[nodiscard]] std::string to_plan_text(const tensor::algebra& a, const parallel::plan& p, const plan_notes& notes = {});

// `file`: for messages. Complexity: linear in the text, plus the routes of the machine (route_table).
// Throws: unity::error naming the byte or the member that is wrong.
[[nodiscard]] parallel::plan parse_plan(const tensor::algebra& a, std::string_view text, std::string_view file);

// The notes in the same text.
// Throws: likewise.
[[nodiscard]] plan_notes parse_plan_notes(std::string_view text, std::string_view file);

// Throws: unity::error.
[[nodiscard]] inline parallel::plan read_plan(const tensor::algebra& a, const std::filesystem::path& path) {
  return parse_plan(a, read_file(path), path.string());
}
inline void write_plan(const tensor::algebra& a, const parallel::plan& p, const std::filesystem::path& path) {
  atomic_write(path, to_plan_text(a, p));
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PLAN_JSON)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/json.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/recomputation.hpp>

namespace unity::io::detail {

UNITY_INLINE nlohmann::json to_json(const noted_division& s) {
  nlohmann::json one{{"rule", s.rule}, {"values", s.values}};
  if (s.reversed) {
    one["reversed"] = true;
  }
  if (!s.is_rule) {
    one["is_rule"] = false;
  }
  if (s.node) {
    one["node"] = *s.node;
  }
  return one;
}

UNITY_INLINE noted_division division_from_json(const json_place& in) {
  noted_division s{in.at("rule").word(), {}, false, true, {}};
  s.reversed = in.has("reversed") && in.at("reversed").boolean();
  s.is_rule = !in.has("is_rule") || in.at("is_rule").boolean();
  const auto values = in.at("values");
  if (!values.value().is_object()) {
    throw error{values.where(), fmt::format("is {}", values.value().type_name()), "an object of numbers"};
  }
  for (const auto& [name, value] : values.value().items()) {
    s.values[name] = values.at(name).integer();
  }
  if (in.has("node")) {
    s.node = in.at("node").integer();
  }
  return s;
}

UNITY_INLINE std::string notes_text(const plan_notes& n, const hardware::topology& t) {
  std::string text;
  const auto add = [&](const char* name, const nlohmann::json& value) {
    text += fmt::format(",\n \"{}\": {}", name, value.dump());
  };
  if (!n.substitutions.empty()) {
    auto list = nlohmann::json::array();
    for (const auto& s : n.substitutions) {
      list.push_back({{"rule", s.rule}, {"segments", s.segments}});
    }
    add("substitutions", list);
  }
  if (!n.parallel_substitutions.empty()) {
    std::vector<std::string> lines;
    for (const auto& s : n.parallel_substitutions) {
      lines.push_back(to_json(s).dump());
    }
    text += fmt::format(",\n \"parallel_substitutions\": {}", item_lines(lines));
  }
  if (n.predicted) {
    auto memory = nlohmann::json::array();
    for (const auto b : n.predicted->memory) {
      memory.push_back(b.count());
    }
    add("predicted", {{"iteration_s", n.predicted->iteration_s}, {"memory_bytes", memory}});
  }
  if (n.mesh) {
    auto sizes = nlohmann::json::array();
    for (const auto s : n.mesh->sizes) {
      sizes.push_back(s);
    }
    auto devices = nlohmann::json::array();
    for (const auto d : n.mesh->devices) {
      devices.push_back(t[d].name);
    }
    add("mesh", {{"sizes", sizes}, {"devices", devices}});
  }
  return text;
}

UNITY_INLINE hardware::device_mesh mesh_from_json(const json_place& in, const hardware::topology& t) {
  hardware::device_mesh m;
  for (const auto& s : in.at("sizes").items()) {
    m.sizes.push_back(s.integer());
  }
  const auto& all = t.devices();
  for (const auto& item : in.at("devices").items()) {
    const auto at =
        std::find_if(all.begin(), all.end(), [name = item.word()](const auto& d) { return d.name == name; });
    if (at == all.end()) {
      throw error{item.where(), fmt::format("no device has the name {}", shown(item.word())), "one of the machine's"};
    }
    m.devices.emplace_back(static_cast<std::size_t>(at - all.begin()));
  }
  try {
    hardware::check(t, m);
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", in.where(), e.what())};
  }
  return m;
}

UNITY_INLINE plan_notes notes_from_json(const json_place& in, const hardware::topology& t) {
  plan_notes n;
  if (in.has("substitutions")) {
    for (const auto& item : in.at("substitutions").items()) {
      n.substitutions.push_back({item.at("rule").word(), item.at("segments").integer()});
    }
  }
  if (in.has("parallel_substitutions")) {
    for (const auto& item : in.at("parallel_substitutions").items()) {
      n.parallel_substitutions.push_back(division_from_json(item));
    }
  }
  if (in.has("predicted")) {
    const auto predicted = in.at("predicted");
    n.predicted = noted_prediction{number_from_json(predicted.at("iteration_s"), true), {}};
    for (const auto& item : predicted.at("memory_bytes").items()) {
      n.predicted->memory.emplace_back(item.integer());
    }
    if (n.predicted->memory.size() != t.device_count()) {
      throw error{fmt::format("{}.memory_bytes", predicted.where()),
                  fmt::format("{} numbers", n.predicted->memory.size()),
                  fmt::format("one for each of the {} devices", t.device_count())};
    }
  }
  if (in.has("mesh")) {
    n.mesh = mesh_from_json(in.at("mesh"), t);
  }
  return n;
}

UNITY_INLINE std::string schedule_text(const tensor::algebra& a, const parallel::plan& p) {
  std::string text;
  if (p.updates != parallel::optimizer::sgd) {
    text += fmt::format(",\n \"optimizer\": \"{}\"", parallel::optimizer_names[static_cast<std::size_t>(p.updates)]);
  }
  if (!p.pipeline.is_trivial()) {
    nlohmann::json pipeline{{"microbatches", p.pipeline.microbatches}, {"stages", p.pipeline.stages}};
    if (p.pipeline.is_delayed) {
      pipeline["delayed"] = true;
    }
    if (p.pipeline.schedule != parallel::pipeline_schedule::one_forward_one_backward) {
      pipeline["schedule"] = parallel::pipeline_schedule_names[static_cast<std::size_t>(p.pipeline.schedule)];
    }
    if (p.pipeline.chunks != 1) {
      pipeline["chunks"] = p.pipeline.chunks;
    }
    text += fmt::format(",\n \"pipeline\": {}", pipeline.dump());
  }
  if (!p.synchronization.is_trivial()) {
    text += fmt::format(",\n \"synchronization\": {}", synchronization_to_json(a, p).dump());
  }
  const auto list = [&](const char* name, const std::vector<bool>& nodes) {
    std::vector<std::size_t> chosen;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n]) {
        chosen.push_back(n);
      }
    }
    if (!chosen.empty()) {
      text += fmt::format(",\n \"{}\": {}", name, nlohmann::json(chosen).dump());
    }
  };
  list("recomputed", p.recomputed);
  list("offloaded", p.offloaded);
  return text;
}

UNITY_INLINE std::vector<bool> read_nodes(const json_place& in, std::size_t nodes) {
  std::int64_t next = 0;
  std::vector<bool> all(nodes);
  for (const auto& item : in.items()) {
    const auto n = item.integer();
    if (n < next || static_cast<std::size_t>(n) >= nodes) {
      throw error{item.where(), fmt::format("is {}", n), fmt::format("numbers of the {} nodes, ascending", nodes)};
    }
    next = n + 1;
    all[static_cast<std::size_t>(n)] = true;
  }
  return next == 0 ? std::vector<bool>{} : all;
}

UNITY_INLINE void read_schedule(const tensor::algebra& a, const json_place& in, parallel::plan& p) {
  if (in.has("optimizer")) {
    const auto at = in.at("optimizer");
    const auto found = parallel::find_optimizer(at.word());
    if (!found) {
      throw error{at.where(), fmt::format("is {}", shown(at.word())), "sgd, momentum or adam"};
    }
    p.updates = *found;
  }
  if (in.has("synchronization")) {
    p.synchronization = synchronization_from_json(a, in.at("synchronization"), p.graph, p.machine.network);
  }
  const auto checked = [](const json_place& at, const auto& check) {
    try {
      check();
    } catch (const error& e) {
      throw error{fmt::format("{}: {}", at.where(), e.what())};
    }
  };
  if (in.has("recomputed")) {
    p.recomputed = read_nodes(in.at("recomputed"), p.graph.node_count());
    checked(in.at("recomputed"), [&] { parallel::check(a, p.graph, p.recomputed); });
  }
  if (in.has("offloaded")) {
    p.offloaded = read_nodes(in.at("offloaded"), p.graph.node_count());
    checked(in.at("offloaded"), [&] { parallel::check(a, p.graph, p.offloaded, p.recomputed); });
  }
  if (!in.has("pipeline")) {
    return;
  }
  const auto at = in.at("pipeline");
  p.pipeline.microbatches = at.at("microbatches").integer();
  p.pipeline.is_delayed = at.has("delayed") && at.at("delayed").boolean();
  if (at.has("schedule")) {
    const auto in_order = at.at("schedule");
    const auto found = parallel::find_pipeline_schedule(in_order.word());
    if (!found) {
      throw error{in_order.where(), fmt::format("is {}", shown(in_order.word())),
                  "one_forward_one_backward, gpipe, interleaved or zero_bubble"};
    }
    p.pipeline.schedule = *found;
  }
  if (at.has("chunks")) {
    const auto chunks = at.at("chunks").integer();
    if (chunks < 1 || static_cast<std::size_t>(chunks) > p.graph.node_count()) {
      throw error{at.at("chunks").where(), fmt::format("is {}", chunks), "1 or more, and no more than nodes"};
    }
    p.pipeline.chunks = static_cast<std::uint32_t>(chunks);
  }
  for (const auto& item : at.at("stages").items()) {
    const auto stage = item.integer();
    if (stage < 0 || static_cast<std::size_t>(stage) >= p.machine.network.device_count()) {
      throw error{item.where(), fmt::format("is {}", stage), "the number of a stage, less than that of devices"};
    }
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(stage));
  }
  checked(at, [&] {
    parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
    parallel::check(p.offloaded, p.pipeline);
  });
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_plan_text(const tensor::algebra& a, const parallel::plan& p, const plan_notes& notes) {
  detail::expect_topology(p.machine, fmt::format("machine {}", p.machine.name));
  hardware::check(p.machine, fmt::format("machine {}", p.machine.name));
  const parallel::graph_dimensions all{a, p.graph};
  parallel::check(a, p.graph, all, p.configurations, p.machine.network.device_count());
  parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
  parallel::check(a, p.graph, p.synchronization, p.machine.network.device_count());
  parallel::check(a, p.graph, p.recomputed);
  parallel::check(a, p.graph, p.offloaded, p.recomputed);
  parallel::check(p.offloaded, p.pipeline);
  const auto graph = to_json(a, p.graph);
  std::vector<std::string> nodes;
  for (const auto& n : graph.at("nodes")) {
    nodes.push_back(n.dump());
  }
  return fmt::format(
      "{{\"format\": \"unity plan\", \"version\": 1,\n \"graph\": {{\"format\": {}, \"version\": {}, \"nodes\": {},\n  "
      "\"outputs\": {}}},\n \"machine\": {},\n \"strategy\": {}{}{}}}\n",
      graph.at("format").dump(), graph.at("version").dump(), detail::item_lines(nodes), graph.at("outputs").dump(),
      to_json(p.machine).dump(), detail::strategy_text(a, all, p.configurations, p.machine.network),
      detail::schedule_text(a, p), detail::notes_text(notes, p.machine.network));
}

UNITY_INLINE parallel::plan parse_plan(const tensor::algebra& a, std::string_view text, std::string_view file) {
  const auto document = detail::parse_json(text, file);
  const json_place in{document, fmt::format("{}: plan", file)};
  if (in.at("format").word() != "unity plan" || in.at("version").integer() != 1) {
    throw error{in.where(), "another format", "\"format\": \"unity plan\", \"version\": 1"};
  }
  parallel::plan p;
  p.graph = detail::graph_from_json{a, in.at("graph")}.take();
  p.machine = detail::machine_from_json(in.at("machine"));
  detail::expect_topology(p.machine, in.at("machine").where());
  const parallel::graph_dimensions all{a, p.graph};
  p.configurations = detail::strategy_reader{a, all, p.machine.network}.read(in.at("strategy"));
  detail::expect_summed_outputs(in.at("strategy"), p.graph, p.configurations);
  detail::read_schedule(a, in, p);
  return p;
}

UNITY_INLINE plan_notes parse_plan_notes(std::string_view text, std::string_view file) {
  const auto document = detail::parse_json(text, file);
  const json_place in{document, fmt::format("{}: plan", file)};
  return detail::notes_from_json(in, detail::machine_from_json(in.at("machine")).network);
}

}  // namespace unity::io

#endif
