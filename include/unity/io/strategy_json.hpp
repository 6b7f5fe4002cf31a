// Strategies as JSON, and back: in a separate file, or as a part of a plan (plan_json.hpp).
//
// {"format": "unity strategy", "version": 1,
//  "model": {"name": "zoo:lenet", "nodes": 22, "fingerprint": "90f3a1..."},
//  "machine": {"name": "p100:1x4", "devices": 4},
//  "strategy": [{"node": 2, "op": "conv2d",
//                "dimensions": [{"kind": "sample", "dimension": 0, "size": 64, "degree": 2}, ...],
//                "tasks": [{"part": [0, 0, 0, 0], "device": "n0/gpu0"},
//                          {"part": [1, 0, 0, 0], "device": "n0/gpu1"}]}, ...]}
// There is an entry for each operator, but not for inputs and weights, with all dimensions along which it can be
// divided and a task for each part. If sums are divided, operands are partial sums, or tasks are replicated, an entry
// also has
//               "reductions": [{"index": "k", "size": 784, "degree": 2}],
//               "terms": [{"operands": [0, 2], "degree": 2}, ...], "copies": 2
// and its tasks have "reduction": [1], "term": [0, 0], "copy": 1. Other members are ignored; "size" and "fingerprint"
// are optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/configuration_json.hpp>
#include <unity/io/json_place.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

namespace detail {

// A list with one item per line; a configuration of a thousand tasks is still one line.
[[nodiscard]] std::string item_lines(const std::vector<std::string>& items);

[[nodiscard]] std::string strategy_text(const tensor::algebra& a, const parallel::graph_dimensions& all,
                                        const parallel::strategy& s, const hardware::topology& t);

// Reads the list of configurations, for a graph and a machine. The result is valid: parallel::check passes.
class strategy_reader {
 public:
  strategy_reader(const tensor::algebra& a, const parallel::graph_dimensions& all, const hardware::topology& t)
      : algebra_{a}, all_{all}, configurations_{t} {}

  // Complexity: linear in the text. Memory: linear in the graph and the text, whatever numbers the text contains.
  [[nodiscard]] parallel::strategy read(const json_place& in) const;

 private:
  [[nodiscard]] const std::string& kind(node_id n) const { return algebra_.signature(all_[n].op.kind).name; }
  [[nodiscard]] std::string name(node_id n) const { return fmt::format("node {} ({})", n.index(), kind(n)); }

  [[nodiscard]] node_id operator_of(const json_place& item) const;

  const tensor::algebra& algebra_;
  const parallel::graph_dimensions& all_;
  configuration_reader configurations_;
};

void expect_summed_outputs(const json_place& in, const tensor::tensor_graph& g, const parallel::strategy& s);

void expect_topology(const hardware::machine& m, const std::string& where);

// Throws: unity::error if a strategy file is for another model.
void expect_model(const json_place& in, std::int64_t nodes, const std::string& fingerprint);
void expect_machine(const json_place& in, const hardware::machine& m);

}  // namespace detail

// 16 hexadecimal digits, equal for equal graphs, including sizes and names of weights. Complexity: linear in the graph.
[[nodiscard]] std::string graph_fingerprint(const tensor::algebra& a, const tensor::tensor_graph& g);

// `model`: a name for messages, any text.
// Throws: unity::error if the strategy does not fit the graph and machine, or a name is not UTF-8.
[[nodiscard]] std::string to_strategy_text(const tensor::algebra& a, const parallel::plan& p, const std::string& model);

// `file`: for messages.
// Throws: unity::error naming the byte or the member that is wrong, and if it is for another model or machine.
[[nodiscard]] parallel::strategy parse_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                const hardware::machine& m, std::string_view text,
                                                std::string_view file);

// Throws: unity::error.
[[nodiscard]] inline parallel::strategy read_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                      const hardware::machine& m, const std::filesystem::path& path) {
  return parse_strategy(a, g, m, read_file(path), path.string());
}
inline void write_strategy(const tensor::algebra& a, const parallel::plan& p, const std::string& model,
                           const std::filesystem::path& path) {
  atomic_write(path, to_strategy_text(a, p, model));
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_STRATEGY_JSON)

#include <cstdio>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/io/json.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/parallel/configuration.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string item_lines(const std::vector<std::string>& items) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "\n  " : ",\n  ", items[i]);
  }
  return fmt::format("{}]", text);
}

UNITY_INLINE std::string strategy_text(const tensor::algebra& a, const parallel::graph_dimensions& all,
                                       const parallel::strategy& s, const hardware::topology& t) {
  std::vector<std::string> lines;
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (!all[node_id{n}].inputs.empty()) {
      lines.push_back(configuration_to_json(a, all[node_id{n}], node_id{n}, s[n], t).dump());
    }
  }
  return item_lines(lines);
}

UNITY_INLINE parallel::strategy strategy_reader::read(const json_place& in) const {
  parallel::strategy s(all_.node_count());
  std::vector<bool> is_known(all_.node_count());
  for (const auto& item : in.items()) {
    const auto n = operator_of(item);
    if (is_known[n.index()]) {
      throw error{fmt::format("{}.node", item.where()), fmt::format("{} for the second time", name(n)),
                  "each operator once"};
    }
    is_known[n.index()] = true;
    s[n.index()] = configurations_.read(item, all_[n]);
  }
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (!is_known[n] && !all_[node_id{n}].inputs.empty()) {
      throw error{in.where(), fmt::format("nothing for {}", name(node_id{n})), "a configuration for each operator"};
    }
  }
  return s;
}

UNITY_INLINE node_id strategy_reader::operator_of(const json_place& item) const {
  const auto number = item.at("node").integer();
  if (number < 0 || static_cast<std::size_t>(number) >= all_.node_count()) {
    throw error{fmt::format("{}.node", item.where()), fmt::format("is {}, which the model does not have", number),
                fmt::format("a node below {}", all_.node_count())};
  }
  const node_id n{static_cast<std::size_t>(number)};
  if (const auto op = item.at("op").word(); op != kind(n)) {
    throw error{fmt::format("{}.op", item.where()),
                fmt::format("is {}, and {} of the model is another", shown(op), name(n)), "a strategy for this model"};
  }
  if (all_[n].inputs.empty()) {
    throw error{fmt::format("{}.node", item.where()), fmt::format("{}, which has no operands", name(n)),
                "an operator that has"};
  }
  return n;
}

UNITY_INLINE void expect_summed_outputs(const json_place& in, const tensor::tensor_graph& g,
                                        const parallel::strategy& s) {
  if (const auto n = parallel::unsummed_output(g, s); n.valid()) {
    throw error{in.where(), fmt::format("node {} has an output of the graph that consists of partial sums", n.index()),
                "one that is added up"};
  }
}

UNITY_INLINE void expect_topology(const hardware::machine& m, const std::string& where) {
  if (m.network.empty()) {
    throw error{where, "no topology", "devices and what connects them"};
  }
}

UNITY_INLINE void expect_model(const json_place& in, std::int64_t nodes, const std::string& fingerprint) {
  const auto of = in.at("nodes").integer();
  const auto digits = in.has("fingerprint") ? in.at("fingerprint").word() : std::string{};
  if (of != nodes || (!digits.empty() && digits != fingerprint)) {
    throw error{in.where(),
                fmt::format("another model, {} ({} nodes{})", shown(in.at("name").word()), of,
                            digits.empty() ? "" : fmt::format(", fingerprint {}", shown(digits))),
                fmt::format("this one ({} nodes, fingerprint \"{}\")", nodes, fingerprint)};
  }
}

UNITY_INLINE void expect_machine(const json_place& in, const hardware::machine& m) {
  const auto name = in.at("name").word();
  const auto devices = in.at("devices").integer();
  if (name != m.name || devices != static_cast<std::int64_t>(m.network.device_count())) {
    throw error{in.where(), fmt::format("another machine, {} with {} devices", shown(name), devices),
                fmt::format("{} with {}", shown(m.name), m.network.device_count())};
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string graph_fingerprint(const tensor::algebra& a, const tensor::tensor_graph& g) {
  return fmt::format("{:016x}", hash_bytes(to_json(a, g).dump()));
}

UNITY_INLINE std::string to_strategy_text(const tensor::algebra& a, const parallel::plan& p, const std::string& model) {
  detail::expect_topology(p.machine, fmt::format("machine {}", p.machine.name));
  const parallel::graph_dimensions all{a, p.graph};
  parallel::check(a, p.graph, all, p.configurations, p.machine.network.device_count());
  const nlohmann::json about{{"name", utf8_word("name of a model", model)},
                             {"nodes", p.graph.node_count()},
                             {"fingerprint", graph_fingerprint(a, p.graph)}};
  const nlohmann::json on{{"name", utf8_word("name of a machine", p.machine.name)},
                          {"devices", p.machine.network.device_count()}};
  return fmt::format(
      "{{\"format\": \"unity strategy\", \"version\": 1,\n \"model\": {},\n \"machine\": {},\n \"strategy\": {}}}\n",
      about.dump(), on.dump(), detail::strategy_text(a, all, p.configurations, p.machine.network));
}

UNITY_INLINE parallel::strategy parse_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                               const hardware::machine& m, std::string_view text,
                                               std::string_view file) {
  detail::expect_topology(m, fmt::format("machine {}", m.name));
  const auto document = detail::parse_json(text, file);
  const json_place in{document, fmt::format("{}: strategy", file)};
  if (in.at("format").word() != "unity strategy" || in.at("version").integer() != 1) {
    throw error{in.where(), "another format", "\"format\": \"unity strategy\", \"version\": 1"};
  }
  detail::expect_model(in.at("model"), static_cast<std::int64_t>(g.node_count()), graph_fingerprint(a, g));
  detail::expect_machine(in.at("machine"), m);
  const parallel::graph_dimensions all{a, g};
  auto s = detail::strategy_reader{a, all, m.network}.read(in.at("strategy"));
  detail::expect_summed_outputs(in.at("strategy"), g, s);
  return s;
}

}  // namespace unity::io

#endif
