#include "engine_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>

namespace support {

namespace {

using namespace unity;

constexpr double seconds_of_one = 0.05;
constexpr std::size_t most_copies = 16;
constexpr std::size_t enough_bytes = std::size_t{1} << 20;  // that all copies together read and write

std::size_t copies_of(std::span<const tensor::tensor_type> inputs, std::span<const tensor::tensor_type> outputs) {
  std::size_t one = 1;
  for (const auto types : {inputs, outputs}) {
    for (const auto& t : types) {
      one += static_cast<std::size_t>(tensor::element_count(t.dims) * tensor::size_of(t.element));
    }
  }
  return std::clamp(enough_bytes / one, std::size_t{1}, most_copies);
}

// Real numbers are positive, as the root of a variance needs; integers are in [0, 4), valid as numbers of rows.
io::tensor_data arbitrary_data(const tensor::tensor_type& t) {
  std::vector<double> values(static_cast<std::size_t>(tensor::element_count(t.dims)));
  const double kinds = t.element == tensor::dtype::boolean ? 2 : 4;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto share = static_cast<double>(mix64(i) >> 11U) * 0x1p-53;
    values[i] = tensor::is_floating(t.element) ? 0.5 + share / 2 : std::floor(share * kinds);
  }
  return io::make_data(t.element, t.dims, values);
}

// The operator several times, each on separate operands.
io::onnx_model model_of(const tensor::algebra& operators, const tensor::operation& op,
                        std::span<const tensor::tensor_type> inputs, std::span<const tensor::tensor_type> outputs,
                        std::size_t copies) {
  tensor::builder b{operators};
  io::data_table data;
  std::vector<std::vector<value_id>> operands(copies);
  for (std::size_t c = 0; c < copies; ++c) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& t = inputs[i];
      const auto name = fmt::format("x{}_{}", i, c);
      operands[c].push_back(t.constant ? b.weight(name, t.dims, t.element) : b.input(name, t.dims, t.element));
      if (t.constant) {
        data[name] = arbitrary_data(t);
      }
    }
  }
  auto graph = std::move(b).finish({});
  std::vector<value_id> all;
  for (const auto& own : operands) {
    const auto results = graph.results(graph.add_node(op, own, outputs));
    all.insert(all.end(), results.begin(), results.end());
  }
  graph.set_outputs(all);
  return io::make_model(std::move(graph), "kernel", std::move(data));
}

}  // namespace

engine_kernels::engine_kernels(engine_timer& engine, const tensor::algebra& operators)
    : engine_{engine}, operators_{operators} {
  const tensor::tensor_type number{tensor::dtype::float32, tensor::layout::row_major, false, {1}};
  const tensor::tensor_type types[] = {number};
  auto seconds = run(model_of(operators, operators.make_operation("relu", {}), types, types, 1));
  overhead_ = to_seconds(summarize(std::move(seconds)).median);
}

measurement engine_kernels::time(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                 std::span<const tensor::tensor_type> outputs) {
  if (std::holds_alternative<tensor::opaque>(operators_.definition_of(op.kind).body)) {
    return {picoseconds{1}, picoseconds{1}, picoseconds{1}, 1};
  }
  const auto copies = copies_of(inputs, outputs);
  auto seconds = run(model_of(operators_, op, inputs, outputs, copies));
  for (auto& s : seconds) {
    s = std::max(s - overhead_, 0.0) / static_cast<double>(copies);
  }
  return summarize(std::move(seconds));
}

std::string engine_kernels::description() const {
  return fmt::format("{} {}, {} thread{}, on {}; up to {} copies of an operator, a run's overhead left out",
                     engine_.engine(), engine_.version(), engine_.threads(), engine_.threads() == 1 ? "" : "s",
                     engine_.machine(), most_copies);
}

std::vector<double> engine_kernels::run(const io::onnx_model& model) {
  const auto file = folder_.path() / "kernel.onnx";
  io::export_onnx(operators_, model, file);
  return engine_.measure(file, seconds_of_one);
}

}  // namespace support
