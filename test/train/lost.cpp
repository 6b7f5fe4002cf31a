// A rank that fails during training: the others stop as well and name it.

#include <catch2/catch.hpp>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>

#include "runs.hpp"

namespace tests_of_lost {

using namespace unity;
using train::test::operators;
using train::test::plan_for;
using clock_type = std::chrono::steady_clock;

TEST_CASE("ranks stop when another throws and report the failed rank and its error") {
  const auto* parallelism = GENERATE("data", "model");
  const auto lost = GENERATE(0, 2, 3);
  CAPTURE(parallelism, lost);
  const auto p = train::with_loss(operators(), plan_for("zoo:mlp?layers=3&hidden=8&batch=8", 4, parallelism),
                                  tensor::loss::mean_square);
  std::array<std::string, 4> said;
  const auto start = clock_type::now();
  const auto run = [&] {
    backend::run_local(4, [&](backend::local_communicator& world) {
      backend::reference_backend b{operators()};
      train::trainer rank{b, operators(), p, world, train::update_rule{}, 1};
      try {
        for (std::uint64_t s = 0; s < 1000; ++s) {
          if (s == 3 && world.rank() == lost) {
            throw std::runtime_error{"out of luck"};
          }
          static_cast<void>(rank.step(s));
        }
      } catch (const std::exception& e) {
        said[static_cast<std::size_t>(world.rank())] = e.what();
        throw;
      }
    });
  };
  CHECK_THROWS_WITH(run(), "out of luck");  // the cause, not its consequences
  CHECK(clock_type::now() - start < std::chrono::seconds{10});
  for (int r = 0; r < 4; ++r) {
    const auto expected = r == lost ? std::string{"out of luck"}
                                    : "rank " + std::to_string(lost) + ": stopped (out of luck); expected it to go on";
    CHECK(said[static_cast<std::size_t>(r)] == expected);
  }
}

}  // namespace tests_of_lost
