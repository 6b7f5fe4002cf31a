#include <unity/parallel/strategies/statement_search.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/parallel/strategies/statement_space.hpp>

#include "../../support/message_of.hpp"
#include "../../support/statement_subject.hpp"

namespace tests_of_statement_search {

using namespace unity;

namespace {

parallel::statement_search_result searched(const test::statement_subject& x, const std::string& text,
                                           const parallel::statement_search_options& options) {
  return parallel::search_statements(
      x.operators, [&](std::int64_t micro, std::uint32_t layers) { return x.graph(micro, layers); }, x.on, x.durations,
      parallel::optimizer::adam, parallel::parse_statement_search(text), options);
}

using pairs = std::vector<std::pair<picoseconds, bytes>>;

// The Pareto front of time and memory among statements that fit.
pairs best_of(const std::vector<test::simulated_statement>& all, bytes limit) {
  pairs few;
  for (const auto& x : all) {
    const bool is_beaten = std::any_of(all.begin(), all.end(), [&](const auto& y) {
      return y.peak <= limit && y.iteration <= x.iteration && y.peak <= x.peak &&
             (y.iteration < x.iteration || y.peak < x.peak);
    });
    if (x.peak <= limit && !is_beaten) {
      few.emplace_back(x.iteration, x.peak);
    }
  }
  std::sort(few.begin(), few.end());
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

pairs pairs_of(const std::vector<parallel::timed_statement>& all) {
  pairs few;
  for (const auto& s : all) {
    few.emplace_back(s.iteration, s.peak);
  }
  return few;
}

constexpr const char* small_gpt = "zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=128";

}  // namespace

TEST_CASE("statement search finds the Pareto front of all simulated statements", "[exhaustive]") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 2; ++i) {
    const auto x = test::random_statement_subject(random);
    CAPTURE(x.text);
    const auto all = x.on.simulate_all(x.batch, x.layers);
    REQUIRE(!all.empty());
    for (const bool is_limited : {false, true}) {
      bytes limit{std::int64_t{1} << 60};
      if (is_limited) {
        limit = all[random.below(all.size())].peak;
      }
      CAPTURE(limit.count());
      const auto found = searched(x.on, fmt::format("megatron:search,batch={}", x.batch), {limit, 1e9});
      CHECK(pairs_of(found.frontier) == best_of(all, limit));
      CHECK(found.is_complete);
      CHECK(found.is_best_proved);
      CHECK(found.statements == all.size());
      CHECK(found.simulated.size() + found.over_memory + found.by_bound == all.size());
      // Statements that divide gradients may be ruled out by their bound before their memory is known.
      const auto over = [&](bool is_any_zero) {
        return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& s) {
          return s.peak > limit && (is_any_zero || !s.statement.divides_gradients());
        }));
      };
      CHECK(found.over_memory <= over(true));
      CHECK(found.over_memory >= over(false));
      for (const auto& s : found.frontier) {
        const auto own = x.on.simulate(s.statement, x.on.work(s.statement));
        CHECK(own.iteration == s.iteration);
        CHECK(own.peak == s.peak);
      }
    }
  }
}

TEST_CASE("bounds spare statement search more simulations than it runs") {
  const test::statement_subject x{"zoo:gpt?layers=4&hidden=512&heads=4&seq=128&vocab=128", "dgx_a100_80:1x4"};
  const auto found = searched(x, "megatron:search,batch=16", {});
  CHECK(found.by_bound > found.simulated.size());
}

TEST_CASE("statement search does not vary keys that are given") {
  const test::statement_subject x{small_gpt, "dgx_a100_80:1x4"};
  const auto found = searched(x, "megatron:search,batch=8,t=2,recompute=full", {});
  for (const auto& s : found.simulated) {
    CHECK(s.statement.tensor == 2);
    CHECK(s.statement.recomputed == parallel::recomputed_part::full);
  }
  // None of them is left out.
  std::size_t expected = 0;
  const auto any = parallel::parse_statement_search("megatron:search,batch=8");
  for (const auto& s : parallel::all_statements(any, {4, 4, 4, 4, true})) {
    expected += s.tensor == 2 && s.recomputed == parallel::recomputed_part::full ? 1 : 0;
  }
  CHECK(expected > 10);
  CHECK(found.statements == expected);
  CHECK_FALSE(found.simulated.empty());
  CHECK(found.best() == found.frontier.front());
}

TEST_CASE("statement search with flash attention has no selective recomputation") {
  const auto of = [](const std::string& attention) {
    const test::statement_subject x{
        fmt::format("zoo:gpt?attention={}&layers=4&hidden=64&heads=4&seq=128&vocab=128", attention), "dgx_a100_80:1x4"};
    return searched(x, "megatron:search,batch=4", {});
  };
  const auto flash = of("flash");
  const auto products = of("products");
  CHECK(flash.is_complete);
  CHECK(3 * flash.statements == 2 * products.statements);
  for (const auto& s : flash.simulated) {
    CHECK(s.statement.recomputed != parallel::recomputed_part::selective);
  }
  CHECK(flash.frontier.back().peak < products.frontier.back().peak);
}

TEST_CASE("a statement search without result gives a one-line error") {
  const test::statement_subject x{small_gpt, "dgx_a100_80:1x4"};
  const auto error_of = [&](const std::string& text, const parallel::statement_search_options& options) {
    return test::message_of([&] { static_cast<void>(searched(x, text, options)); });
  };
  const auto all = searched(x, "megatron:search,batch=4", {});
  const auto least = all.frontier.back().peak;
  CHECK(error_of("megatron:search,batch=4", {bytes{1000}, 1e9}) ==
        fmt::format("plan: statements of megatron:search,batch=4 need {} bytes of a device, or more; expected one that "
                    "needs 1000 at most, as a device has",
                    least.count()));
  CHECK(error_of("megatron:search,batch=4", {{}, 0}) == "plan: no statement was simulated in 0 s; expected more time");
  CHECK(error_of("megatron:search,batch=4,t=3", {}).find("no statement of") != std::string::npos);
}

TEST_CASE("frontier_of keeps statements that no other beats") {
  using parallel::timed_statement;
  const auto at = [](std::int64_t time, std::int64_t held, std::int64_t micro) {
    timed_statement s;
    s.iteration = picoseconds{time};
    s.peak = bytes{held};
    s.statement.micro = micro;
    return s;
  };
  CHECK(parallel::frontier_of({at(3, 1, 1), at(2, 4, 2), at(1, 9, 3), at(2, 4, 4), at(2, 5, 5), at(4, 1, 6)}) ==
        std::vector<timed_statement>{at(1, 9, 3), at(2, 4, 2), at(3, 1, 1)});
  CHECK(parallel::frontier_of({}).empty());
}

}  // namespace tests_of_statement_search
