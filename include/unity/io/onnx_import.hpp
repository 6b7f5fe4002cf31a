// Reads ONNX models, opsets 1 to 28.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/io/zero_copy_stream.h>
#include <onnx/onnx_pb.h>

#include <unity/io/onnx/importer.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

namespace detail {

class model_reader {
 public:
  model_reader(const tensor::algebra& algebra, std::string file, std::filesystem::path directory,
               const import_options& options)
      : algebra_{&algebra}, file_{std::move(file)}, directory_{std::move(directory)}, options_{&options} {}

  // `size`: bytes in the stream.
  onnx_model read(google::protobuf::io::ZeroCopyInputStream& bytes, std::uint64_t size);
  onnx_model read(std::string_view bytes);
  // Reads the model at these sizes of the dimensions that the options leave open; the signature keeps them open.
  // Effects: `record` receives the sizes that occur.
  onnx_model read_open(std::string_view bytes, std::vector<open_axis> axes, size_record& record);
  // The dimensions that the file and the options leave open, one for each name, without sizes.
  [[nodiscard]] std::vector<open_axis> open_axes(google::protobuf::io::ZeroCopyInputStream& bytes, std::uint64_t size);
  [[nodiscard]] std::vector<open_axis> open_axes(std::string_view bytes);

 private:
  using initializer_map = std::map<std::string, tensor_data>;

  [[nodiscard]] const onnx::GraphProto& graph() const { return proto_.graph(); }

  void parse(google::protobuf::io::ZeroCopyInputStream& bytes, std::uint64_t size);
  // Missing files count as empty; reading their tensors reports them.
  [[nodiscard]] onnx_file_size file_size(std::uint64_t size) const;
  [[nodiscard]] std::int64_t find_opset() const;

  // Effects: gives every dimension of every input a number.
  void bind_dimensions();
  void bind_input(onnx::ValueInfoProto& in, std::set<std::string>& known);
  // Throws: unity::error if the options name an unknown dimension.
  void expect_known(const std::set<std::string>& known) const;
  // The name of a dimension without a size (INPUT.AXIS if the file states none); empty if the dimension has a size.
  [[nodiscard]] static std::optional<std::string> open_name(const onnx::ValueInfoProto& in, int axis);
  [[nodiscard]] const open_axis* find_open(const std::string& name) const;

  // Reads every initializer. Large or external ones leave the graph and become inputs, to keep the checker's work
  // small; the check stays valid because their data has been read.
  initializer_map take_initializers();

  // Whether the input is a numeric tensor that can be a node of a graph.
  [[nodiscard]] bool has_counterpart(const onnx::ValueInfoProto& in) const;

  [[nodiscard]] std::map<std::string, tensor::tensor_type> hints(const onnx::GraphProto& g) const;
  // Effects: gives the dimensions of an output the sizes to which the options bind their names.
  void bind_known(onnx::ValueInfoProto& info) const;
  // Effects: removes the names from the metadata.
  [[nodiscard]] std::set<std::string> take_weight_names();
  // Effects: records which initializers are defaults of inputs. Before version 4 of the format, all initializers had to
  // be listed among the inputs but were constants nevertheless: those are not recorded, because they would become
  // defaults in a file of today's version.
  [[nodiscard]] std::string signature(const std::set<std::string>& weights, onnx_model& model) const;
  void add_inputs(graph_importer& importer, const onnx::GraphProto& g, const initializer_map& initializers,
                  const std::set<std::string>& weights);

  const tensor::algebra* algebra_;
  std::string file_;
  std::filesystem::path directory_;
  const import_options* options_;
  std::vector<open_axis> open_;
  std::map<std::string, onnx::ValueInfoProto> open_inputs_;  // as in the file
  size_record* record_ = nullptr;
  onnx::ModelProto proto_;
  // initializers that cannot be nodes, with the reason
  std::map<std::string, std::pair<onnx::TensorProto, std::string>> rest_;
};

}  // namespace detail

// Reads a serialized model. `file`: its name in messages; `directory`: the location of external data. Effects: folds
// shape arithmetic; initializers become weight nodes (integers: constant nodes; literals: fills); operators that the
// tensor algebra cannot express become opaque nodes.
// Throws: unity::error in one line for any problem of the model.
[[nodiscard]] onnx_model parse_onnx(const tensor::algebra& algebra, std::string_view bytes, std::string_view file,
                                    const std::filesystem::path& directory, const import_options& options = {});

// Throws: unity::error. Complexity: tensors are in memory once, also while the file is read.
[[nodiscard]] onnx_model import_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                     const import_options& options = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_IMPORT)

#include <algorithm>
#include <limits>
#include <system_error>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/device_proto.hpp>
#include <unity/io/onnx/literals.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/prune.hpp>
#include <unity/io/onnx/read_tensor.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx_model model_reader::read(google::protobuf::io::ZeroCopyInputStream& bytes, std::uint64_t size) {
  parse(bytes, size);
  const auto file = file_size(size);
  tensor_reader{file_, directory_}.load_inner(*proto_.mutable_graph());
  const auto opset = find_opset();
  bind_dimensions();
  structure_check{graph(), file_}.run();
  restate_empty_lists(*proto_.mutable_graph());
  const auto weights = take_weight_names();
  const auto numbers = literals(proto_);
  onnx_model stated;
  stated.signature = signature(weights, stated);
  auto initializers = take_initializers();
  check_model(proto_, opset, file_, "a model that the ONNX checker accepts");
  onnx::GraphProto g;
  g.Swap(proto_.mutable_graph());
  graph_importer importer{*algebra_, file_, opset, proto_, hints(g), *options_, record_};
  add_inputs(importer, g, initializers, weights);
  for (auto& [name, data] : initializers) {
    if (stated.defaults.contains(name)) {
      importer.add_default(name, std::move(data));
    } else {
      importer.add_initializer(name, std::move(data), numbers.contains(name));
    }
  }
  for (auto& [name, tensor] : rest_) {
    importer.add_rest(std::move(tensor.first), std::move(tensor.second));
  }
  importer.add_nodes(g);
  auto model = importer.finish(g);
  model.signature = std::move(stated.signature);
  model.defaults = std::move(stated.defaults);
  prune(*algebra_, model);
  model.name = g.name().empty() ? "model" : g.name();
  proto_.clear_graph();
  model.envelope = proto_.SerializeAsString();
  model.open.axes = open_;
  model.file = file;
  model.operators = options_->operators;
  return model;
}

UNITY_INLINE onnx_model model_reader::read(std::string_view bytes) {
  auto stream = in_memory(bytes);
  return read(stream, bytes.size());
}

UNITY_INLINE onnx_model model_reader::read_open(std::string_view bytes, std::vector<open_axis> axes,
                                                size_record& record) {
  open_ = std::move(axes);
  record_ = &record;
  return read(bytes);
}

UNITY_INLINE std::vector<open_axis> model_reader::open_axes(std::string_view bytes) {
  auto stream = in_memory(bytes);
  return open_axes(stream, bytes.size());
}

UNITY_INLINE std::vector<open_axis> model_reader::open_axes(google::protobuf::io::ZeroCopyInputStream& bytes,
                                                            std::uint64_t size) {
  parse(bytes, size);
  std::set<std::string> initialized;
  for (const auto& t : graph().initializer()) {
    initialized.insert(t.name());
  }
  std::vector<open_axis> all;
  std::set<std::string> known;
  for (const auto& in : graph().input()) {
    const auto rank = in.type().tensor_type().shape().dim_size();
    for (int i = 0; i < rank && !initialized.contains(in.name()); ++i) {
      const auto name = open_name(in, i);
      if (name) {
        known.insert(*name);
      }
      const bool is_new = name && !options_->dimensions.contains(*name) &&
                          std::none_of(all.begin(), all.end(), [&](const auto& a) { return a.name == *name; });
      if (is_new && (!options_->keep_rest || has_counterpart(in))) {
        all.push_back({*name, in.name(), i, rank, *name == in.type().tensor_type().shape().dim(i).dim_param(), 0});
      }
    }
  }
  expect_known(known);
  return all;
}

UNITY_INLINE std::optional<std::string> model_reader::open_name(const onnx::ValueInfoProto& in, int axis) {
  const auto& d = in.type().tensor_type().shape().dim(axis);
  if (d.has_dim_value() && d.dim_value() >= 1) {  // older exporters write 0 or -1 for an open size
    return std::nullopt;
  }
  return d.has_dim_param() && !d.dim_param().empty() ? d.dim_param() : fmt::format("{}.{}", in.name(), axis);
}

UNITY_INLINE const open_axis* model_reader::find_open(const std::string& name) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& a) { return a.name == name; });
  return found == open_.end() ? nullptr : &*found;
}

UNITY_INLINE void model_reader::parse(google::protobuf::io::ZeroCopyInputStream& bytes, std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    throw error{file_, fmt::format("has {} bytes", size),
                "at most 2 GiB; larger models keep their weights as external data"};
  }
  if (!proto_.ParseFromZeroCopyStream(&bytes)) {
    throw error{file_, "is not an ONNX model or is cut short", "a serialized ModelProto"};
  }
  if (!proto_.has_graph()) {
    throw error{file_, "has no graph", "an ONNX model"};
  }
  if (graph().output_size() == 0) {
    throw error{file_, "computes nothing", "a graph with outputs"};
  }
  if (graph().sparse_initializer_size() > 0) {
    throw error{fmt::format("{}: tensor {}", file_, in_quotes(graph().sparse_initializer(0).values().name())),
                "is sparse", "dense initializers"};
  }
  drop_devices(proto_);
}

UNITY_INLINE onnx_file_size model_reader::file_size(std::uint64_t size) const {
  for (const auto& name : external_files(proto_)) {
    std::error_code missing;
    const auto beside = std::filesystem::file_size(directory_ / name, missing);
    size += missing ? 0 : beside;
  }
  return {size, node_count(graph())};
}

UNITY_INLINE std::int64_t model_reader::find_opset() const {
  const auto& nodes = graph().node();
  for (const auto& import : proto_.opset_import()) {
    if (is_default_domain(import.domain())) {
      if (import.version() < oldest_opset || import.version() > newest_opset) {
        throw error{file_, fmt::format("uses opset {}", import.version()),
                    fmt::format("opset {} to {}", oldest_opset, newest_opset)};
      }
      return import.version();
    }
  }
  if (std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return is_default_domain(n.domain()); })) {
    throw error{file_, "imports no opset of the default domain",
                fmt::format("opset {} to {}", oldest_opset, newest_opset)};
  }
  return packaged_opset;
}

UNITY_INLINE void model_reader::bind_dimensions() {
  std::set<std::string> initialized;
  for (const auto& t : graph().initializer()) {
    initialized.insert(t.name());
  }
  std::set<std::string> known;
  for (auto& in : *proto_.mutable_graph()->mutable_input()) {
    if (!initialized.contains(in.name())) {
      bind_input(in, known);
    }
  }
  expect_known(known);
}

UNITY_INLINE void model_reader::expect_known(const std::set<std::string>& known) const {
  for (const auto& [name, size] : options_->dimensions) {
    if (!known.contains(name)) {
      std::string names;
      for (const auto& k : known) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", printable(k, 60));
      }
      throw error{file_, fmt::format("has no dimension named {}", in_quotes(name)),
                  names.empty() ? "no --dim: every dimension has a size" : fmt::format("one of: {}", names)};
    }
  }
}

UNITY_INLINE void model_reader::bind_input(onnx::ValueInfoProto& in, std::set<std::string>& known) {
  if (options_->keep_rest && !has_counterpart(in)) {
    return;
  }
  const auto where = fmt::format("{}: input {}", file_, in_quotes(in.name()));
  if (!in.type().has_tensor_type() || !in.type().tensor_type().has_shape()) {
    throw error{where, "is not a tensor of known rank", "one"};
  }
  if (!from_onnx_type(in.type().tensor_type().elem_type())) {
    throw error{where, fmt::format("has element type {}", onnx_type_name(in.type().tensor_type().elem_type())),
                "numbers of at most 64 bits or booleans"};
  }
  auto& shape = *in.mutable_type()->mutable_tensor_type()->mutable_shape();
  if (shape.dim_size() > static_cast<int>(tensor::max_rank)) {
    throw error{where, fmt::format("has {} dimensions", shape.dim_size()), fmt::format("at most {}", tensor::max_rank)};
  }
  auto stated = in;
  for (int i = 0; i < shape.dim_size(); ++i) {
    auto& d = *shape.mutable_dim(i);
    if (const auto name = open_name(in, i)) {
      known.insert(*name);
      const auto bound = options_->dimensions.find(*name);
      const auto* open = find_open(*name);
      if (bound == options_->dimensions.end() && open == nullptr) {
        throw error{where, fmt::format("dimension {} ({}) has no size", i, printable(*name, 60)),
                    fmt::format("--dim {}=SIZE", printable(*name, 60))};
      }
      d.set_dim_value(open != nullptr ? open->size : bound->second);
      if (open == nullptr) {
        *stated.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(i) = d;
      }
    }
    if (d.dim_value() < 1 || d.dim_value() > tensor::max_elements) {
      throw error{where, fmt::format("dimension {} is {}", i, d.dim_value()), "a positive size"};
    }
  }
  if (!open_.empty()) {
    open_inputs_.emplace(in.name(), std::move(stated));
  }
}

UNITY_INLINE auto model_reader::take_initializers() -> initializer_map {
  initializer_map all;
  const tensor_reader reader{file_, directory_};
  std::set<std::string> inputs;
  for (const auto& in : graph().input()) {
    inputs.insert(in.name());
  }
  auto& g = *proto_.mutable_graph();
  onnx::GraphProto small;
  for (auto& t : *g.mutable_initializer()) {
    constexpr std::size_t little = 4096;
    const bool keep = t.data_location() != onnx::TensorProto::EXTERNAL && t.ByteSizeLong() <= little;
    if (keep) {
      *small.add_initializer() = t;
    }
    tensor_data data;
    try {
      data = reader.read(t, t.name());
    } catch (const no_counterpart& e) {
      if (!options_->keep_rest || t.data_location() == onnx::TensorProto::EXTERNAL) {
        throw;
      }
      if (!keep) {
        *small.add_initializer() = t;
      }
      rest_[t.name()] = {t, e.what()};
      continue;
    }
    if (!keep && inputs.insert(t.name()).second) {
      fill_type(*g.add_input(), t.name(), {data.element, tensor::layout::row_major, false, data.dims});
    }
    all.emplace(t.name(), std::move(data));
  }
  g.mutable_initializer()->Swap(small.mutable_initializer());
  return all;
}

UNITY_INLINE bool model_reader::has_counterpart(const onnx::ValueInfoProto& in) const {
  // Older exporters write 0 for an open size.
  constexpr std::int64_t first_with_empty_sizes = 4;
  const auto& type = in.type().tensor_type();
  const auto& dims = type.shape().dim();
  const auto is_empty = [](const auto& d) { return d.has_dim_value() && d.dim_value() == 0; };
  return in.type().has_tensor_type() && type.has_shape() && from_onnx_type(type.elem_type()) &&
         dims.size() <= static_cast<int>(tensor::max_rank) &&
         (proto_.ir_version() < first_with_empty_sizes || std::none_of(dims.begin(), dims.end(), is_empty));
}

UNITY_INLINE std::map<std::string, tensor::tensor_type> model_reader::hints(const onnx::GraphProto& g) const {
  auto sizes = options_->dimensions;
  for (const auto& a : open_) {
    sizes.emplace(a.name, a.size);
  }
  std::map<std::string, tensor::tensor_type> all;
  for (const auto* infos : {&g.value_info(), &g.output()}) {
    for (const auto& info : *infos) {
      if (const auto type = concrete_type(info.type(), sizes)) {
        all.insert_or_assign(info.name(), *type);
      }
    }
  }
  return all;
}

UNITY_INLINE std::set<std::string> model_reader::take_weight_names() {
  std::set<std::string> weights;
  auto& metadata = *proto_.mutable_metadata_props();
  for (auto entry = metadata.begin(); entry != metadata.end();) {
    if (entry->key() != weights_key) {
      ++entry;
      continue;
    }
    for (std::size_t at = 0; at < entry->value().size();) {
      const auto end = std::min(entry->value().find('\n', at), entry->value().size());
      weights.insert(entry->value().substr(at, end - at));
      at = end + 1;
    }
    entry = metadata.erase(entry);
  }
  return weights;
}

UNITY_INLINE std::string model_reader::signature(const std::set<std::string>& weights, onnx_model& model) const {
  constexpr std::int64_t first_with_defaults = 4;
  std::set<std::string> initialized;
  for (const auto& t : graph().initializer()) {
    initialized.insert(t.name());
  }
  onnx::GraphProto all;
  for (const auto& in : graph().input()) {
    const bool has_data = initialized.contains(in.name());
    if (has_data ? proto_.ir_version() >= first_with_defaults : !weights.contains(in.name())) {
      const auto open = open_inputs_.find(in.name());
      *all.add_input() = open == open_inputs_.end() ? in : open->second;
      if (has_data) {
        model.defaults.insert(in.name());
      }
    }
  }
  for (const auto& out : graph().output()) {
    bind_known(*all.add_output() = out);
  }
  all.set_doc_string(graph().doc_string());
  return all.SerializeAsString();
}

UNITY_INLINE void model_reader::bind_known(onnx::ValueInfoProto& info) const {
  if (info.type().has_tensor_type() && info.type().tensor_type().has_shape()) {
    for (auto& d : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      const auto bound = d.has_dim_param() ? options_->dimensions.find(d.dim_param()) : options_->dimensions.end();
      if (bound != options_->dimensions.end()) {
        d.set_dim_value(bound->second);
      }
    }
  }
}

UNITY_INLINE void model_reader::add_inputs(graph_importer& importer, const onnx::GraphProto& g,
                                           const initializer_map& initializers, const std::set<std::string>& weights) {
  for (const auto& in : g.input()) {
    if (rest_.contains(in.name())) {
      continue;
    }
    if (options_->keep_rest && !has_counterpart(in)) {
      importer.add_rest(in.name());
    } else if (!initializers.contains(in.name())) {
      const auto type = concrete_type(in.type(), {});
      if (!type) {
        throw error{fmt::format("{}: input {}", file_, in_quotes(in.name())), "has too many elements",
                    "sizes that can be counted"};
      }
      importer.add_input(in.name(), *type, weights.contains(in.name()));
      if (record_ != nullptr) {
        record_->add(in.name(), type->dims);
      }
    }
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE onnx_model parse_onnx(const tensor::algebra& algebra, std::string_view bytes, std::string_view file,
                                   const std::filesystem::path& directory, const import_options& options) {
  return detail::model_reader{algebra, std::string{file}, directory, options}.read(bytes);
}

UNITY_INLINE onnx_model import_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                    const import_options& options) {
  detail::model_reader reader{algebra, path.string(), path.parent_path(), options};
  return detail::with_stream(path, [&](auto& stream, std::uint64_t size) { return reader.read(stream, size); });
}

}  // namespace unity::io

#endif
