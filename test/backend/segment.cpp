// Kernels of the edge operators, against plain loops; and equal bytes for any number of threads.
#include <unity/backend/cpu/segment.hpp>
#include <unity/backend/cpu/segment_gradient.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "../tensor/random_edges.hpp"
#include "../tensor/testing.hpp"
#include "kernel_run.hpp"

namespace tests_of_segment_kernels {

using namespace unity::tensor;
using namespace unity::tensor::test;
using unity::backend::cpu_backend;

namespace {

constexpr auto& operators = unity::test::training::operators;

struct element_case {
  dtype element;
  double tolerance;
};
constexpr element_case element_cases[] = {
    {dtype::float64, 1e-12}, {dtype::float32, 2e-6}, {dtype::float16, 1e-3}, {dtype::bfloat16, 8e-3}};

// One operator on given operands, run on several backends.
class subject {
 public:
  subject(std::string_view name, std::vector<dense<double>> operands, dtype element, unity::random_engine& random)
      : op_{operators().make_operation(name)} {
    for (auto& x : operands) {
      // Operands of one dimension are integer lists; all others have the element type.
      const bool is_list = x.dims.size() == 1;
      const auto integer = random.below(2) == 0 ? dtype::int32 : dtype::int64;
      inputs_.push_back(type(x.dims, is_list ? integer : element));
      operands_.add(std::move(x), inputs_.back());
    }
    outputs_ = *operators().infer(op_, inputs_);
  }

  // The operand after rounding to the element type.
  [[nodiscard]] const dense<double>& operand(std::size_t i) const { return operands_.numbers[i]; }

  [[nodiscard]] std::vector<std::byte> run(int threads) const {
    cpu_backend b{operators(), {.threads = threads}};
    return unity::backend::test::run_kernel(b, b.prepare(op_, inputs_, outputs_), inputs_, outputs_,
                                            operands_.bytes)[0];
  }
  [[nodiscard]] dense<double> value(const std::vector<std::byte>& bytes) const {
    return unity::backend::decode<double>(bytes.data(), outputs_[0]);
  }

 private:
  operation op_;
  types inputs_{};
  types outputs_{};
  unity::backend::test::suite_operands operands_{};
};

// expected(subject): rows of the result.
template <class Expected>
void check(std::string_view name, std::vector<dense<double>> operands, const element_case& t,
           unity::random_engine& random, const Expected& expected) {
  CAPTURE(name, name_of(t.element));
  const subject s{name, std::move(operands), t.element, random};
  const auto bytes = s.run(1);
  const auto found = s.value(bytes);
  CHECK(distance(found, {found.dims, expected(s).data}) < t.tolerance);
  for (const int threads : {2, 3, 8}) {
    CAPTURE(threads);
    CHECK(s.run(threads) == bytes);
  }
}

void check_all(const random_edges& g, std::int64_t heads, std::int64_t size, const element_case& t,
               unity::random_engine& random) {
  const edge_loops loops{g};
  const auto width = heads * size;
  auto x = random_tensor({g.sources_count, heads, size}, random);
  const auto w = random_tensor({g.edges(), heads}, random);
  const auto dy = random_tensor({g.vertices, heads, size}, random);
  const auto dz = random_tensor({g.edges(), heads}, random);
  const auto offsets = numbers(g.offsets);
  const auto sources = numbers(g.sources);
  const auto out_offsets = numbers(g.out_offsets);
  const auto targets = numbers(g.targets);
  const auto out_edges = numbers(g.out_edges);
  const auto rows = [&](const subject& s, std::size_t i) { return rows_of{width, s.operand(i)}; };
  const auto per_head = [&](const subject& s, std::size_t i) { return rows_of{heads, s.operand(i)}; };

  const std::vector sum{x, offsets, sources, out_offsets, targets};
  check("segment_sum", sum, t, random, [&](const subject& s) { return loops.sum(rows(s, 0), false); });
  check("segment_mean", sum, t, random, [&](const subject& s) { return loops.sum(rows(s, 0), true); });
  const std::vector weighted{x, w, offsets, sources, out_offsets, targets, out_edges};
  check("segment_weighted_sum", weighted, t, random,
        [&](const subject& s) { return loops.weighted_sum(rows(s, 0), per_head(s, 1)); });
  check("segment_weighted_sum_gradient", {dy, w, out_offsets, targets, out_edges}, t, random,
        [&](const subject& s) { return loops.weighted_sum_gradient(rows(s, 0), per_head(s, 1)); });
  check("segment_dot", {dy, x, offsets, sources}, t, random,
        [&](const subject& s) { return loops.dot(rows(s, 0), rows(s, 1), heads); });
  check("segment_softmax", {w, offsets}, t, random, [&](const subject& s) { return loops.softmax(per_head(s, 0)); });
  check("segment_softmax_gradient", {w, dz, offsets}, t, random,
        [&](const subject& s) { return loops.softmax_gradient(per_head(s, 0), per_head(s, 1)); });
  for (auto& e : x.data) {  // several edges have the largest
    e = std::round(4 * e) / 4;
  }
  check("segment_max", {x, offsets, sources}, t, random, [&](const subject& s) { return loops.largest(rows(s, 0)); });
  const dense<double> y{dy.dims, loops.largest({width, x}).data};
  check("segment_max_gradient", {x, y, dy, offsets, sources}, t, random,
        [&](const subject& s) { return loops.largest_gradient(rows(s, 0), rows(s, 2)); });
}

constexpr std::uint64_t seed = 5;

}  // namespace

TEST_CASE("segment kernels match plain loops and are bitwise equal on 1 to 8 threads", "[law]") {
  const auto cases = unity::test::cases(40);
  for (std::uint64_t i = 0; i < cases; ++i) {
    CAPTURE(seed, i);
    unity::random_engine random{seed + i};
    const auto g = draw_edges(random.between(1, 60), random.between(1, 60), random.between(1, 300), random);
    const auto heads = random.below(2) == 0 ? 1 : random.between(2, 9);
    check_all(g, heads, random.between(1, 40), element_cases[i % 4], random);
  }
}

TEST_CASE("segment kernels are correct for many row widths and many edges", "[law]") {
  unity::random_engine random{seed};
  const auto g = draw_edges(301, 217, 3000, random);
  std::uint64_t i = 0;
  for (const auto& [heads, size] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 16}, {1, 17}, {1, 33}, {1, 47}, {1, 80}, {1, 127}, {1, 128}, {1, 129}, {1, 250}, {8, 8}, {70, 1}}) {
    CAPTURE(seed, heads, size);
    check_all(g, heads, size, element_cases[i++ % 4], random);
  }
}

TEST_CASE("segment softmax is accurate for large inputs and single edges") {
  unity::random_engine random{seed};
  const subject s{"segment_softmax", {{{4, 1}, {1000, 1001, -1e30, 5}}, {{4}, {0, 2, 3, 4}}}, dtype::float32, random};
  const auto y = s.value(s.run(1));
  CHECK(y.data[0] == Approx(1 / (1 + std::exp(1.0))));
  CHECK(y.data[1] == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(y.data[2] == 1);
  CHECK(y.data[3] == 1);
}

// Results for invalid indices are unspecified, but kernels must read only within their operands.
TEST_CASE("segment kernels write only within their results for invalid indices", "[law]") {
  const auto cases = unity::test::cases(40);
  for (std::uint64_t i = 0; i < cases; ++i) {
    CAPTURE(seed, i);
    unity::random_engine random{seed + i};
    auto g = draw_edges(random.between(1, 40), random.between(1, 40), random.between(1, 400), random);
    const auto spoil = [&](std::vector<std::int64_t>& list) {
      for (auto& x : list) {
        const std::int64_t wrong[] = {-1, -2'000'000'000, 2'000'000'000, x + 100, x - 3};
        x = random.below(4) == 0 ? wrong[random.below(5)] : x;
      }
    };
    for (auto* list : {&g.offsets, &g.sources, &g.out_offsets, &g.targets, &g.out_edges}) {
      spoil(*list);
    }
    const auto x = random_tensor({g.sources_count, 3, 7}, random);
    const auto w = random_tensor({g.edges(), 3}, random);
    const auto dy = random_tensor({g.vertices, 3, 7}, random);
    const std::vector lists{numbers(g.offsets), numbers(g.sources), numbers(g.out_offsets), numbers(g.targets),
                            numbers(g.out_edges)};
    const auto run = [&](std::string_view name, std::vector<dense<double>> operands) {
      CAPTURE(name);
      const subject s{name, std::move(operands), dtype::float32, random};
      static_cast<void>(s.run(1));  // runs twice and checks the margins around results
    };
    run("segment_sum", {x, lists[0], lists[1], lists[2], lists[3]});
    run("segment_max", {x, lists[0], lists[1]});
    run("segment_max_gradient", {x, dy, dy, lists[0], lists[1]});
    run("segment_softmax", {w, lists[0]});
    run("segment_softmax_gradient", {w, w, lists[0]});
    run("segment_weighted_sum", {x, w, lists[0], lists[1], lists[2], lists[3], lists[4]});
    run("segment_weighted_sum_gradient", {dy, w, lists[2], lists[3], lists[4]});
    run("segment_dot", {dy, x, lists[0], lists[1]});
  }
}

}  // namespace tests_of_segment_kernels
