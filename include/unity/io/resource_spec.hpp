// AutoDist's resource_spec.yml, as a machine of the computing devices or completely.
//
//   nodes:
//     - address: 10.0.0.1
//       gpus: [0, 1]
//       chief: true
//       network_bandwidth: 25     # Gb/s; 1 where it is missing
//     - address: 10.0.0.2
//       cpus: [0]
//       ssh_config: conf
//   ssh: ...
//
// The file states neither the model of its GPUs nor their connections inside a node: the caller gives the model, and
// PCIe 3.0 is assumed. The computing devices are the `gpus` of a node, else its `cpus`, else one CPU. CPUs of nodes
// with GPUs may hold parameter servers (one CPU per node if none is listed); `ssh` is kept unchanged.
// Source: Zhang et al., AutoDist, section 5; its public documentation of resource_spec.yml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>

namespace unity::io {

namespace detail {

// YAML with line numbers for messages.
class yaml_place {
 public:
  yaml_place(YAML::Node node, std::string file, std::string name)
      : node_{std::move(node)}, file_{std::move(file)}, name_{std::move(name)} {}

  [[nodiscard]] std::string where() const {
    const auto mark = node_.Mark();
    return fmt::format("{}{}: {}", file_, mark.is_null() ? "" : fmt::format(", line {}", mark.line + 1), name_);
  }
  [[nodiscard]] std::optional<yaml_place> find(const std::string& key) const;
  [[nodiscard]] yaml_place at(const std::string& key) const;
  [[nodiscard]] std::vector<yaml_place> items() const;
  template <class T>
  [[nodiscard]] T as(std::string_view expected) const {
    try {
      return node_.as<T>();
    } catch (const YAML::Exception&) {
      throw error{where(), node_.IsScalar() ? fmt::format("is '{}'", printable(node_.Scalar())) : "is not a scalar",
                  expected};
    }
  }

 private:
  YAML::Node node_;
  std::string file_;
  std::string name_;
};

[[nodiscard]] YAML::Node parse_yaml(std::string_view text, std::string_view file);

struct resource_node {
  std::string address{};
  std::set<int> gpus{};
  std::set<int> cpus{};
  std::int64_t bytes_per_second = 0;  // of its network
  bool is_chief = false;
  std::string ssh_config{};
};

[[nodiscard]] std::set<int> numbers_from_yaml(const std::optional<yaml_place>& in);

// An address of visible ASCII characters: names of devices contain it, and are printed in messages and in JSON.
[[nodiscard]] std::string address_from_yaml(const yaml_place& in);

[[nodiscard]] resource_node resource_node_from_yaml(const yaml_place& in);

[[nodiscard]] std::vector<resource_node> resource_nodes_from_yaml(const yaml_place& in);

// Devices behind one switch per node, nodes behind one switch. with_hosts: also CPUs of nodes with GPUs. gpus: by node.
[[nodiscard]] hardware::machine machine_from_nodes(const std::vector<resource_node>& nodes,
                                                   const std::vector<hardware::device>& gpus,
                                                   const hardware::device& cpu, std::string_view where,
                                                   bool with_hosts);

// The GPU model of each node: the text is one model, or one per node, such as m60+t4.
// Throws: unity::error for an unknown model, and for a wrong number of models.
[[nodiscard]] std::vector<hardware::device> gpus_named(std::string_view gpu, std::size_t nodes, std::string_view file);

}  // namespace detail

// A complete specification. Devices have AutoDist's names, ADDRESS:GPU:0 and ADDRESS:CPU:0. Regular.
struct resources {
  hardware::machine machine{};                  // for each node the GPUs, then the CPUs
  std::vector<hardware::device_id> replicas{};  // computing devices: GPUs, then the CPUs of nodes without GPUs
  std::vector<hardware::device_id> servers{};   // CPUs that may hold parameter servers, at least one per node
  std::string chief{};                         // an address
  std::vector<std::string> ssh_configs{};      // of each node; empty if absent
  std::string ssh{};                           // the member `ssh`, as YAML; empty if absent

  friend bool operator==(const resources&, const resources&) = default;
};

// Throws: as parse_resource_spec, and if several nodes do not have exactly one chief.
[[nodiscard]] resources parse_resources(std::string_view text, std::string_view file, std::string_view gpu = "t4");

// Throws: unity::error.
[[nodiscard]] inline resources read_resources(const std::filesystem::path& path, std::string_view gpu = "t4") {
  return parse_resources(read_file(path), path.string(), gpu);
}

// `file`: for messages, and the name of the machine. `gpu`: the model of its GPUs, as in hardware/presets.hpp, or
// one per node, such as m60+t4.
// Throws: unity::error that names the line; if a model is unknown; if two nodes have the same address.
[[nodiscard]] hardware::machine parse_resource_spec(std::string_view text, std::string_view file,
                                                    std::string_view gpu = "t4");

// Throws: unity::error.
[[nodiscard]] inline hardware::machine read_resource_spec(const std::filesystem::path& path,
                                                          std::string_view gpu = "t4") {
  return parse_resource_spec(read_file(path), path.string(), gpu);
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_RESOURCE_SPEC)

#include <algorithm>
#include <cmath>

#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<yaml_place> yaml_place::find(const std::string& key) const {
  if (!node_.IsMap()) {
    throw error{where(), "is not a mapping", "keys and values"};
  }
  std::size_t times = 0;
  for (const auto& member : node_) {
    times += member.first.IsScalar() && member.first.Scalar() == key ? 1 : 0;
  }
  if (times > 1) {
    throw error{where(), fmt::format("has '{}' {} times", key, times), "one"};
  }
  const auto value = node_[key];
  return value.IsDefined() && !value.IsNull()
             ? std::optional{yaml_place{value, file_, fmt::format("{}.{}", name_, key)}}
             : std::nullopt;
}

UNITY_INLINE yaml_place yaml_place::at(const std::string& key) const {
  if (auto found = find(key)) {
    return *std::move(found);
  }
  throw error{where(), fmt::format("has no '{}'", key), "one"};
}

UNITY_INLINE std::vector<yaml_place> yaml_place::items() const {
  if (!node_.IsSequence()) {
    throw error{where(), "is not a list", "a list"};
  }
  std::vector<yaml_place> all;
  for (std::size_t i = 0; i < node_.size(); ++i) {
    all.emplace_back(node_[i], file_, fmt::format("{}[{}]", name_, i));
  }
  return all;
}

UNITY_INLINE YAML::Node parse_yaml(std::string_view text, std::string_view file) {
  try {
    return YAML::Load(std::string{text});
  } catch (const YAML::ParserException& e) {
    throw error{fmt::format("{}, line {}", file, e.mark.line + 1), fmt::format("is not YAML: {}", printable(e.msg)),
                "a resource specification"};
  }
}

UNITY_INLINE std::set<int> numbers_from_yaml(const std::optional<yaml_place>& in) {
  std::set<int> numbers;
  if (in) {
    for (const auto& i : in->items()) {
      const auto number = i.as<int>("a number");
      if (number < 0 || !numbers.insert(number).second) {
        throw error{i.where(), fmt::format("is {}", number), "numbers of at least 0, each once"};
      }
    }
  }
  return numbers;
}

UNITY_INLINE std::string address_from_yaml(const yaml_place& in) {
  auto address = in.as<std::string>("an address");
  if (address.empty() || std::any_of(address.begin(), address.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    throw error{in.where(), fmt::format("is '{}'", printable(address)), "an address of visible ASCII characters"};
  }
  return address;
}

UNITY_INLINE resource_node resource_node_from_yaml(const yaml_place& in) {
  constexpr double bytes_per_gigabit = 125e6;
  constexpr double most = 1e6;  // gigabits per second
  resource_node n;
  n.address = address_from_yaml(in.at("address"));
  n.gpus = numbers_from_yaml(in.find("gpus"));
  n.cpus = numbers_from_yaml(in.find("cpus"));
  const auto place = in.find("network_bandwidth");
  const auto bandwidth = place ? place->as<double>("a number of gigabits per second") : 1.0;
  if (!(bandwidth > 0 && bandwidth <= most)) {
    throw error{place->where(), fmt::format("is '{}'", printable(place->as<std::string>("a number"))),
                "gigabits per second above 0, 1e6 at most"};
  }
  n.bytes_per_second = std::llround(bandwidth * bytes_per_gigabit);
  const auto chief = in.find("chief");
  n.is_chief = chief && chief->as<bool>("true or false");
  const auto ssh = in.find("ssh_config");
  n.ssh_config = ssh ? ssh->as<std::string>("a name out of `ssh`") : "";
  return n;
}

UNITY_INLINE std::vector<resource_node> resource_nodes_from_yaml(const yaml_place& in) {
  std::vector<resource_node> nodes;
  std::set<std::string> addresses;
  for (const auto& n : in.at("nodes").items()) {
    nodes.push_back(resource_node_from_yaml(n));
    if (!addresses.insert(nodes.back().address).second) {
      throw error{n.where(), fmt::format("the address {} a second time", printable(nodes.back().address)),
                  "one node per address"};
    }
  }
  if (nodes.empty()) {
    throw error{in.at("nodes").where(), "is empty", "a node"};
  }
  return nodes;
}

UNITY_INLINE std::vector<hardware::device> gpus_named(std::string_view gpu, std::size_t nodes, std::string_view file) {
  std::vector<hardware::device> all;
  for (std::size_t begin = 0; begin <= gpu.size();) {
    const auto end = std::min(gpu.find('+', begin), gpu.size());
    const auto name = gpu.substr(begin, end - begin);
    const auto model = hardware::find_model(name);
    if (!model || model->kind != hardware::device_kind::gpu) {
      throw error{file, fmt::format("no GPU '{}'", printable(name)), hardware::gpu_names()};
    }
    all.push_back(*model);
    begin = end + 1;
  }
  if (all.size() == 1) {
    all.resize(nodes, all.front());
  }
  if (all.size() != nodes) {
    throw error{file, fmt::format("{} kinds of GPUs", all.size()),
                fmt::format("one, or one for each of {} nodes", nodes)};
  }
  return all;
}

UNITY_INLINE hardware::machine machine_from_nodes(const std::vector<resource_node>& nodes,
                                                  const std::vector<hardware::device>& gpus,
                                                  const hardware::device& cpu, std::string_view where,
                                                  bool with_hosts) {
  using hardware::vertex_id;
  hardware::machine m;
  std::vector<hardware::placed_device> devices;
  const auto place = [&](const hardware::device& d, std::string name, std::size_t node) {
    const auto known = static_cast<std::size_t>(std::find(m.devices.begin(), m.devices.end(), d) - m.devices.begin());
    if (known == m.devices.size()) {
      m.devices.push_back(d);
    }
    devices.push_back({std::move(name), static_cast<std::uint32_t>(known), static_cast<std::uint32_t>(node)});
  };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const auto i : nodes[n].gpus) {
      place(gpus[n], fmt::format("{}:GPU:{}", nodes[n].address, i), n);
    }
    const std::set<int> hosts = nodes[n].cpus.empty() ? std::set<int>{0} : nodes[n].cpus;
    for (const auto i : nodes[n].gpus.empty() || with_hosts ? hosts : std::set<int>{}) {
      place(cpu, fmt::format("{}:CPU:{}", nodes[n].address, i), n);
    }
  }
  std::vector<std::string> switches;
  std::vector<hardware::cable> cables;
  const auto inside = hardware::pcie3;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    cables.push_back({vertex_id{i}, vertex_id{devices.size() + devices[i].node}, inside.bytes_per_second,
                      inside.latency, hardware::duplex::full});
  }
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    switches.push_back(nodes[n].address);
    cables.push_back({vertex_id{devices.size() + n}, vertex_id{devices.size() + nodes.size()},
                      nodes[n].bytes_per_second, hardware::ethernet_100.latency, hardware::duplex::full});
  }
  switches.push_back("network");
  m.network = hardware::topology{std::move(devices), std::move(switches), std::move(cables), where};
  return m;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE hardware::machine parse_resource_spec(std::string_view text, std::string_view file, std::string_view gpu) {
  const detail::yaml_place in{detail::parse_yaml(text, file), std::string{file}, "resources"};
  const auto nodes = detail::resource_nodes_from_yaml(in);
  auto m = detail::machine_from_nodes(nodes, detail::gpus_named(gpu, nodes.size(), file),
                                      hardware::preset("host:1x1").devices.front(), file, false);
  m.name = printable(file, file.size());  // plans print it on a line
  hardware::check(m, file);
  return m;
}

UNITY_INLINE resources parse_resources(std::string_view text, std::string_view file, std::string_view gpu) {
  const auto yaml = detail::parse_yaml(text, file);
  const detail::yaml_place in{yaml, std::string{file}, "resources"};
  const auto nodes = detail::resource_nodes_from_yaml(in);
  resources all;
  all.machine = detail::machine_from_nodes(nodes, detail::gpus_named(gpu, nodes.size(), file),
                                           hardware::preset("host:1x1").devices.front(), file, true);
  all.machine.name = printable(file, file.size());
  hardware::check(all.machine, file);
  for (std::size_t d = 0; d < all.machine.network.device_count(); ++d) {
    const hardware::device_id id{d};
    const bool is_cpu = hardware::model_of(all.machine, id).kind == hardware::device_kind::cpu;
    (is_cpu ? all.servers : all.replicas).push_back(id);
  }
  for (const auto d : all.servers) {
    if (nodes[all.machine.network[d].node].gpus.empty()) {
      all.replicas.push_back(d);
    }
  }
  for (const auto& n : nodes) {
    if (n.is_chief && !all.chief.empty()) {
      throw error{in.at("nodes").where(), fmt::format("a second chief, {}", n.address), "one"};
    }
    all.chief = n.is_chief ? n.address : all.chief;
    all.ssh_configs.push_back(n.ssh_config);
  }
  if (nodes.size() == 1) {
    all.chief = nodes.front().address;
  }
  if (all.chief.empty()) {
    throw error{in.at("nodes").where(), "none is the chief", "one with `chief: true`"};
  }
  if (in.find("ssh")) {
    all.ssh = YAML::Dump(yaml["ssh"]);
  }
  return all;
}

}  // namespace unity::io

#endif
