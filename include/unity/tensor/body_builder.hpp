// The interface with which definitions write the body of a composite and the adjoint of an operator.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

class algebra;
struct adjoint_problem;

// Appends operators to a graph by name. An interface, because definitions come before the algebra that holds them
// (tensor/builder.hpp is the builder for users' graphs).
// Throws: unity::error if an operator does not exist or does not accept its operands.
class body_builder {
 public:
  body_builder() = default;
  body_builder(const body_builder&) = delete;
  body_builder& operator=(const body_builder&) = delete;
  virtual ~body_builder() = default;

  // Returns the first result.
  value_id add(std::string_view name, std::initializer_list<value_id> operands,
               std::initializer_list<named_attribute> attributes = {}) {
    return add_all(name, operands, attributes)[0];
  }
  std::vector<value_id> add_all(std::string_view name, std::initializer_list<value_id> operands,
                                std::initializer_list<named_attribute> attributes = {}) {
    return add_all(name, {operands.begin(), operands.size()}, {attributes.begin(), attributes.size()});
  }
  value_id add(std::string_view name, std::span<const value_id> operands,
               std::span<const named_attribute> attributes = {}) {
    return add_all(name, operands, attributes)[0];
  }
  virtual std::vector<value_id> add_all(std::string_view name, std::span<const value_id> operands,
                                        std::span<const named_attribute> attributes) = 0;
  virtual std::vector<value_id> add_all(const operation& op, std::span<const value_id> operands) = 0;

  // Appends the adjoint of the composite `name`, derived from its body (tensor/adjoint_rule.hpp).
  virtual std::vector<value_id> add_body_adjoint(std::string_view name, std::span<const named_attribute> attributes,
                                                 const adjoint_problem& p) = 0;

  [[nodiscard]] virtual const tensor_type& type(value_id v) const = 0;
  // The algebra that the operators come from.
  [[nodiscard]] virtual const algebra& operators() const = 0;
};

}  // namespace unity::tensor
