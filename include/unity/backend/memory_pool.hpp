// Values that share one block of a backend's memory, and the locations of a graph's values while its routines run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tasks/storage.hpp>

namespace unity::backend::detail {

// The locations of a graph's values while its routines run: in an operand, in a result, or in one workspace.

struct value_place {
  enum class region : std::uint8_t { nowhere, input, output, work };
  region where = region::nowhere;
  std::size_t number = 0;  // of the operand, the result or the part of the workspace
};

// Call add_input for all operands, add_output for all outputs, then read and write for the routines step by step, then
// plan().
class routine_places {
 public:
  using region = value_place::region;

  explicit routine_places(std::size_t values) : places_(values) {}

  void add_input(value_id v, std::size_t operand) { places_[v.index()] = {region::input, operand}; }
  // A computed value is written to its output. For a value that already is an operand or an earlier output, returns
  // that location: the output becomes a copy, because operands may have other layouts than results.
  [[nodiscard]] std::optional<value_place> add_output(value_id v, std::size_t output);

  [[nodiscard]] value_place operator[](value_id v) const { return places_[v.index()]; }
  value_place read(value_id v, std::size_t step);
  value_place write(value_id v, std::size_t size, std::size_t step);
  // Reserves workspace for one step only. Unit of sizes: bytes.
  value_place reserve(std::size_t size, std::size_t step) {
    stored_.push_back({bytes{static_cast<std::int64_t>(size)}, step, step});
    return {region::work, stored_.size() - 1};
  }

  // Shares the workspace between values that are never alive together.
  void plan();
  [[nodiscard]] std::size_t workspace() const noexcept { return workspace_; }

  // Call: has the addresses of one run in its members inputs, outputs and work.
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
  std::vector<tasks::stored_value> stored_;
  std::vector<std::size_t> offsets_;
  std::size_t workspace_ = 0;
};

}  // namespace unity::backend::detail

namespace unity::backend {

// One block of a backend's memory in which values with disjoint lifetimes share bytes. Add the values, extend their
// lifetimes, then allocate; addresses exist after that. Sizes are in bytes, lifetimes in steps.
template <device_backend Backend>
class memory_pool {
 public:
  // Reserves this many bytes from step `first` on; extend it to the last step that needs them.
  std::size_t add(std::size_t size, std::size_t first) {
    values_.push_back({bytes{static_cast<std::int64_t>(size)}, first, first});
    return values_.size() - 1;
  }
  void extend(std::size_t place, std::size_t step) { values_[place].last = std::max(values_[place].last, step); }

  // Throws: unity::error that says for what, and how many bytes were wanted, if there is not enough memory.
  void allocate(Backend& backend, std::string_view what) {
    plan_ = tasks::plan_storage(values_, bytes{static_cast<std::int64_t>(memory_alignment)});
    try {
      memory_.emplace(backend.allocate(size()));
    } catch (const error& e) {
      throw error{fmt::format("{}: {} bytes wanted: {}", what, size(), e.what())};
    }
  }

  // The size of the block. Unit: bytes.
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(plan_.peak.count()); }
  // The size without sharing: the sum over all values. Unit: bytes.
  [[nodiscard]] std::size_t sum() const noexcept {
    std::int64_t total = 0;
    for (const auto& v : values_) {
      total += v.size.count();
    }
    return static_cast<std::size_t>(total);
  }
  // The sizes and lifetimes of the values, by place.
  [[nodiscard]] const std::vector<tasks::stored_value>& values() const noexcept { return values_; }
  [[nodiscard]] std::byte* at(std::size_t place) { return memory_->data() + plan_.offsets[place].count(); }

 private:
  std::vector<tasks::stored_value> values_;
  tasks::storage_plan plan_;
  std::optional<typename Backend::memory> memory_;
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_MEMORY_POOL)

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
  const auto plan = tasks::plan_storage(stored_, bytes{static_cast<std::int64_t>(memory_alignment)});
  for (const auto o : plan.offsets) {
    offsets_.push_back(static_cast<std::size_t>(o.count()));
  }
  workspace_ = static_cast<std::size_t>(plan.peak.count());
}

}  // namespace unity::backend::detail

#endif
