#include <unity/parallel/operator_grid.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>

namespace tests_of_task_grid {

using namespace unity;
using parallel::degree_list;
using parallel::task_grid;
using parallel::task_place;

TEST_CASE("task_grid numbers tasks by term then copy then reduction then block") {
  const task_grid g{{2, 3}, {2, 1}, {3}, 2};
  CHECK(g.blocks() == 6);
  CHECK(g.result_partials() == 6);
  REQUIRE(g.tasks() == 72);
  std::int64_t number = 0;
  for (std::int64_t partial = 0; partial < 3; ++partial) {
    for (std::int64_t copy = 0; copy < 2; ++copy) {
      for (std::int64_t reduction = 0; reduction < 2; ++reduction) {
        for (std::int64_t block = 0; block < 6; ++block) {
          CHECK(place_of(g, static_cast<std::size_t>(number++)) == task_place{partial, copy, reduction, block});
        }
      }
    }
  }
}

TEST_CASE("a task grid with degrees of 1 equals one without them") {
  CHECK(task_grid{{2, 1}, {1, 1}, {1}, 1} == task_grid{2, 1});
  CHECK(task_grid{degree_list{2, 1}} == task_grid{2, 1});
  CHECK_FALSE(task_grid{{2, 1}, {1, 2}, {1}, 1} == task_grid{2, 1});
  CHECK_FALSE(task_grid{{2, 1}, {}, {}, 2} == task_grid{2, 1});
  CHECK(task_grid{}.tasks() == 1);
}

}  // namespace tests_of_task_grid
