// JSON with paths: every error names the member that it is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace unity::io::detail {

// Text of a file for an error message: in quotes, in ASCII, control characters escaped as in JSON, at most 60 bytes.
[[nodiscard]] inline std::string shown(const std::string& text) {
  return nlohmann::json(text.substr(0, 60)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace unity::io::detail

namespace unity::io {

// A JSON value with its path in the document, for error messages. Refers to the document, which must outlive it. The
// members that read the value throw unity::error that names the path if the value has another type or lacks a member.
class json_place {
 public:
  json_place(const nlohmann::json& value, std::string where) : value_{value}, where_{std::move(where)} {}

  [[nodiscard]] const nlohmann::json& value() const noexcept { return value_; }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] json_place at(const std::string& key) const;
  [[nodiscard]] bool has(const std::string& key) const { return value_.is_object() && value_.contains(key); }
  [[nodiscard]] std::vector<json_place> items() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string word() const;
  // A string that may be printed on a line of messages and tables.
  [[nodiscard]] std::string line() const;

 private:
  // A member's name: unquoted if it consists of letters, digits, '_', '-' and '.' only.
  [[nodiscard]] static std::string step(const std::string& key);

  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace unity::io

namespace unity::io::detail {

// Throws: unity::error with the byte at which the text is not JSON.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view file);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_JSON_PLACE)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::io {

UNITY_INLINE json_place json_place::at(const std::string& key) const {
  if (!value_.is_object() || !value_.contains(key)) {
    throw error{where_, fmt::format("has no \"{}\"", key), "an object with that member"};
  }
  return {value_.at(key), fmt::format("{}.{}", where_, step(key))};
}

UNITY_INLINE std::vector<json_place> json_place::items() const {
  if (!value_.is_array()) {
    throw error{where_, fmt::format("is {}", value_.type_name()), "an array"};
  }
  std::vector<json_place> all;
  all.reserve(value_.size());
  for (std::size_t i = 0; i < value_.size(); ++i) {
    all.emplace_back(value_[i], fmt::format("{}[{}]", where_, i));
  }
  return all;
}

UNITY_INLINE std::int64_t json_place::integer() const {
  if (!value_.is_number_integer() ||
      (value_.is_number_unsigned() && value_.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))) {
    throw error{where_, fmt::format("is {}", value_.type_name()), "an integer of 64 bits"};
  }
  return value_.get<std::int64_t>();
}

UNITY_INLINE bool json_place::boolean() const {
  if (!value_.is_boolean()) {
    throw error{where_, fmt::format("is {}", value_.type_name()), "true or false"};
  }
  return value_.get<bool>();
}

UNITY_INLINE std::string json_place::word() const {
  if (!value_.is_string()) {
    throw error{where_, fmt::format("is {}", value_.type_name()), "a string"};
  }
  return value_.get<std::string>();
}

UNITY_INLINE std::string json_place::line() const {
  auto text = word();
  if (std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; })) {
    throw error{where_, fmt::format("is {}", detail::shown(text)), "a name without control characters"};
  }
  return text;
}

UNITY_INLINE std::string json_place::step(const std::string& key) {
  const bool is_plain = key.size() <= 60 && !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                                 c == '_' || c == '-' || c == '.';
                        });
  return is_plain ? key : detail::shown(key);
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE nlohmann::json parse_json(std::string_view text, std::string_view file) {
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    throw error{fmt::format("{}, byte {}", file, e.byte), "is not JSON", "a value, ',' or a closing bracket"};
  } catch (const nlohmann::json::exception&) {  // a number that is out of range of double
    throw error{std::string{file}, "holds a number that is too large", "numbers of 64 bits"};
  }
}

}  // namespace unity::io::detail

#endif
