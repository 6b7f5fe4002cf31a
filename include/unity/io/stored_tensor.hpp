// Tensors one after another in a file: their descriptions, their positions, and the positions of their parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/printable.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/sealed_file.hpp>
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
  return fmt::format("{}{}{} {}", printable(t.kind), t.kind.empty() ? "" : " ", detail::shown(t.name),
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

// Sealed files (io/sealed_file.hpp) with lists of numbers that fit in memory: "tensors" of the header gives the
// position of each list.

// The element type that stores a C++ type.
template <class T>
[[nodiscard]] constexpr tensor::dtype stored_as() noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return tensor::dtype::float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return tensor::dtype::float64;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return tensor::dtype::int64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return tensor::dtype::int32;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>, "numbers that files hold");
    return tensor::dtype::uint8;
  }
}

// Lists are stored one after another; empty ones are left out.
class sealed_tensors_writer {
 public:
  template <class T>
  void add(std::string name, std::span<const T> values) {
    add({std::move(name), "", stored_as<T>(), {static_cast<std::int64_t>(values.size())}}, std::as_bytes(values));
  }

  // Effects: as replaced_file; adds "tensors" to the given header.
  // Throws: unity::error if the file cannot be written, or a text of the header is not UTF-8.
  void write(const std::filesystem::path& path, std::string_view line, nlohmann::json header) const;

 private:
  void add(stored_tensor what, std::span<const std::byte> values);

  std::vector<stored_tensor> tensors_{};
  std::string bytes_{};
};

class sealed_tensors_reader {
 public:
  // Throws: unity::error as sealed_reader, or if "tensors" do not match the file.
  sealed_tensors_reader(const std::filesystem::path& path, std::string_view line);

  [[nodiscard]] const std::string& name() const noexcept { return file_.name(); }
  [[nodiscard]] const fingerprint& sum() const noexcept { return file_.sum(); }
  [[nodiscard]] json_place header() const { return {header_, file_.name() + ": header"}; }

  // Empty if there is no list of that name.
  // Throws: unity::error if its elements have another type.
  template <class T>
  [[nodiscard]] std::vector<T> get(std::string_view name) const {
    const auto at = find(name, stored_as<T>());
    std::vector<T> values(at.count);
    file_.read(at.offset, std::as_writable_bytes(std::span{values}));
    return values;
  }

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const { file_.refuse(found, expected); }

 private:
  struct place {
    std::uint64_t offset = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] place find(std::string_view name, tensor::dtype element) const;

  sealed_reader file_;
  nlohmann::json header_;
  std::vector<stored_tensor> tensors_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_STORED_TENSOR)

#include <set>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/hash.hpp>

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

namespace unity::io {

UNITY_INLINE void sealed_tensors_writer::add(stored_tensor what, std::span<const std::byte> values) {
  if (!values.empty()) {
    bytes_.resize(sealed_aligned(bytes_.size()), '\0');
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size());
    tensors_.push_back(std::move(what));
  }
}

UNITY_INLINE void sealed_tensors_writer::write(const std::filesystem::path& path, std::string_view line,
                                               nlohmann::json header) const {
  header["tensors"] = detail::to_json(tensors_);
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw error{path.string(), "a name that is not UTF-8", "names in UTF-8"};
  }
  const auto all = sealed_head(line, text, bytes_.size()) + bytes_;
  byte_hasher sum;
  sum.add(std::as_bytes(std::span{all}));
  const std::uint64_t words[2]{sum.result().low, sum.result().high};
  replaced_file file{path};
  file.write(0, std::as_bytes(std::span{all}));
  file.write(all.size(), std::as_bytes(std::span{words}));
  file.commit();
}

UNITY_INLINE sealed_tensors_reader::sealed_tensors_reader(const std::filesystem::path& path, std::string_view line)
    : file_{path, line, previous_of(path)},
      header_(detail::parse_json(file_.header(), file_.name())),
      tensors_{detail::stored_tensors_from(header().at("tensors"), file_.value_bytes())},
      offsets_{offsets_of(tensors_)} {}

UNITY_INLINE auto sealed_tensors_reader::find(std::string_view name, tensor::dtype element) const -> place {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) {
      if (tensors_[i].element != element) {
        file_.refuse(fmt::format("has {}", to_string(tensors_[i])), fmt::format("{}", element));
      }
      return {offsets_[i], static_cast<std::size_t>(tensor::element_count(tensors_[i].dims))};
    }
  }
  return {};
}

}  // namespace unity::io

#endif
