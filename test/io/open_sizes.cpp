#include <unity/io/open_sizes.hpp>

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

// What a function of two sizes is taken for.
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

TEST_CASE("numbers at three sizes say what they are made of") {
  CHECK(form_of([](auto b, auto) { return b; }) == product(1, {0}));
  CHECK(form_of([](auto b, auto s) { return 12 * b * s; }) == product(12, {0, 1}));
  CHECK(form_of([](auto, auto s) { return s - 1; }) == product(1, {1}, -1));
  CHECK(form_of([](auto, auto s) { return 100 - s; }) == product(-1, {1}, 100));
  CHECK(form_of([](auto, auto s) { return s * s; }) == product(1, {1, 1}));
  CHECK(form_of([](auto b, auto s) { return b + s + 2; }) == size_form{{{1, {0}}, {1, {1}}}, 2});
  CHECK_FALSE(form_of([](auto, auto s) { return s / 2; }));
  CHECK_FALSE(form_of([](auto, auto s) { return (s + 1) / 2; }));  // at odd sizes a line, but not at even ones
}

TEST_CASE("a number is what it was seen to be, else what it is divisible by") {
  const open_sizes open{{{"batch", "x", 0, 2, true, 11}, {"length", "x", 1, 2, true, 67}},
                        {{60, product(1, {1}, -7)}},
                        {33},
                        {22},
                        {},
                        {}};
  CHECK(open.form_of(60) == product(1, {1}, -7));
  CHECK(open.form_of(66) == product(1, {1}, -1));  // and not six times the other
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
