// Sealed files (io/sealed_file.hpp) with lists of numbers that fit in memory: "tensors" of the header gives the
// position of each list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/io/json_place.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

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
  [[nodiscard]] detail::json_place header() const { return {header_, file_.name() + ": header"}; }

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SEALED_TENSORS)

#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/io/replaced_file.hpp>

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
