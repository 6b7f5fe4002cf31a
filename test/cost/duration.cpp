#include <unity/cost/duration.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <span>

#include <unity/core/random.hpp>

namespace tests_of_duration {

namespace archetype {

struct algebra {
  struct op_type {
    op_type() = delete;
  };
  struct value_type {
    value_type() = delete;
  };
};
using types = std::span<const algebra::value_type>;

struct durations {
  durations() = delete;
  durations(const durations&) = delete;
  unity::duration duration_of(std::uint32_t, const algebra::op_type&, types, types) const;
  unity::fingerprint version() const;
};

}  // namespace archetype

static_assert(unity::duration_model<archetype::durations, archetype::algebra>);

namespace near_miss {

using namespace archetype;

struct time_alone {
  unity::picoseconds duration_of(std::uint32_t, const algebra::op_type&, types, types) const;
  unity::fingerprint version() const;
};
struct without_version {
  unity::duration duration_of(std::uint32_t, const algebra::op_type&, types, types) const;
};
struct changes_when_asked {
  unity::duration duration_of(std::uint32_t, const algebra::op_type&, types, types);
  unity::fingerprint version() const;
};

}  // namespace near_miss

static_assert(!unity::duration_model<near_miss::time_alone, archetype::algebra>);
static_assert(!unity::duration_model<near_miss::without_version, archetype::algebra>);
static_assert(!unity::duration_model<near_miss::changes_when_asked, archetype::algebra>);

namespace {

using namespace unity;

// Operators are numbers: n takes n nanoseconds on device 0, and n / 2 more on each further device.
struct numbers {
  using op_type = std::int64_t;
  using value_type = int;
};
struct toy_durations {
  std::int64_t unit = 1000;
  [[nodiscard]] duration duration_of(std::uint32_t device, const std::int64_t& op, std::span<const int>,
                                     std::span<const int>) const {
    const auto t = op * unit * (2 + device) / 2;
    return {picoseconds{t}, picoseconds{t - t / 10}, picoseconds{t + t / 5}};
  }
  [[nodiscard]] fingerprint version() const { return hasher{static_cast<std::uint64_t>(unit)}.result(); }
};
static_assert(duration_model<toy_durations, numbers>);
static_assert(duration_model<any_durations<numbers>, numbers>);
static_assert(duration_model<durations_at<toy_durations>, numbers>);
static_assert(std::copyable<any_durations<numbers>>);

TEST_CASE("type-erased durations and their copies are those of the wrapped model", "[law]") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  const toy_durations model{random.between(1, 1000)};
  const any_durations<numbers> any{model};
  const auto copy = any;
  for (int i = 0; i < 50; ++i) {
    const auto op = random.between(0, 1'000'000);
    const auto device = static_cast<std::uint32_t>(random.below(4));
    const auto expected = model.duration_of(device, op, {}, {});
    CHECK(any.duration_of(device, op, {}, {}) == expected);
    CHECK(copy.duration_of(device, op, {}, {}) == expected);
  }
  CHECK(any.version() == model.version());
  CHECK(any.version() != any_durations<numbers>{toy_durations{model.unit + 1}}.version());
}

TEST_CASE("a duration model at one interval end has exact durations") {
  const toy_durations model;
  const durations_at slow{model, &duration::high};
  CHECK(slow.duration_of(0, std::int64_t{10}, std::span<const int>{}, std::span<const int>{}) ==
        duration::exactly(picoseconds{12'000}));
  const durations_at fast{any_durations<numbers>{model}, &duration::low};
  CHECK(fast.duration_of(1, std::int64_t{10}, std::span<const int>{}, std::span<const int>{}) ==
        duration::exactly(picoseconds{13'500}));
  CHECK(fast.version() != slow.version());
  CHECK(fast.version() != model.version());
}

TEST_CASE("adding durations adds both interval ends") {
  duration sum = duration::exactly(picoseconds{5});
  sum += {picoseconds{10}, picoseconds{8}, picoseconds{13}};
  CHECK(sum == duration{picoseconds{15}, picoseconds{13}, picoseconds{18}});
}

}  // namespace

}  // namespace tests_of_duration
