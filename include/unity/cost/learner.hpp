// Learning to predict numbers from examples, such as times from features of what was timed.
#pragma once

#include <concepts>

#include <unity/core/hash.hpp>

namespace unity {

// In the unit of the observations. Four of five observations are expected between low and high.
// Law: low <= expected <= high.
struct prediction {
  double expected = 0;
  double low = 0;
  double high = 0;

  friend bool operator==(const prediction&, const prediction&) = default;
};

// A snapshot of what was learned.
//   p.predict(x)
//   p.version()    identifies what it was learned from
// Laws: predict is a pure function; equal versions give equal predictions.
template <class P, class Example>
concept predictor = std::copyable<P> && requires(const P& p, const Example& x) {
  { p.predict(x) } -> std::same_as<prediction>;
  { p.version() } -> std::same_as<fingerprint>;
};

// Learns from examples one by one.
//   l.observe(x, y)   y was measured for x
//   l.snapshot()      a predictor from all observations so far, which later observations do not change
// Laws: the same observations in the same order give the same snapshot.
// Models: least_squares. Not a model: what learns while it predicts (searches would not be reproducible).
template <class L, class Example>
concept learner = requires(L& l, const L& known, const Example& x, double y) {
  l.observe(x, y);
  { known.snapshot() } -> predictor<Example>;
};

}  // namespace unity
