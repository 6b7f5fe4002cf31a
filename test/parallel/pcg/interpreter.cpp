// A parallel computation graph computes the values and gradients of its erasure, for random graphs.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_adjoint.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

#include "../../support/cases.hpp"
#include "../random_model.hpp"
#include "../random_pcg.hpp"

namespace tests_of_interpreter {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::tensor::modular61;

namespace {

std::vector<value_id> floating_sources(const pcg& g) {
  std::vector<value_id> all;
  for (const auto n : node_ids(g)) {
    for (const auto v : g.results(n)) {
      if (g.operands(n).empty() && is_floating(g.type(v).global.element)) {
        all.push_back(v);
      }
    }
  }
  return all;
}

struct both_ways {
  pcg divided{};
  tensor::tensor_graph erased{};
};

// The graph with its backward pass, divided and erased.
both_ways with_gradients(const pcg& g) {
  const auto erased = erase_values(parallel_operators(), g);
  const auto sources = floating_sources(g);
  tensor::differentiation what;
  for (const auto v : sources) {
    what.sources.push_back(erased.values[v.index()]);
  }
  return {differentiate(parallel_operators(), g, sources).graph,
          tensor::differentiate(operators(), erased.graph, what).graph};
}

bool agree_exactly(const both_ways& g, std::uint64_t seed) {
  return evaluate<modular61>(parallel_operators(), g.divided, seed) ==
         tensor::evaluate<modular61>(operators(), g.erased, seed);
}

enum class verdict { agree, differ, too_large };

// Compares up to rounding; too_large if a number exceeds 1e6.
verdict agree_nearly(const both_ways& g, std::uint64_t seed) {
  const auto expected = tensor::evaluate<double>(operators(), g.erased, seed);
  double scale = 1;
  for (const auto& t : expected) {
    for (const auto x : t.data) {
      if (!(std::abs(x) < 1e6)) {
        return verdict::too_large;
      }
      scale = std::max(scale, std::abs(x));
    }
  }
  const auto found = evaluate<double>(parallel_operators(), g.divided, seed);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].data.size(); ++k) {
      const auto apart = std::abs(found[i].data[k] - expected[i].data[k]);
      worst = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(worst, apart);
    }
  }
  return worst <= 1e-9 * scale ? verdict::agree : verdict::differ;
}

// UNITY_RANDOM_GRAPHS in the environment: the number of graphs, instead of `usual`.
std::uint64_t rounds(std::uint64_t usual) {
  const char* wanted = std::getenv("UNITY_RANDOM_GRAPHS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

}  // namespace

TEST_CASE("random divided graphs compute the values and gradients of their erasure", "[law]") {
  std::set<std::string> forward;
  std::set<std::string> all;
  std::uint64_t nearly = 0;
  const auto count = rounds(unity::test::all_or<std::uint64_t>(2000, 100));
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = parallel::test::random_model(random, 1 + random.below(6));
    const auto divided = parallel::test::random_division_of(random, parallel_operators(), g);
    REQUIRE(erase(parallel_operators(), divided) == g);
    const auto both = with_gradients(divided);
    parallel::test::count_kinds(parallel_operators(), divided, forward);
    parallel::test::count_kinds(parallel_operators(), both.divided, all);
    REQUIRE(agree_exactly(both, seed));
    const auto real = agree_nearly(both, seed);
    REQUIRE(real != verdict::differ);
    nearly += real == verdict::agree ? 1 : 0;
  }
  INFO(forward.size() << " kinds forward, " << all.size() << " in all, " << nearly << " of " << count << " in doubles");
  CHECK(forward.size() >= std::min<std::uint64_t>(33, count / 20));
  CHECK(nearly >= count / 2);
  if (count > 2000) {
    WARN(forward.size() << " kinds forward, " << all.size() << " in all, " << nearly << " of " << count
                        << " in doubles");
  }
}

}  // namespace tests_of_interpreter
