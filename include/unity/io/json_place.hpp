// JSON read with an eye on the place: every complaint names the member it is about.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>

namespace unity::io::detail {

// What a file says, for a line of a message: in quotes, in ASCII, control characters as JSON
// escapes them, and not more than 60 bytes of it.
[[nodiscard]] inline std::string shown(const std::string& text) {
  return nlohmann::json(text.substr(0, 60)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// A JSON value with the path that led to it, so that messages can say where.
class json_place {
 public:
  json_place(const nlohmann::json& value, std::string where) : value_{value}, where_{std::move(where)} {}

  [[nodiscard]] const nlohmann::json& value() const noexcept { return value_; }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] json_place at(const std::string& key) const {
    if (!value_.is_object() || !value_.contains(key)) {
      throw error{where_, "has no \"" + key + "\"", "an object with that member"};
    }
    return {value_.at(key), where_ + "." + step(key)};
  }
  [[nodiscard]] bool has(const std::string& key) const { return value_.is_object() && value_.contains(key); }
  [[nodiscard]] std::vector<json_place> items() const {
    if (!value_.is_array()) {
      throw error{where_, std::string{"is "} + value_.type_name(), "an array"};
    }
    std::vector<json_place> all;
    all.reserve(value_.size());
    for (std::size_t i = 0; i < value_.size(); ++i) {
      all.emplace_back(value_[i], where_ + "[" + std::to_string(i) + "]");
    }
    return all;
  }
  [[nodiscard]] std::int64_t integer() const {
    if (!value_.is_number_integer() ||
        (value_.is_number_unsigned() && value_.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))) {
      throw error{where_, std::string{"is "} + value_.type_name(), "an integer of 64 bits"};
    }
    return value_.get<std::int64_t>();
  }
  [[nodiscard]] bool boolean() const {
    if (!value_.is_boolean()) {
      throw error{where_, std::string{"is "} + value_.type_name(), "true or false"};
    }
    return value_.get<bool>();
  }
  [[nodiscard]] std::string word() const {
    if (!value_.is_string()) {
      throw error{where_, std::string{"is "} + value_.type_name(), "a string"};
    }
    return value_.get<std::string>();
  }
  // A word that is on a line of messages and tables.
  [[nodiscard]] std::string line() const {
    auto text = word();
    if (std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; })) {
      throw error{where_, "is " + shown(text), "a name without control characters"};
    }
    return text;
  }

 private:
  // A member's name, as it is where that is no more than letters, digits and '_', '-' or '.'.
  [[nodiscard]] static std::string step(const std::string& key) {
    const bool is_plain = key.size() <= 60 && !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
                            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                                   c == '_' || c == '-' || c == '.';
                          });
    return is_plain ? key : shown(key);
  }

  const nlohmann::json& value_;
  std::string where_;
};

// Throws: unity::error with the byte where the text stops being JSON.
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, std::string_view file) {
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    throw error{std::string{file} + ", byte " + std::to_string(e.byte), "is not JSON",
                "a value, ',' or a closing bracket"};
  } catch (const nlohmann::json::exception&) {  // a number that no double holds
    throw error{std::string{file}, "holds a number that is too large", "numbers of 64 bits"};
  }
}

}  // namespace unity::io::detail
