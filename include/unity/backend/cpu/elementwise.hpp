// Primitives without a reduction, alone and in chains, as tile programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/cpu/tile_program.hpp>
#include <unity/backend/cpu/tiles.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu {

// The dimensions in the order in which the elements lie, outermost first.
[[nodiscard]] inline small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order) {
  small_vector<std::size_t, 6> dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(d);
  }
  if (rank >= 2 && order == tensor::layout::column_major) {
    std::swap(dims[rank - 1], dims[rank - 2]);
  }
  return dims;
}

// How far every index of an iteration space moves in a tensor of the type; nothing where windows slide over it.
[[nodiscard]] inline std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                         std::span<const tensor::access> accesses,
                                                                         const tensor::tensor_type& type) {
  std::vector<std::int64_t> steps(s.indices().size(), 0);
  const auto strides = tensor::strides_of(type.dims, type.order);
  for (std::size_t d = 0; d < accesses.size(); ++d) {
    if (accesses[d].is_window()) {
      return std::nullopt;
    }
    auto stride = strides[d];
    for (std::size_t i = accesses[d].size(); i-- > 0;) {
      steps[accesses[d][i]] += stride;
      stride *= s.indices()[accesses[d][i]].size;
    }
  }
  return steps;
}

// The indices of the results in the order in which these lie in memory.
[[nodiscard]] inline std::vector<std::size_t> result_indices(const tensor::space& s, tensor::layout order) {
  std::vector<std::size_t> indices;
  const auto accesses = s.result_accesses(0);
  for (const auto d : memory_order(accesses.size(), order)) {
    for (std::size_t i = 0; i < accesses[d].size(); ++i) {
      indices.push_back(accesses[d][i]);
    }
  }
  return indices;
}

[[nodiscard]] inline std::unique_ptr<routine> make_tiles(tile_program p, bool in_double, int threads) {
  if (in_double) {
    return std::make_unique<tile_routine<double>>(std::move(p), threads);
  }
  return std::make_unique<tile_routine<float>>(std::move(p), threads);
}

// Nothing where the operator is none of these.
[[nodiscard]] inline std::unique_ptr<routine> elementwise_routine(const tensor::algebra& a,
                                                                  const tensor::operation& op, types inputs,
                                                                  types outputs, int threads) {
  const auto s = a.iteration(op, inputs);
  const auto& d = a.definition_of(op.kind);
  if (!s || s->result_count() != 1 || d.source != tensor::source_kind::none) {
    return nullptr;
  }
  const auto kernel = std::get<tensor::primitive>(d.body).kernel(a.read(op), inputs);
  if (kernel.reduce != tensor::reduction::none) {
    return nullptr;
  }
  const auto order = result_indices(*s, outputs[0].order);
  tile_program p;
  for (const auto i : order) {
    p.sizes.push_back(s->indices()[i].size);
  }
  bool flat = true;
  const auto leaf = [&](const tensor::instruction& i) {
    const auto number = static_cast<std::size_t>(i.number);
    const bool element = i.op == tensor::scalar_op::operand;
    flat = flat && (element || i.op == tensor::scalar_op::coordinate);
    tile_leaf l{element ? tile_leaf::origin::operand : tile_leaf::origin::coordinate, number,
                element ? inputs[number].element : tensor::dtype::float32, 0, {}};
    const auto steps = element ? index_steps(*s, s->operand(number), inputs[number]) : std::nullopt;
    flat = flat && (!element || steps.has_value());
    for (const auto index : order) {
      l.steps.push_back(steps ? (*steps)[index] : index == number && !element ? 1 : 0);
    }
    return p.add_leaf(std::move(l));
  };
  const auto value = p.add(kernel.outer, leaf);
  p.stores.push_back({value, 0, outputs[0].element});
  const bool in_double = tensor::exceeds_float32(inputs) || tensor::exceeds_float32(outputs);
  return flat ? make_tiles(std::move(p), in_double, threads) : nullptr;
}

namespace detail {

// Writes the values of a region's nodes, at the points of one shape in one layout, as a tile program.
class chain_writer {
 public:
  chain_writer(const tensor::algebra& a, const tensor::tensor_graph& region, const tensor::tensor_type& result)
      : algebra_{a}, region_{region}, result_{result}, order_{memory_order(result.rank(), result.order)} {
    for (const auto d : order_) {
      program_.sizes.push_back(result.dims[d]);
    }
    for (std::size_t n = 0; n < region.node_count(); ++n) {
      if (region.operands(node_id{n}).empty() && !region.results(node_id{n}).empty()) {
        operand_of_.emplace(region.results(node_id{n})[0].index(), operand_of_.size());
      }
    }
  }

  void store(value_id v, std::size_t output) {
    program_.stores.push_back({value(v), output, region_.type(v).element});
  }
  [[nodiscard]] tile_program take() && { return std::move(program_); }
  [[nodiscard]] bool in_double() const noexcept { return in_double_; }

 private:
  std::size_t value(value_id v) {
    if (const auto known = values_.find(v.index()); known != values_.end()) {
      return known->second;
    }
    in_double_ = in_double_ || tensor::exceeds_float32(region_.type(v).element);
    const auto operand = operand_of_.find(v.index());
    const auto at = operand != operand_of_.end() ? leaf(operand->second, region_.type(v)) : computed(v);
    values_.emplace(v.index(), at);
    return at;
  }

  // As NumPy broadcasts it.
  std::size_t leaf(std::size_t operand, const tensor::tensor_type& type) {
    tile_leaf l{tile_leaf::origin::operand, operand, type.element, 0, {}};
    const auto strides = tensor::strides_of(type.dims, type.order);
    const auto skipped = result_.rank() - type.rank();
    for (const auto d : order_) {
      l.steps.push_back(d < skipped || type.dims[d - skipped] == 1 ? 0 : strides[d - skipped]);
    }
    return program_.add_leaf(std::move(l));
  }

  std::size_t computed(value_id v) {
    const auto n = region_.producer(v);
    const auto& op = region_.operation(n);
    std::vector<tensor::tensor_type> inputs;
    std::vector<std::size_t> operands;
    bool broadcasts = true;
    for (const auto x : region_.operands(n)) {
      inputs.push_back(region_.type(x));
      const auto joint = tensor::broadcast(inputs.back().dims, region_.type(v).dims);
      broadcasts = broadcasts && joint && *joint == region_.type(v).dims;
    }
    const auto s = algebra_.iteration(op, inputs);
    if (!s || !broadcasts) {
      throw not_elementwise(op);
    }
    const auto kernel =
        std::get<tensor::primitive>(algebra_.definition_of(op.kind).body).kernel(algebra_.read(op), inputs);
    for (const auto x : region_.operands(n)) {
      operands.push_back(value(x));
    }
    if (kernel.reduce != tensor::reduction::none) {
      throw not_elementwise(op);
    }
    return program_.add(kernel.outer, [&](const tensor::instruction& i) {
      if (i.op != tensor::scalar_op::operand) {
        throw not_elementwise(op);
      }
      return operands[static_cast<std::size_t>(i.number)];
    });
  }

  [[nodiscard]] error not_elementwise(const tensor::operation& op) const {
    return {"chain for the cpu backend", "operator " + algebra_.signature(op.kind).name, "element-wise operators"};
  }

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& region_;
  const tensor::tensor_type& result_;
  small_vector<std::size_t, 6> order_;
  std::map<std::size_t, std::size_t> operand_of_;
  std::map<std::size_t, std::size_t> values_;
  tile_program program_;
  bool in_double_ = false;
};

// Routines one after another on the same operands.
class sequence final : public routine {
 public:
  explicit sequence(std::vector<std::unique_ptr<routine>> parts) : parts_{std::move(parts)} {}
  [[nodiscard]] std::size_t workspace() const override {
    std::size_t most = 0;
    for (const auto& p : parts_) {
      most = std::max(most, p->workspace());
    }
    return most;
  }
  void run(const call& c) const override {
    for (const auto& p : parts_) {
      p->run(c);
    }
  }

 private:
  std::vector<std::unique_ptr<routine>> parts_;
};

}  // namespace detail

// The outputs of a region of element-wise operators, those of one shape and layout at once.
// Throws: unity::error that names an operator that is not element-wise.
[[nodiscard]] inline std::unique_ptr<routine> chain_routine(const tensor::algebra& a,
                                                            const tensor::tensor_graph& region, int threads) {
  std::vector<std::unique_ptr<routine>> parts;
  const auto outputs = region.outputs();
  std::vector<bool> done(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& type = region.type(outputs[i]);
    if (done[i]) {
      continue;
    }
    detail::chain_writer writer{a, region, type};
    for (std::size_t j = i; j < outputs.size(); ++j) {
      const auto& other = region.type(outputs[j]);
      if (other.dims == type.dims && other.order == type.order) {
        writer.store(outputs[j], j);
        done[j] = true;
      }
    }
    const bool in_double = writer.in_double();
    parts.push_back(make_tiles(std::move(writer).take(), in_double, threads));
  }
  return parts.size() == 1 ? std::move(parts[0]) : std::make_unique<detail::sequence>(std::move(parts));
}

}  // namespace unity::backend::cpu
