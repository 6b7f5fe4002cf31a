// Grids of tasks, and the types of operands and results on them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/space.hpp>

#include "operators.hpp"
#include "random_pcg.hpp"

namespace tests_of_operator_grid {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::dimensions;
using unity::parallel::test::type;

namespace {

// The index of that name.
std::size_t index_of(const operator_dimensions& o, std::string_view name) {
  std::size_t i = 0;
  while (name != o.structure.indices.at(i).name) {
    ++i;
  }
  return i;
}
operator_grid along(const operator_dimensions& o, std::string_view name, std::int64_t degree, std::int64_t steps = 1) {
  auto g = undivided_grid(o);
  g.indices[index_of(o, name)] = degree;
  g.steps[index_of(o, name)] = steps;
  return g;
}
std::string types(const operator_dimensions& o, const operator_grid& g) {
  const auto all = types_on(o, g);
  std::string text = all ? "" : "refused";
  for (std::size_t x = 0; all && x < all->operands.size(); ++x) {
    text += (x == 0 ? "" : ", ") + to_string(all->operands[x]).substr(7);
  }
  for (std::size_t r = 0; all && r < all->results.size(); ++r) {
    text += (r == 0 ? " -> " : ", ") + to_string(all->results[r]).substr(7);
  }
  return text;
}

}  // namespace

TEST_CASE("an axis of an operator grid gives shards or replicas or partial sums of a tensor") {
  const auto o = dimensions("linear", {}, {type({4, 6}), type({6, 2}), type({2})});
  CHECK(types(o, along(o, "b", 2)) == "[4/2,6], [6,2] copies 2, [2] copies 2 -> [4/2,2]");
  CHECK(types(o, along(o, "n", 2)) == "[4,6] copies 2, [6,2/2], [2/2] -> [4,2/2]");
  CHECK(types(o, along(o, "k", 2)) == "[4,6/2], [6/2,2], [2] partial 2 -> [4,2] partial 2");
  auto g = undivided_grid(o);
  g.partials[0] = 3;
  CHECK(types(o, g) == "[4,6] partial 3, [6,2] copies 3, [2] partial 3 -> [4,2] partial 3");
  g.copies = 2;
  CHECK(types(o, g) == "[4,6] copies 2 partial 3, [6,2] copies 6, [2] copies 2 partial 3 -> [4,2] copies 2 partial 3");
}

TEST_CASE("tensors on a random operator grid have a shard per task; infer_grid recovers the grid", "[law]") {
  const auto seed = GENERATE(range(0U, 20U));
  CAPTURE(seed);
  random_engine random{seed};
  const std::vector all{
      dimensions("matmul", {}, {type({2, 4, 6}), type({2, 6, 4})}),
      dimensions("linear", {}, {type({4, 6}), type({6, 2}), type({2})}),
      dimensions("add", {}, {type({4, 6}), type({6})}),
      dimensions("conv2d", {{"padding", "same"}, {"groups", 2}}, {type({2, 4, 4, 6}), type({4, 2, 3, 3}), type({4})}),
      dimensions("reshape", {{"dims", {4, 2, 6}}}, {type({8, 6})}),
      dimensions("softmax", {{"axis", 1}}, {type({4, 6})}),
      dimensions(
          "attention", {{"heads", 2}},
          {type({2, 4, 6}), type({2, 4, 6}), type({2, 4, 6}), type({6, 4}), type({6, 4}), type({6, 4}), type({4, 6})})};
  for (int i = 0; i < 50; ++i) {
    for (const auto& o : all) {
      const auto g = parallel::test::random_grid(random, o, 16);
      const auto made = types_on(o, g);
      REQUIRE(made.has_value());
      for (const auto& t : made->operands) {
        REQUIRE(total(t) == task_count(g));
      }
      for (const auto& t : made->results) {
        REQUIRE(total(t) == task_count(g));
      }
      CAPTURE(o.structure.indices.size(), types(o, g));
      REQUIRE(infer_grid(o, made->operands) == g);
    }
  }
}

TEST_CASE("a reshape divides an inner index only if the outer index is fully divided") {
  const auto o = dimensions("reshape", {{"dims", {8, 6}}}, {type({4, 2, 6})});
  auto g = undivided_grid(o);
  const auto inner = o.structure.operands[0][1].indices[0];
  const auto outer = o.structure.operands[0][0].indices[0];
  g.indices[inner] = 2;
  CHECK_FALSE(types_on(o, g));
  g.indices[outer] = 2;
  CHECK_FALSE(types_on(o, g));
  g.indices[outer] = 4;
  CHECK(types(o, g) == "[4/4,2/2,6] -> [8/8,6]");
}

TEST_CASE("pooling windows are not divided; softmax statistics are divided but not stepped") {
  const auto pool = dimensions("max_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}}, {type({2, 2, 4, 4})});
  CHECK_THAT(why_not(pool, along(pool, "kh", 2)), Catch::Contains("kh"));
  CHECK(types(pool, along(pool, "oh", 2)) == "[2,2,4/2,4] -> [2,2,2/2,2]");
  const auto softmax = dimensions("softmax", {{"axis", 1}}, {type({4, 6})});
  const auto statistic = softmax.structure.results[0][1].indices[0];
  auto g = undivided_grid(softmax);
  g.indices[statistic] = 3;
  CHECK(types(softmax, g) == "[4,6/3] -> [4,6/3]");
  g.indices[statistic] = 1;
  g.steps[statistic] = 3;
  CHECK_FALSE(why_not(softmax, g).empty());
}

TEST_CASE("a reduction in steps gives the full sum; it is refused if a bias is added") {
  const auto product = dimensions("matmul", {}, {type({4, 6}), type({6, 2})});
  CHECK(types(product, along(product, "k", 1, 3)) == "[4,6/1*3], [6/1*3,2] -> [4,2]");
  CHECK(types(product, along(product, "k", 2, 3)) == "[4,6/2*3], [6/2*3,2] -> [4,2] partial 2");
  const auto affine = dimensions("linear", {}, {type({4, 6}), type({6, 2}), type({2})});
  CHECK(types(affine, along(affine, "k", 1, 3)) == "refused");
  CHECK(types(affine, along(affine, "b", 1, 2)) == "[4/1*2,6], [6,2], [2] -> [4/1*2,2]");
}

TEST_CASE("an operator grid with the wrong indices or invalid degrees is refused") {
  const auto o = dimensions("matmul", {}, {type({4, 6}), type({6, 2})});
  CHECK_FALSE(why_not(o, operator_grid{}).empty());
  CHECK_THAT(why_not(o, along(o, "m", 3)), Catch::Contains("3 parts of index m"));
  CHECK_FALSE(why_not(o, along(o, "m", 0)).empty());
  auto g = undivided_grid(o);
  CHECK(why_not(o, g).empty());
  g.copies = 0;
  CHECK_FALSE(why_not(o, g).empty());
}

}  // namespace tests_of_operator_grid
