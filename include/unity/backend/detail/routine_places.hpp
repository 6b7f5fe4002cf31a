// Where the values of a graph are while its routines run: in an operand, in a result, or in one workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/program/storage.hpp>

namespace unity::backend::detail {

struct value_place {
  enum class region : std::uint8_t { nowhere, input, output, work };
  region where = region::nowhere;
  std::size_t number = 0;  // of the operand, the result or the part of the workspace
};

// First all operands, then all outputs, then what the routines read and write, step by step; then plan().
class routine_places {
 public:
  using region = value_place::region;

  explicit routine_places(std::size_t values) : places_(values) {}

  void add_input(value_id v, std::size_t operand) { places_[v.index()] = {region::input, operand}; }
  // A computed value is written to its output. A second output, or one that is an operand, is a copy, because an
  // operand may have another layout than results.
  [[nodiscard]] std::optional<value_place> add_output(value_id v, std::size_t output);

  [[nodiscard]] value_place operator[](value_id v) const { return places_[v.index()]; }
  value_place read(value_id v, std::size_t step);
  value_place write(value_id v, std::size_t size, std::size_t step);
  // Of one step alone. Unit of sizes: bytes.
  value_place reserve(std::size_t size, std::size_t step) {
    stored_.push_back({bytes{static_cast<std::int64_t>(size)}, step, step});
    return {region::work, stored_.size() - 1};
  }

  // Shares the workspace between values that are never alive together.
  void plan();
  [[nodiscard]] std::size_t workspace() const noexcept { return workspace_; }

  // Call: addresses of one run, in its members inputs, outputs and work.
  template <class Call>
  [[nodiscard]] const std::byte* read_address(const Call& c, value_place p) const {
    return p.where == region::input ? c.inputs[p.number] : write_address(c, p);
  }
  template <class Call>
  [[nodiscard]] std::byte* write_address(const Call& c, value_place p) const {
    return p.where == region::output ? c.outputs[p.number] : c.work + offsets_[p.number];
  }

 private:
  std::vector<value_place> places_;
  std::vector<program::stored_value> stored_;
  std::vector<std::size_t> offsets_;
  std::size_t workspace_ = 0;
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_ROUTINE_PLACES)

#include <unity/backend/device_backend.hpp>

namespace unity::backend::detail {

UNITY_INLINE std::optional<value_place> routine_places::add_output(value_id v, std::size_t output) {
  auto& p = places_[v.index()];
  if (p.where != region::nowhere) {
    return p;
  }
  p = {region::output, output};
  return std::nullopt;
}

UNITY_INLINE value_place routine_places::read(value_id v, std::size_t step) {
  const auto p = places_[v.index()];
  if (p.where == region::work) {
    stored_[p.number].last = step;
  }
  return p;
}

UNITY_INLINE value_place routine_places::write(value_id v, std::size_t size, std::size_t step) {
  auto& p = places_[v.index()];
  if (p.where == region::nowhere) {
    p = reserve(size, step);
  }
  return p;
}

UNITY_INLINE void routine_places::plan() {
  const auto plan = program::plan_storage(stored_, bytes{static_cast<std::int64_t>(memory_alignment)});
  for (const auto o : plan.offsets) {
    offsets_.push_back(static_cast<std::size_t>(o.count()));
  }
  workspace_ = static_cast<std::size_t>(plan.peak.count());
}

}  // namespace unity::backend::detail

#endif
