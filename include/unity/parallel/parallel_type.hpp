// The type of an edge of a parallel computation graph: a tensor, and how it is divided, copied and split into partials
// of a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

using degree_list = small_vector<std::int64_t, 4>;

// Regular. Shards form an array [partial][copies][degrees...]; a shard is a contiguous block of one partial. All copies
// of a block are equal, and the tensor is the sum of the partials. `steps`: the number of blocks of a dimension that
// are processed one after another, outside of its degree; they are not shards.
// Source: Unger et al., Unity (OSDI 2022), section 3.1, with sums set apart from copies.
struct parallel_type {
  tensor::tensor_type global{};
  degree_list degrees{};  // per dimension; steps times degree divides its size
  degree_list steps{};    // per dimension
  std::int64_t copies = 1;
  std::int64_t partial = 1;

  friend bool operator==(const parallel_type&, const parallel_type&) = default;
};

// The type of a tensor that is whole on one device, in one step.
[[nodiscard]] inline parallel_type undivided(tensor::tensor_type t) {
  const auto rank = t.dims.size();
  return {std::move(t), degree_list(rank, 1), degree_list(rank, 1), 1, 1};
}

[[nodiscard]] std::int64_t product(const degree_list& all) noexcept;

// The number of shards.
[[nodiscard]] inline std::int64_t total(const parallel_type& t) noexcept {
  return t.copies * t.partial * product(t.degrees);
}

// The type of the cotangent: copies become partial sums, and vice versa.
[[nodiscard]] inline parallel_type dual(parallel_type t) noexcept {
  std::swap(t.copies, t.partial);
  return t;
}

// Whether the type is a possible division of its tensor.
[[nodiscard]] bool is_valid(const parallel_type& t) noexcept;

// The part that one device holds at a time.
[[nodiscard]] tensor::tensor_type shard_type(const parallel_type& t);

// Elements of all shards together: the product of sizes, copies and partials.
[[nodiscard]] inline std::int64_t element_count(const parallel_type& t) noexcept {
  return tensor::element_count(t.global.dims) * t.copies * t.partial;
}

// The type as text, such as float32[64/2,512] copies 2 partial 4; a size over its degree, with steps as 64/2*8.
[[nodiscard]] std::string to_string(const parallel_type& t);

}  // namespace unity::parallel

template <>
struct std::hash<unity::parallel::parallel_type> {
  std::size_t operator()(const unity::parallel::parallel_type& t) const noexcept {
    auto h = std::hash<unity::tensor::tensor_type>{}(t.global);
    for (const auto d : t.degrees) {
      h = unity::hash_combine(h, static_cast<std::uint64_t>(d));
    }
    for (const auto s : t.steps) {
      h = unity::hash_combine(h, static_cast<std::uint64_t>(s));
    }
    return unity::hash_combine(unity::hash_combine(h, static_cast<std::uint64_t>(t.copies)),
                               static_cast<std::uint64_t>(t.partial));
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PARALLEL_TYPE)

#include <fmt/core.h>

namespace unity::parallel {

UNITY_INLINE std::int64_t product(const degree_list& all) noexcept {
  std::int64_t p = 1;
  for (const auto d : all) {
    p *= d;
  }
  return p;
}

UNITY_INLINE bool is_valid(const parallel_type& t) noexcept {
  const auto rank = t.global.dims.size();
  if (t.degrees.size() != rank || t.steps.size() != rank || t.copies < 1 || t.partial < 1 ||
      !tensor::checked_element_count(t.global.dims)) {
    return false;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (t.degrees[d] < 1 || t.steps[d] < 1 || t.global.dims[d] % t.degrees[d] != 0 ||
        t.global.dims[d] / t.degrees[d] % t.steps[d] != 0) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE tensor::tensor_type shard_type(const parallel_type& t) {
  auto s = t.global;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    s.dims[d] /= t.degrees[d] * t.steps[d];
  }
  return s;
}

UNITY_INLINE std::string to_string(const parallel_type& t) {
  std::string text{tensor::name_of(t.global.element)};
  text += '[';
  for (std::size_t d = 0; d < t.global.dims.size(); ++d) {
    text += d == 0 ? "" : ",";
    text += fmt::format("{}", t.global.dims[d]);
    if (t.degrees[d] > 1 || t.steps[d] > 1) {
      text += '/';
      text += fmt::format("{}", t.degrees[d]);
    }
    if (t.steps[d] > 1) {
      text += '*';
      text += fmt::format("{}", t.steps[d]);
    }
  }
  text += ']';
  if (t.copies > 1) {
    text += " copies ";
    text += fmt::format("{}", t.copies);
  }
  if (t.partial > 1) {
    text += " partial ";
    text += fmt::format("{}", t.partial);
  }
  return text;
}

}  // namespace unity::parallel

#endif
