#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/verification/validate.hpp>

#include "../testing.hpp"

namespace tests_of_wide_validation {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

struct narrowed {
  std::string_view property;
  std::size_t rung;
};

// All other properties are validated at every combination of sizes up to 4 and of parameters (instance_bounds). These
// have too many variables and parameters for that in ten minutes, or too large normal forms (layer_norm_is_affine).
// They are validated at one of these rungs of default_ladder():
//   1: sizes up to 4, fewer parameters: one stride, one dilation, two ways to pad, up to two repetitions
//   2: kernels up to 2, and one way to pad
//   3: sizes up to 3, kernels up to 2
//   4: sizes up to 2, kernels up to 2
constexpr narrowed narrower[] = {
    {"conv_distributes_over_kernels", 1},
    {"conv_scales_channels", 1},
    {"conv_enlarged_kernel", 1},
    {"slice_of_conv", 1},
    {"conv_of_pad", 1},
    {"conv_concat_kernels", 1},
    {"conv_concat_images", 1},
    {"conv_concat_groups", 4},
    {"conv_first_kernels", 3},
    {"conv_last_kernels", 3},
    {"conv_interleaved_kernels", 4},
    {"conv_of_interleaved_channels", 4},
    {"max_pool_concat", 1},
    {"slice_twice", 1},
    {"slice_of_first_part", 1},
    {"slice_of_last_part", 1},
    {"slice_across_parts", 1},
    {"reshape_twice", 1},
    {"layer_norm_is_affine", 4},
};

std::size_t rung_of(std::string_view property) {
  const auto found = std::find_if(std::begin(narrower), std::end(narrower),
                                  [&](const narrowed& n) { return n.property == property; });
  return found == std::end(narrower) ? 0 : found->rung;
}

// Only the bounds of this rung, without a limit on time.
validation_options at_rung(std::size_t rung) {
  validation_options o;
  o.ladder = {o.ladder.at(rung)};
  o.effort = std::numeric_limits<std::size_t>::max() / 4;
  return o;
}

}  // namespace

TEST_CASE("axioms listed with narrower bounds exist and have valid rungs") {
  const auto axioms = parse_rules(standard_axioms);
  for (const auto& n : narrower) {
    INFO(n.property);
    CHECK(std::any_of(axioms.begin(), axioms.end(), [&](const auto& a) { return a.name == n.property; }));
    CHECK(n.rung > 0);
    CHECK(n.rung < default_ladder().size());
  }
}

TEST_CASE("every standard axiom holds at sizes up to 4 or within its listed bounds") {
  for (const auto& axiom : parse_rules(standard_axioms)) {
    const auto report = validate_axiom(standard(), axiom, at_rung(rung_of(axiom.name)));
    INFO("property " << axiom.name << ": " << report.because);
    CHECK(report.found == validation_report::verdict::holds);
    CHECK(report.rung == 0);  // the only one
    CHECK(report.exact + report.rounded > 0);
    CHECK(report.random > 0);
  }
}

}  // namespace tests_of_wide_validation
