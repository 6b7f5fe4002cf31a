#include <unity/train/run_settings.hpp>

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/optimizer.hpp>

namespace tests_of_run_settings {

using namespace unity;

TEST_CASE("run settings survive a checkpoint header round trip") {
  train::run_settings s{"90f3a1", 8, "cross_entropy", "synthetic", {}, 7};
  s.rule.how = parallel::optimizer::adam;
  s.rule.beta2 = 0.75;
  CHECK(train::settings_in(train::header_of(s, 3), "w") == s);
}

TEST_CASE("a checkpoint header with invalid numbers is refused") {
  const auto refusal = [](double batch, std::int64_t step) {
    auto h = train::header_of({}, step);
    h.settings["batch"] = batch;
    try {
      static_cast<void>(train::settings_in(h, "w"));
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  CHECK(refusal(8, 0).empty());
  CHECK(refusal(8, -1) == "w: step -1; expected a number of steps");
  CHECK(refusal(1e300, 0) == "w: a batch of 1.0000000000000001e+300; expected a number of samples");
  CHECK(refusal(-1, 0) == "w: a batch of -1; expected a number of samples");
  CHECK(refusal(0.5, 0) == "w: a batch of 0.5; expected a number of samples");
}

}  // namespace tests_of_run_settings
