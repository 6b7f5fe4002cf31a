// Primitives without a reduction, single or in chains, as tile programs.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/derive_adjoint.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cpu {

[[nodiscard]] std::unique_ptr<routine> make_tiles(tile_program p, bool in_double, int threads);

// Nothing if the operator is not one of these.
[[nodiscard]] std::unique_ptr<routine> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                           types inputs, types outputs, int threads);

namespace detail {

// Routines one after another on the same operands.
class sequence final : public routine {
 public:
  explicit sequence(std::vector<std::unique_ptr<routine>> parts) : parts_{std::move(parts)} {}
  [[nodiscard]] std::size_t workspace() const override;
  void run(const call& c) const override;

 private:
  std::vector<std::unique_ptr<routine>> parts_;
};

}  // namespace detail

// The outputs of a region of element-wise operators, grouped by shape and layout: each group is computed at once.
// Throws: unity::error that names an operator that is not element-wise.
[[nodiscard]] std::unique_ptr<routine> chain_routine(const tensor::algebra& a, const tensor::tensor_graph& region,
                                                     int threads);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_ELEMENTWISE)

#include <algorithm>

#include <unity/backend/cpu/tiles.hpp>
#include <unity/backend/elementwise/chain_writer.hpp>
#include <unity/backend/elementwise/elementwise_program.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> make_tiles(tile_program p, bool in_double, int threads) {
  if (in_double) {
    return std::make_unique<tile_routine<double>>(std::move(p), threads);
  }
  return std::make_unique<tile_routine<float>>(std::move(p), threads);
}

UNITY_INLINE std::unique_ptr<routine> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                          types inputs, types outputs, int threads) {
  auto p = elementwise_program(a, op, inputs, outputs);
  const bool in_double = tensor::exceeds_float32(inputs) || tensor::exceeds_float32(outputs);
  return p ? make_tiles(*std::move(p), in_double, threads) : nullptr;
}

}  // namespace unity::backend::cpu

namespace unity::backend::cpu::detail {

UNITY_INLINE std::size_t sequence::workspace() const {
  std::size_t most = 0;
  for (const auto& p : parts_) {
    most = std::max(most, p->workspace());
  }
  return most;
}

UNITY_INLINE void sequence::run(const call& c) const {
  for (const auto& p : parts_) {
    p->run(c);
  }
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> chain_routine(const tensor::algebra& a, const tensor::tensor_graph& region,
                                                    int threads) {
  std::vector<std::unique_ptr<routine>> parts;
  const auto outputs = region.outputs();
  std::vector<bool> done(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& type = region.type(outputs[i]);
    if (done[i]) {
      continue;
    }
    chain_writer writer{a, region, type};
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

#endif
