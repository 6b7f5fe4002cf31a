// Writes ONNX models, in their own opset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/file.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io {

namespace detail {

// A model ready to be written, without its tensors, which are added later.
class model_writer {
 public:
  model_writer(const tensor::algebra& algebra, const onnx_model& model, const graph_devices* devices = nullptr);

  [[nodiscard]] std::int64_t data_bytes() const;
  // The size of the file and of the one beside it.
  [[nodiscard]] onnx_file_size size(std::int64_t external_data_above);
  // Whether the result has the inputs and outputs of the file from which the model came.
  [[nodiscard]] bool keeps_signature(const onnx_model& model) const;
  // Effects: passes the model to `put` in pieces, each tensor directly from memory.
  void write(const std::function<void(std::string_view)>& put);
  // Effects: refers to the tensors as stored in `location` beside the model, one after another, each padded with zeros
  // to the next page.
  void refer_to(const std::string& location);
  void write_tensors(const std::function<void(std::string_view)>& put) const;

 private:
  void set_header(std::int64_t opset);
  void list_weights(const std::vector<std::string>& names);
  // Tensors to come are inputs during the check, so that the checker need not traverse their bytes.
  void check(const onnx_model& model);

  onnx::ModelProto proto_;
  named_data data_;
  std::vector<std::string> weights_;  // without data
};

}  // namespace detail

// A model as the bytes of an ONNX file of its opset. Layouts are left out, since they change no value; fused
// activations become separate operators; weights without data become inputs, listed in the metadata.
// Throws: unity::error if an operator has no equivalent there, or data does not fit its node.
[[nodiscard]] std::string serialize_onnx(const tensor::algebra& algebra, const onnx_model& model,
                                         const export_options& options = {});

// With annotations for several devices on every node that reads or writes operands or results of an annotated operator,
// or is on a stage. Precondition: an entry for each node of the graph, with sharding for all operands and results, or
// for none.
// Throws: as above, and if a node reads one tensor in two ways.
[[nodiscard]] std::string serialize_onnx(const tensor::algebra& algebra, const onnx_model& model,
                                         const graph_devices& devices);

// Whether the written file would have the inputs and outputs of the file from which the model came: names, order,
// types, sizes (as far as dimensions were not bound), and which inputs have data.
// Throws: as serialize_onnx.
[[nodiscard]] bool keeps_signature(const tensor::algebra& algebra, const onnx_model& model);

// The size of the file that would be written, and of the one beside it.
// Throws: as serialize_onnx.
[[nodiscard]] onnx_file_size written_size(const tensor::algebra& algebra, const onnx_model& model,
                                          const export_options& options = {});

// Effects: writes the whole file or nothing; large weights go to a second file, NAME.data.
// Throws: unity::error, also if the disk is full or the path is not writable.
void export_onnx(const tensor::algebra& algebra, const onnx_model& model, const std::filesystem::path& path,
                 const export_options& options = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_EXPORT)

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/fold_constants.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/device_proto.hpp>
#include <unity/io/onnx/exporter.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx/operators.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/wire.hpp>

namespace unity::io::detail {

// Padding to the next page, so that readers can map tensors into memory.
UNITY_INLINE std::int64_t gap_after(std::int64_t size) {
  constexpr std::int64_t page = 4096;
  return (page - size % page) % page;
}

UNITY_INLINE model_writer::model_writer(const tensor::algebra& algebra, const onnx_model& model,
                                        const graph_devices* devices) {
  if (!proto_.ParseFromString(model.envelope)) {
    throw error{fmt::format("model {}", in_quotes(model.name)), "a damaged envelope", "what importing left there"};
  }
  graph_exporter exporter{algebra, model};
  *proto_.mutable_graph() = exporter.run(devices != nullptr);
  data_ = exporter.data();
  set_header(model.opset);
  import_domains(proto_, model.operators);
  weights_ = exporter.weights_without_data();
  list_weights(weights_);
  if (devices != nullptr) {
    add_devices(proto_, model.graph, exporter.names(), exporter.writers(), *devices);
  }
  check(model);
}

UNITY_INLINE std::int64_t model_writer::data_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, data] : data_) {
    sum += static_cast<std::int64_t>(data.bytes.size());
  }
  return sum;
}

UNITY_INLINE bool model_writer::keeps_signature(const onnx_model& model) const {
  onnx::GraphProto stated;
  if (!stated.ParseFromString(model.signature)) {
    return false;
  }
  const auto same = [](const auto& a, const auto& b) { return a.SerializeAsString() == b.SerializeAsString(); };
  const auto& g = proto_.graph();
  std::set<std::string> with_data;
  for (const auto& [name, data] : data_) {
    with_data.insert(name);
  }
  for (const auto& t : g.initializer()) {
    with_data.insert(t.name());
  }
  std::vector<onnx::ValueInfoProto> inputs;
  for (const auto& in : g.input()) {
    if (std::find(weights_.begin(), weights_.end(), in.name()) == weights_.end()) {
      inputs.push_back(in);
    }
  }
  return std::equal(inputs.begin(), inputs.end(), stated.input().begin(), stated.input().end(), same) &&
         std::equal(g.output().begin(), g.output().end(), stated.output().begin(), stated.output().end(), same) &&
         std::all_of(inputs.begin(), inputs.end(), [&](const auto& in) {
           return model.defaults.contains(in.name()) == with_data.contains(in.name());
         });
}

UNITY_INLINE onnx_file_size model_writer::size(std::int64_t external_data_above) {
  onnx_file_size sum{0, node_count(proto_.graph())};
  const auto count = [&](std::string_view piece) { sum.bytes += piece.size(); };
  if (data_bytes() > external_data_above) {
    write_tensors(count);
    refer_to("model.onnx.data");
  }
  write(count);
  return sum;
}

// The wire format of protocol buffers, with tensors after everything else: readers accept fields in any order.
UNITY_INLINE void model_writer::write(const std::function<void(std::string_view)>& put) {
  onnx::GraphProto graph;
  graph.Swap(proto_.mutable_graph());
  proto_.clear_graph();
  const auto head = proto_.SerializeAsString();
  graph.Swap(proto_.mutable_graph());
  auto size = static_cast<std::uint64_t>(proto_.graph().ByteSizeLong());
  std::vector<std::string> before;  // the bytes of each tensor
  for (const auto& [name, data] : data_) {
    onnx::TensorProto t;
    fill_tensor(t, {data.element, data.dims, {}}, name);
    t.clear_raw_data();
    auto text = t.SerializeAsString() + length_delimited(onnx::TensorProto::kRawDataFieldNumber, data.bytes.size());
    text = length_delimited(onnx::GraphProto::kInitializerFieldNumber, text.size() + data.bytes.size()) + text;
    size += text.size() + data.bytes.size();
    before.push_back(std::move(text));
  }
  if (size > static_cast<std::uint64_t>(std::numeric_limits<int>::max()) - head.size()) {
    throw error{fmt::format("model {}", in_quotes(proto_.graph().name())), "more than 2 GiB without its weights",
                "a graph that fits into one file"};
  }
  put(head);
  put(length_delimited(onnx::ModelProto::kGraphFieldNumber, size));
  put(proto_.graph().SerializeAsString());
  for (std::size_t i = 0; i < data_.size(); ++i) {
    put(before[i]);
    put(data_[i].second.bytes.text());
  }
}

UNITY_INLINE void model_writer::refer_to(const std::string& location) {
  std::int64_t offset = 0;
  for (const auto& [name, data] : data_) {
    auto& t = *proto_.mutable_graph()->add_initializer();
    fill_tensor(t, {data.element, data.dims, {}}, name);
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto size = static_cast<std::int64_t>(data.bytes.size());
    for (const auto& [key, value] : {std::pair{"location", location}, std::pair{"offset", fmt::format("{}", offset)},
                                     std::pair{"length", fmt::format("{}", size)}}) {
      auto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    offset += size + gap_after(size);
  }
  data_.clear();
}

UNITY_INLINE void model_writer::write_tensors(const std::function<void(std::string_view)>& put) const {
  for (const auto& [name, data] : data_) {
    put(data.bytes.text());
    put(std::string(static_cast<std::size_t>(gap_after(static_cast<std::int64_t>(data.bytes.size()))), '\0'));
  }
}

UNITY_INLINE void model_writer::set_header(std::int64_t opset) {
  // Before version 4 of the format, initializers also had to be inputs.
  proto_.set_ir_version(proto_.has_ir_version() ? std::max<std::int64_t>(proto_.ir_version(), 4) : packaged_ir_version);
  if (!proto_.has_producer_name()) {
    proto_.set_producer_name("unity");
  }
  const auto& imports = proto_.opset_import();
  if (std::none_of(imports.begin(), imports.end(), [](const auto& i) { return is_default_domain(i.domain()); })) {
    proto_.add_opset_import()->set_version(opset);
  }
}

UNITY_INLINE void model_writer::list_weights(const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  std::string list;
  for (const auto& name : names) {
    list += fmt::format("{}{}", list.empty() ? "" : "\n", name);
  }
  auto& entry = *proto_.add_metadata_props();
  entry.set_key(std::string{weights_key});
  entry.set_value(list);
}

UNITY_INLINE void model_writer::check(const onnx_model& model) {
  auto& inputs = *proto_.mutable_graph()->mutable_input();
  const int own = inputs.size();
  std::set<std::string> there;
  for (const auto& in : inputs) {
    there.insert(in.name());
  }
  for (const auto& [tensor_name, data] : data_) {
    if (!there.insert(tensor_name).second) {
      continue;  // has the default value
    }
    fill_type(*inputs.Add(), tensor_name, {data.element, tensor::layout::row_major, false, data.dims});
  }
  check_model(proto_, model.opset, fmt::format("model {}", in_quotes(model.name)), "a graph that ONNX can state");
  inputs.DeleteSubrange(own, inputs.size() - own);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string serialize_onnx(const tensor::algebra& algebra, const onnx_model& model,
                                        const export_options& options) {
  if (options.fold_constants) {
    auto plain = options;
    plain.fold_constants = false;
    return serialize_onnx(algebra, fold_constants(algebra, model, options.most_folded_elements), plain);
  }
  std::string bytes;
  detail::model_writer{algebra, model}.write([&](std::string_view piece) { bytes += piece; });
  return bytes;
}

UNITY_INLINE std::string serialize_onnx(const tensor::algebra& algebra, const onnx_model& model,
                                        const graph_devices& devices) {
  std::string bytes;
  detail::model_writer{algebra, model, &devices}.write([&](std::string_view piece) { bytes += piece; });
  return bytes;
}

UNITY_INLINE onnx_file_size written_size(const tensor::algebra& algebra, const onnx_model& model,
                                         const export_options& options) {
  if (options.fold_constants) {
    auto plain = options;
    plain.fold_constants = false;
    return written_size(algebra, fold_constants(algebra, model, options.most_folded_elements), plain);
  }
  return detail::model_writer{algebra, model}.size(options.external_data_above);
}

UNITY_INLINE bool keeps_signature(const tensor::algebra& algebra, const onnx_model& model) {
  return detail::model_writer{algebra, model}.keeps_signature(model);
}

UNITY_INLINE void export_onnx(const tensor::algebra& algebra, const onnx_model& model,
                              const std::filesystem::path& path, const export_options& options) {
  if (options.fold_constants) {
    auto plain = options;
    plain.fold_constants = false;
    export_onnx(algebra, fold_constants(algebra, model, options.most_folded_elements), path, plain);
    return;
  }
  detail::model_writer writer{algebra, model};
  const auto to = [](atomic_file& file) { return [&file](std::string_view piece) { file.write(piece); }; };
  if (writer.data_bytes() <= options.external_data_above) {
    atomic_file file{path};
    writer.write(to(file));
    file.commit();
    return;
  }
  auto beside = path;
  beside += ".data";
  atomic_file data{beside};
  writer.write_tensors(to(data));
  writer.refer_to(beside.filename().string());
  atomic_file file{path};
  writer.write(to(file));
  data.commit();
  file.commit();
}

}  // namespace unity::io

#endif
