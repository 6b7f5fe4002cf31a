// What reading a machine complains of.
#pragma once

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include <unity/core/error.hpp>
#include <unity/io/machine_json.hpp>

namespace unity::test {

inline std::string machine_complaint(const std::string& text) {
  try {
    static_cast<void>(io::parse_machine(text, "m.json"));
  } catch (const error& e) {
    return e.what();
  }
  return "";
}
// Of `example` with one member changed or, without a value, removed.
inline std::string machine_complaint(const machine::machine& example, const std::string& pointer,
                                     const nlohmann::json& value) {
  auto document = io::to_json(example);
  const nlohmann::json::json_pointer place{pointer};
  if (value.is_discarded()) {
    document.at(place.parent_pointer()).erase(place.back());
  } else {
    document[place] = value;
  }
  const auto line = machine_complaint(document.dump());
  CHECK(line.find('\n') == std::string::npos);
  return line;
}

}  // namespace unity::test
