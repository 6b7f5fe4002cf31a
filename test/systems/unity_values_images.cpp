// As unity_values.cpp, for networks of images, whose pools and convolutions need images so large that it takes a while.

#include <catch2/catch.hpp>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "plan_checks.hpp"

namespace tests_of_unity_values_images {

using namespace unity;

TEST_CASE("Unity's plans keep the values and gradients of image networks") {
  for (const char* name :
       {"zoo:resnext50?form=ae&batch=4", "zoo:resnext50?form=faithful&batch=4", "zoo:inception_v3?form=ae&batch=2"}) {
    CAPTURE(name);
    systems::unity_options o;
    o.seed = 5;
    o.proposals = 50;
    o.uses &= ~(1U << static_cast<unsigned>(parallel::index_use::pipeline));
    test::check_found(tensor::zoo::build(test::training::operators(), name), hardware::preset("p100:1x2"), o);
  }
}

}  // namespace tests_of_unity_values_images
