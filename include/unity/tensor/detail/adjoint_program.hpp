// Reverse accumulation over a scalar program, written as element-wise operators.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor::detail {

class program_adjoint {
 public:
  // wants(leaf): whether its cotangent is required; leaf(instruction): its value; result(): the value of the program,
  // which is computed if there is no such function.
  struct surroundings {
    std::function<bool(const instruction&)> wants;
    std::function<value_id(const instruction&)> leaf;
    std::function<value_id()> result;
  };

  program_adjoint(body_builder& b, const scalar_program& program, surroundings s);

  // Calls give(leaf, cotangent) for every wanted leaf that the result depends on.
  template <class Give>
  void run(value_id cotangent, const Give& give) {
    steps_.back().cotangent = cotangent;
    for (auto i = steps_.size(); i-- > 0;) {
      const auto s = steps_[i];
      if (!s.wanted || !s.cotangent.valid()) {
        continue;
      }
      if (is_leaf(s.what.op)) {
        give(s.what, s.cotangent);
      } else if (is_binary(s.what.op)) {
        reverse_binary(i);
      } else {
        add(s.left, unary_cotangent(i));
      }
    }
  }

 private:
  struct step {
    instruction what;
    std::size_t left;
    std::size_t right;
    bool wanted;
    value_id value;
    value_id cotangent;
  };

  value_id value(std::size_t i);

  void add(std::size_t i, value_id cotangent);

  value_id unary_cotangent(std::size_t i);

  void reverse_binary(std::size_t i);

  body_builder& b_;
  surroundings s_;
  std::vector<step> steps_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_PROGRAM)

#include <string>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/adjoint_scalar.hpp>

namespace unity::tensor::detail {

UNITY_INLINE program_adjoint::program_adjoint(body_builder& b, const scalar_program& program, surroundings s)
    : b_{b}, s_{std::move(s)} {
  std::vector<std::size_t> stack;
  for (const auto& i : program) {
    step next{i, 0, 0, is_leaf(i.op) && s_.wants(i), {}, {}};
    if (is_binary(i.op)) {
      next.right = stack.back();
      stack.pop_back();
    }
    if (!is_leaf(i.op)) {
      next.left = stack.back();
      stack.pop_back();
      next.wanted = steps_[next.left].wanted || (is_binary(i.op) && steps_[next.right].wanted);
    }
    stack.push_back(steps_.size());
    steps_.push_back(next);
  }
}

UNITY_INLINE value_id program_adjoint::value(std::size_t i) {
  auto& s = steps_[i];
  if (!s.value.valid()) {
    if (i + 1 == steps_.size() && s_.result) {
      s.value = s_.result();
    } else if (is_leaf(s.what.op)) {
      s.value = s_.leaf(s.what);
    } else {
      const auto* known = find_scalar_operator(s.what.op);
      if (known == nullptr) {
        throw error{"adjoint", "a scalar function that no operator applies", "one that an operator applies"};
      }
      s.value = is_binary(s.what.op) ? b_.add(known->name, {value(s.left), value(s.right)})
                                     : b_.add(known->name, {value(s.left)});
    }
  }
  return s.value;
}

UNITY_INLINE void program_adjoint::add(std::size_t i, value_id cotangent) {
  auto& s = steps_[i];
  if (s.wanted && cotangent.valid()) {
    s.cotangent = s.cotangent.valid() ? b_.add("add", {s.cotangent, cotangent}) : cotangent;
  }
}

UNITY_INLINE value_id program_adjoint::unary_cotangent(std::size_t i) {
  const auto s = steps_[i];
  const auto d = derivative_of(s.what.op);
  if (!d) {
    return {};
  }
  switch (s.what.op) {
    case scalar_op::negate: return b_.add("negate", {s.cotangent});
    case scalar_op::exp: return b_.add("mul", {s.cotangent, value(i)});
    case scalar_op::log: return b_.add("div", {s.cotangent, value(s.left)});
    case scalar_op::sin: return b_.add("mul", {s.cotangent, b_.add("cos", {value(s.left)})});
    case scalar_op::cos: return b_.add("negate", {b_.add("mul", {s.cotangent, b_.add("sin", {value(s.left)})})});
    default:
      return b_.add(find_scalar_operator(s.what.op)->gradient, {d->of_value ? value(i) : value(s.left), s.cotangent});
  }
}

UNITY_INLINE void program_adjoint::reverse_binary(std::size_t i) {
  const auto s = steps_[i];
  const auto g = s.cotangent;
  const bool left = steps_[s.left].wanted;
  const bool right = steps_[s.right].wanted;
  switch (s.what.op) {
    case scalar_op::add:
      add(s.left, g);
      add(s.right, g);
      return;
    case scalar_op::sub:
      add(s.left, g);
      add(s.right, right ? b_.add("negate", {g}) : value_id{});
      return;
    case scalar_op::mul:
      add(s.left, left ? b_.add("mul", {g, value(s.right)}) : value_id{});
      add(s.right, right ? b_.add("mul", {g, value(s.left)}) : value_id{});
      return;
    case scalar_op::div:
      add(s.left, left ? b_.add("div", {g, value(s.right)}) : value_id{});
      add(s.right,
          right ? b_.add("negate", {b_.add("div", {b_.add("mul", {g, value(i)}), value(s.right)})}) : value_id{});
      return;
    case scalar_op::pow: {
      if (left) {
        const auto one = b_.add("fill", {}, {{"value", 1.0}, {"element", name_of(b_.type(g).element)}, {"dims", {}}});
        const auto power = b_.add("pow", {value(s.left), b_.add("sub", {value(s.right), one})});
        add(s.left, b_.add("mul", {g, b_.add("mul", {value(s.right), power})}));
      }
      if (right) {
        add(s.right, b_.add("mul", {g, b_.add("mul", {value(i), b_.add("log", {value(s.left)})})}));
      }
      return;
    }
    case scalar_op::maximum:
    case scalar_op::minimum: {
      const auto gradient = find_scalar_operator(s.what.op)->gradient;
      add(s.left, left ? b_.add(gradient, {value(s.left), value(s.right), g}) : value_id{});
      add(s.right, right ? b_.add(gradient, {value(s.right), value(s.left), g}) : value_id{});
      return;
    }
    case scalar_op::masked: {
      const auto zero = b_.add("fill", {}, {{"value", 0.0}, {"element", name_of(b_.type(g).element)}, {"dims", {}}});
      add(s.right, right ? b_.add("where", {value(s.left), g, zero}) : value_id{});
      return;
    }
    default: return;  // comparisons: constant almost everywhere
  }
}

}  // namespace unity::tensor::detail

#endif
