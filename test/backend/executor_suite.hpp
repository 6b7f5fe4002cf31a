// Models and their optimized graphs, run by the executor on a backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/id.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "../tensor/testing.hpp"

namespace unity::backend::test {

using tensor::test::standard;

inline tensor::tensor_graph optimized(const tensor::tensor_graph& g, variants searched, std::uint64_t expansions) {
  static const auto rules = compile_rules(standard(), parse_rules(tensor::standard_rules));
  systems::taso_options o;
  o.limits.expansions = expansions;
  o.layouts = searched;
  auto found = systems::taso(standard(), rules, g, o);
  CHECK(found.cost_after_s < found.cost_before_s);
  return std::move(found.graph);
}

template <device_backend Backend>
double error_against_reference(Backend& backend, const tensor::tensor_graph& g, const executor_options& options) {
  executor e{backend, standard(), g, options};
  e.run();
  const auto given = [&](const tensor::operation& op,
                         const tensor::tensor_type&) -> std::optional<tensor::dense<double>> {
    const bool named = standard().definition_of(op.kind).source != tensor::source_kind::none;
    return named ? options.data(standard().read(op).word("name")) : std::nullopt;
  };
  const auto expected = tensor::evaluate<double>(standard(), g, given);
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(e.output(i), expected[i]));
  }
  return error;
}

// Shrinks both graphs; checks each against the double reference and the two against each other. Returns the second,
// shrunk.
template <device_backend Backend>
tensor::tensor_graph check_shrunk(Backend& backend, const tensor::tensor_graph& full, const tensor::tensor_graph& best,
                                  std::uint64_t seed) {
  const auto small = tensor::shrink(standard(), full, best, {.least = 4});
  CAPTURE(small.sizes);
  const executor_options options{.data = tensor::balanced_values(standard(), small.first, seed)};
  CHECK(error_against_reference(backend, small.first, options) < 1e-5);
  CHECK(error_against_reference(backend, small.second, options) < 1e-5);
  CHECK(max_relative_error(backend, standard(), small.first, small.second, options) < 1e-5);
  return small.second;
}

template <device_backend Backend>
void check_models(Backend& backend) {
  for (const char* text :
       {"zoo:resnext50", "zoo:squeezenet1_1", "zoo:nasrnn?hidden=64&seq=3", "zoo:bert?layers=2&seq=8"}) {
    CAPTURE(text);
    const auto full = tensor::zoo::build(standard(), text);
    const auto best = optimized(full, variants::kept, 40);
    CHECK_FALSE(best == full);
    static_cast<void>(check_shrunk(backend, full, best, 3));
  }
}

template <device_backend Backend>
void check_searched_layouts(Backend& backend) {
  const auto full = tensor::zoo::build(standard(), "zoo:bert?form=taso&layers=1");
  const auto small = check_shrunk(backend, full, optimized(full, variants::searched, 100), 4);
  int turned = 0;
  for (const auto v : value_ids(small)) {
    turned += small.type(v).order == tensor::layout::column_major ? 1 : 0;
  }
  CHECK(turned > 0);
}

}  // namespace unity::backend::test
