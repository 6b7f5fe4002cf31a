// Tables of a mesh for operators of graphs: layouts of their values, options, and the costs of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// What an operator may do to hold less memory at the expense of time. recomputing: recompute its results in the
// backward pass, and divide the optimizer state of its weights among devices with the same weights (ZeRO, stage 1).
// sharding: divide gradients and weights as well (stages 2 and 3).
enum class memory_trades : std::uint8_t { none, recomputing, sharding };

// The objective to minimize, in picoseconds. Gradient reductions count in part, because they overlap with the backward
// pass. A byte of memory costs `per_mebibyte` / 2^20; activations are held `in_flight` times at once.
struct mapping_objective {
  int synchronizing_16ths = 16;
  std::int64_t per_mebibyte = 0;  // picoseconds
  std::int64_t in_flight = 1;
  memory_trades trades = memory_trades::none;
  // Like synchronizing_16ths, for what ZeRO's stages 2 and 3 exchange in each micro-batch; all-reduces run once for
  // all.
  int sharding_16ths = 16;

  friend auto operator<=>(const mapping_objective&, const mapping_objective&) = default;
};

// How an operator holds its results and weights. Regular.
struct memory_trade {
  bool is_recomputed = false;
  std::uint32_t sharding = 0;  // ZeRO's stage; 0: devices hold all that they read

  friend bool operator==(const memory_trade&, const memory_trade&) = default;
};

// The costs of an option under a trade, on one device.
struct traded_costs {
  picoseconds computing{};
  picoseconds synchronizing{};  // weighted by the objective
  bytes weights{};
  bytes activations{};

  friend bool operator==(const traded_costs&, const traded_costs&) = default;
};

// Counts an all-reduce as a reduce-scatter and a gather of half its time each, if ZeRO replaces it; each of them then
// has a start of its own. In stage 3 there are two gathers, one per pass. Memory that recomputed or gathered values
// occupy for a while is not counted.
[[nodiscard]] traded_costs costs_of(const mesh_option& o, const memory_trade& t,
                                    const mapping_objective& objective) noexcept;
// The cheapest trade of an option. Precondition: the objective allows trades.
[[nodiscard]] memory_trade trade_of(const mesh_option& o, const mapping_objective& objective) noexcept;

// An option of an operator by the numbers of its layouts; `state`: the number of the combination of its results'
// layouts.
struct numbered_option {
  small_vector<std::uint32_t, 4> operands{};  // of operands that other operators make; otherwise layout_space::none
  std::uint32_t state = 0;
};

struct operator_table {
  std::vector<mesh_option> options{};
  std::vector<numbered_option> numbered{};
  std::vector<small_vector<std::uint32_t, 2>> states{};  // per state: the layout of each result
  std::vector<const layout_space*> operands{};           // of operands that other operators make, otherwise null
  std::vector<const layout_space*> results{};  // of results; conversions use the spaces of the readers' operands
};

// The price of memory, in picoseconds; at most `unreachable`.
[[nodiscard]] constexpr std::int64_t price_of_memory(bytes size, std::int64_t per_mebibyte) noexcept {
  constexpr std::int64_t unit = 1024;
  const auto kibibytes = size.count() / unit;
  if (per_mebibyte > 0 && kibibytes / unit >= unreachable / per_mebibyte) {
    return unreachable;
  }
  return kibibytes / unit * per_mebibyte + kibibytes % unit * per_mebibyte / unit;
}

// The price of an option under its cheapest trade.
[[nodiscard]] std::int64_t price_of(const mesh_option& o, const mapping_objective& objective) noexcept;

// The tables of one mesh, made on demand, once for equal operators of any graph. Holds references to its arguments. Not
// thread-safe.
class mesh_tables {
 public:
  mesh_tables(const tensor::algebra& a, const hardware::device_mesh& m, const mesh_costs& costs, shard_clock& clock,
              index_uses allowed, optimizer updates, bytes memory_limit = {})
      : algebra_{a},
        mesh_{m},
        costs_{costs},
        clock_{clock},
        finder_{algebra_, mesh_, costs_, clock_, allowed, updates, memory_limit},
        has_placement_{has(allowed, index_use::placement)} {}

  [[nodiscard]] const hardware::device_mesh& mesh() const noexcept { return mesh_; }
  [[nodiscard]] shard_clock& clock() noexcept { return clock_; }
  // The time limit for making tables, and for the programs that use them.
  [[nodiscard]] time_limit& limit() noexcept { return limit_; }

  // Complexity: as option_finder, the first time.
  // Throws: out_of_time if the table does not exist yet and time is over.
  const operator_table& of(const placed_operator& p);
  // Effects: gives an operator with one result one option per layout of this result that is not `unreachable`, in which
  // operands that others make have the same layout and size. costs: of these options, by number of the layout. Such an
  // operator represents everything before or behind it.
  void define(const placed_operator& p, std::span<const std::int64_t> costs);
  const layout_space& space(const tensor::tensor_type& t, bool has_cotangent);

 private:
  struct hash {
    std::size_t operator()(const fingerprint& f) const noexcept { return f.low; }
  };

  void make(const placed_operator& p, operator_table& t);

  const tensor::algebra& algebra_;
  const hardware::device_mesh& mesh_;
  const mesh_costs& costs_;
  shard_clock& clock_;
  option_finder finder_;
  bool has_placement_;
  time_limit limit_{};
  std::unordered_map<fingerprint, operator_table, hash> operators_{};  // entries keep their addresses as it grows
  std::map<std::pair<std::vector<std::int64_t>, std::pair<std::size_t, bool>>, std::unique_ptr<layout_space>> spaces_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_TABLES)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE traded_costs costs_of(const mesh_option& o, const memory_trade& t,
                                   const mapping_objective& objective) noexcept {
  traded_costs c{o.computing, o.synchronizing * objective.synchronizing_16ths / 16, o.weights, o.activations};
  if (t.is_recomputed) {
    c.computing += o.forward;
    c.activations = {};
  }
  if (t.sharding == 0) {
    return c;
  }
  const auto half = (o.synchronizing + o.starting) / 2;
  const auto once = half * objective.synchronizing_16ths / 16;
  const auto repeated = half * objective.sharding_16ths / 16;
  c.computing += o.share_updating - o.updating;
  c.synchronizing = t.sharding == 1 ? 2 * once : t.sharding == 2 ? once + repeated : 3 * repeated;
  c.weights -= o.state_copies + (static_cast<std::int64_t>(t.sharding) - 1) * o.weight_copies;
  return c;
}

namespace detail {

UNITY_INLINE std::int64_t price_of(const traded_costs& c, const mapping_objective& objective) noexcept {
  return (c.computing + c.synchronizing).count() +
         price_of_memory(c.weights + objective.in_flight * c.activations, objective.per_mebibyte);
}

}  // namespace detail

UNITY_INLINE memory_trade trade_of(const mesh_option& o, const mapping_objective& objective) noexcept {
  memory_trade best;
  auto least = detail::price_of(costs_of(o, best, objective), objective);
  const auto stages = o.weight_copies == bytes{} ? 0U : objective.trades == memory_trades::sharding ? 3U : 1U;
  for (const bool again : {false, true}) {
    if (again && !o.can_recompute) {
      continue;
    }
    for (std::uint32_t stage = 0; stage <= stages; ++stage) {
      const memory_trade t{again, stage};
      if (const auto price = detail::price_of(costs_of(o, t, objective), objective); price < least) {
        best = t;
        least = price;
      }
    }
  }
  return best;
}

UNITY_INLINE std::int64_t price_of(const mesh_option& o, const mapping_objective& objective) noexcept {
  const auto trade = objective.trades == memory_trades::none ? memory_trade{} : trade_of(o, objective);
  return detail::price_of(costs_of(o, trade, objective), objective);
}

UNITY_INLINE const operator_table& mesh_tables::of(const placed_operator& p) {
  auto at = operators_.find(p.key);
  if (at == operators_.end()) {
    limit_.check();
    at = operators_.try_emplace(p.key).first;
    make(p, at->second);
  }
  return at->second;
}

UNITY_INLINE void mesh_tables::define(const placed_operator& p, std::span<const std::int64_t> costs) {
  const auto& d = *p.dimensions;
  UNITY_EXPECTS(d.outputs.size() == 1, "one result");
  operator_table t;
  for (std::size_t x = 0; x < d.inputs.size(); ++x) {
    t.operands.push_back(p.uses[x] == operand_use::made ? &space(d.inputs[x], p.wanted[x]) : nullptr);
  }
  t.results.push_back(&space(d.outputs[0], false));
  UNITY_EXPECTS(costs.size() == t.results[0]->size(), "a cost for each layout");
  for (std::uint32_t l = 0; l < costs.size(); ++l) {
    if (costs[l] < unreachable) {
      mesh_option o;
      o.operands.resize(d.inputs.size(), (*t.results[0])[l]);
      o.results.push_back((*t.results[0])[l]);
      o.computing = picoseconds{costs[l]};
      t.options.push_back(std::move(o));
      numbered_option n;
      for (const auto* made : t.operands) {
        n.operands.push_back(made != nullptr ? l : layout_space::none);
      }
      n.state = static_cast<std::uint32_t>(t.states.size());
      t.numbered.push_back(std::move(n));
      t.states.push_back({l});
    }
  }
  operators_.insert_or_assign(p.key, std::move(t));
}

UNITY_INLINE const layout_space& mesh_tables::space(const tensor::tensor_type& t, bool has_cotangent) {
  auto& s = spaces_[{{t.dims.begin(), t.dims.end()}, {tensor::size_of(t.element), has_cotangent}}];
  if (s == nullptr) {
    s = std::make_unique<layout_space>(t, mesh_, costs_, has_cotangent, has_placement_);
  }
  return *s;
}

UNITY_INLINE void mesh_tables::make(const placed_operator& p, operator_table& t) {
  const auto& d = *p.dimensions;
  for (std::size_t x = 0; x < d.inputs.size(); ++x) {
    t.operands.push_back(p.uses[x] == operand_use::made ? &space(d.inputs[x], p.wanted[x]) : nullptr);
  }
  for (const auto& r : d.outputs) {
    t.results.push_back(&space(r, false));
  }
  t.options = finder_.run(p);
  std::map<std::vector<std::uint32_t>, std::uint32_t> states;
  for (const auto& o : t.options) {
    numbered_option n;
    for (std::size_t x = 0; x < d.inputs.size(); ++x) {
      n.operands.push_back(t.operands[x] == nullptr ? layout_space::none : t.operands[x]->number(o.operands[x]));
      UNITY_EXPECTS(t.operands[x] == nullptr || n.operands.back() != layout_space::none, "a layout of the operand");
    }
    std::vector<std::uint32_t> results;
    for (std::size_t r = 0; r < d.outputs.size(); ++r) {
      results.push_back(t.results[r]->number(o.results[r]));
    }
    const auto [at, is_new] = states.try_emplace(results, static_cast<std::uint32_t>(states.size()));
    if (is_new) {
      auto& s = t.states.emplace_back();
      s.append(results.begin(), results.end());
    }
    n.state = at->second;
    t.numbered.push_back(std::move(n));
  }
}

}  // namespace unity::parallel

#endif
