#include "models.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx.hpp>
#include <unity/io/onnx_open.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/source_values.hpp>

#include "quantity.hpp"

namespace support {

void expect_file_for(const std::string& model, const std::vector<std::string>& dimensions) {
  if (unity::tensor::zoo::is_name(model) && !dimensions.empty()) {
    throw unity::error{"--dim", fmt::format("'{}' for {}", dimensions[0], model),
                       "sizes of a model of the zoo in its name: ?key=value"};
  }
}

dimension_sizes parse_dimensions(const std::vector<std::string>& dimensions) {
  dimension_sizes all;
  for (const auto& d : dimensions) {
    const auto at = d.find('=');
    const auto size = parse_size(fmt::format("--dim {}", d), at == std::string::npos ? "" : d.substr(at + 1));
    if (!all.emplace(d.substr(0, at), size).second) {
      throw unity::error{"--dim", fmt::format("'{}' a second time", d.substr(0, at)), "each name once"};
    }
  }
  return all;
}

unity::io::onnx_model load_model(const unity::tensor::algebra& operators, const std::string& model,
                                 const std::vector<std::string>& dimensions, bool keep_rest) {
  using namespace unity;
  expect_file_for(model, dimensions);
  if (tensor::zoo::is_name(model)) {
    return io::make_model(tensor::zoo::build(operators, model), model.substr(model.find(':') + 1));
  }
  return io::import_onnx(operators, model, {.dimensions = parse_dimensions(dimensions), .keep_rest = keep_rest});
}

unity::io::onnx_model load_open_model(const unity::tensor::algebra& operators, const std::string& model,
                                      const std::vector<std::string>& dimensions) {
  if (unity::tensor::zoo::is_name(model)) {
    return load_model(operators, model, dimensions);
  }
  return unity::io::import_open_onnx(operators, model, {.dimensions = parse_dimensions(dimensions), .keep_rest = true});
}

unity::tensor::tensor_graph load_training_graph(const unity::tensor::algebra& operators, const std::string& model,
                                                const std::vector<std::string>& dimensions) {
  using namespace unity;
  auto m = load_model(operators, model, dimensions);
  const auto name = [&](node_id n) {
    const auto label = m.labels.find(n);
    return label == m.labels.end() || label->second.name.empty()
               ? fmt::format("{}: node {} ({})", model, n.index(),
                             tensor::operator_name(operators, m.graph.operation(n)))
               : fmt::format("{}: node '{}' ({})", model, printable(label->second.name, 120),
                             tensor::operator_name(operators, m.graph.operation(n)));
  };
  parallel::expect_derivatives(operators, m.graph, {operators, m.graph}, name);
  return std::move(m.graph);
}

unity::tensor::source_data model_values(const unity::tensor::algebra& operators, const unity::io::onnx_model& model,
                                        std::uint64_t seed) {
  using namespace unity;
  return [&model, others = tensor::balanced_values(operators, model.graph, seed)](
             std::string_view name) -> std::optional<tensor::dense<double>> {
    const auto stored = model.data.find(name);
    return stored == model.data.end()
               ? others(name)
               : std::optional{tensor::dense<double>{stored->second.dims, io::elements_of<double>(stored->second)}};
  };
}

}  // namespace support
