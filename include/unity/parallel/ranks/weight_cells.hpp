// Weights in the parts that ranks hold, and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Cells of a weight are as large as they can be while each rank reads a cell whole or not at all.
class weight_cells {
 public:
  weight_cells(const divided_training& d, rank_streams& streams);

  [[nodiscard]] bool is_weight(value_id v) const { return number_[v.index()] != none; }
  [[nodiscard]] std::vector<held_part> parts(value_id weight, std::uint32_t rank);

  // Adds what a reader's backward pass gives to what came before.
  // cotangent_of(task, operand) -> value_id, null: zero
  template <class F>
  void give(node_id reader, const F& cotangent_of) {
    for (const auto w : training_.training().weights_of(reader)) {
      const auto& weight = training_.training().weights()[w];
      if (!weight.is_trained) {
        continue;
      }
      auto& state = states_[w];
      std::map<std::uint32_t, std::vector<held_part>> given;  // by rank
      for_each_reader(w, [&](const weight_use& use, std::uint32_t t, std::uint32_t rank, const box& b) {
        const auto c = use.node == reader ? cotangent_of(t, use.operand) : value_id{};
        if (c.valid()) {
          given[rank].push_back({b, c});
        }
      });
      for (const auto& [rank, all] : given) {
        for (std::size_t c = 0; c < state.cells.size(); ++c) {
          auto& writer = streams_.on(rank, reader);
          if (const auto sum = writer.added(state.cells[c], all, training_.graph().type(weight.value).element)) {
            auto& own = state.gradients[{rank, c}];
            own = own.valid() ? writer.sum(own, *sum) : *sum;
          }
        }
      }
    }
  }
  // Begins to add up over ranks the gradients of the weights that this reader, in the order of
  // backward passes, was the last to read. One sum for all who hold a part. Those who gave nothing add
  // zeros; where one alone gave, it hands out.
  void reduce_behind(node_id reader);

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct weight_state {
    std::vector<box> cells{};
    std::vector<std::vector<std::uint32_t>> holders{};                  // by cell: ranks, ascending
    std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> at{};  // by rank and cell: in the rank's weights
    std::map<std::pair<std::uint32_t, std::size_t>, value_id> gradients{};
  };

  // f(use, task, rank, box) for all tasks for which the operand is not zero.
  template <class F>
  void for_each_reader(std::size_t weight, const F& f) const {
    for (const auto& use : training_.training().weights()[weight].uses) {
      const auto& d = training_.parts_of(use.node);
      for (const auto t : d.readers[use.operand]) {
        f(use, t, training_.rank_of(use.node, t), d.parts[t].operands[use.operand]);
      }
    }
  }
  void place(std::size_t w);
  void reduce(std::size_t w, std::size_t c, node_id reader);

  const divided_training& training_;
  rank_streams& streams_;
  std::vector<std::size_t> number_;  // by value
  std::vector<weight_state> states_{};
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_WEIGHT_CELLS)

#include <algorithm>
#include <optional>
#include <set>

#include <unity/parallel/ranks/value_flows.hpp>

namespace unity::parallel::detail {

UNITY_INLINE weight_cells::weight_cells(const divided_training& d, rank_streams& streams)
    : training_{d}, streams_{streams}, number_(d.graph().value_count(), none) {
  const auto& weights = d.training().weights();
  states_.resize(weights.size());
  for (std::size_t w = 0; w < weights.size(); ++w) {
    number_[weights[w].value.index()] = w;
    place(w);
  }
}

UNITY_INLINE std::vector<held_part> weight_cells::parts(value_id weight, std::uint32_t rank) {
  std::vector<held_part> all;
  const auto& state = states_[number_[weight.index()]];
  for (std::size_t c = 0; c < state.cells.size(); ++c) {
    if (const auto found = state.at.find({rank, c}); found != state.at.end()) {
      all.push_back({state.cells[c], streams_.program(rank).weights[found->second].weight.value});
    }
  }
  return all;
}

UNITY_INLINE void weight_cells::reduce_behind(node_id reader) {
  for (const auto w : training_.training().weights_of(reader)) {
    const auto& uses = training_.training().weights()[w].uses;
    if (std::none_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return u.node < reader && training_.training().has_backward(u.node);
        })) {
      for (std::size_t c = 0; c < states_[w].cells.size(); ++c) {
        reduce(w, c, reader);
      }
    }
  }
}

UNITY_INLINE void weight_cells::place(std::size_t w) {
  auto& state = states_[w];
  const auto value = training_.training().weights()[w].value;
  std::vector<box> boxes;
  for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t, const box& b) {
    if (std::find(boxes.begin(), boxes.end(), b) == boxes.end()) {
      boxes.push_back(b);
    }
  });
  state.cells = cells_of(boxes);
  for (std::size_t c = 0; c < state.cells.size(); ++c) {
    std::set<std::uint32_t> holders;
    for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t rank, const box& b) {
      if (!intersection(b, state.cells[c]).empty()) {
        holders.insert(rank);
      }
    });
    state.holders.emplace_back(holders.begin(), holders.end());
    for (const auto r : holders) {
      auto& all = streams_.program(r).weights;
      state.at[{r, c}] = all.size();
      const auto own =
          streams_.on(r, training_.graph().producer(value)).outside(training_.type_of(value, state.cells[c]));
      all.push_back({{value, state.cells[c], own, 0}, {}});
    }
  }
}

UNITY_INLINE void weight_cells::reduce(std::size_t w, std::size_t c, node_id reader) {
  auto& state = states_[w];
  const auto value = training_.training().weights()[w].value;
  const auto& holders = state.holders[c];
  std::vector<std::uint32_t> givers;
  std::copy_if(holders.begin(), holders.end(), std::back_inserter(givers), [&](std::uint32_t r) {
    return state.gradients.contains({r, c});
  });
  const auto origin = training_.graph().producer(value);
  const auto change = [&](std::uint32_t r, value_id gradient, const rank_step* wait) {
    const auto at = state.at.at({r, c});
    streams_.program(r).weights[at].gradient = gradient;
    streams_.update(r, origin, at, wait);
  };
  if (givers.empty()) {
    return;
  }
  if (givers.size() == 1) {
    const auto own = state.gradients.at({givers[0], c});
    for (const auto r : holders) {
      if (r == givers[0]) {
        change(r, own, nullptr);
      } else {
        const auto there = streams_.sent(origin, own, givers[0], r);
        change(r, there.value, &there.wait);
      }
    }
    return;
  }
  std::vector<value_id> values;
  for (const auto r : holders) {
    const auto found = state.gradients.find({r, c});
    values.push_back(
        found != state.gradients.end()
            ? found->second
            : streams_.on(r, reader).filled(state.cells[c].sizes(), training_.graph().type(value).element, 0));
  }
  const auto sums = streams_.reduced(origin, holders, values);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    change(holders[i], sums[i].value, &sums[i].wait);
  }
}

}  // namespace unity::parallel::detail

#endif
