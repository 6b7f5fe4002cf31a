// The single definition of an operator, of one of four kinds. Everything else about the operator is derived from it:
// inference, work, evaluation, adjoint, and which index runs along which dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor {

// The interface with which definitions write the body of a composite and the adjoint of an operator.

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

  // Appends the adjoint of the composite `name`, derived from its body.
  virtual std::vector<value_id> add_body_adjoint(std::string_view name, std::span<const named_attribute> attributes,
                                                 const adjoint_problem& p) = 0;

  [[nodiscard]] virtual const tensor_type& type(value_id v) const = 0;
  // The algebra that the operators come from.
  [[nodiscard]] virtual const algebra& operators() const = 0;
};

// An operator on other sizes: the argument of the function in its definition that rewrites attributes.

// An operator, its types, and its new sizes.
struct resizing {
  const operation& op;
  std::span<const tensor_type> inputs;  // old types
  std::span<const tensor_type> outputs;
  std::vector<shape> new_inputs{};
  std::vector<shape> new_outputs{};
  // For a slice or pad, per dimension: the new sizes before and after the part that stays. Empty: unchanged, except
  // that a slice that takes a whole dimension takes all of its new size.
  shape before{};
  shape after{};
};

// Rewrites an operation's attributes by name. A view: must not outlive the fields and the values.
class attribute_writer {
 public:
  attribute_writer(std::span<const attribute_field> fields, std::span<attribute> values) noexcept
      : fields_{fields}, values_{values} {}

  [[nodiscard]] attribute& operator[](std::string_view name) const;
  void set(std::string_view name, attribute value) const { (*this)[name] = std::move(value); }

 private:
  std::span<const attribute_field> fields_;
  std::span<attribute> values_;
};

// For operators whose attribute `dims` is the shape of their result.
inline void resize_dims(const attribute_writer& w, const resizing& r) {
  w.set("dims", attribute(std::span<const std::int64_t>{r.new_outputs[0]}));
}

// The types with which an operator definition states its own adjoint, if it is not derived.

// An application of an operator for which an adjoint is built.
struct adjoint_problem {
  std::span<const tensor_type> inputs{};
  std::span<const tensor_type> outputs{};
  // The values of operands and results, computed on request if they do not exist yet.
  std::function<value_id(std::size_t)> operand{};
  std::function<value_id(std::size_t)> result{};
  std::vector<value_id> cotangents{};  // per result; the null id means zero
  std::vector<bool> wanted{};          // per operand
};

// Appends operators that compute the cotangents of the wanted operands: the transposed derivative, applied to the
// cotangents of the results. Result: one value per operand; the null id means zero or not wanted.
using adjoint_rule =
    std::function<std::vector<value_id>(body_builder&, const attribute_reader&, const adjoint_problem&)>;

// The value, or zeros of type `t` if it is null.
[[nodiscard]] inline value_id or_zeros(body_builder& b, value_id v, const tensor_type& t) {
  return v.valid() ? v : b.add("fill", {}, {{"value", 0.0}, {"element", name_of(t.element)}, {"dims", t.dims}});
}

// The attributes `names` of a reader, plus `more`, for an operator that shares them.
[[nodiscard]] std::vector<named_attribute> shared_attributes(const attribute_reader& a,
                                                             std::initializer_list<std::string_view> names,
                                                             std::initializer_list<named_attribute> more = {});

// A loop nest: an iteration space and the scalar kernel that runs at its points.
struct primitive {
  std::function<void(space&, const attribute_reader&)> iteration;
  std::function<scalar_kernel(const attribute_reader&, std::span<const tensor_type>)> kernel;
};

// A map of indices: elements move and do not change.
struct view {
  std::function<void(view_map&, const attribute_reader&)> map;
};

// A graph of other operators: builds it on the given operands and returns its results.
struct composite {
  std::function<std::vector<value_id>(body_builder&, const attribute_reader&, std::span<const value_id>)> body;
  // Rejects inputs that the body accepts but the operator does not (by broadcasting, say). Also lets inference skip
  // building the body.
  std::function<void(judgement&, const attribute_reader&)> types{};
};

// Only the types of its results: never rewritten, split or evaluated.
struct opaque {
  std::function<void(judgement&, const attribute_reader&)> types;
};

// Where the values of an operator without operands come from.
enum class source_kind : std::uint8_t {
  none,      // not a source: its definition determines its values
  input,     // supplied for every run
  constant,  // supplied once: weights and constants
};

// The modes in which an operator always costs time. In other modes it costs time only if its elements change order or
// layout.
enum class runs_in : std::uint8_t { all_modes, training, no_mode };

struct definition {
  op_signature signature{};
  std::vector<attribute_field> fields{};  // one per attribute of the signature
  std::variant<primitive, view, composite, opaque> body{};
  // Element types with which rules are tested, of the first operands; float32 for the others.
  std::vector<dtype> elements{};
  source_kind source = source_kind::none;
  runs_in runs = runs_in::all_modes;
  bool layouts = false;  // results of rank >= 2 may be column_major

  // Overrides the derived work if that is wrong.
  std::function<operator_work(const attribute_reader&, std::span<const tensor_type> inputs,
                              std::span<const tensor_type> outputs)>
      own_work{};

  // The adjoint, if deriving it (tensor/differentiate.hpp) fails or yields a more expensive one.
  adjoint_rule own_adjoint{};

  // Rewrites the attributes that hold sizes, for new sizes of operands and results. Without it, the operator has no
  // such attributes, or its sizes must stay.
  std::function<void(const attribute_writer&, const resizing&)> resize{};

  // The same for a part of a divided operator, if that differs: heads are divided among devices along with the columns,
  // but stay when all sizes shrink.
  std::function<void(const attribute_writer&, const resizing&)> resize_part{};

  // Names of the derived indices of a composite (tensor/index_structure.hpp), in their order, for rule names and
  // messages. Empty: the names in its body.
  std::vector<const char*> index_names{};

  [[nodiscard]] definition&& commutative() && {
    signature.commutative = true;
    return std::move(*this);
  }
  [[nodiscard]] definition&& running_in(runs_in when) && {
    runs = when;
    return std::move(*this);
  }
  [[nodiscard]] definition&& with_layouts() && {
    layouts = true;
    return std::move(*this);
  }
  [[nodiscard]] definition&& with_adjoint(adjoint_rule rule) && {
    own_adjoint = std::move(rule);
    return std::move(*this);
  }
  [[nodiscard]] definition&& resized_by(std::function<void(const attribute_writer&, const resizing&)> rewrite) && {
    resize = std::move(rewrite);
    return std::move(*this);
  }
  [[nodiscard]] definition&& divided_by(std::function<void(const attribute_writer&, const resizing&)> rewrite) && {
    resize_part = std::move(rewrite);
    return std::move(*this);
  }
  [[nodiscard]] definition&& with_elements(std::vector<dtype> of_operands) && {
    elements = std::move(of_operands);
    return std::move(*this);
  }
  [[nodiscard]] definition&& with_index_names(std::vector<const char*> names) && {
    index_names = std::move(names);
    return std::move(*this);
  }
};

// Assembles a definition. operands: 2, {2, 3} for a range, or op_signature::any. results: an exact count or any.
[[nodiscard]] definition define(std::string name, operand_count operands, int results,
                                std::vector<attribute_field> fields,
                                std::variant<primitive, view, composite, opaque> body);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DEFINITION)

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE attribute& attribute_writer::operator[](std::string_view name) const {
  std::size_t i = 0;
  while (i < fields_.size() && fields_[i].signature.name != name) {
    ++i;
  }
  UNITY_EXPECTS(i < values_.size(), "the name of a declared attribute");
  return values_[i];
}

UNITY_INLINE std::vector<named_attribute> shared_attributes(const attribute_reader& a,
                                                            std::initializer_list<std::string_view> names,
                                                            std::initializer_list<named_attribute> more) {
  std::vector<named_attribute> all;
  for (const auto name : names) {
    all.push_back(a.named(name));
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

UNITY_INLINE definition define(std::string name, operand_count operands, int results,
                               std::vector<attribute_field> fields,
                               std::variant<primitive, view, composite, opaque> body) {
  definition d;
  d.signature = {std::move(name), operands, results, false, {}};
  for (const auto& f : fields) {
    d.signature.attributes.push_back(f.signature);
  }
  d.fields = std::move(fields);
  d.body = std::move(body);
  return d;
}

}  // namespace unity::tensor

#endif
