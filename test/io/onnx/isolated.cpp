#include <unity/io/onnx/opaque.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

namespace tests_of_isolated {

using unity::io::detail::isolated;

TEST_CASE("isolated code returns empty and long strings") {
  CHECK(isolated([] { return std::string{}; }) == "");
  CHECK(isolated([] { return std::string(1000000, 'x'); }) == std::string(1000000, 'x'));
}

TEST_CASE("isolated code does not change variables of its caller") {
  int value = 1;
  CHECK(isolated([&] {
          value = 2;
          return std::to_string(value);
        }) == "2");
  CHECK(value == 1);
}

TEST_CASE("isolated code that throws/crashes/exits or times out gives no result") {
  CHECK_FALSE(isolated([]() -> std::string { throw std::runtime_error{"no"}; }));
  CHECK_FALSE(isolated([] {
    ::raise(SIGSEGV);
    return std::string{"survived"};
  }));
  CHECK_FALSE(isolated([]() -> std::string { ::_exit(0); }));
  CHECK_FALSE(isolated(
      [] {
        std::this_thread::sleep_for(std::chrono::seconds{60});
        return std::string{"late"};
      },
      std::chrono::milliseconds{50}));
}

}  // namespace tests_of_isolated
