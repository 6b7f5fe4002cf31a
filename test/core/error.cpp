#include <stdexcept>
#include <string>
#include <type_traits>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>

namespace tests_of_error {

static_assert(std::is_base_of_v<std::runtime_error, unity::error>);

TEST_CASE("an error message states the place and what was found and expected") {
  const unity::error e{"m.onnx: node 3", "Conv with 1 input", "2 or 3 inputs"};
  CHECK(std::string{e.what()} == "m.onnx: node 3: Conv with 1 input; expected 2 or 3 inputs");
}

TEST_CASE("unity::error can be caught as std::runtime_error") {
  CHECK_THROWS_AS(throw unity::error{"one line"}, std::runtime_error);
  CHECK_THROWS_WITH(throw unity::error{"one line"}, "one line");
}

}  // namespace tests_of_error
