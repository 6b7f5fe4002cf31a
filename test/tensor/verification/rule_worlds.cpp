#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>

#include "../../support/operators.hpp"

namespace tests_of_rule_worlds {

namespace tensor = unity::tensor;

using unity::test::standard::operators;

namespace {

std::vector<tensor::rule_case> cases_of(const std::string& text, const tensor::world_options& options = {}) {
  return tensor::rule_cases(
      operators(), unity::compile_rule(operators(), unity::parse_rules("rule r " + text).at(0)).at(0), options);
}

}  // namespace

TEST_CASE("worlds of a rule case differ only in sizes and numbers and have sides of equal types") {
  const auto all = cases_of("matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))");
  CHECK(std::any_of(all.begin(), all.end(), [](const auto& c) { return c.size() > 1; }));
  for (const auto& c : all) {
    for (const auto& w : c) {
      CHECK(tensor::detail::same_structure(c[0].graph, w.graph));
      REQUIRE(w.graph.outputs().size() == 2);
      CHECK(w.graph.type(w.graph.outputs()[0]) == w.graph.type(w.graph.outputs()[1]));
      for (std::size_t v = 0; v < w.instance.values.size(); ++v) {
        CHECK(w.instance.values[v][0].rank() == c[0].instance.values[v][0].rank());
      }
    }
  }
}

TEST_CASE("the first worlds of a rule case distinguish sizes that may differ") {
  const tensor::world_options options{};
  std::size_t largest = 0;
  std::size_t told = 0;  // cases in which all sizes that may differ do
  for (const auto& c :
       cases_of("relu(matmul(?x, ?w)) => matmul{activation=relu}(?x, ?w) if rank(?x) == 2, rank(?w) == 2", options)) {
    const auto differ_in = [&](std::size_t first, auto size_a, auto size_b) {
      const auto end = c.begin() + static_cast<std::ptrdiff_t>(std::min(first, c.size()));
      return std::any_of(c.begin(), end, [&](const auto& w) { return size_a(w) != size_b(w); });
    };
    const auto differ = [&](auto size_a, auto size_b) { return differ_in(c.size(), size_a, size_b); };
    const auto differ_soon = [&](auto size_a, auto size_b) { return differ_in(options.worlds, size_a, size_b); };
    const auto m = [](const auto& w) { return w.instance.values[0][0].dims[0]; };
    const auto k = [](const auto& w) { return w.instance.values[0][0].dims[1]; };
    const auto n = [](const auto& w) { return w.instance.values[1][0].dims[1]; };
    const auto inner = [](const auto& w) { return w.instance.values[1][0].dims[0]; };
    CHECK(differ_soon(m, k) == differ(m, k));
    CHECK(differ_soon(m, n) == differ(m, n));
    CHECK(differ_soon(k, n) == differ(k, n));
    CHECK_FALSE(differ(k, inner));
    largest = std::max(largest, c.size());
    told += differ(m, k) && differ(m, n) && differ(k, n) ? 1 : 0;
  }
  CHECK(largest > options.worlds);
  CHECK(told > 0);
}

TEST_CASE("rule_cases searches for instances in which mostly equal numbers differ") {
  // Kernels of different sizes make results of different sizes, unless a large stride hides the difference.
  const auto kernels_differ = [](std::size_t searched) {
    tensor::world_options options;
    options.searched = searched;
    for (const auto& c : cases_of("conv2d{stride=?s, padding=?p, dilation=?d, groups=?g}(conv2d{padding=?p, pads=?q, "
                                  "dilation=?d, groups=?g}(?x, enlarge{kernel=?k}(?y)), ?z) => conv2d{stride=?s, "
                                  "padding=?p, dilation=?d, groups=?g}(conv2d{padding=?p, pads=?q, dilation=?d, "
                                  "groups=?g}(?x, ?y), enlarge{kernel=?k}(?z)) if ?p == explicit || ?p == valid, "
                                  "size(?x, 1) == size(?y, 0)",
                                  options)) {
      for (const auto& w : c) {
        const auto& y = w.instance.values[1][0].dims;
        const auto& z = w.instance.values[2][0].dims;
        if (y[2] != z[2] || y[3] != z[3]) {
          return true;
        }
      }
    }
    return false;
  };
  CHECK_FALSE(kernels_differ(0));
  CHECK(kernels_differ(tensor::world_options{}.searched));
}

TEST_CASE("rule_cases tries more instances of a rule whose target seldom fits") {
  // The target needs biases of rank 1 that are as long as the columns of each product.
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    tensor::world_options options;
    options.seed = seed;
    options.searched = 0;
    CAPTURE(seed);
    CHECK_FALSE(cases_of("relu(add(??x, matmul(?y, ??z)))... => split{axis=rank(?y) - 1, sizes=[size(??z, -1)...]}("
                         "linear{activation=relu}(?y, concat{axis=rank(?y) - 1}(??z...), concat{axis=0}(??x...))) "
                         "if rank(?y) - 1 == rank(??z) - 1, size(??x, rank(?y) - 1 - rank(?y)) == size(??z, -1)",
                         options)
                    .empty());
  }
}

TEST_CASE("rule_cases puts different paddings and repetitions into separate cases") {
  const auto sums = cases_of("add(?x, ?y) == add(?y, ?x)");
  CHECK(sums.size() > 5);
  const auto windows = cases_of(
      "max_pool{kernel=?k, stride=?s, padding=?p}(relu(?x)) => relu(max_pool{kernel=?k, stride=?s, padding=?p}(?x))");
  std::set<unity::attribute> paddings;
  for (const auto& c : windows) {
    std::set<unity::attribute> mine;
    for (const auto& w : c) {
      mine.insert(w.instance.source.back()[0].attributes[2]);
    }
    CHECK(mine.size() == 1);
    paddings.merge(mine);
  }
  CHECK(paddings.size() > 1);
  std::set<std::size_t> repetitions;
  for (const auto& c : cases_of("concat{axis=?a}(relu(??x)...) == relu(concat{axis=?a}(??x...))")) {
    repetitions.insert(c[0].instance.repetitions);
  }
  CHECK(repetitions.size() == 4);
}

TEST_CASE("rule_cases is deterministic and empty for a target that never fits") {
  CHECK(cases_of("relu(?x) => concat{axis=0}(?x, ?x)", {.instances = 10}).empty());
  const auto once = cases_of("relu(relu(?x)) => relu(?x)");
  const auto twice = cases_of("relu(relu(?x)) => relu(?x)");
  REQUIRE(once.size() == twice.size());
  REQUIRE(once.size() > 1);
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(std::equal(once[i].begin(), once[i].end(), twice[i].begin(), twice[i].end(),
                     [](const auto& a, const auto& b) { return a.graph == b.graph && a.instance == b.instance; }));
  }
}

}  // namespace tests_of_rule_worlds
