// Values of weights and constants for evaluation, from a model's side table.
#pragma once

#include <concepts>
#include <optional>
#include <string>

#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::test {

// A provider for tensor::evaluate: sources with a name in the table get its data, all others nothing. Refers to both
// arguments, which must outlive it.
template <std::floating_point Scalar>
class data_provider {
 public:
  data_provider(const tensor::algebra& algebra, const io::data_table& data) : algebra_{&algebra}, data_{&data} {}

  [[nodiscard]] std::optional<tensor::dense<Scalar>> operator()(const tensor::operation& op,
                                                                const tensor::tensor_type&) const {
    if (algebra_->definition_of(op.kind).source == tensor::source_kind::none) {
      return std::nullopt;
    }
    const auto found = data_->find(algebra_->read(op).word("name"));
    if (found == data_->end()) {
      return std::nullopt;
    }
    return tensor::dense<Scalar>{found->second.dims, io::elements_of<Scalar>(found->second)};
  }

 private:
  const tensor::algebra* algebra_;
  const io::data_table* data_;
};

}  // namespace unity::test
