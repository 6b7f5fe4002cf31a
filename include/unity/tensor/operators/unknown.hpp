// Operators that unity does not know and passes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// name: the operator's name in its source format; signature: bytes that distinguish operators that may compute
// differently; elements: the dtype of each result; dims: rank and sizes of each result, concatenated.
[[nodiscard]] definition unknown();

[[nodiscard]] inline std::vector<definition> unknowns() { return {unknown()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_UNKNOWN)

#include <span>

namespace unity::tensor::operators {

UNITY_INLINE definition unknown() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    j.allow_mixed_elements();
    auto dims = a.integers("dims");
    for (const auto element : a.integers("elements")) {
      if (!j.require(element >= 0 && element < static_cast<std::int64_t>(dtype_names.size()), "known element types") ||
          !j.require(!dims.empty() && dims[0] >= 0 && dims[0] < static_cast<std::int64_t>(dims.size()),
                     "a rank and as many sizes per result")) {
        return;
      }
      const auto rank = static_cast<std::size_t>(dims[0]);
      j.result(shape(dims.subspan(1, rank)), static_cast<dtype>(element));
      dims = dims.subspan(1 + rank);
    }
    j.require(dims.empty() && !a.integers("elements").empty(), "a rank and as many sizes per result");
  };
  return define("opaque", op_signature::any, op_signature::any,
                {word_field("name"), word_field("signature"), integers_field("elements"), integers_field("dims")},
                opaque{types})
      .resized_by([](const attribute_writer& w, const resizing& r) {
        attribute dims;
        for (const auto& s : r.new_outputs) {
          dims.push_back(static_cast<std::int64_t>(s.size()));
          dims.append(s.begin(), s.end());
        }
        w.set("dims", std::move(dims));
      });
}

}  // namespace unity::tensor::operators

#endif
