// The data of weights and constants: a table beside a graph, whose nodes only name their data.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers, and so do side tables");

// Immutable bytes that copies share: a model and its rewritten versions hold the same weights. Regular.
class shared_bytes {
 public:
  shared_bytes() = default;
  shared_bytes(std::string bytes) : text_{std::make_shared<const std::string>(std::move(bytes))} {}

  [[nodiscard]] const std::string& text() const noexcept;
  [[nodiscard]] const char* data() const noexcept { return text().data(); }
  [[nodiscard]] std::size_t size() const noexcept { return text().size(); }
  [[nodiscard]] bool empty() const noexcept { return text().empty(); }

  friend bool operator==(const shared_bytes& a, const shared_bytes& b) noexcept {
    return a.text_ == b.text_ || a.text() == b.text();
  }

 private:
  std::shared_ptr<const std::string> text_{};
};

// `bytes` are the elements, row-major, little-endian; a bool is one byte. Law: bytes.size() == element_count(dims) *
// size_of(element). Regular.
struct tensor_data {
  tensor::dtype element = tensor::dtype::float32;
  tensor::shape dims{};
  shared_bytes bytes{};

  friend bool operator==(const tensor_data&, const tensor_data&) = default;
};

using data_table = std::map<std::string, tensor_data, std::less<>>;
// In the order of a file.
using named_data = std::vector<std::pair<std::string, tensor_data>>;

[[nodiscard]] inline std::size_t stored_count(const tensor_data& data) {
  return data.bytes.size() / static_cast<std::size_t>(tensor::size_of(data.element));
}

// The elements as another number type. As double, integers beyond 2^53 lose their last digits.
template <class Number = double>
[[nodiscard]] std::vector<Number> elements_of(const tensor_data& data) {
  return tensor::with_storage(data.element, [&](auto stored) {
    std::vector<Number> all(stored_count(data));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::memcpy(&stored, data.bytes.data() + i * sizeof stored, sizeof stored);
      all[i] = static_cast<Number>(tensor::from_storage(data.element, stored));
    }
    return all;
  });
}

// The inverse: elements rounded to what `element` can hold.
template <class Number>
[[nodiscard]] tensor_data make_data(tensor::dtype element, const tensor::shape& dims,
                                    std::span<const Number> elements) {
  std::string bytes;
  tensor::with_storage(element, [&](auto stored) {
    bytes.resize(elements.size() * sizeof stored);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      stored = tensor::to_storage<decltype(stored)>(element, elements[i]);
      std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
    }
  });
  return {element, dims, std::move(bytes)};
}
template <class Number>
[[nodiscard]] tensor_data make_data(tensor::dtype element, const tensor::shape& dims,
                                    const std::vector<Number>& elements) {
  return make_data(element, dims, std::span<const Number>{elements});
}

// The position of the first element that is not a number, in elements.
[[nodiscard]] std::optional<std::size_t> find_nan(const tensor_data& data);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_TENSOR_DATA)

#include <cmath>

#include <unity/core/config.hpp>

namespace unity::io {

UNITY_INLINE const std::string& shared_bytes::text() const noexcept {
  static const std::string none;
  return text_ == nullptr ? none : *text_;
}

UNITY_INLINE std::optional<std::size_t> find_nan(const tensor_data& data) {
  if (!tensor::is_floating(data.element)) {
    return std::nullopt;
  }
  return tensor::with_storage(data.element, [&](auto stored) -> std::optional<std::size_t> {
    const auto count = stored_count(data);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&stored, data.bytes.data() + i * sizeof stored, sizeof stored);
      if (std::isnan(static_cast<double>(tensor::from_storage(data.element, stored)))) {
        return i;
      }
    }
    return std::nullopt;
  });
}

}  // namespace unity::io

#endif
