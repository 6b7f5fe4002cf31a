// ONNX's annotations for several devices, written in the wire format, because libraries before ONNX 1.18 lack them.
// Source: onnx.proto of ONNX 1.18 (version 11 of the format), and its proposals 0006 and 0007 (docs/proposals).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

// Effects: annotates the model's nodes and adds the devices to the model. g: the graph from which the model was made.
// names: the names of its values. writers: by a node's first_output, the node of g that it is or is a part of. Tensors
// between the parts of an operator have no annotation: runtimes infer it.
// Throws: unity::error if one node reads one tensor in two ways.
void add_devices(onnx::ModelProto& model, const tensor::tensor_graph& g, const std::vector<std::string>& names,
                 const std::unordered_map<std::string, node_id>& writers, const graph_devices& devices);

// The bytes of a ShardingSpecProto. A part on several devices is written as a negative number, one for each set of
// devices, and the map lists the devices of each number.
[[nodiscard]] std::string to_wire(const std::string& tensor, const device_sharding& s);

// Effects: removes all annotations, also from subgraphs and functions, because a rewritten graph has other nodes.
void drop_devices(onnx::ModelProto& model);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_DEVICE_PROTO)

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/wire.hpp>

namespace unity::io::detail {

// Fields of ModelProto and NodeProto.
inline constexpr std::uint32_t configuration_field = 26;
inline constexpr std::uint32_t device_configurations_field = 10;
// The first version of the format with annotations for devices.
inline constexpr std::int64_t first_version_with_devices = 11;

UNITY_INLINE std::string to_wire(const std::string& tensor, const device_sharding& s) {
  wire_writer out;
  out.bytes(1, tensor);
  std::vector<const std::vector<std::int64_t>*> groups;
  for (const auto& devices : s.devices) {
    if (devices.size() == 1) {
      out.integer(2, devices[0]);
      continue;
    }
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto* g) { return *g == devices; });
    out.integer(2, -1 - (found - groups.begin()));
    if (found == groups.end()) {
      groups.push_back(&devices);
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    wire_writer entry;
    entry.integer(1, -1 - static_cast<std::int64_t>(g));
    for (const auto d : *groups[g]) {
      entry.integer(2, d);
    }
    out.bytes(3, entry.text());
  }
  for (const auto& d : s.dimensions) {
    wire_writer simple;
    simple.integer(1, d.size);
    simple.integer(3, d.shards);
    wire_writer one;
    one.integer(1, d.axis);
    one.bytes(2, simple.text());
    out.bytes(4, one.text());
  }
  return out.text();
}

// The tensors of a model's node that are operands or results of the operator that the node is or is a part of.
class node_tensors {
 public:
  node_tensors(const onnx::NodeProto& node, std::string where) : where_{std::move(where)} {
    for (const auto* all : {&node.input(), &node.output()}) {
      there_.insert(all->begin(), all->end());
    }
  }

  void add(const std::string& tensor, const device_sharding& s) {
    if (s.devices.empty() || !there_.contains(tensor)) {
      return;
    }
    const auto [found, is_new] = stated_.emplace(tensor, &s);
    if (is_new) {
      order_.push_back(tensor);
    } else if (*found->second != s) {
      throw error{where_, fmt::format("reads {} in two ways", in_quotes(tensor)), "one division for each tensor"};
    }
  }
  void write(wire_writer& out) const {
    for (const auto& tensor : order_) {
      out.bytes(2, to_wire(tensor, *stated_.at(tensor)));
    }
  }
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }

 private:
  std::string where_;
  std::set<std::string> there_{};
  std::map<std::string, const device_sharding*> stated_{};
  std::vector<std::string> order_{};
};

// The message without the field. Precondition: the message has no fields of fixed width; models and nodes have none.
UNITY_INLINE std::string without_field(const std::string& message, std::uint32_t number) {
  std::string kept;
  wire_reader fields{message, "model"};
  wire_reader::field f;
  bool is_kept = false;
  std::size_t from = 0;
  const auto copy = [&](std::size_t to) {
    if (is_kept) {
      kept.append(message, from, to - from);
    }
    from = to;
  };
  while (fields.next(f)) {
    copy(f.position);
    is_kept = f.number != number;
  }
  copy(message.size());
  return kept;
}

// Removes the field. Returns whether the message had it.
template <class Message>
bool drop_field(Message& m, std::uint32_t number) {
  const auto all = m.SerializeAsString();
  const auto kept = without_field(all, number);
  return kept.size() != all.size() && m.ParseFromString(kept);
}

template <class Nodes>
void drop_devices_of(Nodes& nodes) {
  for (auto& node : nodes) {
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) {
        drop_devices_of(*a.mutable_g()->mutable_node());
      }
      for (auto& g : *a.mutable_graphs()) {
        drop_devices_of(*g.mutable_node());
      }
    }
    drop_field(node, device_configurations_field);
  }
}

UNITY_INLINE void add_devices(onnx::ModelProto& model, const tensor::tensor_graph& g,
                              const std::vector<std::string>& names,
                              const std::unordered_map<std::string, node_id>& writers, const graph_devices& devices) {
  auto& nodes = *model.mutable_graph()->mutable_node();
  for (int i = 0; i < nodes.size(); ++i) {
    const auto writer = writers.find(first_output(nodes[i]));
    if (writer == writers.end()) {
      continue;
    }
    const auto n = writer->second;
    const auto& own = devices.nodes[n.index()];
    node_tensors tensors{nodes[i], node_place(nodes[i], static_cast<std::size_t>(i))};
    for (std::size_t k = 0; k < own.operands.size(); ++k) {
      tensors.add(names[g.operands(n)[k].index()], own.operands[k]);
    }
    for (std::size_t k = 0; k < own.results.size(); ++k) {
      tensors.add(names[g.results(n)[k].index()], own.results[k]);
    }
    if (tensors.empty() && !own.stage) {
      continue;
    }
    wire_writer one;
    one.bytes(1, devices.name);
    tensors.write(one);
    if (own.stage) {
      one.integer(3, *own.stage);
    }
    wire_writer field;
    field.bytes(device_configurations_field, one.text());
    nodes[i].MergeFromString(field.text());
  }
  wire_writer all;
  all.bytes(1, devices.name);
  all.integer(2, static_cast<std::int64_t>(devices.devices.size()));
  for (const auto& d : devices.devices) {
    all.bytes(3, d);
  }
  wire_writer field;
  field.bytes(configuration_field, all.text());
  model.MergeFromString(field.text());
  model.set_ir_version(std::max<std::int64_t>(model.ir_version(), first_version_with_devices));
}

UNITY_INLINE void drop_devices(onnx::ModelProto& model) {
  if (model.ir_version() < first_version_with_devices) {
    return;
  }
  onnx::GraphProto graph;
  graph.Swap(model.mutable_graph());
  const bool has_devices = drop_field(model, configuration_field);
  graph.Swap(model.mutable_graph());
  if (!has_devices) {
    return;
  }
  drop_devices_of(*model.mutable_graph()->mutable_node());
  for (auto& f : *model.mutable_functions()) {
    drop_devices_of(*f.mutable_node());
  }
}

}  // namespace unity::io::detail

#endif
