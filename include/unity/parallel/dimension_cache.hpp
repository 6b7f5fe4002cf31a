// A cache of the dimensions of operators.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Keyed by operator and operand types. Thread-safe. A copy starts empty, because returned pointers point into the
// cache.
class dimension_cache {
 public:
  dimension_cache() = default;
  dimension_cache(const dimension_cache&) {}
  dimension_cache(dimension_cache&&) noexcept {}
  dimension_cache& operator=(const dimension_cache& o);
  dimension_cache& operator=(dimension_cache&& o) noexcept;
  ~dimension_cache() = default;

  // Null if the operator does not accept the operands. Valid as long as the cache.
  // Complexity: as dimensions_of the first time, then a lookup.
  [[nodiscard]] const operator_dimensions* of(const tensor::algebra& a, const tensor::operation& op,
                                              std::span<const tensor::tensor_type> inputs);

 private:
  struct key {
    tensor::operation op{};
    std::vector<tensor::tensor_type> inputs{};

    friend bool operator==(const key&, const key&) = default;
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept;
  };

  std::mutex mutex_{};
  std::unordered_map<key, std::optional<operator_dimensions>, key_hash> known_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_DIMENSION_CACHE)

#include <functional>

#include <unity/core/hash.hpp>

namespace unity::parallel {

UNITY_INLINE dimension_cache& dimension_cache::operator=(const dimension_cache& o) {
  if (this != &o) {
    known_.clear();
  }
  return *this;
}

UNITY_INLINE dimension_cache& dimension_cache::operator=(dimension_cache&& o) noexcept {
  if (this != &o) {
    known_.clear();
  }
  return *this;
}

UNITY_INLINE const operator_dimensions* dimension_cache::of(const tensor::algebra& a, const tensor::operation& op,
                                                            std::span<const tensor::tensor_type> inputs) {
  key k{op, {inputs.begin(), inputs.end()}};
  const std::scoped_lock lock{mutex_};
  auto found = known_.find(k);
  if (found == known_.end()) {
    found = known_.emplace(std::move(k), dimensions_of(a, op, inputs)).first;
  }
  return found->second ? &*found->second : nullptr;
}

UNITY_INLINE std::size_t dimension_cache::key_hash::operator()(const key& k) const noexcept {
  auto h = std::hash<tensor::operation>{}(k.op);
  for (const auto& t : k.inputs) {
    h = hash_combine(h, std::hash<tensor::tensor_type>{}(t));
  }
  return h;
}

}  // namespace unity::parallel

#endif
