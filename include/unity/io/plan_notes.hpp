// Optional members of a plan's file: how the search found the plan and what it predicts.
//
// "substitutions": [{"rule": "merge_matmuls", "segments": 24}, ...],  in the order of their application
// "parallel_substitutions": [{"rule": "matmul_over_k", "values": {"k": 2}, "node": 7}, ...],  likewise, each of them
// "predicted": {"iteration_s": 0.0123, "memory_bytes": [123456, ...]},  by device, in the machine's order
// "mesh": {"sizes": [2, 6], "devices": ["n0/gpu0", ...]}
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/units.hpp>
#include <unity/io/json_place.hpp>
#include <unity/machine/device_mesh.hpp>
#include <unity/machine/topology.hpp>

namespace unity::io {

struct noted_substitution {
  std::string rule{};
  std::int64_t segments = 1;  // identical segments in which it was applied

  friend bool operator==(const noted_substitution&, const noted_substitution&) = default;
};

// A substitution that divides an operator, or changes the chains of divisions between operators.
struct noted_division {
  std::string rule{};
  std::map<std::string, std::int64_t> values{};  // the rule's degrees and dimensions, by name
  bool reversed = false;                         // applied from right to left
  bool is_rule = true;                           // false: no rule is known for it, and `rule` says what divides
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
  std::optional<machine::device_mesh> mesh{};

  friend bool operator==(const plan_notes&, const plan_notes&) = default;
};

namespace detail {

[[nodiscard]] nlohmann::json to_json(const noted_division& s);
[[nodiscard]] noted_division division_from_json(const json_place& in);

// Further members of an object, each on a separate line after a comma.
[[nodiscard]] std::string notes_text(const plan_notes& n, const machine::topology& t);

// Complexity: devices of the mesh times devices of the machine.
[[nodiscard]] machine::device_mesh mesh_from_json(const json_place& in, const machine::topology& t);

// Throws: unity::error that names the invalid member.
[[nodiscard]] plan_notes notes_from_json(const json_place& in, const machine::topology& t);

}  // namespace detail

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PLAN_NOTES)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/strategy_json.hpp>

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

UNITY_INLINE std::string notes_text(const plan_notes& n, const machine::topology& t) {
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

UNITY_INLINE machine::device_mesh mesh_from_json(const json_place& in, const machine::topology& t) {
  machine::device_mesh m;
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
    machine::check(t, m);
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", in.where(), e.what())};
  }
  return m;
}

UNITY_INLINE plan_notes notes_from_json(const json_place& in, const machine::topology& t) {
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

}  // namespace unity::io::detail

#endif
