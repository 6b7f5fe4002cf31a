#include <unity/search/evaluator.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/laws.hpp>
#include <unity/search/search_space.hpp>

namespace tests_of_evaluator_space {

using namespace unity;

namespace {

constexpr std::size_t places = 6;
constexpr std::uint32_t values = 3;
using word = std::array<std::uint8_t, places>;

struct replacement {
  std::size_t place = 0;
  std::uint8_t value = 0;
};

// The cost of a word depends on its pairs of neighbouring letters.
struct word_evaluator {
  using state_type = word;
  using move_type = replacement;

  explicit word_evaluator(std::uint64_t seed) {
    random_engine random{seed};
    for (auto& c : costs) {
      c = random.between(0, 99);
    }
  }
  [[nodiscard]] cost_value cost_of(const word& w) const {
    cost_value all = 0;
    for (std::size_t i = 0; i + 1 < places; ++i) {
      all += costs[i * values * values + w[i] * values + w[i + 1]];
    }
    return all;
  }
  cost_value reset(const word& w) {
    ++resets;
    now = w;
    return sum = cost_of(w);
  }
  [[nodiscard]] const word& state() const { return now; }
  [[nodiscard]] cost_value cost() const { return sum; }
  std::optional<cost_value> try_move(const replacement& m, cost_value bound) {
    tried = now;
    tried[m.place] = m.value;
    const auto cost = cost_of(tried);
    return cost <= bound ? std::optional{cost} : std::nullopt;
  }
  void commit() {
    now = tried;
    sum = cost_of(now);
  }
  void rollback() {}

  std::array<cost_value, places * values * values> costs{};
  word now{};
  word tried{};
  cost_value sum = 0;
  int resets = 0;
};

struct replacements {
  using move_type = std::uint32_t;

  replacements() {
    for (std::uint32_t m = 0; m < all.size(); ++m) {
      all[m] = m;
    }
  }
  [[nodiscard]] std::span<const std::uint32_t> moves(const word&) const { return all; }
  [[nodiscard]] static replacement change(std::uint32_t m) {
    return {m / values, static_cast<std::uint8_t>(m % values)};
  }
  [[nodiscard]] static fingerprint letter(std::size_t place, std::uint8_t value) {
    return hasher{place * values + value}.result();
  }
  [[nodiscard]] fingerprint fingerprint_of(const word& w) const {
    fingerprint sum{};
    for (std::size_t i = 0; i < places; ++i) {
      sum += letter(i, w[i]);
    }
    return sum;
  }
  [[nodiscard]] std::optional<fingerprint> fingerprint_after(const word& w, fingerprint f, const replacement& r) const {
    return w[r.place] == r.value ? std::nullopt
                                 : std::optional{f - letter(r.place, w[r.place]) + letter(r.place, r.value)};
  }

  std::array<std::uint32_t, places * values> all{};
};
static_assert(move_list_for<replacements, word_evaluator>);
using word_space = evaluator_space<word_evaluator, replacements>;
static_assert(search_space<word_space>);

struct without_changes : replacements {
  void change(std::uint32_t) const {}
};
static_assert(!move_list_for<without_changes, word_evaluator>);

cost_value cheapest_word(const word_evaluator& e) {
  auto best = std::numeric_limits<cost_value>::max();
  for (std::uint32_t n = 0; n < 729; ++n) {
    word w{};
    auto rest = n;
    for (auto& letter : w) {
      letter = static_cast<std::uint8_t>(rest % values);
      rest /= values;
    }
    best = std::min(best, e.cost_of(w));
  }
  return best;
}

}  // namespace

TEST_CASE("an evaluator_space satisfies the laws of search spaces", "[law]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    word_space space{replacements{}, word_evaluator{seed}, word{}};
    const auto broken = broken_law(space, {.seed = seed, .steps = 20, .moves = 18});
    INFO((broken ? broken->what() : ""));
    CHECK(!broken);
  }
}

TEST_CASE("exact search and beam search of an evaluator_space find the exhaustive optimum") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    word_evaluator e{seed};
    word_space space{replacements{}, e, word{}};
    CHECK(exact(space).cost == cheapest_word(e));
    beam_options o;
    o.width = 729;
    o.patience = places;
    const auto r = beam(space, o);
    CHECK(r.cost == cheapest_word(e));
    CHECK(e.cost_of(r.best.at) == r.cost);
  }
}

TEST_CASE("evaluator_space does not reset a scratch that already holds the state") {
  word_space space{replacements{}, word_evaluator{1}, word{}};
  const auto s = space.initial();
  word_space::scratch_type from;
  word_space::scratch_type to;
  space.prepare(s, from);
  space.prepare(s, from);
  CHECK(from.evaluator->resets == 2);  // one in initial(), whose evaluator is copied, and one here
  const auto next = space.apply(s, 1, from, to);
  const auto before = to.evaluator->resets;
  space.prepare(next, to);
  CHECK(to.evaluator->resets == before);
  CHECK_FALSE(space.price(next, 1, to).has_value());  // the letter is there already
  CHECK(space.price(s, 1, from)->cost == next.cost);
}

}  // namespace tests_of_evaluator_space
