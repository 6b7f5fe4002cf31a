// The messages about machines that cannot be read.
#pragma once

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include <unity/io/machine_json.hpp>

#include "../support/message_of.hpp"

namespace unity::test {

inline std::string machine_complaint(const std::string& text) {
  return unity::test::message_of([&] { static_cast<void>(io::parse_machine(text, "m.json")); });
}
// The message about `example` with one member changed or, if the value is discarded, removed.
inline std::string machine_complaint(const hardware::machine& example, const std::string& pointer,
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
