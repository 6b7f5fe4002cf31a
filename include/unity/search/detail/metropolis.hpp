// The Metropolis-Hastings rule for accepting or rejecting a proposal.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>

namespace unity::detail {

// Accepts a proposal with probability min(1, exp(scale (here - cost) + log_ratio)), where log_ratio is log(q(back) /
// q(forth)). scale is beta divided by a reference cost: that of the start, or that of the best if it falls below a
// sixteenth of the reference (for example after a start outside a limit). The random number is drawn first, so that
// pricing can stop at a cost that would be rejected.
// Source: Hastings, Monte Carlo sampling methods using Markov chains, Biometrika 57(1), 1970.
class metropolis {
 public:
  metropolis(double beta, cost_value start) : beta_{beta} { scale_to(start); }

  void found(cost_value best) {
    if (best < reference_ / 16) {
      scale_to(best);
    }
  }

  // Draws the random number for the next proposal.
  void draw(random_engine& random) {
    drawn_ = 1 - random.unit();
    int exponent = 0;
    std::frexp(drawn_, &exponent);  // drawn_ in [2^(exponent - 1), 2^exponent)
    constexpr double log_2 = 0.693147180559945309;
    least_ = -exponent * log_2 - slack;
    most_ = (1 - exponent) * log_2 + slack;
  }
  // The largest cost that may be accepted, or nothing if no cost would be. An exact value would need a logarithm, as
  // expensive as pricing a cheap move: this may exceed what `takes` accepts by up to log(2) / scale.
  [[nodiscard]] std::optional<cost_value> bound(cost_value here, double log_ratio) const {
    return dearest(here, most_ + log_ratio);
  }
  [[nodiscard]] bool takes(cost_value here, cost_value cost, double log_ratio) const {
    const auto surely = dearest(here, least_ + log_ratio);
    if (surely && cost <= *surely) {
      return true;
    }
    const auto at_most = dearest(here, log_ratio - std::log(drawn_));
    return at_most && cost <= *at_most;
  }

 private:
  static constexpr double slack = 1e-9;  // for rounding errors

  void scale_to(cost_value reference) {
    reference_ = reference;
    scale_ = beta_ / static_cast<double>(reference > 0 ? reference : 1);
  }
  // Solves min(1, exp(scale (here - cost) + log_ratio)) > drawn for the cost; spare: log_ratio - log(drawn).
  [[nodiscard]] std::optional<cost_value> dearest(cost_value here, double spare) const {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    if (scale_ == 0) {
      return spare >= 0 ? std::optional{most} : std::nullopt;
    }
    const auto above = std::floor(spare / scale_);
    if (above >= static_cast<double>(most - std::max<cost_value>(here, 0))) {
      return most;
    }
    if (above < -static_cast<double>(most / 2)) {
      return std::nullopt;
    }
    return here + static_cast<cost_value>(above);
  }

  double beta_ = 0;
  cost_value reference_ = 0;
  double scale_ = 0;
  double drawn_ = 1;
  double least_ = 0;  // least_ and most_ enclose -log(drawn_)
  double most_ = 0;
};

}  // namespace unity::detail
