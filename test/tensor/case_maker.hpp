// Random cases (an operator with operands), and the class that draws their parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "testing.hpp"

namespace unity::tensor::test {

struct random_case {
  operation op;
  types inputs;
};

// Draws the parts of a case.
class case_maker {
 public:
  explicit case_maker(random_engine& random) : random_{random} {}

  std::int64_t size(std::int64_t most = 4) { return random_.between(1, most); }
  std::int64_t below(std::int64_t n) { return random_.between(0, n - 1); }
  shape dims(std::int64_t least, std::int64_t most) {
    shape s;
    for (auto rank = random_.between(least, most); rank > 0; --rank) {
      s.push_back(size());
    }
    return s;
  }
  // A shape that broadcasts to `joint`.
  shape stretched(const shape& joint) {
    shape s(std::span<const std::int64_t>{joint}.subspan(static_cast<std::size_t>(below(std::ssize(joint) + 1))));
    for (auto& d : s) {
      d = below(3) == 0 ? 1 : d;
    }
    return s;
  }
  // At least one axis, in ascending order.
  shape axes(std::size_t rank) {
    shape s;
    const auto sure = below(static_cast<std::int64_t>(rank));
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
      if (d == sure || below(2) == 0) {
        s.push_back(d);
      }
    }
    return s;
  }
  random_case make(std::string_view name, attributes a, types inputs) {
    return {standard().make_operation(name, a), std::move(inputs)};
  }
  random_engine& random() { return random_; }

 private:
  random_engine& random_;
};

using case_table = std::map<std::string, std::function<random_case(case_maker&)>>;

}  // namespace unity::tensor::test
