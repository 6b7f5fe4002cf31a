// Any cost model of whole graphs.
#pragma once

#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include <unity/cost/cost_model.hpp>

namespace unity {

// Any cost model of whole graphs that can stop early on expensive graphs: f(g, limit) is the cost of g if that is below
// the limit, otherwise any number from the limit up to the cost. Pure. Models cost_model.
template <class Graph>
class any_cost_model {
 public:
  template <class F>
    requires std::is_invocable_r_v<cost_value, const F&, const Graph&, cost_value>
  any_cost_model(F f) : cost_below_{std::move(f)} {}

  [[nodiscard]] cost_value cost(const Graph& g) const { return cost_below_(g, std::numeric_limits<cost_value>::max()); }
  [[nodiscard]] cost_value cost_below(const Graph& g, cost_value limit) const { return cost_below_(g, limit); }

 private:
  std::function<cost_value(const Graph&, cost_value)> cost_below_;
};

}  // namespace unity
