// The shipped algebras, constructed once per test program.
#pragma once

#include <unity/tensor/algebra.hpp>

namespace unity::test::standard {

inline const tensor::algebra& operators() {
  static const auto a = tensor::standard_algebra();
  return a;
}

}  // namespace unity::test::standard

namespace unity::test::training {

inline const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

}  // namespace unity::test::training
