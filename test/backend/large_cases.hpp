// Operators on tensors of more than one tile.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

#include "../tensor/random_case.hpp"

namespace unity::backend::test {

using tensor::test::standard;

// Sizes are not multiples of tile sizes.
inline std::vector<tensor::test::random_case> large_cases() {
  using tensor::test::type;
  std::vector<tensor::test::random_case> all;
  const auto add = [&](std::string_view name, tensor::test::attributes a, tensor::test::types inputs) {
    all.push_back({standard().make_operation(name, a), std::move(inputs)});
  };
  const auto image = type({2, 18, 37, 41});
  const auto wide = type({5, 13, 1031});
  for (const char* name : {"relu", "gelu", "tanh", "sigmoid", "exp", "erf"}) {
    add(name, {}, {wide});
  }
  for (const char* name : {"add", "mul", "div", "maximum"}) {
    add(name, {}, {wide, wide});
    add(name, {}, {wide, type({1031})});
    add(name, {}, {type({13, 1}), wide});
  }
  add("scalar_multiply", {}, {wide, type({})});
  for (const std::int64_t axis : {0, 1, 2}) {
    add("softmax", {{"axis", axis}}, {wide});
    for (const char* name : {"reduce_sum", "reduce_mean", "reduce_max"}) {
      add(name, {{"axes", {axis}}, {"keep_dims", axis % 2}}, {wide});
    }
    add("concat", {{"axis", axis}}, {wide, wide, wide});
  }
  add("split", {{"axis", 2}, {"sizes", {500, 1, 530}}}, {wide});
  add("slice", {{"axes", {1, 2}}, {"starts", {1, 30}}, {"ends", {12, 1000}}, {"steps", {2, 3}}}, {wide});
  add("pad", {{"pads", {0, 1, 7, 1, 0, 9}}, {"value", 0.5}}, {wide});
  add("transpose", {{"permutation", {2, 0, 1}}}, {wide});
  add("transpose", {{"permutation", {0, 2, 3, 1}}}, {image});
  add("matmul", {{"activation", "none"}}, {type({133, 259}), type({259, 71})});
  add("matmul", {{"activation", "relu"}}, {type({6, 65, 67}), type({67, 129})});
  add("matmul", {{"activation", "gelu"}}, {type({3, 1, 65, 67}), type({2, 67, 33})});
  add("linear", {{"activation", "tanh"}}, {type({3, 41, 130}), type({130, 77}), type({77})});
  add("linear", {{"activation", "none"}}, {type({1, 515}), type({515, 257})});
  for (const std::int64_t groups : {1, 3, 18}) {
    add("conv2d", {{"padding", "same"}, {"groups", groups}, {"activation", "relu"}},
        {image, type({36, 18 / groups, 3, 3}), type({36})});
  }
  add("conv2d",
      {{"stride", {2, 2}}, {"padding", "explicit"}, {"pads", {3, 2, 2, 3}}, {"groups", 1}, {"activation", "none"}},
      {image, type({33, 18, 7, 5})});
  add("conv2d", {{"padding", "explicit"}, {"groups", 1}, {"activation", "sigmoid"}},
      {image, type({64, 18, 1, 1}), type({64})});
  add("max_pool", {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"padding", "explicit"}, {"pads", {1, 1, 1, 1}}}, {image});
  add("average_pool", {{"kernel", {3, 3}}, {"stride", {1, 1}}, {"padding", "same"}}, {image});
  add("global_average_pool", {}, {image});
  add("batch_norm", {}, {image, type({18}), type({18}), type({18}), type({18})});
  add("layer_norm", {{"axis", 2}}, {wide, type({1031}), type({1031})});
  add("layer_norm", {{"axis", 1}}, {wide, type({13, 1031}), type({13, 1031})});
  add("embedding", {}, {type({7, 129}), type({4, 33}, tensor::dtype::int64)});
  add("embedding_bag", {}, {type({7, 529}), type({19, 33}, tensor::dtype::int64)});
  return all;
}

}  // namespace unity::backend::test
