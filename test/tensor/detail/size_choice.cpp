// Small sizes for related dimensions, compared with all relations between the sizes and with a search through all
// choices.

#include <unity/tensor/detail/size_choice.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/detail/size_relations.hpp>

#include "../../support/cases.hpp"

namespace tests_of_size_choice {

using unity::random_engine;
using unity::tensor::detail::size_choice;
using unity::tensor::detail::size_classes;
using unity::tensor::detail::size_function;
using number = size_classes::number;

namespace {

// Sizes and the relations between them, as a user states them.
struct drawn_sizes {
  size_classes classes{};
  std::vector<size_function> functions{};
  std::vector<std::int64_t> multiples{};
  std::int64_t least = 1;
};

// Positions of a window of `reach` elements that moves by `step`.
size_function window_over(number from, number to, std::int64_t reach, std::int64_t step) {
  return {from, to, [=](std::int64_t size) { return size < reach ? 0 : (size - reach) / step + 1; }};
}

// At most `most` numbers, so that a search through all choices is possible.
drawn_sizes random_sizes(random_engine& random, std::size_t most, std::int64_t largest) {
  constexpr std::int64_t most_elements = 100'000;
  drawn_sizes s;
  auto& c = s.classes;
  const auto roots = 1 + random.below(3);
  for (std::size_t i = 0; i < roots; ++i) {
    c.add(random.between(1, largest));
  }
  const auto any = [&] { return random.below(c.count()); };
  while (c.count() < most) {
    switch (random.below(6)) {
      case 0: {  // another size, equal to a known one
        const auto n = any();
        c.unite(c.add(c.size(c.find(n))), n);
        break;
      }
      case 1: {
        std::vector<number> parts{any(), any()};
        if (random.below(3) == 0) {
          parts.push_back(parts[0]);
        }
        std::int64_t sum = 0;
        for (const auto p : parts) {
          sum += c.size(c.find(p));
        }
        c.add_sum(c.add(sum), parts);
        break;
      }
      case 2: {
        const std::vector<number> factors{any(), any()};
        const auto product = c.size(c.find(factors[0])) * c.size(c.find(factors[1]));
        if (product <= most_elements) {
          c.add_product(c.add(product), factors);
        }
        break;
      }
      case 3: {
        const auto from = any();
        const auto f = window_over(from, 0, random.between(1, 3), random.between(1, 3));
        const auto made = f.apply(c.size(c.find(from)));
        if (made > 0) {
          s.functions.push_back({from, c.add(made), f.apply});
        }
        break;
      }
      case 4: c.fix(random.below(4) == 0 ? any() : 0); break;
      default: c.require_at_least(any(), random.between(1, 4)); break;
    }
    if (random.below(10) == 0) {
      break;
    }
  }
  c.settle();
  s.least = random.between(1, 4);
  if (random.below(3) == 0) {  // divisors of what the sizes are
    for (number n = 0; n < c.count(); ++n) {
      const auto divisor = random.between(1, 3);
      s.multiples.push_back(c.size(c.find(n)) % divisor == 0 ? divisor : 1);
    }
  }
  return s;
}

// By number: a divisor that the size of its class must have.
std::vector<std::int64_t> divisors(const drawn_sizes& s) {
  std::vector<std::int64_t> of_class(s.classes.count(), 1);
  for (number n = 0; n < s.multiples.size(); ++n) {
    auto& d = of_class[s.classes.find(n)];
    d = std::lcm(d, s.multiples[n]);
  }
  return of_class;
}

// Whether the class may have this size, whatever the others have.
bool may_have(const drawn_sizes& s, number n, std::int64_t size, std::int64_t divisor) {
  const auto own = s.classes.size(n);
  const bool is_large_enough = size >= std::min(own, std::max(s.least, s.classes.least(n)));
  return size == own || (!s.classes.fixed(n) && size < own && is_large_enough && size % divisor == 0);
}

// Whether all sums, products and functions hold. sizes: by class; 0 is unknown.
bool all_relations_hold(const drawn_sizes& s, const std::vector<std::int64_t>& sizes) {
  const auto& c = s.classes;
  const auto size = [&](number n) { return sizes[c.find(n)]; };
  const auto is_known = [&](const auto& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [&](number n) { return size(n) != 0; });
  };
  bool hold = true;
  for (number n = 0; n < c.count(); ++n) {
    if (c.find(n) != n || size(n) == 0) {
      continue;
    }
    if (!c.parts(n).empty() && is_known(c.parts(n))) {
      std::int64_t sum = 0;
      for (const auto p : c.parts(n)) {
        sum += size(p);
      }
      hold = hold && sum == size(n);
    }
    for (const auto& factors : c.products(n)) {
      std::int64_t product = 1;
      for (const auto f : factors) {
        product *= size(f);
      }
      hold = hold && (product == size(n) || !is_known(factors));
    }
  }
  for (const auto& f : s.functions) {
    hold = hold && (size(f.from) == 0 || size(f.to) == 0 || f.apply(size(f.from)) == size(f.to));
  }
  return hold;
}

// Chooses a size for every class from n on, in all ways, until visit(sizes) returns true.
template <class Visit>
bool any_solution(const drawn_sizes& s, const std::vector<std::int64_t>& divisor, std::vector<std::int64_t>& sizes,
                  number n, const Visit& visit) {
  while (n < s.classes.count() && s.classes.find(n) != n) {
    ++n;
  }
  if (n == s.classes.count()) {
    return visit(sizes);
  }
  for (std::int64_t size = 1; size <= s.classes.size(n); ++size) {
    sizes[n] = size;
    if (may_have(s, n, size, divisor[n]) && all_relations_hold(s, sizes) &&
        any_solution(s, divisor, sizes, n + 1, visit)) {
      return true;
    }
  }
  sizes[n] = 0;
  return false;
}

void expect_solution(const drawn_sizes& s, const std::vector<std::int64_t>& sizes) {
  const auto divisor = divisors(s);
  REQUIRE(sizes.size() == s.classes.count());
  for (number n = 0; n < s.classes.count(); ++n) {
    if (s.classes.find(n) == n) {
      CAPTURE(n, s.classes.size(n), sizes[n]);
      REQUIRE(sizes[n] > 0);
      REQUIRE(may_have(s, n, sizes[n], divisor[n]));
    }
  }
  REQUIRE(all_relations_hold(s, sizes));
}

}  // namespace

TEST_CASE("chosen sizes satisfy all relations and limits", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t smaller = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(500); ++round) {
    CAPTURE(round);
    const auto s = random_sizes(random, 25, 60);
    size_choice choice{s.classes, s.functions, s.least, s.multiples};
    const auto sizes = choice.run();
    expect_solution(s, sizes);
    for (number n = 0; n < sizes.size(); ++n) {
      smaller += s.classes.find(n) == n && sizes[n] < s.classes.size(n) ? 1 : 0;
    }
    CHECK(choice.run() == sizes);  // again the same
  }
  CHECK(smaller > 0);
}

TEST_CASE("sizes kept after all stay, and the others still fit", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  for (std::uint64_t round = 0; round < unity::test::cases(200); ++round) {
    CAPTURE(round);
    const auto s = random_sizes(random, 15, 60);
    size_choice choice{s.classes, s.functions, s.least, s.multiples};
    static_cast<void>(choice.run());
    for (std::size_t i = 0; i < 4; ++i) {
      const auto n = random.below(s.classes.count());
      choice.keep(n);
      CHECK(choice.keeps(n));
      const auto& sizes = choice.run();
      expect_solution(s, sizes);
      for (number k = 0; k < s.classes.count(); ++k) {
        CHECK((!choice.keeps(k) || sizes[s.classes.find(k)] == s.classes.size(s.classes.find(k))));
      }
      if (s.multiples.empty()) {
        for (number k = 0; k < s.classes.count(); ++k) {
          choice.keep(k);
        }
        REQUIRE(choice.run()[s.classes.find(n)] == s.classes.size(s.classes.find(n)));
        break;
      }
    }
  }
}

TEST_CASE("a single size that others follow becomes as small as any solution has it", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t compared = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(400); ++round) {
    CAPTURE(round);
    // One root, from which sums with itself, products with itself and windows follow.
    drawn_sizes s;
    auto& c = s.classes;
    const auto root = c.add(random.between(5, 24));
    const auto own = c.size(root);
    for (auto more = random.below(4); more > 0; --more) {
      switch (random.below(3)) {
        case 0: c.add_sum(c.add(2 * own), {root, root}); break;
        case 1: c.add_product(c.add(own * own), {root, root}); break;
        default: {
          const auto f = window_over(root, 0, random.between(1, 4), random.between(1, 3));
          s.functions.push_back({root, c.add(f.apply(own)), f.apply});
        }
      }
    }
    c.settle();
    s.least = random.between(1, 4);
    size_choice choice{s.classes, s.functions, s.least};
    const auto& sizes = choice.run();
    expect_solution(s, sizes);
    std::vector<std::int64_t> none(c.count());
    std::optional<std::int64_t> smallest;
    static_cast<void>(any_solution(s, divisors(s), none, 0, [&](const std::vector<std::int64_t>& found) {
      smallest = found[c.find(root)];
      return true;
    }));
    REQUIRE(smallest.has_value());
    CHECK(sizes[c.find(root)] == *smallest);
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("unrelated sizes become small and distinct, as far as there are enough small ones") {
  size_classes c;
  for (std::int64_t i = 0; i < 6; ++i) {
    c.add(100 + i);
  }
  size_choice choice{c, {}, 2};
  const auto sizes = choice.run();
  CHECK(std::set<std::int64_t>(sizes.begin(), sizes.end()) == std::set<std::int64_t>{2, 3, 4, 5, 6, 7});
  size_choice multiples{c, {}, 2, std::vector<std::int64_t>{1, 4, 1, 1, 1, 1}};
  CHECK(multiples.run()[1] % 4 == 0);
}

TEST_CASE("sizes up to four stay if they can") {
  size_classes c;
  const auto three = c.add(3);
  const auto four = c.add(4);
  const auto five = c.add(5);
  size_choice choice{c, {}, 1};
  const auto& sizes = choice.run();
  CHECK(sizes[three] == 3);
  CHECK(sizes[four] == 4);
  CHECK(sizes[five] < 5);
}

TEST_CASE("a size that no smaller one fits is kept") {
  size_classes c;
  const auto wide = c.add(35);
  const auto narrow = c.add(7);
  const auto rest = c.add(28);
  c.add_sum(wide, {narrow, rest});
  c.fix(rest);
  const auto half = c.add(5);
  // A function that only the size 35 satisfies.
  const std::vector<size_function> functions{{wide, half, [](std::int64_t size) { return size == 35 ? 5 : 0; }}};
  size_choice choice{c, functions, 2};
  const auto& sizes = choice.run();
  CHECK(sizes[wide] == 35);
  CHECK(sizes[narrow] == 7);
  CHECK(sizes[rest] == 28);
  CHECK(sizes[half] == 5);
}

TEST_CASE("a sum of ten thousand parts is chosen at once") {
  size_classes c;
  const auto step = c.add(50);
  const auto odd = c.add(30);
  std::vector<number> parts(10'000, step);
  parts.push_back(odd);
  const auto whole = c.add(50 * 10'000 + 30);
  c.add_sum(whole, parts);
  size_choice choice{c, {}, 2};
  const auto& sizes = choice.run();
  CHECK(sizes[step] == 2);
  CHECK(sizes[whole] == 10'000 * sizes[step] + sizes[odd]);
  CHECK(sizes[odd] != sizes[step]);
}

}  // namespace tests_of_size_choice
