#include <unity/io/onnx_model.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

namespace tests_of_open_sizes {

using unity::io::fitted_form;
using unity::io::open_sizes;
using unity::io::size_form;

namespace {

const std::vector<std::vector<std::int64_t>> sizes{{11, 67}, {13, 71}, {17, 73}};

// The form that is found for a function of two sizes.
template <class F>
std::optional<size_form> form_of(const F& f) {
  std::vector<std::int64_t> numbers;
  for (const auto& at : sizes) {
    numbers.push_back(f(at[0], at[1]));
  }
  return fitted_form(sizes, numbers);
}
size_form product(std::int64_t factor, std::vector<std::size_t> axes, std::int64_t added = 0) {
  return {{{factor, std::move(axes)}}, added};
}

}  // namespace

TEST_CASE("fitted_form finds products/sums/offsets of sizes and refuses quotients") {
  CHECK(form_of([](auto b, auto) { return b; }) == product(1, {0}));
  CHECK(form_of([](auto b, auto s) { return 12 * b * s; }) == product(12, {0, 1}));
  CHECK(form_of([](auto, auto s) { return s - 1; }) == product(1, {1}, -1));
  CHECK(form_of([](auto, auto s) { return 100 - s; }) == product(-1, {1}, 100));
  CHECK(form_of([](auto, auto s) { return s * s; }) == product(1, {1, 1}));
  CHECK(form_of([](auto b, auto s) { return b + s + 2; }) == size_form{{{1, {0}}, {1, {1}}}, 2});
  CHECK_FALSE(form_of([](auto, auto s) { return s / 2; }));
  CHECK_FALSE(form_of([](auto, auto s) { return (s + 1) / 2; }));  // linear at odd sizes, but not at even ones
}

TEST_CASE("fitted_quotients finds size quotients and narrows their range by further remainders") {
  const auto found_at = [](const std::vector<std::int64_t>& lengths, const auto& f) {
    std::vector<std::vector<std::int64_t>> at;
    std::vector<std::int64_t> numbers;
    for (const auto n : lengths) {
      at.push_back({n});
      numbers.push_back(f(n));
    }
    return unity::io::fitted_quotients(at, numbers);
  };
  const auto half = [](auto n) { return n / 2; };
  const auto odd = found_at({67, 71, 73}, half);
  REQUIRE_FALSE(odd.empty());
  CHECK(odd[0] == unity::io::quotient_range{0, 2, -1, 0});
  CHECK(found_at({67, 71, 73, 100}, half) == std::vector{unity::io::quotient_range{0, 2, 0, 0}});
  const auto pooled = [](auto n) { return (n - 3) / 4 + 1; };
  CHECK(found_at({67, 71, 73, 100, 102, 121}, pooled) == std::vector{unity::io::quotient_range{0, 4, 1, 1}});
  const auto twice = [](auto n) { return n / 2 * 2 + 1; };
  CHECK(found_at({67, 71, 73, 100}, twice) == std::vector{unity::io::quotient_range{0, 2, 0, 0, 2, 1}});
  CHECK(found_at({67, 71, 73, 100}, [](auto) { return 5; }).empty());
  CHECK(found_at({67, 71}, [](auto n) { return (std::int64_t{1} << 55) * n; }).empty());
  CHECK(found_at({67, 71, 73, 100}, [](auto n) { return n * n / 2; }).empty());
}

TEST_CASE("size quotients round down and can be factors of a fitted form") {
  CHECK(unity::io::value_of({1, -3, 4}, {0, 1}) == -1);
  CHECK(unity::io::value_of({1, 3, 4}, {0, 5}) == 2);
  const unity::io::size_quotient half{1, 0, 2};
  const std::vector<std::vector<std::int64_t>> some{{11, 67}, {13, 71}, {17, 73}, {18, 100}};
  std::vector<std::int64_t> numbers;
  for (const auto& at : some) {
    numbers.push_back(3 * at[0] * (at[1] / 2) + 4);
  }
  CHECK_FALSE(fitted_form(some, numbers));
  CHECK(fitted_form(some, numbers, {half}) == size_form{{{3, {0}, {half}}}, 4});
}

TEST_CASE("open_sizes uses the recorded form of a number or else its divisors") {
  const open_sizes open{{{"batch", "x", 0, 2, true, 11}, {"length", "x", 1, 2, true, 67}},
                        {{60, product(1, {1}, -7)}},
                        {33},
                        {22},
                        {},
                        {}};
  CHECK(open.form_of(60) == product(1, {1}, -7));
  CHECK(open.form_of(66) == product(1, {1}, -1));  // and not 6 * 11
  CHECK(open.form_of(3 * 11 * 67) == product(3, {0, 1}));
  CHECK(open.form_of(121) == product(1, {0, 0}));
  CHECK(open.form_of(65) == product(1, {1}, -2));
  for (const std::int64_t closed : {0, 22, -11, 12, 10, 62, 68}) {
    CHECK_FALSE(open.form_of(closed));
    CHECK_FALSE(open.is_open(closed));
  }
  CHECK_FALSE(open.form_of(33));
  CHECK(open.is_open(33));
  CHECK_FALSE(open_sizes{}.is_open(11));
}

}  // namespace tests_of_open_sizes
