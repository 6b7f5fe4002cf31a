#include <unity/tensor/rules/bounded_instances.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>

#include "../testing.hpp"

namespace tests_of_bounded_instances {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

rule_set compiled(std::string_view text) {
  return compile_rule(standard(), parse_rules("rule r " + std::string{text}).at(0));
}

struct found {
  std::size_t rung = 0;
  std::set<std::string> instances{};
  std::size_t visited = 0;
};

found instances_of(std::string_view text, const std::vector<instance_bounds>& ladder, std::size_t effort = 1000000) {
  const auto rules = compiled(text);
  found f;
  const auto rung =
      for_each_instance(standard(), rules, ladder, effort, [&](const substitution& s, const rule_instance& i) {
        ++f.visited;
        f.instances.insert(to_string(standard(), s, i));
        return true;
      });
  REQUIRE(rung);
  f.rung = *rung;
  return f;
}

instance_bounds bounds(std::int64_t size, std::size_t rank) {
  instance_bounds b;
  b.size = size;
  b.rank = rank;
  return b;
}

}  // namespace

TEST_CASE("for_each_instance tries all shapes with carried indices at sizes 1 and 2") {
  const auto f = instances_of("relu(relu(?x)) => relu(?x)", {bounds(4, 2)});
  CHECK(f.visited == f.instances.size());
  CHECK(f.instances == std::set<std::string>{"?x float32[]", "?x float32[1]", "?x float32[2]", "?x float32[1,1]",
                                             "?x float32[1,2]", "?x float32[2,1]", "?x float32[2,2]"});
}

TEST_CASE("for_each_instance tries a summed index at all sizes up to the bound") {
  auto b = bounds(4, 2);
  b.least_rank = 2;
  const auto f = instances_of("matmul{activation=?a}(?x, ?w) => matmul{activation=?a}(?x, ?w)", {b});
  CHECK(f.visited == 5 * 2 * 4 * 2);  // activations, rows, summed index, columns
  CHECK(f.instances.contains("?x float32[2,4], ?w float32[4,2]"));
  CHECK_FALSE(f.instances.contains("?x float32[3,4], ?w float32[4,2]"));
}

TEST_CASE("for_each_instance tries all sizes along a concat axis but not along others") {
  const auto f = instances_of("concat{axis=?a}(relu(?x), relu(?y)) => relu(concat{axis=?a}(?x, ?y))", {bounds(3, 2)});
  CHECK(f.instances.contains("?x float32[3,2], ?y float32[1,2]; concat{axis=0}"));
  CHECK(f.instances.contains("?x float32[2,3], ?y float32[2,3]; concat{axis=1}"));
  CHECK_FALSE(f.instances.contains("?x float32[2,3], ?y float32[2,3]; concat{axis=0}"));
  CHECK(f.visited == 9 + 2 * 9 * 2);
}

TEST_CASE("for_each_instance tries all sizes that conditions or attributes mention") {
  CHECK(instances_of("relu(?x) => relu(?x) if size(?x, 0) > 2", {bounds(4, 1)}).instances ==
        std::set<std::string>{"?x float32[3]", "?x float32[4]"});
  CHECK(instances_of("relu(?x) => reshape{dims=[size(?x, 0)]}(relu(?x))", {bounds(4, 1)}).visited == 5);
  CHECK(instances_of("relu(?x) => relu(?x) if shape(?x) == [3]", {bounds(4, 1)}).visited == 1);
}

TEST_CASE("for_each_instance tries a required rank beyond the bounds unless it is too large") {
  CHECK(instances_of("relu(?x) => relu(?x) if rank(?x) == 5", {bounds(2, 1)}).visited == 32);
  CHECK(instances_of("relu(?x) => relu(?x) if rank(?x) == 14", {bounds(4, 1)}).visited == 0);
  CHECK(instances_of("reshape{dims=?d}(?x) => reshape{dims=?d}(?x) if length(?d) == 4611686018427387904",
                     {bounds(2, 1)}).visited == 0);
}

TEST_CASE("for_each_instance tries nothing for malformed or unsatisfiable attributes") {
  for (const auto* text :
       {"conv2d{groups=9223372036854775807, ..}(?x, ?w) => relu(?x)",
        "slice{axes=[0, 1], starts=[0], ..}(?x) => relu(?x)",
        "slice{axes=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ..}(?x) => relu(?x)",
        "slice{axes=[0], starts=[9223372036854775807], ..}(?x) => relu(?x)",
        "slice{axes=[0], starts=[-9223372036854775807], ..}(?x) => relu(?x)"}) {
    INFO(text);
    CHECK(instances_of(text, {bounds(2, 4)}).visited == 0);
  }
}

TEST_CASE("for_each_instance tries nothing for a measure without a valid argument") {
  auto rules = compiled("relu(?x) => relu(?x) if size(?x, 0) > 2");
  rules[0].conditions[0].arguments[0].arguments = std::vector<compiled_expression>{};
  std::size_t count = 0;
  const std::vector<instance_bounds> ladder{bounds(4, 1)};
  for_each_instance(standard(), rules, ladder, 1000, [&](const auto&, const auto&) { return ++count > 0; });
  CHECK(count == 0);
  CHECK(instances_of("relu(?x) => relu(?x) if size(?x, 9223372036854775807) > 2", ladder).visited == 0);
}

TEST_CASE("for_each_instance tries all ways to broadcast") {
  const auto f = instances_of("add(?x, ?y) == add(?y, ?x)", {bounds(4, 1)});
  CHECK(f.instances == std::set<std::string>{"?x float32[], ?y float32[]", "?x float32[], ?y float32[1]",
                                             "?x float32[], ?y float32[2]", "?x float32[1], ?y float32[]",
                                             "?x float32[1], ?y float32[1]", "?x float32[1], ?y float32[2]",
                                             "?x float32[2], ?y float32[]", "?x float32[2], ?y float32[1]",
                                             "?x float32[2], ?y float32[2]"});
}

TEST_CASE("for_each_instance tries one or more repetitions; smaller sizes for three") {
  const auto f = instances_of("concat{axis=?a}(??x...) => concat{axis=?a}(??x...)", {bounds(3, 1)});
  CHECK(f.visited == 2 + 9 + 8);
  CHECK(f.instances.contains("??x float32[3] float32[1]; concat{axis=0}"));
  CHECK(f.instances.contains("??x float32[2] float32[1] float32[2]; concat{axis=0}"));
  CHECK_FALSE(f.instances.contains("??x float32[3] float32[1] float32[2]; concat{axis=0}"));
}

TEST_CASE("for_each_instance tries a user-defined operator on all shapes that it takes") {
  auto a = standard_algebra();
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_rank(0, 2)) {
      const auto i = s.parallel("i");
      const auto j = s.reduced("j");
      s.read({i, j});
      s.write({i});
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) { return kernels::sum(kernels::x(0)); };
  a.add(define("row_sums", 1, 1, {}, primitive{iteration, kernel}));
  const auto rules =
      compile_rule(a, parse_rules("rule r row_sums(?x) => row_sums(?x)").at(0));
  std::size_t count = 0;
  const std::vector<instance_bounds> ladder{bounds(4, 4)};
  for_each_instance(a, rules, ladder, 100000, [&](const substitution&, const rule_instance&) { return ++count > 0; });
  CHECK(count == 2 * 4);
}

TEST_CASE("for_each_instance takes narrower bounds if the wide ones exceed the effort") {
  const auto text = "add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)";
  CHECK(instances_of(text, {bounds(4, 3), bounds(4, 1)}, 1000000).rung == 0);
  const auto f = instances_of(text, {bounds(4, 3), bounds(4, 1)}, 300);
  CHECK(f.rung == 1);
  CHECK(f.visited == 27);
}

TEST_CASE("for_each_instance has a limit, also for the narrowest bounds") {
  const std::vector<instance_bounds> ladder{bounds(4, 4), bounds(4, 3)};
  std::size_t visited = 0;
  CHECK(!for_each_instance(standard(), compiled("add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)"), ladder, 10,
                           [&](const substitution&, const rule_instance&) { return ++visited > 0; }));
  CHECK(visited == 0);
}

TEST_CASE("for_each_instance spends more effort rather than take bounds without instances") {
  const auto text = "relu(conv2d(?x, ?w)) => relu(conv2d(?x, ?w))";
  const auto all = instances_of(text, {bounds(2, 4)});
  const auto f = instances_of(text, {bounds(2, 4), bounds(2, 3)}, 1000);
  CHECK(f.rung == 0);
  CHECK(f.instances == all.instances);
}

TEST_CASE("for_each_instance stops on request and has a fixed order") {
  std::vector<std::string> order[2];
  const auto rules = compiled("matmul(?x, ?w) => matmul(?x, ?w)");
  const std::vector<instance_bounds> ladder{bounds(4, 3)};
  for (auto& o : order) {
    for_each_instance(standard(), rules, ladder, 1000000, [&](const substitution& s, const rule_instance& i) {
      o.push_back(to_string(standard(), s, i));
      return o.size() < 20;
    });
  }
  CHECK(order[0].size() == 20);
  CHECK(order[0] == order[1]);
}

TEST_CASE("for_each_instance tries constants where conditions require them") {
  const auto rules = compiled("div(?x, ?c) => mul(?x, reciprocal(?c)) if constant(?c) == 1, constant(?x) == 0");
  const std::vector<instance_bounds> ladder{bounds(2, 2)};
  std::size_t count = 0;
  for_each_instance(standard(), rules, ladder, 1000000, [&](const substitution&, const rule_instance& i) {
    CHECK(!i.values[0][0].constant);
    CHECK(i.values[1][0].constant);
    return ++count > 0;
  });
  CHECK(count > 0);
}

TEST_CASE("random_instances visits all instances within bounds in an order that the seed determines") {
  const auto rules =
      compiled("concat{axis=?c}(add(??x, ??y)...) => add(concat{axis=?c}(??x...), concat{axis=?c}(??y...))");
  const auto& s = rules.front();
  auto small = bounds(2, 1);
  small.repetitions = 2;
  const auto visited = [&](std::uint64_t seed, std::size_t samples) {
    random_instances some{standard(), s, small, seed};
    std::vector<std::string> all;
    for (std::size_t i = 0; i < samples; ++i) {
      some.visit(1000, [&](const rule_instance& instance) {
        all.push_back(to_string(standard(), s, instance));
        return false;
      });
    }
    return all;
  };
  const auto seed = GENERATE(1U, 2U, 3U);
  INFO("seed " << seed);
  const auto all = visited(seed, 2000);
  CHECK(std::set<std::string>{all.begin(), all.end()} ==
        instances_of("concat{axis=?c}(add(??x, ??y)...) => concat{axis=?c}(add(??x, ??y)...)", {small}).instances);
  CHECK(visited(seed, 20) == std::vector<std::string>{all.begin(), all.begin() + 20});
  CHECK(visited(seed + 3, 20) != visited(seed, 20));
}

TEST_CASE("random_instances ends after its effort, and visits several instances if asked to") {
  const auto rules = compiled("relu(?x) => relu(?x)");
  random_instances some{standard(), rules.front(), bounds(2, 2), 1};
  std::size_t count = 0;
  some.visit(5, [&](const rule_instance&) { return ++count > 0; });
  CHECK(count == 5);
}

}  // namespace tests_of_bounded_instances
