// Tensor graphs as JSON, and back.
//
// {"format": "unity graph", "version": 1,
//  "nodes": [{"op": "matmul", "attributes": {"activation": "relu"}, "operands": [0, 1],
//             "results": [{"element": "float32", "dims": [2, 3]}]}, ...],
//  "outputs": [2]}
// Values are numbered in the order in which nodes define them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/file.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/json_place.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

namespace detail {

[[nodiscard]] bool is_plain_text(std::string_view bytes);

[[nodiscard]] nlohmann::json attribute_to_json(const attribute_signature& a, const attribute& value);

[[nodiscard]] attribute integers_from_json(const json_place& in);

[[nodiscard]] attribute attribute_from_json(const attribute_signature& a, const json_place& in);

[[nodiscard]] nlohmann::json type_to_json(const tensor::tensor_type& t);

class graph_from_json {
 public:
  graph_from_json(const tensor::algebra& algebra, const json_place& document);
  [[nodiscard]] tensor::tensor_graph take() && { return std::move(graph_); }

 private:
  [[nodiscard]] std::vector<value_id> values(const json_place& in) const;
  [[nodiscard]] tensor::operation operation(const json_place& node) const;
  void add_node(const json_place& node);
  static void check_results(const json_place& stated, const std::vector<tensor::tensor_type>& inferred);

  const tensor::algebra* algebra_;
  tensor::tensor_graph graph_;
};

}  // namespace detail

[[nodiscard]] nlohmann::json to_json(const tensor::algebra& algebra, const tensor::tensor_graph& graph);

// Types are inferred again; the stated ones must agree. `file`: for messages.
// Throws: unity::error naming the byte or the member that is wrong.
[[nodiscard]] inline tensor::tensor_graph parse_graph(const tensor::algebra& algebra, std::string_view text,
                                                      std::string_view file) {
  const auto document = detail::parse_json(text, file);
  return detail::graph_from_json{algebra, json_place{document, fmt::format("{}: graph", file)}}.take();
}

// Throws: unity::error.
[[nodiscard]] inline tensor::tensor_graph read_graph(const tensor::algebra& algebra,
                                                     const std::filesystem::path& path) {
  return parse_graph(algebra, read_file(path), path.string());
}
inline void write_graph(const tensor::algebra& algebra, const tensor::tensor_graph& graph,
                        const std::filesystem::path& path) {
  atomic_write(path, fmt::format("{}\n", to_json(algebra, graph).dump(1)));
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_JSON)

#include <cmath>
#include <limits>
#include <span>

#include <unity/core/error.hpp>

namespace unity::io::detail {

UNITY_INLINE bool is_plain_text(std::string_view bytes) {
  for (const char c : bytes) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE nlohmann::json attribute_to_json(const attribute_signature& a, const attribute& value) {
  switch (a.form) {
    case attribute_form::integer: return value[0];
    case attribute_form::choice: return a.choices.at(static_cast<std::size_t>(value[0]));
    case attribute_form::real: {
      const auto real = tensor::to_real(value[0]);
      return std::isfinite(real) ? nlohmann::json(real)
                                 : nlohmann::json(std::isnan(real) ? "nan"
                                                  : real > 0       ? "inf"
                                                                   : "-inf");
    }
    case attribute_form::word:
      if (const auto text = tensor::to_word(value); is_plain_text(text)) {
        return text;
      }
      break;
    case attribute_form::integers: break;
  }
  return std::vector<std::int64_t>(value.begin(), value.end());
}

UNITY_INLINE attribute integers_from_json(const json_place& in) {
  attribute list;
  for (const auto& item : in.items()) {
    list.push_back(item.integer());
  }
  return list;
}

UNITY_INLINE attribute attribute_from_json(const attribute_signature& a, const json_place& in) {
  switch (a.form) {
    case attribute_form::integer: return {in.integer()};
    case attribute_form::choice: {
      const auto word = in.word();
      for (std::size_t i = 0; i < a.choices.size(); ++i) {
        if (a.choices[i] == word) {
          return {static_cast<std::int64_t>(i)};
        }
      }
      throw error{in.where(), fmt::format("unknown choice {}", shown(word)),
                  fmt::format("one of the choices of {}", a.name)};
    }
    case attribute_form::real: {
      if (in.value().is_number()) {
        return tensor::real_attribute(in.value().get<double>());
      }
      const auto word = in.word();
      if (word != "nan" && word != "inf" && word != "-inf") {
        throw error{in.where(), shown(word), "a number, \"nan\", \"inf\" or \"-inf\""};
      }
      const auto infinity = std::numeric_limits<double>::infinity();
      return tensor::real_attribute(word == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                                    : word == "inf" ? infinity
                                                    : -infinity);
    }
    case attribute_form::word:
      if (in.value().is_string()) {
        return tensor::word_attribute(in.word());
      }
      break;
    case attribute_form::integers: break;
  }
  return integers_from_json(in);
}

UNITY_INLINE nlohmann::json type_to_json(const tensor::tensor_type& t) {
  nlohmann::json out{{"element", tensor::name_of(t.element)},
                     {"dims", std::vector<std::int64_t>(t.dims.begin(), t.dims.end())}};
  if (t.order == tensor::layout::column_major) {
    out["layout"] = "column_major";
  }
  return out;
}

UNITY_INLINE graph_from_json::graph_from_json(const tensor::algebra& algebra, const json_place& document)
    : algebra_{&algebra} {
  if (document.at("format").word() != "unity graph" || document.at("version").integer() != 1) {
    throw error{document.where(), "another format", "\"format\": \"unity graph\", \"version\": 1"};
  }
  for (const auto& node : document.at("nodes").items()) {
    add_node(node);
  }
  graph_.set_outputs(values(document.at("outputs")));
}

UNITY_INLINE std::vector<value_id> graph_from_json::values(const json_place& in) const {
  std::vector<value_id> all;
  for (const auto& item : in.items()) {
    const auto number = item.integer();
    if (number < 0 || static_cast<std::size_t>(number) >= graph_.value_count()) {
      throw error{item.where(), fmt::format("value {} is not defined before", number),
                  fmt::format("a value below {}", graph_.value_count())};
    }
    all.emplace_back(static_cast<std::size_t>(number));
  }
  return all;
}

UNITY_INLINE tensor::operation graph_from_json::operation(const json_place& node) const {
  const auto kind = algebra_->find_kind(node.at("op").word());
  if (!kind) {
    throw error{fmt::format("{}.op", node.where()), fmt::format("unknown operator {}", shown(node.at("op").word())),
                "an operator of the tensor algebra"};
  }
  const auto attributes = node.at("attributes");
  if (!attributes.value().is_object()) {
    throw error{attributes.where(), fmt::format("is {}", attributes.value().type_name()), "an object"};
  }
  attribute_list all;
  for (const auto& a : algebra_->signature(*kind).attributes) {
    all.push_back(attribute_from_json(a, attributes.at(a.name)));
  }
  auto op = algebra_->make(*kind, all);
  if (!op) {
    throw error{attributes.where(), "attributes of another length",
                fmt::format("those of {}", algebra_->signature(*kind).name)};
  }
  if (node.has("layout")) {
    const auto layout = node.at("layout").word();
    if (layout != "row_major" && layout != "column_major") {
      throw error{fmt::format("{}.layout", node.where()), "another layout", "row_major or column_major"};
    }
    op->order = layout == "column_major" ? tensor::layout::column_major : tensor::layout::row_major;
  }
  return *op;
}

UNITY_INLINE void graph_from_json::add_node(const json_place& node) {
  const auto op = operation(node);
  const auto operands = values(node.at("operands"));
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_->infer(op, types);
  if (!results) {
    throw error{node.where(), fmt::format("operands that {} does not take", algebra_->signature(op.kind).name),
                algebra_->why_not(op, types)};
  }
  if (node.has("results")) {
    check_results(node.at("results"), *results);
  }
  graph_.add_node(op, operands, *results);
}

UNITY_INLINE void graph_from_json::check_results(const json_place& stated,
                                                 const std::vector<tensor::tensor_type>& inferred) {
  const auto items = stated.items();
  bool equal = items.size() == inferred.size();
  for (std::size_t i = 0; equal && i < items.size(); ++i) {
    equal = items[i].at("element").word() == tensor::name_of(inferred[i].element) &&
            tensor::shape(std::span<const std::int64_t>{integers_from_json(items[i].at("dims"))}) == inferred[i].dims;
  }
  if (!equal) {
    std::string expected;
    for (const auto& t : inferred) {
      expected += fmt::format("{}{}", expected.empty() ? "" : ", ", tensor::to_string(t));
    }
    throw error{stated.where(), "results of other types", expected};
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE nlohmann::json to_json(const tensor::algebra& algebra, const tensor::tensor_graph& graph) {
  auto nodes = nlohmann::json::array();
  for (const auto n : node_ids(graph)) {
    const auto& op = graph.operation(n);
    const auto& signature = algebra.signature(op.kind);
    nlohmann::json node{{"op", signature.name}};
    auto& attributes = node["attributes"] = nlohmann::json::object();
    for (const auto& [field, value] : ranges::views::zip(signature.attributes, op.attributes)) {
      attributes[field.name] = detail::attribute_to_json(field, value);
    }
    if (op.order == tensor::layout::column_major) {
      node["layout"] = "column_major";
    }
    auto& operands = node["operands"] = nlohmann::json::array();
    for (const auto v : graph.operands(n)) {
      operands.push_back(v.index());
    }
    auto& results = node["results"] = nlohmann::json::array();
    for (const auto v : graph.results(n)) {
      results.push_back(detail::type_to_json(graph.type(v)));
    }
    nodes.push_back(std::move(node));
  }
  auto outputs = nlohmann::json::array();
  for (const auto v : graph.outputs()) {
    outputs.push_back(v.index());
  }
  return {{"format", "unity graph"}, {"version", 1}, {"nodes", std::move(nodes)}, {"outputs", std::move(outputs)}};
}

}  // namespace unity::io

#endif
