// Cost models that combine other cost models.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include <unity/cost/cost_model.hpp>

namespace unity {

template <class First, class Second>
struct cost_pair {
  First first{};
  Second second{};
  cost_pair& operator+=(const cost_pair& o) {
    add_cost(first, o.first);
    add_cost(second, o.second);
    return *this;
  }
  cost_pair& operator-=(const cost_pair& o) {
    first -= o.first;
    second -= o.second;
    return *this;
  }
  friend bool operator==(const cost_pair&, const cost_pair&) = default;
};

namespace detail {

// Both models, summed separately.
template <class First, class Second>
class paired_cost {
 public:
  using cost_type = cost_pair<typename First::cost_type, typename Second::cost_type>;

  paired_cost(First first, Second second) : first_{std::move(first)}, second_{std::move(second)} {}

  template <class Op, class Type>
  [[nodiscard]] cost_type node_cost(const Op& op, std::span<const Type> inputs, std::span<const Type> outputs) const {
    return {first_.node_cost(op, inputs, outputs), second_.node_cost(op, inputs, outputs)};
  }
  template <class Type>
  [[nodiscard]] bool computed_before(const Type& type) const
    requires requires(const First& a, const Second& b) { a.computed_before(type) && b.computed_before(type); }
  {
    return first_.computed_before(type) && second_.computed_before(type);
  }

 protected:
  First first_;
  Second second_;
};

}  // namespace detail

// Minimizes `First` while the objective of `Second` is at most a limit (time under a memory limit). Beyond the limit,
// the objective is worse than any within it and grows with the excess, so a search that starts outside finds its way
// in.
// Source: Jia's dissertation (2020), section 2.6 (there the cost is infinite).
template <class First, class Second>
class constrained_cost : public detail::paired_cost<First, Second> {
 public:
  using typename detail::paired_cost<First, Second>::cost_type;

  constrained_cost(First first, Second second, cost_value limit)
      : detail::paired_cost<First, Second>{std::move(first), std::move(second)}, limit_{limit} {}

  [[nodiscard]] cost_value objective(const cost_type& total) const {
    constexpr cost_value infeasible = std::numeric_limits<cost_value>::max() / 4;
    const auto used = this->second_.objective(total.second);
    return used <= limit_ ? this->first_.objective(total.first) : infeasible + (used - limit_);
  }

 private:
  cost_value limit_;
};

// Minimizes weight * First + (1 - weight) * Second of the unscaled objectives; 0 <= weight <= 1.
template <class First, class Second>
class weighted_cost : public detail::paired_cost<First, Second> {
 public:
  using typename detail::paired_cost<First, Second>::cost_type;

  weighted_cost(First first, Second second, double weight)
      : detail::paired_cost<First, Second>{std::move(first), std::move(second)}, weight_{weight} {}

  [[nodiscard]] cost_value objective(const cost_type& total) const {
    return static_cast<cost_value>(weight_ * static_cast<double>(this->first_.objective(total.first)) +
                                   (1.0 - weight_) * static_cast<double>(this->second_.objective(total.second)));
  }

 private:
  double weight_;
};

}  // namespace unity
