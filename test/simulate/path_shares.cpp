#include <unity/simulate/timeline.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>

#include <unity/core/random.hpp>
#include <unity/simulate/full.hpp>

#include "random_program.hpp"

namespace tests_of_path_shares {

using namespace unity;
using simulate::wait_reason;
using tasks::task_kind;

TEST_CASE("step times and shares of the critical path add up to the iteration") {
  const auto seed = GENERATE(range<std::uint64_t>(0, 40));
  CAPTURE(seed);
  random_engine random{seed};
  const auto p = test::random_plan{random, {.operators = 10, .devices = 3, .longest = 9}}.lower(random);
  simulate::full_simulation s;
  const auto iteration = s.run(p);
  const auto path = simulate::summarize(p, s.times()).critical_path;
  picoseconds sum{};
  for (const auto t : simulate::step_times(path, s.times())) {
    CHECK(t > picoseconds{0});
    sum += t;
  }
  CHECK(sum == iteration);
  const auto shares = simulate::path_shares(p, path, s.times());
  std::size_t steps = 0;
  sum = {};
  for (const auto& share : shares) {
    steps += share.steps;
    sum += share.time;
  }
  CHECK(steps == path.size());
  CHECK(sum == iteration);
}

TEST_CASE("path_shares groups steps by task kind and by what they waited for") {
  tasks::program p;
  p.add_resource({"gpu", tasks::resource_kind::stream, 0});
  const auto f = p.add_fragment();
  tasks::fragment fragment;
  const auto work = [](std::int64_t duration, task_kind kind) {
    return tasks::task{tasks::resource_id{0U}, picoseconds{duration}, {}, {}, kind, 0};
  };
  const auto first = fragment.add(work(10, task_kind::forward));
  fragment.add(work(5, task_kind::forward));  // also ready at 0, but runs second
  const auto last = fragment.add(work(7, task_kind::backward));
  fragment.dependencies.push_back({{{}, first}, {{}, last}, false});
  p.replace(f, fragment);
  p.commit();
  simulate::full_simulation s;
  s.run(p);
  const auto shares = simulate::path_shares(p, simulate::summarize(p, s.times()).critical_path, s.times());
  REQUIRE(shares.size() == 3);
  CHECK(shares[0] == simulate::path_share{task_kind::forward, wait_reason::nothing, 1, picoseconds{10}});
  CHECK(shares[1] == simulate::path_share{task_kind::forward, wait_reason::resource, 1, picoseconds{5}});
  CHECK(shares[2] == simulate::path_share{task_kind::backward, wait_reason::resource, 1, picoseconds{7}});
  CHECK(simulate::path_shares(p, {}, s.times()).empty());
}

}  // namespace tests_of_path_shares
