// The single definition of an operator, of one of four kinds. Everything else about the operator is derived from it:
// inference, work, evaluation, adjoint, and which index runs along which dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/resizing.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor {

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

// The modes in which an operator is always work. In other modes it is work only if its elements change their order or
// layout.
enum class runs_in : std::uint8_t { all_modes, training, no_mode };

struct definition {
  op_signature signature{};
  std::vector<attribute_field> fields{};  // one per attribute of the signature
  std::variant<primitive, view, composite, opaque> body{};
  source_kind source = source_kind::none;
  runs_in runs = runs_in::all_modes;
  bool layouts = false;  // results of rank >= 2 may be column_major

  // Overrides the derived work if that is wrong.
  std::function<work(const attribute_reader&, std::span<const tensor_type> inputs,
                     std::span<const tensor_type> outputs)>
      own_work{};

  // The adjoint, if deriving it (tensor/adjoint.hpp) fails or gives a more expensive one.
  adjoint_rule own_adjoint{};

  // Rewrites the attributes that hold sizes, for new sizes of operands and results (tensor/resizing.hpp). Without it,
  // the operator has no such attributes, or its sizes must stay.
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
  [[nodiscard]] definition&& with_index_names(std::vector<const char*> names) && {
    index_names = std::move(names);
    return std::move(*this);
  }
};

// Assembles a definition. operands and results: exact counts, or op_signature::any.
[[nodiscard]] definition define(std::string name, int operands, int results, std::vector<attribute_field> fields,
                                std::variant<primitive, view, composite, opaque> body);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DEFINITION)

namespace unity::tensor {

UNITY_INLINE definition define(std::string name, int operands, int results, std::vector<attribute_field> fields,
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
