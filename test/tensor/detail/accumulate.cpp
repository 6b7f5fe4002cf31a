// Sums and maxima over iteration spaces, compared with a loop over all points that looks up every element by its
// position. Numbers are integers, so that the order of a sum does not matter.

#include <unity/tensor/detail/accumulate.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

#include "../../support/cases.hpp"

namespace tests_of_accumulate {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::access;
using unity::tensor::detail::accumulator;
using unity::tensor::detail::add_dot;
using unity::tensor::detail::add_products;
using unity::tensor::detail::strided_pointer;

namespace {

// Small integers, exact in every type; among residues also the largest ones, whose products fill 122 bits.
template <class Scalar>
Scalar random_scalar(random_engine& random) {
  if constexpr (std::is_same_v<Scalar, modular61>) {
    if (random.below(2) == 0) {
      return modular61::of_residue(modular61::modulus - 1 - random.below(3));
    }
    return modular61::of_residue(random());
  } else {
    return static_cast<Scalar>(random.between(-3, 3));
  }
}

template <class Scalar>
std::vector<Scalar> random_scalars(std::size_t count, random_engine& random) {
  std::vector<Scalar> all(count);
  std::generate(all.begin(), all.end(), [&] { return random_scalar<Scalar>(random); });
  return all;
}

// A random space, as lists that are easy to read.
struct drawn_space {
  std::vector<std::int64_t> sizes{};
  std::vector<window> windows{};
  std::vector<std::vector<access>> tensors{};  // the operands, then the result
};

shape dims_of(const drawn_space& s, std::span<const access> accesses) {
  shape dims;
  for (const auto& a : accesses) {
    std::int64_t size = a.is_window() ? s.windows[a.window_number()].extent : 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
      size *= s.sizes[a[i]];
    }
    dims.push_back(size);
  }
  return dims;
}

std::int64_t position_in(const window& w, const std::vector<std::int64_t>& at) {
  const auto inner = w.inner < 0 ? 0 : at[static_cast<std::size_t>(w.inner)];
  return at[static_cast<std::size_t>(w.outer)] * w.stride + inner * w.dilation - w.before;
}

// The offset of the element that a tensor has at this point of the space.
std::size_t element_at(const drawn_space& s, std::span<const access> accesses, const std::vector<std::int64_t>& at) {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> position;
  for (const auto& a : accesses) {
    if (a.is_window()) {
      dims.push_back(s.windows[a.window_number()].extent);
      position.push_back(position_in(s.windows[a.window_number()], at));
      continue;
    }
    dims.push_back(1);
    position.push_back(0);
    for (std::size_t i = 0; i < a.size(); ++i) {
      dims.back() *= s.sizes[a[i]];
      position.back() = position.back() * s.sizes[a[i]] + at[a[i]];
    }
  }
  return offset_of(dims, position);
}

template <class Scalar>
Scalar value_of(const scalar_program& program, const std::vector<Scalar>& operands,
                const std::vector<std::int64_t>& at) {
  std::vector<Scalar> stack;
  for (const auto& i : program) {
    switch (i.op) {
      case scalar_op::operand: stack.push_back(operands[static_cast<std::size_t>(i.number)]); break;
      case scalar_op::coordinate: stack.push_back(Scalar(at[static_cast<std::size_t>(i.number)])); break;
      case scalar_op::literal: stack.push_back(Scalar(static_cast<std::int64_t>(i.value))); break;
      default: {
        const auto last = stack.back();
        if (is_binary(i.op)) {
          stack.pop_back();
          stack.back() = scalar_traits<Scalar>::apply(i.op, stack.back(), last);
        } else {
          stack.back() = scalar_traits<Scalar>::apply(i.op, last);
        }
      }
    }
  }
  return stack.back();
}

template <class Scalar>
void accumulate_slowly(const drawn_space& s, const scalar_kernel& kernel,
                       const std::vector<std::vector<Scalar>>& operands, std::vector<Scalar>& result) {
  for_each_position(s.sizes, [&](const std::vector<std::int64_t>& at) {
    for (const auto& w : s.windows) {
      if (position_in(w, at) < 0 || position_in(w, at) >= w.extent) {
        return;  // padding
      }
    }
    std::vector<Scalar> elements;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      elements.push_back(operands[i][element_at(s, s.tensors[i], at)]);
    }
    const auto term = value_of(kernel.inner, elements, at);
    auto& r = result[element_at(s, s.tensors.back(), at)];
    r = kernel.reduce == reduction::sum ? r + term : scalar_traits<Scalar>::apply(scalar_op::maximum, r, term);
  });
}

// Indices in random order, some of them joined to one dimension.
std::vector<access> random_accesses(std::vector<int> indices, random_engine& random) {
  for (std::size_t i = indices.size(); i > 1; --i) {
    std::swap(indices[i - 1], indices[random.below(i)]);
  }
  std::vector<access> all;
  for (std::size_t i = 0; i < indices.size();) {
    if (i + 1 < indices.size() && random.below(5) == 0) {
      all.push_back(access{indices[i], indices[i + 1]});
      i += 2;
    } else {
      all.push_back(access{indices[i++]});
    }
  }
  if (random.below(4) == 0) {
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size() + 1)), access{});  // broadcast
  }
  return all;
}

// Each index with a chance of two thirds; some twice, which reads a diagonal.
std::vector<int> some_indices(std::size_t count, bool may_repeat, random_engine& random) {
  std::vector<int> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    if (random.below(3) > 0) {
      chosen.push_back(static_cast<int>(i));
      if (may_repeat && random.below(8) == 0) {
        chosen.push_back(static_cast<int>(i));
      }
    }
  }
  return chosen;
}

window random_window(const drawn_space& s, random_engine& random) {
  window w;
  w.outer = static_cast<int>(random.below(s.sizes.size()));
  w.inner = static_cast<int>(random.below(s.sizes.size()));
  w.inner = w.inner == w.outer ? -1 : w.inner;
  w.stride = random.between(1, 3);
  w.dilation = random.between(1, 3);
  w.before = random.between(0, 3);
  const auto inner = w.inner < 0 ? 1 : s.sizes[static_cast<std::size_t>(w.inner)];
  const auto last = (s.sizes[static_cast<std::size_t>(w.outer)] - 1) * w.stride + (inner - 1) * w.dilation - w.before;
  w.extent = std::max<std::int64_t>(1, last + random.between(-4, 3));
  w.count_to = w.extent;
  return w;
}

drawn_space random_space(random_engine& random) {
  constexpr std::int64_t most_points = 3000;
  constexpr std::int64_t long_sizes[] = {255, 256, 257, 300, 515};  // around the size of a block
  drawn_space s;
  std::int64_t points = 1;
  const auto indices = 1 + random.below(5);
  for (std::size_t i = 0; i < indices; ++i) {
    auto size = random.below(8) == 0 ? long_sizes[random.below(5)] : random.between(1, 9);
    size = points * size > most_points ? 1 : size;
    s.sizes.push_back(size);
    points *= size;
  }
  const auto operands = 1 + random.below(3);
  for (std::size_t o = 0; o <= operands; ++o) {
    s.tensors.push_back(random_accesses(some_indices(indices, o < operands, random), random));
  }
  for (auto windows = random.below(4) < 2 ? 0 : random.below(3); windows > 0; --windows) {
    s.windows.push_back(random_window(s, random));
    s.tensors[random.below(s.tensors.size())].push_back(access::of_window(s.windows.size() - 1));
  }
  return s;
}

// Windows and diagonals can make tensors much larger than the space.
bool is_small(const drawn_space& s) {
  constexpr std::int64_t most_elements = 20'000;
  return std::all_of(s.tensors.begin(), s.tensors.end(), [&](const std::vector<access>& t) {
    return t.size() <= max_rank && element_count(dims_of(s, t)) <= most_elements;
  });
}

// A product of two operands as often as not: these have loops of their own.
scalar_program random_program(std::size_t operands, std::size_t indices, random_engine& random) {
  const auto operand = [&] {
    return instruction{scalar_op::operand, static_cast<std::int32_t>(random.below(operands)), 0};
  };
  if (random.below(2) == 0) {
    return {operand(), operand(), {scalar_op::mul, 0, 0}};
  }
  const auto leaf = [&]() -> instruction {
    switch (random.below(4)) {
      case 0: return {scalar_op::literal, 0, static_cast<double>(random.between(-2, 2))};
      case 1: return {scalar_op::coordinate, static_cast<std::int32_t>(random.below(indices)), 0};
      default: return operand();
    }
  };
  constexpr scalar_op binary[] = {scalar_op::add, scalar_op::sub, scalar_op::mul, scalar_op::maximum,
                                  scalar_op::minimum};
  scalar_program p{leaf()};
  for (auto more = random.below(3); more > 0; --more) {
    p.push_back(leaf());
    p.push_back({binary[random.below(5)], 0, 0});
    if (random.below(4) == 0) {
      p.push_back({random.below(2) == 0 ? scalar_op::negate : scalar_op::relu, 0, 0});
    }
  }
  return p;
}

template <class Scalar>
void check_random_space(random_engine& random) {
  auto drawn = random_space(random);
  while (!is_small(drawn)) {
    drawn = random_space(random);
  }
  std::vector<tensor_type> inputs;
  std::vector<std::vector<Scalar>> operands;
  std::vector<const Scalar*> pointers;
  for (std::size_t o = 0; o + 1 < drawn.tensors.size(); ++o) {
    inputs.push_back({dtype::float32, layout::row_major, false, dims_of(drawn, drawn.tensors[o])});
    operands.push_back(random_scalars<Scalar>(static_cast<std::size_t>(element_count(inputs.back().dims)), random));
  }
  for (const auto& o : operands) {
    pointers.push_back(o.data());
  }
  space s{inputs};
  for (const auto size : drawn.sizes) {
    s.parallel("index", size);
  }
  for (const auto& w : drawn.windows) {
    static_cast<void>(s.sliding(w));
  }
  for (std::size_t o = 0; o < operands.size(); ++o) {
    s.read(drawn.tensors[o]);
  }
  s.write(drawn.tensors.back());
  REQUIRE_FALSE(s.failed());
  const scalar_kernel kernel{random_program(operands.size(), drawn.sizes.size(), random),
                             random.below(3) == 0 ? reduction::largest : reduction::sum,
                             {{scalar_op::accumulated, 0, 0}}};
  // What is in the result before stays part of the sum; what is around it stays as it is.
  constexpr std::size_t margin = 3;
  const auto elements = static_cast<std::size_t>(element_count(dims_of(drawn, drawn.tensors.back())));
  auto made = random_scalars<Scalar>(elements + 2 * margin, random);
  auto expected = made;
  std::vector<Scalar> inside(made.begin() + margin, made.end() - margin);
  accumulate_slowly(drawn, kernel, operands, inside);
  std::copy(inside.begin(), inside.end(), expected.begin() + margin);
  accumulator<Scalar>{s, kernel, pointers, made.data() + margin}.run();
  REQUIRE((made == expected));
}

template <class Scalar>
void check_dot(random_engine& random) {
  for (std::int64_t n = 0; n < 40; ++n) {
    const auto a_step = random.between(0, 3);
    const auto b_step = random.between(0, 3);
    const auto a = random_scalars<Scalar>(130, random);
    const auto b = random_scalars<Scalar>(130, random);
    auto sum = random_scalar<Scalar>(random);
    auto expected = sum;
    for (std::int64_t i = 0; i < n; ++i) {
      expected += a[static_cast<std::size_t>(i * a_step)] * b[static_cast<std::size_t>(i * b_step)];
    }
    add_dot<Scalar>(sum, {a.data(), a_step}, {b.data(), b_step}, n);
    CAPTURE(n, a_step, b_step);
    REQUIRE((sum == expected));
  }
}

template <std::size_t Count, class Scalar>
void check_products(random_engine& random) {
  for (const std::int64_t acc_step : {1, 2}) {
    for (const std::int64_t a_step : {0, 1, 2}) {
      for (const std::int64_t b_step : {0, 1, 3}) {
        const auto n = random.between(0, 12);
        const auto a_next = random.between(0, 20);
        const auto b_next = random.between(0, 20);
        const auto a = random_scalars<Scalar>(100, random);
        const auto b = random_scalars<Scalar>(100, random);
        auto made = random_scalars<Scalar>(30, random);
        auto expected = made;
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::size_t q = 0; q < Count; ++q) {
            const auto k = static_cast<std::int64_t>(q);
            expected[static_cast<std::size_t>(i * acc_step)] += a[static_cast<std::size_t>(k * a_next + i * a_step)] *
                                                                b[static_cast<std::size_t>(k * b_next + i * b_step)];
          }
        }
        add_products<Count, Scalar>({made.data(), acc_step}, {a.data(), a_step}, a_next, {b.data(), b_step}, b_next, n);
        CAPTURE(n, acc_step, a_step, b_step, a_next, b_next);
        REQUIRE((made == expected));
      }
    }
  }
}

}  // namespace

TEST_CASE("add_dot adds the products of two strided vectors", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t round = 0; round < unity::test::cases(20); ++round) {
    check_dot<double>(random);
    check_dot<float>(random);
    check_dot<modular61>(random);
  }
}

TEST_CASE("add_products adds several rows of products at once", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t round = 0; round < unity::test::cases(20); ++round) {
    check_products<1, double>(random);
    check_products<4, float>(random);
    check_products<1, modular61>(random);
    check_products<4, modular61>(random);
  }
}

TEST_CASE("accumulators add the same terms as a loop over all points", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t round = 0; round < unity::test::cases(300); ++round) {
    CAPTURE(round, random.state());
    check_random_space<double>(random);
    check_random_space<modular61>(random);
  }
}

}  // namespace tests_of_accumulate
