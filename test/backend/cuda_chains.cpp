// Chains of element-wise operators in the cuda backend's device functions, run here as loops on the host
// (cuda_functions.cpp).
#include <unity/backend/cuda/kernel_factory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/elementwise_chains.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>

#include "chain_suite.hpp"
#include "cuda_host_backend.hpp"
#include "cuda_host_queue.hpp"
#include "operator_suite.hpp"

namespace tests_of_cuda_chains {

namespace {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::random_engine;
using unity::tensor::dtype;
using unity::tensor::test::type;

using origin = tile_leaf::origin;

// An element-wise computation with operands that cover every loop step.
struct chain_case {
  tile_program program{};
  std::vector<std::vector<std::byte>> operands{};

  void add_operand(dtype element, loop_steps steps, random_engine& random) {
    std::int64_t last = 0;
    for (std::size_t l = 0; l < steps.size(); ++l) {
      last += (program.sizes[l] - 1) * steps[l];
    }
    dense<double> values{{last + 1}};
    for (auto& x : values.data) {
      x = element == dtype::uint8 ? static_cast<double>(random.below(4)) : 2 * random.unit() - 1;
    }
    const auto operand = operands.size();
    operands.push_back(encode(values, type({last + 1}, element)));
    join(program.add_leaf({origin::operand, operand, element, 0, std::move(steps)}));
  }
  // value = (value / 2 - leaf) + tanh(value), which uses every instruction.
  void join(std::size_t leaf) {
    if (value_ == none) {
      value_ = leaf;
      return;
    }
    const auto half = apply(unity::tensor::scalar_op::mul, value_, program.add_literal(0.5));
    const auto less = apply(unity::tensor::scalar_op::sub, half, leaf);
    value_ = apply(unity::tensor::scalar_op::add, less, apply(unity::tensor::scalar_op::tanh, value_, value_));
  }
  cuda::chain_code code(dtype element) {
    program.stores = {{value_, 0, element}};
    return *cuda::compile_chain(program);
  }
  // Evaluates one element after another, in double.
  [[nodiscard]] std::vector<double> evaluate() const {
    std::vector<double> all(static_cast<std::size_t>(points()));
    std::vector<double> x(program.code.size());
    for (std::size_t p = 0; p < all.size(); ++p) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto& c = program.code[i];
        x[i] = c.op == unity::tensor::scalar_op::operand ? leaf(program.leaves[c.leaf], static_cast<std::int64_t>(p))
                                                         : cuda::apply<double>(c.op, x[c.a], x[c.b]);
      }
      all[p] = x[value_];
    }
    return all;
  }
  [[nodiscard]] std::int64_t points() const {
    std::int64_t n = 1;
    for (const auto s : program.sizes) {
      n *= s;
    }
    return n;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t apply(unity::tensor::scalar_op op, std::size_t a, std::size_t b) {
    program.code.push_back({op, 0, a, b});
    return program.code.size() - 1;
  }
  [[nodiscard]] double leaf(const tile_leaf& l, std::int64_t point) const {
    std::int64_t offset = 0;
    for (auto n = program.sizes.size(); n-- > 0;) {
      offset += point % program.sizes[n] * l.steps[n];
      point /= program.sizes[n];
    }
    return l.from == origin::literal      ? l.value
           : l.from == origin::coordinate ? static_cast<double>(offset)
                                          : cuda::load_element<double>(l.element, operands[l.operand].data(), offset);
  }

  std::size_t value_ = none;
};

// Covers every kind of leaf that fits the sizes, including short ones that small kernels accept.
std::vector<chain_case> chain_cases(loop_steps sizes, random_engine& random) {
  std::vector<chain_case> all;
  const auto inner = sizes.back();
  for (const bool narrow : {false, true}) {
    for (const int part : {0, 1, 2}) {
      chain_case c;
      c.program.sizes = sizes;
      const auto lying = [&](std::int64_t step) {
        loop_steps steps(sizes.size(), 0);
        for (auto n = sizes.size(); n-- > 0;) {
          steps[n] = step;
          step *= sizes[n];
        }
        return steps;
      };
      c.add_operand(dtype::float32, lying(1), random);
      if (part == 0) {
        c.add_operand(narrow ? dtype::bfloat16 : dtype::float16, lying(1), random);
        c.add_operand(dtype::float32, loop_steps(sizes.size(), 0), random);
      }
      if (part <= 1) {
        c.add_operand(narrow ? dtype::float16 : dtype::float32, lying(3), random);
        c.join(c.program.add_leaf({origin::coordinate, 0, dtype::float32, 0, lying(1)}));
      }
      if (part != 1 && sizes.size() > 1) {
        auto row = lying(1);
        auto column = lying(1);
        row.back() = 0;
        for (std::size_t n = 0; n + 1 < sizes.size(); ++n) {
          row[n] /= inner;
          column[n] = 0;
        }
        c.add_operand(dtype::float32, row, random);
        c.add_operand(narrow ? dtype::float16 : dtype::float32, column, random);
        c.add_operand(dtype::uint8, row, random);
      }
      all.push_back(std::move(c));
    }
  }
  return all;
}

// Runs one function on a case; false if the function does not accept it.
template <class Function>
bool check_chain_function(chain_case& c, dtype element) {
  const auto code = c.code(element);
  if (!Function::takes(code)) {
    return false;
  }
  Function f{code};
  for (int l = 0; l < f.leaf_count; ++l) {
    f.leaves[l].from = c.operands.at(f.leaves[l].operand).data();
  }
  const std::vector<std::byte> margin(64, std::byte{0x5A});
  std::vector<std::byte> result(static_cast<std::size_t>(c.points() * unity::tensor::size_of(element)),
                                std::byte{0xFF});
  const auto size = result.size();
  result.insert(result.end(), margin.begin(), margin.end());
  f.stores[0].to = result.data();
  host_queue{}.each(f.threads(), f);
  CHECK(std::equal(margin.begin(), margin.end(), result.begin() + static_cast<std::ptrdiff_t>(size)));
  const auto expected = c.evaluate();
  double error = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto found = cuda::load_element<double>(element, result.data(), static_cast<std::int64_t>(i));
    error = std::max(error, found == found ? std::abs(found - expected[i]) : std::numeric_limits<double>::infinity());
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  CHECK(error <= (element == dtype::float32 ? 1e-5 : element == dtype::float16 ? 1e-3 : 1e-2) * magnitude);
  return true;
}

}  // namespace

TEST_CASE("CUDA chain functions run on the host match the reference", "[cuda]") {
  check_chains(with_libraries);
  check_chains(with_libraries, {.tolerance = 1e-2, .cases = 5, .seed = 4, .element = dtype::bfloat16});
}

TEST_CASE("CUDA chains keep values until their last use within the slot limit", "[cuda]") {
  int kept_many = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    unity::tensor::builder b{standard()};
    std::vector<unity::value_id> values{b.input("x", {3, 4}), b.input("y", {4})};
    const auto any = [&] { return values[random.below(values.size())]; };
    for (auto left = random.between(3, 14); left > 0; --left) {
      const auto x = any();
      const auto y = any();
      values.push_back(random.below(4) == 0 ? b.tanh(x) : random.below(2) == 0 ? b.sub(x, y) : b.tanh(b.add(y, x)));
    }
    auto sum = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      sum = b.sub(sum, values[i]);
    }
    const auto region = std::move(b).finish({sum});
    chain_writer writer{standard(), region, region.type(region.outputs()[0])};
    writer.store(region.outputs()[0], 0);
    if (const auto compiled = cuda::compile_chain(std::move(writer).take())) {
      kept_many += compiled->slot_count >= 4 ? 1 : 0;
      CHECK(compiled->slot_count <= static_cast<int>(cuda::chain_code::max_slots));
    }
    auto backend = with_libraries(standard());
    check_region(backend, region, 1e-5, random);
  }
  CHECK(kept_many > 20);
}

TEST_CASE("CUDA chain operands are vectorized by four only if aligned to four elements", "[cuda]") {
  const auto aligned = [](loop_steps sizes, loop_steps steps) {
    tile_program p;
    p.sizes = std::move(sizes);
    p.stores.push_back(
        {p.add_leaf({tile_leaf::origin::operand, 0, dtype::float32, 0, std::move(steps)}), 0, dtype::float32});
    return cuda::compile_chain(std::move(p))->leaves[0].aligned;
  };
  CHECK(aligned({32}, {1}));
  CHECK(aligned({2, 4}, {8, 1}));
  CHECK_FALSE(aligned({2, 4}, {6, 1}));
  CHECK_FALSE(aligned({2, 4}, {1, 2}));
  CHECK_FALSE(aligned({2, 4}, {4, 0}));
}

TEST_CASE("every CUDA chain function is correct for every leaf kind up to the last element", "[cuda]") {
  random_engine random{7};
  std::array<int, std::variant_size_v<cuda::chain_functions>> ran{};
  const auto check = [&]<std::size_t... I>(chain_case& c, dtype element, std::index_sequence<I...>) {
    ((ran[I] += check_chain_function<std::variant_alternative_t<I, cuda::chain_functions>>(c, element) ? 1 : 0), ...);
  };
  for (const auto& sizes : std::vector<loop_steps>{{1},
                                                   {3},
                                                   {4},
                                                   {1021},
                                                   {4096},
                                                   {4099},
                                                   {16389},
                                                   {3, 4},
                                                   {7, 8},
                                                   {600, 12},
                                                   {5, 1028},
                                                   {5, 7},
                                                   {3, 1031},
                                                   {2, 3, 5, 8},
                                                   {2, 3, 2, 3, 2, 4}}) {
    for (auto& c : chain_cases(sizes, random)) {
      for (const auto element : {dtype::float32, dtype::bfloat16, dtype::float16}) {
        CAPTURE(c.points(), sizes.size(), unity::tensor::name_of(element), c.program.leaves.size());
        check(c, element, std::make_index_sequence<std::variant_size_v<cuda::chain_functions>>{});
      }
    }
  }
  for (std::size_t i = 0; i < ran.size(); ++i) {
    CAPTURE(i);
    CHECK(ran[i] >= 20);
  }
}

TEST_CASE("the smallest CUDA function that accepts a chain is chosen", "[cuda]") {
  const auto chosen = [](loop_steps sizes, loop_steps steps, bool in_double = false) {
    tile_program p;
    p.sizes = std::move(sizes);
    const auto whole = p.add_leaf({origin::operand, 0, dtype::float32, 0, std::move(steps)});
    p.code.push_back({unity::tensor::scalar_op::relu, 0, whole, whole});
    p.stores.push_back({1, 0, dtype::float32});
    return cuda::function_of(*cuda::compile_chain(std::move(p)), in_double).index();
  };
  const std::int64_t large = std::int64_t{1} << 16;
  CHECK(chosen({1024}, {1}) == 0);
  CHECK(chosen({8, 1024}, {0, 1}) == 1);
  CHECK(chosen({8, 1023}, {0, 1}) == 4);
  CHECK(chosen({large, large / 4}, {1, 0}) == 1);
  CHECK(chosen({large, large / 2}, {1, 0}) == 5);  // 2^31 elements
  CHECK(chosen({2, large}, {large * large, 1}) == 5);
  CHECK(chosen({8, 1024}, {0, 1}, true) == 6);
  CHECK(chosen({large, large}, {1, 0}, true) == 7);
  CHECK(sizeof(std::variant_alternative_t<0, cuda::chain_functions>) < 700);
}

TEST_CASE("a chain too large for a CUDA kernel's code runs node by node", "[cuda]") {
  unity::tensor::builder b{standard()};
  const auto x = b.input("x", {3, 5});
  auto last = x;
  for (int i = 0; i < 40; ++i) {
    last = b.tanh(b.add(last, b.input("y" + std::to_string(i), {3, 5})));
  }
  const auto g = std::move(b).finish({last});
  const auto chains = elementwise_chains(standard(), g);
  REQUIRE(chains.size() == 1);
  CHECK(cuda::region_routine<host_queue>(standard(), chains[0].region) == nullptr);
  auto backend = with_libraries(standard());
  random_engine random{1};
  check_region(backend, chains[0].region, 1e-5, random);
}

}  // namespace tests_of_cuda_chains
