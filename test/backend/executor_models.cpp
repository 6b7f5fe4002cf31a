// Models and what the optimizer makes of them, run by the executor.
#include <unity/backend/executor.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <unity/backend/balanced_values.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "observed_backend.hpp"

namespace {

using namespace unity::backend;
using unity::backend::test::observed_backend;
using unity::tensor::dense;
using unity::tensor::operation;
using unity::tensor::tensor_graph;
using unity::tensor::tensor_type;

const unity::tensor::algebra& operators() {
  static const auto a = unity::tensor::standard_algebra();
  return a;
}

tensor_graph optimized(const tensor_graph& g, unity::layouts layouts, std::uint64_t expansions) {
  static const auto rules = unity::compile_rules(operators(), unity::parse_rules(unity::tensor::standard_rules));
  unity::systems::taso_options o;
  o.limits.expansions = expansions;
  o.layouts = layouts;
  auto found = unity::systems::taso(operators(), rules, g, o);
  CHECK(found.cost_after_s < found.cost_before_s);
  return std::move(found.graph);
}

double error_against_reference(const tensor_graph& g, const executor_options& options) {
  observed_backend b{operators()};
  executor e{b, operators(), g, options};
  e.run();
  const auto given = [&](const operation& op, const tensor_type&) -> std::optional<dense<double>> {
    const bool named = operators().definition_of(op.kind).source != unity::tensor::source_kind::none;
    return named ? options.data(operators().read(op).word("name")) : std::nullopt;
  };
  const auto expected = unity::tensor::evaluate<double>(operators(), g, given);
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(e.output(i), expected[i]));
  }
  return error;
}

}  // namespace

TEST_CASE("models run as the double reference evaluates them, and optimized ones give the same outputs", "[executor]") {
  for (const char* text : {"zoo:resnext50", "zoo:squeezenet1_1", "zoo:nasrnn?hidden=64&seq=3", "zoo:bert?layers=2&seq=8"}) {
    CAPTURE(text);
    const auto full = unity::tensor::zoo::build(operators(), text);
    const auto best = optimized(full, unity::layouts::kept, 40);
    CHECK_FALSE(best == full);
    const auto small = unity::tensor::shrink(operators(), full, best, {.least = 4});
    CAPTURE(small.sizes);
    const executor_options options{.data = balanced_values(operators(), small.first, 3)};
    CHECK(error_against_reference(small.first, options) < 1e-5);
    CHECK(error_against_reference(small.second, options) < 1e-5);
    observed_backend b{operators()};
    CHECK(max_relative_error(b, operators(), small.first, small.second, options) < 1e-5);
  }
}

TEST_CASE("graphs with searched layouts give the same outputs", "[executor]") {
  const auto full = unity::tensor::zoo::build(operators(), "zoo:bert?form=taso&layers=1");
  const auto small = unity::tensor::shrink(operators(), full, optimized(full, unity::layouts::searched, 100), {.least = 4});
  std::size_t turned = 0;
  for (std::size_t v = 0; v < small.second.value_count(); ++v) {
    turned += small.second.type(unity::value_id{v}).order == unity::tensor::layout::column_major ? 1 : 0;
  }
  CHECK(turned > 0);
  const executor_options options{.data = balanced_values(operators(), small.first, 4)};
  CHECK(error_against_reference(small.second, options) < 1e-5);
  observed_backend b{operators()};
  CHECK(max_relative_error(b, operators(), small.first, small.second, options) < 1e-5);
}

TEST_CASE("a deep network takes the memory of a few of its values", "[executor]") {
  const auto full = unity::tensor::zoo::build(operators(), "zoo:resnet50");
  const auto small = unity::tensor::shrink(operators(), full, full, {.least = 4}).first;
  reference_backend b{operators()};
  const executor e{b, operators(), small, {.data = balanced_values(operators(), small)}};
  CHECK(4 * e.counts().arena.count() < e.counts().unshared.count());
}
