// Checks names of added inputs: sources with the same name are the same value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

// Throws: unity::error, with `what` as the adder of the input, if the graph already has an input of that name.
void expect_free_name(const algebra& a, const tensor_graph& g, std::string_view what, const std::string& name);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_FREE_NAME)

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void expect_free_name(const algebra& a, const tensor_graph& g, std::string_view what,
                                   const std::string& name) {
  const auto kind = a.kind("input");
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (op.kind == kind && a.read(op).word("name") == name) {
      throw error{what, fmt::format("an input \"{}\" in the graph", name), "that name to be free"};
    }
  }
}

}  // namespace unity::tensor::detail

#endif
