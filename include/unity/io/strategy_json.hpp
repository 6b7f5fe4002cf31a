// Strategies as JSON, and back: alone in a file, or as a part of a plan (plan_json.hpp).
//
// {"format": "unity strategy", "version": 1,
//  "model": {"name": "zoo:lenet", "nodes": 22, "fingerprint": "90f3a1..."},
//  "machine": {"name": "p100:1x4", "devices": 4},
//  "strategy": [{"node": 2, "op": "conv2d",
//                "dimensions": [{"kind": "sample", "dimension": 0, "size": 64, "degree": 2}, ...],
//                "tasks": [{"part": [0, 0, 0, 0], "device": "n0/gpu0"}, {"part": [1, 0, 0, 0], "device": "n0/gpu1"}]}, ...]}
// An entry for each operator, not for inputs and weights; all dimensions along which it can be divided, and a task for each
// part. Members of other names are left alone; "size" and "fingerprint" may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/io/json.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

namespace detail {

[[nodiscard]] inline std::string dimension_name(const parallel::parallel_dimension& p) {
  return std::string{parallel::parallelism_names[static_cast<std::size_t>(p.kind)]} + " dimension " + std::to_string(p.dimension);
}

// Of task t, a number per dimension: row-major, the last runs fastest.
[[nodiscard]] inline std::vector<std::int64_t> part_of_task(const parallel::degree_list& degrees, std::size_t t) {
  std::vector<std::int64_t> part(degrees.size());
  auto rest = static_cast<std::int64_t>(t);
  for (auto k = degrees.size(); k-- > 0;) {
    part[k] = rest % degrees[k];
    rest /= degrees[k];
  }
  return part;
}

[[nodiscard]] inline nlohmann::json configuration_to_json(const tensor::algebra& a, const parallel::operator_dimensions& o, node_id n,
                                                          const parallel::configuration& c, const machine::topology& t) {
  auto dimensions = nlohmann::json::array();
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    const auto& p = o.divisible[k];
    dimensions.push_back({{"kind", parallel::parallelism_names[static_cast<std::size_t>(p.kind)]},
                          {"dimension", p.dimension},
                          {"size", p.size},
                          {"degree", c.degrees[k]}});
  }
  auto tasks = nlohmann::json::array();
  for (std::size_t i = 0; i < c.devices.size(); ++i) {
    tasks.push_back({{"part", part_of_task(c.degrees, i)}, {"device", utf8_word("name of a device", t[c.devices[i]].name)}});
  }
  return {{"node", n.index()}, {"op", a.signature(o.op.kind).name}, {"dimensions", std::move(dimensions)}, {"tasks", std::move(tasks)}};
}

// A list with an item per line: one of a thousand tasks is still one line.
[[nodiscard]] inline std::string item_lines(const std::vector<std::string>& items) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + items[i];
  }
  return text + "]";
}

[[nodiscard]] inline std::string strategy_text(const tensor::algebra& a, const parallel::graph_dimensions& all,
                                               const parallel::strategy& s, const machine::topology& t) {
  std::vector<std::string> lines;
  for (std::size_t n = 0; n < s.size(); ++n) {
    if (!all[node_id{n}].inputs.empty()) {
      lines.push_back(configuration_to_json(a, all[node_id{n}], node_id{n}, s[n], t).dump());
    }
  }
  return item_lines(lines);
}

// The list of configurations, for a graph and a machine. What is read is valid: parallel::check passes.
class strategy_reader {
 public:
  strategy_reader(const tensor::algebra& a, const parallel::graph_dimensions& all, const machine::topology& t)
      : algebra_{a}, all_{all}, topology_{t} {
    for (std::size_t d = 0; d < t.device_count(); ++d) {
      devices_.emplace(t.devices()[d].name, machine::device_id{d});
    }
  }

  // Complexity: linear in the text. Memory: linear in the graph and the text, whatever numbers it holds.
  [[nodiscard]] parallel::strategy read(const json_place& in) const {
    parallel::strategy s(all_.node_count());
    std::vector<bool> is_known(all_.node_count());
    for (const auto& item : in.items()) {
      const auto n = operator_of(item);
      if (is_known[n.index()]) {
        throw error{item.where() + ".node", name(n) + " for the second time", "each operator once"};
      }
      is_known[n.index()] = true;
      s[n.index()] = configuration(item, all_[n]);
    }
    for (std::size_t n = 0; n < s.size(); ++n) {
      if (!is_known[n] && !all_[node_id{n}].inputs.empty()) {
        throw error{in.where(), "nothing for " + name(node_id{n}), "a configuration for each operator"};
      }
    }
    return s;
  }

 private:
  [[nodiscard]] const std::string& kind(node_id n) const { return algebra_.signature(all_[n].op.kind).name; }
  [[nodiscard]] std::string name(node_id n) const { return "node " + std::to_string(n.index()) + " (" + kind(n) + ")"; }

  [[nodiscard]] node_id operator_of(const json_place& item) const {
    const auto number = item.at("node").integer();
    if (number < 0 || static_cast<std::size_t>(number) >= all_.node_count()) {
      throw error{item.where() + ".node", "is " + std::to_string(number) + ", which the model does not have",
                  "a node below " + std::to_string(all_.node_count())};
    }
    const node_id n{static_cast<std::size_t>(number)};
    if (const auto op = item.at("op").word(); op != kind(n)) {
      throw error{item.where() + ".op", "is " + shown(op) + ", and " + name(n) + " of the model is another",
                  "a strategy for this model"};
    }
    if (all_[n].inputs.empty()) {
      throw error{item.where() + ".node", name(n) + ", which has no operands", "an operator that has"};
    }
    return n;
  }

  [[nodiscard]] parallel::configuration configuration(const json_place& item, const parallel::operator_dimensions& o) const {
    parallel::configuration c;
    const auto dimensions = item.at("dimensions");
    const auto list = dimensions.items();
    if (list.size() != o.divisible.size()) {
      throw error{dimensions.where(), std::to_string(list.size()) + " of them", std::to_string(o.divisible.size()) + ": " + names_of(o)};
    }
    const auto most = static_cast<std::int64_t>(topology_.device_count());
    std::int64_t tasks = 1;
    for (std::size_t k = 0; k < list.size(); ++k) {
      c.degrees.push_back(degree(list[k], o.divisible[k]));
      if (c.degrees.back() > most / tasks) {  // before anything is that large
        throw error{dimensions.where(), "more parts than the machine's " + std::to_string(most) + " devices", "one per device at most"};
      }
      tasks *= c.degrees.back();
    }
    c.devices.resize(static_cast<std::size_t>(tasks));
    read_tasks(item.at("tasks"), o, c);
    if (const auto reason = why_not(o, c, topology_.device_count()); !reason.empty()) {
      throw error{item.where(), reason, "a configuration that divides the operator"};
    }
    return c;
  }

  [[nodiscard]] static std::string names_of(const parallel::operator_dimensions& o) {
    std::string all;
    for (const auto& p : o.divisible) {
      all += (all.empty() ? "" : ", ") + dimension_name(p);
    }
    return all.empty() ? "the operator cannot be divided" : all;
  }

  [[nodiscard]] static std::int64_t degree(const json_place& in, const parallel::parallel_dimension& p) {
    const auto kind = static_cast<parallel::parallelism>(name_from_json(in.at("kind"), parallel::parallelism_names));
    const auto number = in.at("dimension").integer();
    if (kind != p.kind || number < 0 || static_cast<std::size_t>(number) != p.dimension) {
      throw error{in.where(), "is " + in.at("kind").word() + " dimension " + std::to_string(number), dimension_name(p)};
    }
    if (in.has("size") && in.at("size").integer() != p.size) {
      throw error{in.where() + ".size", "is " + std::to_string(in.at("size").integer()),
                  std::to_string(p.size) + " as in the model, for " + dimension_name(p)};
    }
    const auto degree = in.at("degree").integer();
    if (degree < 1 || p.size % degree != 0) {
      throw error{in.where() + ".degree", "is " + std::to_string(degree),
                  "a divisor of the size " + std::to_string(p.size) + " of " + dimension_name(p)};
    }
    return degree;
  }

  // Every part has one task.
  void read_tasks(const json_place& in, const parallel::operator_dimensions& o, parallel::configuration& c) const {
    const auto list = in.items();
    constexpr auto none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> task_of(c.devices.size(), none);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto part = list[i].at("part");
      const auto t = part_number(part, o, c.degrees);
      if (task_of[t] != none) {
        throw error{part.where(), "part " + part.value().dump() + " is that of tasks[" + std::to_string(task_of[t]) + "] too",
                    "shards that do not overlap"};
      }
      task_of[t] = i;
      c.devices[t] = device(list[i].at("device"));
    }
    std::size_t missing = 0;
    auto first = none;
    for (std::size_t t = 0; t < task_of.size(); ++t) {
      if (task_of[t] == none) {
        first = first == none ? t : first;
        ++missing;
      }
    }
    if (missing > 0) {
      throw error{in.where(),
                  "no task for part " + nlohmann::json(part_of_task(c.degrees, first)).dump() +
                      (missing > 1 ? " and " + std::to_string(missing - 1) + " more" : ""),
                  "a shard for each of the " + std::to_string(task_of.size()) + " parts"};
    }
  }
  [[nodiscard]] static std::size_t part_number(const json_place& in, const parallel::operator_dimensions& o,
                                               const parallel::degree_list& degrees) {
    const auto list = in.items();
    if (list.size() != degrees.size()) {
      throw error{in.where(), std::to_string(list.size()) + " numbers",
                  "one for each of the " + std::to_string(degrees.size()) + " dimensions"};
    }
    std::int64_t number = 0;
    for (std::size_t k = 0; k < degrees.size(); ++k) {
      const auto at = list[k].integer();
      if (at < 0 || at >= degrees[k]) {
        throw error{list[k].where(), "is " + std::to_string(at),
                    "a part of " + dimension_name(o.divisible[k]) + ", 0 to " + std::to_string(degrees[k] - 1)};
      }
      number = number * degrees[k] + at;
    }
    return static_cast<std::size_t>(number);
  }
  [[nodiscard]] machine::device_id device(const json_place& in) const {
    const auto found = devices_.find(in.word());
    if (found == devices_.end()) {
      throw error{in.where(), "no device has the name " + shown(in.word()),
                  "one of the machine's " + std::to_string(devices_.size()) + ", such as " + shown(topology_.devices().front().name)};
    }
    return found->second;
  }

  const tensor::algebra& algebra_;
  const parallel::graph_dimensions& all_;
  const machine::topology& topology_;
  std::unordered_map<std::string, machine::device_id> devices_{};
};

inline void expect_topology(const machine::machine& m, const std::string& where) {
  if (m.network.empty()) {
    throw error{where, "no topology", "devices and what connects them"};
  }
}

// Throws: unity::error where a strategy file is of another model.
inline void expect_model(const json_place& in, std::int64_t nodes, const std::string& fingerprint) {
  const auto of = in.at("nodes").integer();
  const auto digits = in.has("fingerprint") ? in.at("fingerprint").word() : std::string{};
  if (of != nodes || (!digits.empty() && digits != fingerprint)) {
    throw error{in.where(),
                "another model, " + shown(in.at("name").word()) + " (" + std::to_string(of) + " nodes" +
                    (digits.empty() ? "" : ", fingerprint " + shown(digits)) + ")",
                "this one (" + std::to_string(nodes) + " nodes, fingerprint \"" + fingerprint + "\")"};
  }
}
inline void expect_machine(const json_place& in, const machine::machine& m) {
  const auto name = in.at("name").word();
  const auto devices = in.at("devices").integer();
  if (name != m.name || devices != static_cast<std::int64_t>(m.network.device_count())) {
    throw error{in.where(), "another machine, " + shown(name) + " with " + std::to_string(devices) + " devices",
                shown(m.name) + " with " + std::to_string(m.network.device_count())};
  }
}

}  // namespace detail

// 16 hexadecimal digits, the same for equal graphs; sizes and names of weights count. Complexity: linear in the graph.
[[nodiscard]] inline std::string graph_fingerprint(const tensor::algebra& a, const tensor::tensor_graph& g) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_bytes(to_json(a, g).dump())));
  return digits;
}

// `model`: a name for messages, any text.
// Throws: unity::error where the strategy is not one of the graph and machine, or a name is not UTF-8.
[[nodiscard]] inline std::string to_strategy_text(const tensor::algebra& a, const parallel::plan& p, const std::string& model) {
  detail::expect_topology(p.machine, "machine " + p.machine.name);
  const parallel::graph_dimensions all{a, p.graph};
  parallel::check(a, all, p.configurations, p.machine.network.device_count());
  const nlohmann::json about{{"name", detail::utf8_word("name of a model", model)},
                             {"nodes", p.graph.node_count()},
                             {"fingerprint", graph_fingerprint(a, p.graph)}};
  const nlohmann::json on{{"name", detail::utf8_word("name of a machine", p.machine.name)}, {"devices", p.machine.network.device_count()}};
  return "{\"format\": \"unity strategy\", \"version\": 1,\n \"model\": " + about.dump() + ",\n \"machine\": " + on.dump() +
         ",\n \"strategy\": " + detail::strategy_text(a, all, p.configurations, p.machine.network) + "}\n";
}

// `file`: for messages.
// Throws: unity::error naming the byte or the member that is wrong, and where it is for another model or machine.
[[nodiscard]] inline parallel::strategy parse_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                       const machine::machine& m, std::string_view text, std::string_view file) {
  detail::expect_topology(m, "machine " + m.name);
  const auto document = detail::parse_json(text, file);
  const detail::json_place in{document, std::string{file} + ": strategy"};
  if (in.at("format").word() != "unity strategy" || in.at("version").integer() != 1) {
    throw error{in.where(), "another format", "\"format\": \"unity strategy\", \"version\": 1"};
  }
  detail::expect_model(in.at("model"), static_cast<std::int64_t>(g.node_count()), graph_fingerprint(a, g));
  detail::expect_machine(in.at("machine"), m);
  const parallel::graph_dimensions all{a, g};
  return detail::strategy_reader{a, all, m.network}.read(in.at("strategy"));
}

// Throws: unity::error.
[[nodiscard]] inline parallel::strategy read_strategy(const tensor::algebra& a, const tensor::tensor_graph& g, const machine::machine& m,
                                                      const std::filesystem::path& path) {
  return parse_strategy(a, g, m, read_file(path), path.string());
}
inline void write_strategy(const tensor::algebra& a, const parallel::plan& p, const std::string& model, const std::filesystem::path& path) {
  atomic_write(path, to_strategy_text(a, p, model));
}

}  // namespace unity::io
