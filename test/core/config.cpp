#include <catch2/catch.hpp>

#include <unity/core/config.hpp>

#include "../support/child.hpp"

namespace tests_of_config {

namespace {

int half(int even) {
  UNITY_EXPECTS(even % 2 == 0, "an even number");
  return even / 2;
}

}  // namespace

TEST_CASE("a satisfied precondition prints no message") {
  CHECK(half(4) == 2);
  const auto kept = unity::test::in_child([] { half(6); });
  CHECK_FALSE(kept.aborted);
  CHECK(kept.messages.empty());
}

TEST_CASE("a violated precondition prints its place and expectation and aborts") {
  const auto broken = unity::test::in_child([] { half(3); });
  CHECK(broken.aborted);
  CHECK_THAT(broken.messages, Catch::Contains("config.cpp:"));
  CHECK_THAT(broken.messages, Catch::Contains("half(int)"));
  CHECK_THAT(broken.messages, Catch::Contains("expected an even number (even % 2 == 0 is false)"));
}

TEST_CASE("preconditions can be checked in constant expressions") {
  constexpr auto checked = [](int i) {
    UNITY_EXPECTS(i > 0, "a positive number");
    return i;
  };
  static_assert(checked(1) == 1);
  CHECK(checked(2) == 2);
}

}  // namespace tests_of_config
