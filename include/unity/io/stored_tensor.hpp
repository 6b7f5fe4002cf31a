// Tensors one after another in a file: their descriptions, their positions, and the positions of their parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/small_vector.hpp>
#include <unity/io/json_place.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

// Regular. The pair of name and kind is unique in a file.
struct stored_tensor {
  std::string name{};
  std::string kind{};  // the role of the tensor, in the terms of the kind of file
  tensor::dtype element = tensor::dtype::float32;
  tensor::shape dims{};

  [[nodiscard]] std::uint64_t byte_count() const noexcept {
    return static_cast<std::uint64_t>(tensor::element_count(dims) * tensor::size_of(element));
  }

  friend bool operator==(const stored_tensor&, const stored_tensor&) = default;
};

// For messages, such as weight "w" float32[2,3].
[[nodiscard]] inline std::string to_string(const stored_tensor& t) {
  return fmt::format("{}{}{} {}", t.kind, t.kind.empty() ? "" : " ", detail::shown(t.name),
                     tensor::to_string(tensor::tensor_type{.element = t.element, .dims = t.dims}));
}

// The offset of each tensor, a multiple of 64, and then the end of the values. Units: bytes.
[[nodiscard]] std::vector<std::uint64_t> offsets_of(std::span<const stored_tensor> tensors);

namespace detail {

// Throws: unity::error if a name is not UTF-8.
[[nodiscard]] nlohmann::json to_json(std::span<const stored_tensor> tensors);

[[nodiscard]] stored_tensor stored_tensor_from(const json_place& in);

// Throws: unity::error if tensors are malformed, not unique, at wrong offsets, or do not fill `value_bytes`.
[[nodiscard]] std::vector<stored_tensor> stored_tensors_from(const json_place& in, std::uint64_t value_bytes);

}  // namespace detail

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_STORED_TENSOR)

#include <set>

#include <unity/core/error.hpp>
#include <unity/io/sealed_file.hpp>

namespace unity::io {

UNITY_INLINE std::vector<std::uint64_t> offsets_of(std::span<const stored_tensor> tensors) {
  std::vector<std::uint64_t> offsets{0};
  for (const auto& t : tensors) {
    offsets.back() = sealed_aligned(offsets.back());
    offsets.push_back(offsets.back() + t.byte_count());
  }
  return offsets;
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE nlohmann::json to_json(std::span<const stored_tensor> tensors) {
  const auto offsets = offsets_of(tensors);
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    list.push_back({{"name", t.name},
                    {"kind", t.kind},
                    {"element", tensor::name_of(t.element)},
                    {"dims", std::vector<std::int64_t>(t.dims.begin(), t.dims.end())},
                    {"offset", offsets[i]}});
  }
  return list;
}

UNITY_INLINE stored_tensor stored_tensor_from(const json_place& in) {
  stored_tensor t{in.at("name").word(), in.at("kind").word(), {}, {}};
  const auto element = tensor::find_dtype(in.at("element").word());
  if (!element) {
    throw error{in.at("element").where(), fmt::format("unknown element type {}", shown(in.at("element").word())),
                "one as float32"};
  }
  t.element = *element;
  for (const auto& size : in.at("dims").items()) {
    t.dims.push_back(size.integer());
  }
  if (!tensor::checked_element_count(t.dims)) {
    throw error{in.at("dims").where(), "not the sizes of a tensor", "positive sizes, and not too many"};
  }
  return t;
}

UNITY_INLINE std::vector<stored_tensor> stored_tensors_from(const json_place& in, std::uint64_t value_bytes) {
  std::vector<stored_tensor> all;
  std::set<std::pair<std::string, std::string>> names;
  const auto items = in.items();
  for (const auto& item : items) {
    all.push_back(stored_tensor_from(item));
    if (!names.emplace(all.back().name, all.back().kind).second) {
      throw error{item.where(), fmt::format("a second {}", to_string(all.back())), "different names"};
    }
  }
  const auto offsets = offsets_of(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto offset = items[i].at("offset");
    if (static_cast<std::uint64_t>(offset.integer()) != offsets[i]) {
      throw error{offset.where(), fmt::format("is {}", offset.integer()), fmt::format("{}", offsets[i])};
    }
  }
  if (offsets.back() != value_bytes) {
    throw error{in.where(), fmt::format("tensors of {} bytes", offsets.back()),
                fmt::format("{} bytes, as the file has", value_bytes)};
  }
  return all;
}

}  // namespace unity::io::detail

#endif
