// An operator with its attributes, as a node of a tensor graph stores it: how a definition declares them, a caller
// writes them and a shape function reads them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Convert a word or a real number to its stored form (rewrite/algebra.hpp), and back.
[[nodiscard]] attribute word_attribute(std::string_view text);
[[nodiscard]] inline attribute real_attribute(double value) { return {std::bit_cast<std::int64_t>(value)}; }

[[nodiscard]] std::string to_word(std::span<const std::int64_t> bytes);
[[nodiscard]] inline double to_real(std::int64_t bits) noexcept { return std::bit_cast<double>(bits); }

// An attribute as declared in a definition.
struct attribute_field {
  static constexpr std::size_t any = static_cast<std::size_t>(-1);

  attribute_signature signature{};
  std::size_t length = any;  // number of integers, if fixed
  bool required = true;      // without a default
  bool is_flag = false;      // 0 or 1
};

[[nodiscard]] inline attribute_field integer_field(std::string name) {
  return {{std::move(name), attribute_form::integer, {}, {}}, 1, true};
}
[[nodiscard]] inline attribute_field integer_field(std::string name, std::int64_t value) {
  return {{std::move(name), attribute_form::integer, {}, {value}}, 1, false};
}
[[nodiscard]] inline attribute_field flag_field(std::string name, bool value) {
  return {{std::move(name), attribute_form::integer, {}, {value ? 1 : 0}}, 1, false, true};
}
[[nodiscard]] inline attribute_field integers_field(std::string name, std::size_t length = attribute_field::any) {
  return {{std::move(name), attribute_form::integers, {}, {}}, length, true};
}
// A list of fixed length with a default.
[[nodiscard]] inline attribute_field integers_field(std::string name, std::initializer_list<std::int64_t> values) {
  return {{std::move(name), attribute_form::integers, {}, attribute(values)}, values.size(), false};
}
[[nodiscard]] inline attribute_field real_field(std::string name) {
  return {{std::move(name), attribute_form::real, {}, {}}, 1, true};
}
[[nodiscard]] inline attribute_field real_field(std::string name, double value) {
  return {{std::move(name), attribute_form::real, {}, real_attribute(value)}, 1, false};
}
[[nodiscard]] inline attribute_field word_field(std::string name) {
  return {{std::move(name), attribute_form::word, {}, {}}, attribute_field::any, true};
}
// The first choice is the default.
[[nodiscard]] inline attribute_field choice_field(std::string name, std::vector<std::string> choices) {
  return {{std::move(name), attribute_form::choice, std::move(choices), {0}}, 1, false};
}
[[nodiscard]] inline attribute_field dtype_field(std::string name) {
  return choice_field(std::move(name), {dtype_names.begin(), dtype_names.end()});
}

// Whether `value` fits the field: the right form and the right length.
[[nodiscard]] bool fits(const attribute_field& field, std::span<const std::int64_t> value) noexcept;

// An attribute as written by a caller: {"axis", {1}}, {"epsilon", 1e-5}, {"padding", "same"}, {"dims", some_shape}.
class named_attribute {
 public:
  using value_type = std::variant<attribute, double, std::string>;

  named_attribute(std::string_view name, std::initializer_list<std::int64_t> values)
      : name_{name}, value_{attribute(values)} {}
  named_attribute(std::string_view name, std::span<const std::int64_t> values)
      : name_{name}, value_{attribute(values)} {}
  template <std::integral Integer>
  named_attribute(std::string_view name, Integer value)
      : name_{name}, value_{attribute{static_cast<std::int64_t>(value)}} {}
  template <std::floating_point Real>
  named_attribute(std::string_view name, Real value) : name_{name}, value_{static_cast<double>(value)} {}
  template <std::convertible_to<std::string_view> Text>
  named_attribute(std::string_view name, const Text& text) : name_{name}, value_{std::string{std::string_view{text}}} {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const value_type& value() const noexcept { return value_; }

 private:
  std::string name_;
  value_type value_;
};

// Reads an operation's attributes by name. A view: must not outlive the fields and the values.
class attribute_reader {
 public:
  attribute_reader(std::span<const attribute_field> fields, std::span<const attribute> values) noexcept
      : fields_{fields}, values_{values} {}

  [[nodiscard]] std::span<const std::int64_t> integers(std::string_view name) const { return find(name); }
  [[nodiscard]] std::int64_t integer(std::string_view name) const { return find(name)[0]; }
  [[nodiscard]] bool flag(std::string_view name) const { return integer(name) != 0; }
  [[nodiscard]] double real(std::string_view name) const { return to_real(integer(name)); }
  [[nodiscard]] std::string word(std::string_view name) const { return to_word(find(name)); }
  // The attribute as a caller writes it.
  [[nodiscard]] named_attribute named(std::string_view name) const;
  // The value of a choice attribute whose choices are in the order of Enum.
  template <class Enum>
  [[nodiscard]] Enum choice(std::string_view name) const {
    return static_cast<Enum>(integer(name));
  }

 private:
  [[nodiscard]] std::span<const std::int64_t> find(std::string_view name) const;

  std::span<const attribute_field> fields_;
  std::span<const attribute> values_;
};

// Regular. The algebra (tensor/algebra.hpp) defines what the kind means and which attributes it has, in which order.
struct operation {
  kind_id kind{};
  attribute_list attributes{};
  layout order = layout::row_major;  // of the results

  friend bool operator==(const operation&, const operation&) = default;
};

using tensor_graph = compact_graph<operation, tensor_type>;

}  // namespace unity::tensor

template <>
struct std::hash<unity::tensor::operation> {
  std::size_t operator()(const unity::tensor::operation& op) const noexcept {
    auto h = unity::hash_combine(op.kind.index(), static_cast<std::uint64_t>(op.order));
    for (const auto& a : op.attributes) {
      h = unity::hash_combine(h, unity::hash_value(a));
    }
    return h;
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATION)

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE attribute word_attribute(std::string_view text) {
  attribute bytes;
  for (const char c : text) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  return bytes;
}

UNITY_INLINE std::string to_word(std::span<const std::int64_t> bytes) {
  std::string text;
  for (const auto b : bytes) {
    text += static_cast<char>(b);
  }
  return text;
}

UNITY_INLINE bool fits(const attribute_field& field, std::span<const std::int64_t> value) noexcept {
  if (field.length != attribute_field::any && value.size() != field.length) {
    return false;
  }
  if (field.is_flag) {
    return value[0] == 0 || value[0] == 1;
  }
  if (field.signature.form == attribute_form::choice) {
    return value[0] >= 0 && static_cast<std::size_t>(value[0]) < field.signature.choices.size();
  }
  if (field.signature.form == attribute_form::word) {
    for (const auto byte : value) {
      if (byte < 0 || byte > 255) {
        return false;
      }
    }
  }
  return true;
}

UNITY_INLINE std::span<const std::int64_t> attribute_reader::find(std::string_view name) const {
  std::size_t i = 0;
  while (i < fields_.size() && fields_[i].signature.name != name) {
    ++i;
  }
  UNITY_EXPECTS(i < values_.size(), "the name of a declared attribute");
  return values_[i];
}

UNITY_INLINE named_attribute attribute_reader::named(std::string_view name) const {
  const auto value = find(name);
  for (const auto& f : fields_) {
    if (f.signature.name == name && f.signature.form == attribute_form::real) {
      return {name, to_real(value[0])};
    }
    if (f.signature.name == name && f.signature.form == attribute_form::word) {
      return {name, to_word(value)};
    }
  }
  return {name, value};
}

}  // namespace unity::tensor

#endif
