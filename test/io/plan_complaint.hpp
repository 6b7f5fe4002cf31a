// Plans to write and read, and the messages about plans that cannot be read.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace unity::test {

inline parallel::plan random_plan(std::string_view model, std::string_view on, std::uint64_t seed) {
  parallel::plan p{tensor::zoo::build(training::operators(), model), {}, hardware::preset(on)};
  random_engine random{seed};
  p.configurations = parallel::random_strategy(parallel::graph_dimensions{training::operators(), p.graph},
                                               p.machine.network.device_count(), random);
  return p;
}

// LeNet with 8 samples on four devices: node 3, its first convolution, is divided in two parts of the samples and two
// of its parameters; all others run on the first device.
inline parallel::plan lenet_plan() {
  parallel::plan p{tensor::zoo::build(training::operators(), "zoo:lenet?batch=8"), {}, hardware::preset("p100:1x4")};
  const parallel::graph_dimensions all{training::operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    p.configurations.push_back(parallel::on_device(all[n], hardware::device_id{std::size_t{0}}));
  }
  auto& c = p.configurations[3];
  c.degrees[0] = 2;
  c.degrees[1] = 2;
  c.devices = {hardware::device_id{std::size_t{3}}, hardware::device_id{std::size_t{1}},
               hardware::device_id{std::size_t{2}}, hardware::device_id{std::size_t{2}}};
  return p;
}

// The message of `read` about `text` with one member changed or, if the value is discarded, removed; one line.
template <class Read>
std::string complaint_of(const std::string& text, const std::string& pointer, const nlohmann::json& value,
                         const Read& read) {
  auto document = nlohmann::json::parse(text);
  const nlohmann::json::json_pointer place{pointer};
  if (value.is_discarded()) {
    auto& parent = document.at(place.parent_pointer());
    if (parent.is_array()) {
      parent.erase(std::stoul(place.back()));
    } else {
      parent.erase(place.back());
    }
  } else {
    document[place] = value;
  }
  try {
    read(document.dump());
  } catch (const error& e) {
    const std::string line = e.what();
    CHECK(line.find('\n') == std::string::npos);
    return line;
  }
  return "";
}

}  // namespace unity::test
