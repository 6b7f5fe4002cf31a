// Fusion plans as JSON, and back.
//
// {"format": "unity fusion", "version": 1, "grain": "primitives",
//  "kernels": [[{"node": 3, "pass": "forward", "step": 0, "op": "mul"},
//               {"node": 3, "pass": "forward", "step": 1, "op": "add", "copy": true}], ...],
//  "buckets": [[12, 9], [5]]}
// The steps of a kernel are the primitives into which nodes of the plan's graph decompose; buckets list weights by
// their number among the weights of the graph. The grain is "primitives" if composites are decomposed, else
// "operators".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <unity/core/file.hpp>
#include <unity/fusion/fusion_plan.hpp>

namespace unity::io {

// One kernel or bucket per line.
[[nodiscard]] std::string to_fusion_text(const fusion::fusion_plan& p);

// Throws: unity::error that names the invalid member.
[[nodiscard]] fusion::fusion_plan parse_fusion(std::string_view text, std::string_view name);

// Throws: likewise, and if the file cannot be read.
[[nodiscard]] inline fusion::fusion_plan read_fusion(const std::filesystem::path& path) {
  return parse_fusion(read_file(path), path.string());
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FUSION_JSON)

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/strategy_json.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE std::uint32_t index_from_json(const json_place& in) {
  const auto number = in.integer();
  if (number < 0 || number >= std::numeric_limits<std::uint32_t>::max()) {
    throw error{in.where(), fmt::format("{}", number), "a number from 0"};
  }
  return static_cast<std::uint32_t>(number);
}

UNITY_INLINE fusion::planned_step step_from_json(const json_place& in) {
  const auto pass = in.at("pass").word();
  if (pass != "forward" && pass != "backward") {
    throw error{in.at("pass").where(), shown(pass), "forward or backward"};
  }
  return {{index_from_json(in.at("node")), pass == "backward", index_from_json(in.at("step")), in.at("op").line()},
          in.has("copy") && in.at("copy").boolean()};
}

}  // namespace detail

UNITY_INLINE std::string to_fusion_text(const fusion::fusion_plan& p) {
  std::vector<std::string> kernels;
  for (const auto& k : p.kernels) {
    auto steps = nlohmann::json::array();
    for (const auto& s : k) {
      nlohmann::json step{{"node", s.step.origin},
                          {"pass", s.step.is_backward ? "backward" : "forward"},
                          {"step", s.step.number},
                          {"op", s.step.operation}};
      if (s.is_copy) {
        step["copy"] = true;
      }
      steps.push_back(std::move(step));
    }
    kernels.push_back(steps.dump());
  }
  std::vector<std::string> buckets;
  for (const auto& b : p.buckets) {
    buckets.push_back(nlohmann::json(b).dump());
  }
  return fmt::format(
      "{{\"format\": \"unity fusion\", \"version\": 1, \"grain\": \"{}\",\n\"kernels\": {},\n\"buckets\": {}}}\n",
      p.is_spelled_out ? "primitives" : "operators", detail::item_lines(kernels), detail::item_lines(buckets));
}

UNITY_INLINE fusion::fusion_plan parse_fusion(std::string_view text, std::string_view name) {
  const auto document = detail::parse_json(text, name);
  const json_place in{document, std::string{name}};
  if (in.at("format").word() != "unity fusion" || in.at("version").integer() != 1) {
    throw error{in.where(), "another format or version", "\"unity fusion\", version 1"};
  }
  const auto grain = in.at("grain").word();
  if (grain != "primitives" && grain != "operators") {
    throw error{in.at("grain").where(), detail::shown(grain), "primitives or operators"};
  }
  fusion::fusion_plan p;
  p.is_spelled_out = grain == "primitives";
  for (const auto& k : in.at("kernels").items()) {
    auto& kernel = p.kernels.emplace_back();
    for (const auto& s : k.items()) {
      kernel.push_back(detail::step_from_json(s));
    }
  }
  for (const auto& b : in.at("buckets").items()) {
    auto& bucket = p.buckets.emplace_back();
    for (const auto& w : b.items()) {
      bucket.push_back(detail::index_from_json(w));
    }
  }
  return p;
}

}  // namespace unity::io

#endif
