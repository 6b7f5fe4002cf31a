// What the benches of tensor searches share: zoo graphs, shipped rules, measured runs.
#pragma once

#include <cstdint>
#include <string>

#include <unity/core/units.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

namespace bench {

inline const unity::tensor::algebra& operators() {
  static const auto all = unity::tensor::standard_algebra();
  return all;
}
inline const unity::rule_set& rules() {
  static const auto all = unity::compile_rules(operators(), unity::parse_rules(unity::tensor::standard_rules));
  return all;
}
inline unity::tensor::tensor_graph model(const std::string& name) {
  return unity::tensor::zoo::build(operators(), name);
}

// Algorithm 2 with TASO's alpha under a device's roofline.
inline unity::systems::taso_options options(const char* device, std::uint64_t expansions) {
  unity::systems::taso_options o;
  o.objective.device = *hardware::find_device(device);
  o.limits.expansions = expansions;
  return o;
}

}  // namespace bench
