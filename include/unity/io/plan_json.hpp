// Plans as JSON, and back. A file contains the whole plan: graph, machine, and how each operator is divided.
//
// {"format": "unity plan", "version": 1,
//  "graph": {"format": "unity graph", ...},      as json.hpp has it
//  "machine": {"format": "unity machine", ...},  as machine_json.hpp has it, with a topology
//  "strategy": [...]}                            as strategy_json.hpp has it
// and optionally "optimizer": "adam" (else "sgd"), "pipeline": {"microbatches": 8, "stages": [0, 0, 1, 1]}, where the
// graph is for one micro-batch and the stages are listed by device in the machine's order, with "delayed": true if the
// pipeline is not flushed, "schedule": "gpipe", "interleaved" with "chunks": 2, or "zero_bubble", else
// "one_forward_one_backward" (pipeline_phases.hpp), "synchronization" (synchronization_json.hpp), "recomputed": [4, 5],
// nodes whose results are computed again for the backward pass, ascending, and the members described in plan_notes.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/plan_notes.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::io {

namespace detail {

// How a plan is run, if it is not the default.
[[nodiscard]] std::string schedule_text(const tensor::algebra& a, const parallel::plan& p);
void read_schedule(const tensor::algebra& a, const json_place& in, parallel::plan& p);
void read_recomputed(const tensor::algebra& a, const json_place& in, parallel::plan& p);

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

#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/json.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/recomputation.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string schedule_text(const tensor::algebra& a, const parallel::plan& p) {
  std::string text;
  if (p.updates != parallel::optimizer::sgd) {
    text += fmt::format(",\n \"optimizer\": \"{}\"", parallel::optimizer_names[static_cast<std::size_t>(p.updates)]);
  }
  if (!p.pipeline.is_trivial()) {
    nlohmann::json how{{"microbatches", p.pipeline.microbatches}, {"stages", p.pipeline.stages}};
    if (p.pipeline.is_delayed) {
      how["delayed"] = true;
    }
    if (p.pipeline.schedule != parallel::pipeline_schedule::one_forward_one_backward) {
      how["schedule"] = parallel::pipeline_schedule_names[static_cast<std::size_t>(p.pipeline.schedule)];
    }
    if (p.pipeline.chunks != 1) {
      how["chunks"] = p.pipeline.chunks;
    }
    text += fmt::format(",\n \"pipeline\": {}", how.dump());
  }
  if (!p.synchronization.is_trivial()) {
    text += fmt::format(",\n \"synchronization\": {}", synchronization_to_json(a, p).dump());
  }
  std::vector<std::size_t> again;
  for (std::size_t n = 0; n < p.recomputed.size(); ++n) {
    if (p.recomputed[n]) {
      again.push_back(n);
    }
  }
  if (!again.empty()) {
    text += fmt::format(",\n \"recomputed\": {}", nlohmann::json(again).dump());
  }
  return text;
}

UNITY_INLINE void read_recomputed(const tensor::algebra& a, const json_place& in, parallel::plan& p) {
  std::int64_t next = 0;
  p.recomputed.resize(p.graph.node_count());
  for (const auto& item : in.items()) {
    const auto n = item.integer();
    if (n < next || static_cast<std::size_t>(n) >= p.recomputed.size()) {
      throw error{item.where(), fmt::format("is {}", n),
                  fmt::format("numbers of the {} nodes, ascending", p.recomputed.size())};
    }
    next = n + 1;
    p.recomputed[static_cast<std::size_t>(n)] = true;
  }
  if (next == 0) {
    p.recomputed.clear();
  }
  try {
    parallel::check(a, p.graph, p.recomputed);
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", in.where(), e.what())};
  }
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
  if (in.has("recomputed")) {
    read_recomputed(a, in.at("recomputed"), p);
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
  try {
    parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", at.where(), e.what())};
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_plan_text(const tensor::algebra& a, const parallel::plan& p, const plan_notes& notes) {
  detail::expect_topology(p.machine, fmt::format("machine {}", p.machine.name));
  machine::check(p.machine, fmt::format("machine {}", p.machine.name));
  const parallel::graph_dimensions all{a, p.graph};
  parallel::check(a, p.graph, all, p.configurations, p.machine.network.device_count());
  parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
  parallel::check(a, p.graph, p.synchronization, p.machine.network.device_count());
  parallel::check(a, p.graph, p.recomputed);
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
  const detail::json_place in{document, fmt::format("{}: plan", file)};
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
  const detail::json_place in{document, fmt::format("{}: plan", file)};
  return detail::notes_from_json(in, detail::machine_from_json(in.at("machine")).network);
}

}  // namespace unity::io

#endif
