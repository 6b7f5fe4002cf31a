// What a plan's file may say besides the plan: how the search came to it and what it expects.
//
//  "substitutions": [{"rule": "merge_matmuls", "segments": 24}, ...],  in the order of their application
//  "predicted": {"iteration_s": 0.0123, "memory_bytes": [123456, ...]},  by device, in the machine's order
//  "mesh": {"sizes": [2, 6], "devices": ["n0/gpu0", ...]}
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/io/json_place.hpp>
#include <unity/machine/device_mesh.hpp>
#include <unity/machine/topology.hpp>

namespace unity::io {

struct noted_substitution {
  std::string rule{};
  std::int64_t segments = 1;  // that are alike and in which it was applied

  friend bool operator==(const noted_substitution&, const noted_substitution&) = default;
};

struct noted_prediction {
  double iteration_s = 0;
  std::vector<bytes> memory{};  // by device: the most that it holds

  friend bool operator==(const noted_prediction&, const noted_prediction&) = default;
};

// Regular. All may be missing.
struct plan_notes {
  std::vector<noted_substitution> substitutions{};
  std::optional<noted_prediction> predicted{};
  std::optional<machine::device_mesh> mesh{};

  friend bool operator==(const plan_notes&, const plan_notes&) = default;
};

namespace detail {

// Further members of an object, each on a line of its own and after a comma.
[[nodiscard]] inline std::string notes_text(const plan_notes& n, const machine::topology& t) {
  std::string text;
  const auto add = [&](const char* name, const nlohmann::json& value) { text += ",\n \"" + std::string{name} + "\": " + value.dump(); };
  if (!n.substitutions.empty()) {
    auto list = nlohmann::json::array();
    for (const auto& s : n.substitutions) {
      list.push_back({{"rule", s.rule}, {"segments", s.segments}});
    }
    add("substitutions", list);
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

[[nodiscard]] inline double number_at(const json_place& in) {
  if (!in.value().is_number() || in.value().get<double>() < 0) {
    throw error{in.where(), "is " + in.value().dump().substr(0, 60), "a number from 0"};
  }
  return in.value().get<double>();
}

// Complexity: devices of the mesh times those of the machine.
[[nodiscard]] inline machine::device_mesh mesh_from_json(const json_place& in, const machine::topology& t) {
  machine::device_mesh m;
  for (const auto& s : in.at("sizes").items()) {
    m.sizes.push_back(s.integer());
  }
  const auto& all = t.devices();
  for (const auto& item : in.at("devices").items()) {
    const auto at = std::find_if(all.begin(), all.end(), [name = item.word()](const auto& d) { return d.name == name; });
    if (at == all.end()) {
      throw error{item.where(), "no device has the name " + shown(item.word()), "one of the machine's"};
    }
    m.devices.emplace_back(static_cast<std::size_t>(at - all.begin()));
  }
  try {
    machine::check(t, m);
  } catch (const error& e) {
    throw error{in.where() + ": " + e.what()};
  }
  return m;
}

// Throws: unity::error that names the member that is wrong.
[[nodiscard]] inline plan_notes notes_from_json(const json_place& in, const machine::topology& t) {
  plan_notes n;
  if (in.has("substitutions")) {
    for (const auto& item : in.at("substitutions").items()) {
      n.substitutions.push_back({item.at("rule").word(), item.at("segments").integer()});
    }
  }
  if (in.has("predicted")) {
    const auto predicted = in.at("predicted");
    n.predicted = noted_prediction{number_at(predicted.at("iteration_s")), {}};
    for (const auto& item : predicted.at("memory_bytes").items()) {
      n.predicted->memory.emplace_back(item.integer());
    }
    if (n.predicted->memory.size() != t.device_count()) {
      throw error{predicted.where() + ".memory_bytes", std::to_string(n.predicted->memory.size()) + " numbers",
                  "one for each of the " + std::to_string(t.device_count()) + " devices"};
    }
  }
  if (in.has("mesh")) {
    n.mesh = mesh_from_json(in.at("mesh"), t);
  }
  return n;
}

}  // namespace detail

}  // namespace unity::io
